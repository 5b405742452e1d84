--[[
set_field: replace one field of the record if its revision is still the one the caller saw (-1: whichever it is).
KEYS     session: session events
ARGV     idempotency_key now_ms grace_ms user field value if_revision
RETURNS  OK revision summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | STALE revision | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local revision_field = 'rev:' .. field
local revision = tonumber(redis.call('HGET', session, revision_field) or '0')
if if_revision ~= '-1' and tonumber(if_revision) ~= revision then
  return {'STALE', string.format('%.0f', revision)}
end
local next_revision = string.format('%.0f', revision + 1)
local place = field
if field == 'ttl_seconds' then
  -- Counted in milliseconds, and from now on: all keys and the index follow at once.
  place, admitted.ttl_ms, admitted.touched_at = 'ttl_ms', tonumber(value), 0
end
emit(admitted, events, {'type', 'session.updated', 'field', field, 'revision', next_revision})
-- The place in the record is kept too: a context_summary stands for the messages before it.
return settle(admitted, {'OK', next_revision}, {events},
              {place, value, revision_field, next_revision, 'at:' .. field, admitted.last_id})

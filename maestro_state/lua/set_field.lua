--[[
set_field: replace one field of the record if its revision is still the one the caller saw (-1: whichever it is).
KEYS     session: session events commands
ARGV     command_id now_ms grace_ms user field value if_revision
RETURNS  OK revision summary | NOT_FOUND | BAD_STATE state | EXPIRED | STALE revision
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
local revision_field = 'rev:' .. field
local revision = tonumber(redis.call('HGET', session, revision_field) or '0')
if if_revision ~= '-1' and tonumber(if_revision) ~= revision then
  return {'STALE', string.format('%.0f', revision)}
end
local next_revision = string.format('%.0f', revision + 1)
emit(admitted, events, {'type', 'session.updated', 'field', field, 'revision', next_revision})
-- The place in the record is kept too: a context_summary stands for the messages before it.
redis.call('HSET', session, field, value, revision_field, next_revision, 'at:' .. field, admitted.last_id)
remember(command_id, {'OK', next_revision})
return {'OK', next_revision, renew(admitted, tonumber(grace_ms), {events, commands})}

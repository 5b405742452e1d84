--[[
start_discussion: make a discussion -> open, or take up one that went quiet; one that is alive stays as it is.
KEYS     discussion: session transcript
ARGV     idempotency_key now_ms grace_ms state ttl_ms created_at last_id fields...
RETURNS  OK last_id summary | EXISTS | LATE | NEWER number
INCLUDES summary sequence repeated newer
]]
local sequence_field, number = sequence(idempotency_key)
local found = redis.call('HMGET', session, 'state', 'last_activity', 'ttl_ms', sequence_field, 'schema')
if is_newer(found[5]) then return {'NEWER', found[5]} end
local answer = repeated(found[4], number)
if answer then return answer end
if found[1] then
  local is_alive = tonumber(now_ms) < tonumber(found[2]) + tonumber(found[3])
  if is_alive or found[1] ~= state then return {'EXISTS'} end
end
redis.call('UNLINK', session, transcript)
redis.call('HSET', session, 'state', state, 'last_id', last_id, 'created_at', created_at, 'last_activity', now_ms,
           'touched_at', now_ms, 'ttl_ms', ttl_ms, 'schema', SCHEMA, sequence_field, number .. ' ' .. now_ms .. ' ' .. last_id,
           unpack(fields))
redis.call('PEXPIRE', session, string.format('%.0f', tonumber(ttl_ms) + tonumber(grace_ms)))
return {'OK', last_id, summary()}

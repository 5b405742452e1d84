--[[
start_session: make a session -> iniciada, unless its id is taken.
KEYS     session: session commands
ARGV     command_id now_ms grace_ms state ttl_ms fields...
RETURNS  OK last_id summary | EXISTS
INCLUDES summary recall remember
]]
local said = recall(command_id)
if said then return said end
if redis.call('EXISTS', session) == 1 then return {'EXISTS'} end
-- No event is written: a session that nothing happened to yet is one small hash. Readers make session.started of it.
local last_id = now_ms .. '-0'
redis.call('HSET', session, 'state', state, 'last_id', last_id, 'created_at', now_ms, 'last_activity', now_ms,
           'touched_at', now_ms, 'ttl_ms', ttl_ms, unpack(fields))
remember(command_id, {'OK', last_id})
local life = string.format('%.0f', tonumber(ttl_ms) + tonumber(grace_ms))
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
return {'OK', last_id, summary()}

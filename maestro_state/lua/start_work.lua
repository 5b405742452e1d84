--[[
start_work: make a work session -> running (or as it was, when it is read back from disk), unless its id is taken.
KEYS     work: session
ARGV     command_id now_ms grace_ms state ttl_ms fields...
RETURNS  OK last_id summary | EXISTS | LATE
INCLUDES work_summary lane repeated
]]
local lane_field, number = lane(command_id)
local answer = repeated(redis.call('HGET', session, lane_field), number)
if answer then return answer end
if redis.call('EXISTS', session) == 1 then return {'EXISTS'} end
local last_id = now_ms .. '-0'
redis.call('HSET', session, 'state', state, 'last_id', last_id, 'created_at', now_ms, 'last_activity', now_ms,
           'touched_at', now_ms, 'ttl_ms', ttl_ms, lane_field, number .. ' ' .. now_ms .. ' ' .. last_id,
           unpack(fields))
redis.call('PEXPIRE', session, string.format('%.0f', tonumber(ttl_ms) + tonumber(grace_ms)))
return {'OK', last_id, summary()}

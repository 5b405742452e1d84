--[[
keep_work: note that the disk has all of a work session, if nothing was added since; from then on its keys need no grace.
KEYS     work: session
ARGV     now_ms archived_id
RETURNS  OK last_id summary | NOT_FOUND | MOVED
INCLUDES work_summary
]]
local last_id, last_activity, ttl_ms = unpack(redis.call('HMGET', session, 'last_id', 'last_activity', 'ttl_ms'))
if not last_id then return {'NOT_FOUND'} end
if last_id ~= archived_id then return {'MOVED'} end
-- touched_at 0: the next change gives the keys their full time with its grace again, and goes into the index
redis.call('HSET', session, 'archived_id', archived_id, 'touched_at', 0)
local answer = {'OK', last_id, summary()}
-- never longer than its whole life: the terminal that wrote the record may have been ahead
local left = math.max(1, math.min(tonumber(ttl_ms), tonumber(last_activity) + tonumber(ttl_ms) - tonumber(now_ms)))
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, string.format('%.0f', left)) end
return answer

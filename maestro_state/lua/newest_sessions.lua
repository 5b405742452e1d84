--[[
newest_sessions: the summaries of the sessions last active, newest first.
KEYS     index: summaries recent
ARGV     count
RETURNS  OK summaries
INCLUDES -
]]
local ids = redis.call('ZREVRANGE', recent, 0, tonumber(count) - 1)
if #ids == 0 then return {'OK', {}} end
return {'OK', redis.call('HMGET', summaries, unpack(ids))}

--[[
tell_messages: tell how many messages there are that were not told of yet. Not activity: nothing is renewed.
KEYS     session: session messages
ARGV     -
RETURNS  OK count
INCLUDES wrong_type
]]
if redis.call('EXISTS', session) == 0 then return {'OK', 0} end
-- One damaged session must not cost the count of the others that are asked with it.
if is_wrong_type(session, 'hash') or is_wrong_type(messages, 'stream') then return {'OK', 0} end
local length = redis.call('XLEN', messages)
local more = length - (tonumber(redis.call('HGET', session, 'messages_told') or '0') or 0)
if more > 0 then redis.call('HSET', session, 'messages_told', length) end
return {'OK', math.max(more, 0)}

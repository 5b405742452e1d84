--[[
keep_terminal: show a terminal as attached for longer. It is not activity: looking keeps no session alive.
KEYS     session: session attached
ARGV     now_ms terminal shown_ms
RETURNS  OK | NOT_FOUND
INCLUDES -
]]
local left = redis.call('PTTL', session)
if left < 0 then return {'NOT_FOUND'} end
redis.call('ZREMRANGEBYSCORE', attached, '-inf', now_ms)
redis.call('ZADD', attached, tonumber(now_ms) + tonumber(shown_ms), terminal)
redis.call('PEXPIRE', attached, left)
return {'OK'}

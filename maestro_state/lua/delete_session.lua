--[[
delete_session: remove every key of a session, for good.
KEYS     session: session
ARGV     -
RETURNS  OK | NOT_FOUND
INCLUDES -
]]
if redis.call('EXISTS', session) == 0 then return {'NOT_FOUND'} end
redis.call('UNLINK', unpack(KEYS))
return {'OK'}

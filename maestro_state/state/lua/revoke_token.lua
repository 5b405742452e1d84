--[[
revoke_token: forget a token, so that nobody is let in by it any more.
KEYS     token: tokens
ARGV     id
RETURNS  OK | NOT_FOUND
INCLUDES -
]]
if redis.call('HDEL', tokens, id) == 0 then return {'NOT_FOUND'} end
return {'OK'}

--[[
revoke_token: forget a token, and those of browsers that signed in by it, so that nobody is let in by any of them.
KEYS     token: tokens
ARGV     id
RETURNS  OK | NOT_FOUND
INCLUDES -
]]
if redis.call('HDEL', tokens, id) == 0 then return {'NOT_FOUND'} end
local all = redis.call('HGETALL', tokens)
for at = 1, #all, 2 do
  local is_read, one = pcall(cjson.decode, all[at + 1])
  if is_read and one.parent == id then redis.call('HDEL', tokens, all[at]) end
end
return {'OK'}

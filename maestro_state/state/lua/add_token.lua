--[[
add_token: remember a token by its digest; the list outlives every token that was used within its life.
KEYS     token: tokens
ARGV     id row keep_ms most
RETURNS  OK | EXISTS | FULL
INCLUDES -
]]
if redis.call('HEXISTS', tokens, id) == 1 then return {'EXISTS'} end
if redis.call('HLEN', tokens) >= tonumber(most) then return {'FULL'} end
redis.call('HSET', tokens, id, row)
redis.call('PEXPIRE', tokens, keep_ms)
return {'OK'}

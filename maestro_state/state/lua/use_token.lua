--[[
use_token: note when a token was last used, unless it was revoked meanwhile.
KEYS     token: tokens
ARGV     id now_ms keep_ms
RETURNS  OK | NOT_FOUND
INCLUDES -
]]
local row = redis.call('HGET', tokens, id)
if not row then return {'NOT_FOUND'} end
local noted, count = string.gsub(row, '"used_ms":%d+', '"used_ms":' .. now_ms)
if count == 1 then redis.call('HSET', tokens, id, noted) end
redis.call('PEXPIRE', tokens, keep_ms)
return {'OK'}

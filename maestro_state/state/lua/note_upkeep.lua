--[[
note_upkeep: remember when something was last done; never back in time. One who lost the lease is not believed, a fence of
0 says that it was done by hand.
KEYS     lease: lease
ARGV     field now_ms fence keep_ms
RETURNS  OK | LOST
INCLUDES -
]]
local known, stored = unpack(redis.call('HMGET', lease, field, 'fence'))
if fence ~= '0' and stored ~= fence then return {'LOST'} end
if tonumber(known or '0') < tonumber(now_ms) then redis.call('HSET', lease, field, now_ms) end
redis.call('PEXPIRE', lease, keep_ms)
return {'OK'}

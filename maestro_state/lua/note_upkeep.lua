--[[
note_upkeep: remember when something was last done; never back in time. A scheduler that lost its turn is not believed,
a fence of 0 says that it was done by hand.
KEYS     schedule: schedule
ARGV     field now_ms fence keep_ms
RETURNS  OK | LOST
INCLUDES -
]]
local known, stored = unpack(redis.call('HMGET', schedule, field, 'fence'))
if fence ~= '0' and stored ~= fence then return {'LOST'} end
if tonumber(known or '0') < tonumber(now_ms) then redis.call('HSET', schedule, field, now_ms) end
redis.call('PEXPIRE', schedule, keep_ms)
return {'OK'}

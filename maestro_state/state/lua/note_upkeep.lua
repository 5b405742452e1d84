--[[
note_upkeep: remember when something was last done; never back in time, unless what is known lies `ahead_ms` before us: then
the server's clock went back, or nobody of ours wrote it. One who lost the lease is not believed, a fence of 0 says that it
was done by hand.
KEYS     lease: lease
ARGV     field now_ms fence keep_ms ahead_ms
RETURNS  OK | LOST
INCLUDES wrong_type
]]
if is_wrong_type(lease, 'hash') then redis.call('DEL', lease) end
local known, stored = unpack(redis.call('HMGET', lease, field, 'fence'))
if fence ~= '0' and stored ~= fence then return {'LOST'} end
local ahead = (tonumber(known or '') or 0) - tonumber(now_ms)
if not (ahead >= 0 and ahead <= tonumber(ahead_ms)) then redis.call('HSET', lease, field, now_ms) end
redis.call('PEXPIRE', lease, keep_ms)
return {'OK'}

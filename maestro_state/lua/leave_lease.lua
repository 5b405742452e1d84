--[[
leave_lease: let the next sweeper in, and tell it where to go on looking for sessions the index has lost.
KEYS     sweep: lease
ARGV     holder fence cursor
RETURNS  OK | LOST
INCLUDES -
]]
local owner, stored = unpack(redis.call('HMGET', lease, 'holder', 'fence'))
if owner ~= holder or stored ~= fence then return {'LOST'} end
redis.call('HSET', lease, 'until', 0, 'cursor', cursor)
return {'OK'}

--[[
release_lease: let the next one in at once, and tell it what to go on from.
KEYS     lease: lease
ARGV     holder fence notes...
RETURNS  OK | LOST
INCLUDES -
]]
local owner, stored = unpack(redis.call('HMGET', lease, 'holder', 'fence'))
if owner ~= holder or stored ~= fence then return {'LOST'} end
redis.call('HSET', lease, 'until', '0', unpack(notes))
return {'OK'}

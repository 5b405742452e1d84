--[[
leave_turn: let the next scheduler in at once.
KEYS     schedule: schedule
ARGV     holder fence
RETURNS  OK | LOST
INCLUDES -
]]
local owner, stored = unpack(redis.call('HMGET', schedule, 'holder', 'fence'))
if owner ~= holder or stored ~= fence then return {'LOST'} end
redis.call('HSET', schedule, 'until', '0')
return {'OK'}

--[[
add_piece: put the next piece of a parcel behind those that wait, unless as many wait as may.
KEYS     parcel: parcel
ARGV     life_ms most piece
RETURNS  OK | FULL
INCLUDES -
]]
if redis.call('LLEN', parcel) >= tonumber(most) then return {'FULL'} end
redis.call('RPUSH', parcel, piece)
redis.call('PEXPIRE', parcel, life_ms)
return {'OK'}

--[[
add_piece: put the next piece of a parcel behind those that wait, unless as many wait as may, or nobody fetches them.
KEYS     parcel: parcel asker
ARGV     life_ms most piece
RETURNS  OK | FULL | GONE
INCLUDES -
]]
if redis.call('EXISTS', asker) == 0 then return {'GONE'} end
if redis.call('LLEN', parcel) >= tonumber(most) then return {'FULL'} end
redis.call('RPUSH', parcel, piece)
redis.call('PEXPIRE', parcel, life_ms)
return {'OK'}

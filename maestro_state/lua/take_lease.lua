--[[
take_lease: become, or stay, the one sweeper; a holder that says nothing for the lease's time has lost it. Each new holder gets a higher number.
KEYS     sweep: lease
ARGV     holder now_ms lease_ms fence keep_ms
RETURNS  OK fence cursor | BUSY holder | LOST
INCLUDES -
]]
local owner, stored, ends_at, cursor = unpack(redis.call('HMGET', lease, 'holder', 'fence', 'until', 'cursor'))
if fence ~= '0' and (owner ~= holder or stored ~= fence) then return {'LOST'} end
if owner and owner ~= holder and tonumber(ends_at) > tonumber(now_ms) then return {'BUSY', owner} end
local mine = fence
if fence == '0' then mine = string.format('%.0f', math.max(tonumber(stored or '0') + 1, tonumber(now_ms))) end
redis.call('HSET', lease, 'holder', holder, 'fence', mine, 'until',
           string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
redis.call('PEXPIRE', lease, keep_ms)
return {'OK', mine, cursor or '0'}

--[[
take_lease: become, or stay, the one who does something for the team; a holder that says nothing until the lease ends has
lost it. Each new holder gets a higher number, also when the server has forgotten the last one.
KEYS     lease: lease
ARGV     holder fence now_ms lease_ms keep_ms
RETURNS  OK fence notes | BUSY holder left_ms | LOST
INCLUDES -
]]
local owner, stored, ends_at = unpack(redis.call('HMGET', lease, 'holder', 'fence', 'until'))
if fence ~= '0' and (owner ~= holder or stored ~= fence) then return {'LOST'} end
if owner and owner ~= holder and tonumber(ends_at) > tonumber(now_ms) then
  return {'BUSY', owner, string.format('%.0f', tonumber(ends_at) - tonumber(now_ms))}
end
if fence == '0' then fence = string.format('%.0f', math.max(tonumber(stored or '0') + 1, tonumber(now_ms))) end
redis.call('HSET', lease, 'holder', holder, 'fence', fence, 'until',
           string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
redis.call('PEXPIRE', lease, keep_ms)
return {'OK', fence, redis.call('HGETALL', lease)}

--[[
take_lease: become, or stay, the one who does something for the team; a holder that says nothing until the lease ends has
lost it. Each new holder gets a higher number, also when the server has forgotten the last one. A lease that ends later than
any does keeps nobody out: the server's clock went back since, or nobody of ours wrote it.
KEYS     lease: lease
ARGV     holder fence now_ms lease_ms keep_ms
RETURNS  OK fence notes | BUSY holder left_ms | LOST
INCLUDES wrong_type
]]
if is_wrong_type(lease, 'hash') then redis.call('DEL', lease) end
local owner, stored, ends_at = unpack(redis.call('HMGET', lease, 'holder', 'fence', 'until'))
if fence ~= '0' and (owner ~= holder or stored ~= fence) then return {'LOST'} end
local left = (tonumber(ends_at or '') or 0) - tonumber(now_ms)
if owner and owner ~= holder and left > 0 and left <= 3 * tonumber(lease_ms) then
  return {'BUSY', owner, string.format('%.0f', left)}
end
if fence == '0' then
  local known = tonumber(stored or '') or 0
  fence = string.format('%.0f', math.max(known < 2 ^ 53 and known + 1 or 0, tonumber(now_ms)))
end
redis.call('HSET', lease, 'holder', holder, 'fence', fence, 'until',
           string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
redis.call('PEXPIRE', lease, keep_ms)
return {'OK', fence, redis.call('HGETALL', lease)}

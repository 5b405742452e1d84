--[[
take_turn: become, or stay, the one scheduler; one that says nothing until its lease ends has lost it. Each new holder
gets a higher number.
KEYS     schedule: schedule
ARGV     holder fence now_ms lease_ms keep_ms
RETURNS  OK fence swept_at cleaned_at | BUSY holder left_ms | LOST
INCLUDES -
]]
local owner, stored, ends_at, swept_at, cleaned_at =
  unpack(redis.call('HMGET', schedule, 'holder', 'fence', 'until', 'swept_at', 'cleaned_at'))
local is_held = owner and tonumber(ends_at) > tonumber(now_ms)
if fence ~= '0' and (owner ~= holder or stored ~= fence) then return {'LOST'} end
if fence == '0' and is_held and owner ~= holder then
  return {'BUSY', owner, string.format('%.0f', tonumber(ends_at) - tonumber(now_ms))}
end
if fence == '0' then fence = string.format('%.0f', tonumber(stored or '0') + 1) end
redis.call('HSET', schedule, 'holder', holder, 'fence', fence, 'until',
           string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
redis.call('PEXPIRE', schedule, keep_ms)
return {'OK', fence, swept_at or '0', cleaned_at or '0'}

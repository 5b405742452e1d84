--[[
take_seat: let a user ask for one more run, unless as many as may be are open: FULL, with those. A seat is taken by the
ticket of who asks, and goes by itself if its run is not named in time; seats of runs that are over (`gone`) are given up.
A repeat of what was asked before has its seat already.
KEYS     seat: seats
ARGV     ticket now_ms lease_ms most keep_ms gone...
RETURNS  OK | FULL taken
INCLUDES -
]]
for _, seat in ipairs(gone) do redis.call('ZREM', seats, seat) end
-- A seat is a ticket, then `run ticket`: that one is there until somebody has seen that its run is over.
local taken, open = redis.call('ZRANGE', seats, 0, -1, 'WITHSCORES'), {}
for at = 1, #taken, 2 do
  local is_run = string.find(taken[at], ' ', 1, true)
  if taken[at] == ticket or string.sub(taken[at], -#ticket - 1) == ' ' .. ticket then return {'OK'} end
  if not is_run and tonumber(taken[at + 1]) + tonumber(lease_ms) < tonumber(now_ms) then
    redis.call('ZREM', seats, taken[at])
  else
    open[#open + 1] = taken[at]
  end
end
if #open >= tonumber(most) then return {'FULL', open} end
redis.call('ZADD', seats, now_ms, ticket)
redis.call('PEXPIRE', seats, keep_ms)
return {'OK'}

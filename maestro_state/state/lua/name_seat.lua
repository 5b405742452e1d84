--[[
name_seat: say which run a seat was taken for; without one it is given up.
KEYS     seat: seats
ARGV     ticket run now_ms keep_ms
RETURNS  OK
INCLUDES -
]]
redis.call('ZREM', seats, ticket)
if run ~= '' then
  redis.call('ZADD', seats, now_ms, run .. ' ' .. ticket)
  redis.call('PEXPIRE', seats, keep_ms)
end
return {'OK'}

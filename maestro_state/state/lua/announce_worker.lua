--[[
announce_worker: note what a worker has, and forget those that have not said so for a while.
KEYS     worker: present
ARGV     id row now_ms alive_ms most
RETURNS  OK | FULL
INCLUDES wrong_type
]]
if is_wrong_type(present, 'hash') then redis.call('DEL', present) end
local rows = redis.call('HGETALL', present)
local count = 0
for at = 1, #rows, 2 do
  -- A row is when it was written, a blank, and what the worker has.
  local seen = tonumber(string.match(rows[at + 1], '^(%d+) ') or '0')
  if seen + tonumber(alive_ms) < tonumber(now_ms) then redis.call('HDEL', present, rows[at])
  elseif rows[at] ~= id then count = count + 1 end
end
if count >= tonumber(most) then return {'FULL'} end
redis.call('HSET', present, id, now_ms .. ' ' .. row)
redis.call('PEXPIRE', present, alive_ms)
return {'OK'}

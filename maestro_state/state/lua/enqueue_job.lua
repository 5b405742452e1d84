--[[
enqueue_job: put a job where workers look for it, in its turn, unless it waits there already or was taken just now.
KEYS     queue: job queue
ARGV     job_id now_ms requeue_after_ms life_ms fields...
RETURNS  OK | QUEUED
INCLUDES wrong_type turn_of
]]
-- Not written by us: the runs that waited there are requeued by whoever recovers open runs next.
if is_wrong_type(queue, 'list') then redis.call('DEL', queue) end
if is_wrong_type(job, 'hash') then redis.call('DEL', job) end
if redis.call('LPOS', queue, job_id) then return {'QUEUED'} end
-- Taken, and its run not claimed: its worker is about to do that, or was killed on the way. Written anew while a worker
-- has it, it would be carried out twice, and the first to end would take it away under the other.
local found = redis.call('HMGET', job, 'status', 'missed_at')
if found[1] and not found[2] then
  redis.call('HSET', job, 'missed_at', now_ms)
  return {'QUEUED'}
end
if found[1] and tonumber(now_ms) < tonumber(found[2]) + tonumber(requeue_after_ms) then return {'QUEUED'} end
redis.call('DEL', job)
redis.call('HSET', job, unpack(fields))
redis.call('PEXPIRE', job, life_ms)
local turn, first, last = turn_of(job_id), 0, redis.call('LLEN', queue)
if last > 0 and turn_of(redis.call('LINDEX', queue, -1)) > turn then
  while first < last do
    local middle = math.floor((first + last) / 2)
    if turn_of(redis.call('LINDEX', queue, middle)) <= turn then first = middle + 1 else last = middle end
  end
  local placed = redis.pcall('LINSERT', queue, 'BEFORE', redis.call('LINDEX', queue, first), job_id)
  -- An account made before there were priorities may not: its jobs wait in the order they came in.
  if type(placed) == 'table' then redis.call('RPUSH', queue, job_id) end
else
  redis.call('RPUSH', queue, job_id)
end
redis.call('PEXPIRE', queue, life_ms)
return {'OK'}

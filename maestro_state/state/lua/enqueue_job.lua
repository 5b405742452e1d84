--[[
enqueue_job: put a job where RQ's workers look for it, unless it waits there already or was taken just now.
KEYS     queue: job queue
ARGV     job_id now_ms patience_ms life_ms fields...
RETURNS  OK | QUEUED
INCLUDES wrong_type
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
if found[1] and tonumber(now_ms) < tonumber(found[2]) + tonumber(patience_ms) then return {'QUEUED'} end
redis.call('DEL', job)
redis.call('HSET', job, unpack(fields))
redis.call('PEXPIRE', job, life_ms)
redis.call('RPUSH', queue, job_id)
return {'OK'}

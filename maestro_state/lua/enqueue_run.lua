--[[
enqueue_run: put a run's job where RQ's workers look for it, unless it waits there already.
KEYS     queue: job queue queues
ARGV     job_id life_ms fields...
RETURNS  OK | QUEUED
INCLUDES -
]]
for _, waiting in ipairs(redis.call('LRANGE', queue, 0, -1)) do
  if waiting == job_id then return {'QUEUED'} end
end
redis.call('DEL', job)
redis.call('HSET', job, unpack(fields))
redis.call('PEXPIRE', job, life_ms)
redis.call('SADD', queues, queue)
redis.call('RPUSH', queue, job_id)
return {'OK'}

--[[
enqueue_job: put a job where RQ's workers look for it, unless it waits there already.
KEYS     queue: job queue queues
ARGV     job_id life_ms fields...
RETURNS  OK | QUEUED
INCLUDES -
]]
if redis.call('LPOS', queue, job_id) then return {'QUEUED'} end
redis.call('DEL', job)
redis.call('HSET', job, unpack(fields))
redis.call('PEXPIRE', job, life_ms)
redis.call('SADD', queues, queue)
redis.call('RPUSH', queue, job_id)
return {'OK'}

--[[
withdraw_job: take back a job that no worker has taken; one that has been taken is its worker's.
KEYS     queue: job queue
ARGV     job_id
RETURNS  OK | TAKEN
INCLUDES -
]]
if redis.call('LREM', queue, 1, job_id) == 0 then return {'TAKEN'} end
redis.call('DEL', job)
return {'OK'}

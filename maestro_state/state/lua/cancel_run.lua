--[[
cancel_run: end a pending run at once; ask the owner of a running one to end it.
KEYS     session: session events runs
ARGV     idempotency_key now_ms grace_ms user with_output with_context started run ending
RETURNS  OK status summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NO_RUN | NOT_OPEN status | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle end_run rest
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local changes = {}
local status = redis.call('HGET', runs, run .. ':status')
if not status then return {'NO_RUN'} end
if status == 'pending' then
  status = 'canceled'
  emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', status, 'end', ending})
  if end_run(run, status, ending) then changes = {'state', rest(with_output, with_context, started)} end
elseif status == 'running' then
  if redis.call('HSETNX', runs, run .. ':cancel', now_ms) == 1 then
    emit(admitted, events, {'type', 'run.cancel_requested', 'run', run})
  end
else
  return {'NOT_OPEN', status}
end
admitted.touched_at = 0  -- a change of state is always indexed
return settle(admitted, {'OK', status}, {}, changes)

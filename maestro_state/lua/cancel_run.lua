--[[
cancel_run: end a pending run at once; ask the owner of a running one to end it.
KEYS     session: session events commands items runs
ARGV     command_id now_ms grace_ms user with_output with_context started run ending
RETURNS  OK status summary | NOT_FOUND | BAD_STATE state | EXPIRED | NO_RUN | NOT_OPEN status
INCLUDES summary recall remember admit emit renew end_run settle
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
local status = redis.call('HGET', runs, run .. ':status')
if not status then return {'NO_RUN'} end
if status == 'pending' then
  status = 'canceled'
  emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', status, 'end', ending})
  if end_run(run, status, ending) then settle(with_output, with_context, started) end
elseif status == 'running' then
  if redis.call('HSETNX', runs, run .. ':cancel', now_ms) == 1 then
    emit(admitted, events, {'type', 'run.cancel_requested', 'run', run})
  end
else
  return {'NOT_OPEN', status}
end
remember(command_id, {'OK', status})
admitted.touched_at = 0  -- a change of state is always indexed
return {'OK', status, renew(admitted, tonumber(grace_ms), {events, commands})}

--[[
abort_session: freeze a session as it is -> abortada; what it holds stays, its open runs end with it.
KEYS     session: session events commands runs
ARGV     command_id now_ms grace_ms user target reason ending
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED
INCLUDES summary recall remember admit emit renew end_run with_size
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
emit(admitted, events, {'type', 'session.aborted', 'reason', reason})
for run in string.gmatch(redis.call('HGET', session, 'open_runs') or '', '%S+') do
  end_run(run, 'canceled', with_size(run, ending))
end
redis.call('HSET', session, 'state', target, 'frozen_at', admitted.now, 'abort_reason', reason)
remember(command_id, {'OK', admitted.last_id})
admitted.touched_at = 0  -- a change of state is always indexed
return {'OK', admitted.last_id, renew(admitted, tonumber(grace_ms), {})}

--[[
abort_session: freeze a session as it is -> abortada; what it holds stays, its open runs end with it.
KEYS     session: session events runs
ARGV     idempotency_key now_ms grace_ms user target reason ending
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle end_run with_known
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
emit(admitted, events, {'type', 'session.aborted', 'reason', reason})
for run in string.gmatch(redis.call('HGET', session, 'open_runs') or '', '%S+') do
  end_run(run, 'canceled', with_known(run, ending))
end
admitted.touched_at = 0  -- a change of state is always indexed
return settle(admitted, {'OK', admitted.last_id}, {},
              {'state', target, 'frozen_at', admitted.now, 'abort_reason', reason})

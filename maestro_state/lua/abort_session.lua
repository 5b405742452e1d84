--[[
abort_session: freeze a session as it is -> abortada; what it holds stays.
KEYS     session: session events
ARGV     command_id now_ms grace_ms user target reason
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE
INCLUDES summary lane repeated admit emit settle
]]
local admitted, answer = admit(command_id)
if answer then return answer end
emit(admitted, events, {'type', 'session.aborted', 'reason', reason})
admitted.touched_at = 0  -- a change of state is always indexed
return settle(admitted, {'OK', admitted.last_id}, {},
              {'state', target, 'frozen_at', admitted.now, 'abort_reason', reason})

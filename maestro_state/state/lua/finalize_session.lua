--[[
finalize_session: freeze a session that has no open run -> finalizada.
KEYS     session: session events
ARGV     idempotency_key now_ms grace_ms user target
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
emit(admitted, events, {'type', 'session.finalized'})
admitted.touched_at = 0  -- a change of state is always indexed
return settle(admitted, {'OK', admitted.last_id}, {}, {'state', target, 'frozen_at', admitted.now})

--[[
mark_work: pause or resume a work session, running -> paused or paused -> running.
KEYS     work: session log
ARGV     idempotency_key now_ms grace_ms user target
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES work_summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
if admitted.state == target then return {'BAD_STATE', target} end
emit(admitted, log, {'type', 'session.marked', 'status', target})
admitted.touched_at = 0  -- a change of status is always indexed
return settle(admitted, {'OK', admitted.last_id}, {}, {'state', target})

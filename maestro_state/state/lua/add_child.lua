--[[
add_child: note in an open work session that a child is started under it; a child noted before is left as it is.
KEYS     work: session log children
ARGV     idempotency_key now_ms grace_ms user child_id
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES work_summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
if redis.call('SISMEMBER', children, child_id) == 1 then return {'OK', admitted.last_id, false} end
emit(admitted, log, {'type', 'child.added', 'child', child_id})
redis.call('SADD', children, child_id)
return settle(admitted, {'OK', admitted.last_id}, {log, children})

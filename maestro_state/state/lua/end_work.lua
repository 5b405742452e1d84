--[[
end_work: end a work session for good, if it has no children but those the caller has seen.
KEYS     work: session log children
ARGV     idempotency_key now_ms grace_ms user target children_seen
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | MORE_CHILDREN | NEWER number
INCLUDES work_summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
-- Children are only ever added: the same number means the same children.
if redis.call('SCARD', children) ~= tonumber(children_seen) then return {'MORE_CHILDREN'} end
emit(admitted, log, {'type', 'session.ended', 'status', target})
admitted.touched_at = 0  -- a change of status is always indexed
return settle(admitted, {'OK', admitted.last_id}, {},
              {'state', target, 'ended_at', string.format('%.0f', admitted.now)})

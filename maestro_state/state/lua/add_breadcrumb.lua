--[[
add_breadcrumb: accept one breadcrumb, once: a breadcrumb id that was accepted before is answered with its entry.
KEYS     work: session breadcrumbs ids
ARGV     idempotency_key now_ms grace_ms user is_late breadcrumb_id source entry...
RETURNS  OK id summary | DUPLICATE id_and_source | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES work_summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if is_late == '1' and answer and answer[1] == 'EXPIRED' then
  now_ms = '0'  -- taken at the time of the last activity
  admitted, answer = admit(idempotency_key)
end
if answer then return answer end
local known = redis.call('HGET', ids, breadcrumb_id)
if known then return {'DUPLICATE', known} end
if is_late == '0' and redis.call('HEXISTS', session, 'ended_at') == 1 then return {'BAD_STATE', admitted.state} end
local id = emit(admitted, breadcrumbs, entry)
redis.call('HSET', ids, breadcrumb_id, id .. ' ' .. source)
redis.call('HINCRBY', session, 'accepted', 1)
return settle(admitted, {'OK', id}, {breadcrumbs, ids})

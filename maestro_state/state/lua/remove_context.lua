--[[
remove_context: take items out of the active list, all or none, and keep them; none left: com_contexto -> iniciada.
KEYS     session: session events items
ARGV     idempotency_key now_ms grace_ms user with_context empty is_clearing removed...
RETURNS  OK count summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NO_ITEM item | REMOVED item | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local going = {}
for _, id in ipairs(removed) do
  if redis.call('HEXISTS', items, id) == 0 then return {'NO_ITEM', id} end
  if redis.call('HEXISTS', items, id .. ':removed_at') == 0 then
    going[#going + 1] = id
  elseif is_clearing ~= '1' then
    return {'REMOVED', id}
  end
end
local now = string.format('%.0f', admitted.now)
for _, id in ipairs(going) do
  redis.call('HSET', items, id .. ':removed_at', now)
  emit(admitted, events, {'type', 'context.removed', 'item', id})
end
local left = tonumber(redis.call('HGET', session, 'active_items') or '0') - #going
local changes = {'active_items', string.format('%.0f', left)}
if left == 0 and admitted.state == with_context then
  changes[3], changes[4] = 'state', empty
  admitted.touched_at = 0  -- a change of state is always indexed
end
return settle(admitted, {'OK', string.format('%.0f', #going)}, {events}, changes)

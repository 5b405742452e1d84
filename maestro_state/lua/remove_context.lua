--[[
remove_context: take items out of the active list, all or none, and keep them; none left: com_contexto -> iniciada.
KEYS     session: session events commands items
ARGV     command_id now_ms grace_ms user empty is_clearing removed...
RETURNS  OK count summary | NOT_FOUND | BAD_STATE state | EXPIRED | NO_ITEM item | REMOVED item
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
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
local left = redis.call('HINCRBY', session, 'active_items', -#going)
if left == 0 and #going > 0 and admitted.state ~= empty and STEPS[admitted.state][empty] then
  redis.call('HSET', session, 'state', empty)
  admitted.touched_at = 0  -- a change of state is always indexed
end
local count = string.format('%.0f', #going)
remember(command_id, {'OK', count})
return {'OK', count, renew(admitted, tonumber(grace_ms), {events, commands})}

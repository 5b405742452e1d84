--[[
add_context: append items whose content is here, all or none; the first one moves iniciada -> com_contexto.
KEYS     session: session events commands items blobs runs
ARGV     command_id now_ms grace_ms user run relevant rows...
RETURNS  OK first summary | NOT_FOUND | BAD_STATE state | EXPIRED | NO_BLOB digest | NO_RUN run | NO_ITEM item | REMOVED item
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
if run ~= '' and redis.call('HEXISTS', runs, run) == 0 then return {'NO_RUN', run} end
-- A row is: digest, what precedes the id's second place, what follows it, the item it replaces, its event's fields.
local ROW = 7
local replaced = 0
for at = 1, #rows, ROW do
  if redis.call('HEXISTS', blobs, rows[at]) == 0 then return {'NO_BLOB', rows[at]} end
  local old = rows[at + 3]
  if old ~= '' then
    if redis.call('HEXISTS', items, old) == 0 then return {'NO_ITEM', old} end
    if redis.call('HEXISTS', items, old .. ':removed_at') == 1 then return {'REMOVED', old} end
    replaced = replaced + 1
  end
end
local count = #rows / ROW
local first = redis.call('HINCRBY', session, 'ctx_seq', count) - count + 1
local now = string.format('%.0f', admitted.now)
local fields = {}
for index = 0, count - 1 do
  local at = index * ROW + 1
  local id = string.format('ctx-%04.0f', first + index)
  -- The item is JSON already; its id, which only this script knows, goes in at two places.
  fields[#fields + 1] = id
  fields[#fields + 1] = '{"id":"' .. id .. rows[at + 1] .. id .. rows[at + 2]
  local entry = {'type', 'context.added', 'item', id, 'kind', rows[at + 4], 'size', rows[at + 5]}
  if rows[at + 6] ~= '' then
    entry[#entry + 1] = 'source'
    entry[#entry + 1] = rows[at + 6]
  end
  if rows[at + 3] ~= '' then
    fields[#fields + 1] = rows[at + 3] .. ':removed_at'
    fields[#fields + 1] = now
    entry[#entry + 1] = 'replaces'
    entry[#entry + 1] = rows[at + 3]
  end
  emit(admitted, events, entry)
end
redis.call('HSET', items, unpack(fields))
if run ~= '' then redis.call('HSET', runs, run .. ':relevant', relevant) end
redis.call('HINCRBY', session, 'active_items', count - replaced)
local target = next(STEPS[admitted.state])
if target ~= admitted.state then
  redis.call('HSET', session, 'state', target)
  admitted.touched_at = 0  -- a change of state is always indexed
end
first = string.format('%.0f', first)
remember(command_id, {'OK', first})
return {'OK', first, renew(admitted, tonumber(grace_ms), {items, events, commands})}

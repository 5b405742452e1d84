--[[
add_context: append items whose content is here, all or none; the first one moves iniciada -> com_contexto.
KEYS     session: session events items blobs runs
ARGV     idempotency_key now_ms grace_ms user empty target run relevant rows...
RETURNS  OK first summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NO_BLOB digest | NO_RUN run | NO_ITEM item
         | REMOVED item | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
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
local counters = redis.call('HMGET', session, 'ctx_seq', 'active_items')
local seq, count = tonumber(counters[1] or '0'), #rows / ROW
local now = string.format('%.0f', admitted.now)
local fields = {}
for index = 1, count do
  local at = (index - 1) * ROW + 1
  local id = string.format('ctx-%04.0f', seq + index)
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
local active = tonumber(counters[2] or '0') + count - replaced
local changes = {'ctx_seq', string.format('%.0f', seq + count), 'active_items', string.format('%.0f', active)}
if admitted.state == empty then
  changes[5], changes[6] = 'state', target
  admitted.touched_at = 0  -- a change of state is always indexed
end
return settle(admitted, {'OK', string.format('%.0f', seq + 1)}, {items, events}, changes)

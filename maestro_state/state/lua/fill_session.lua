--[[
fill_session: give a new session what it takes over from another one; the last call brings it to life, with or without context.
KEYS     session: session events messages items blobs
ARGV     idempotency_key now_ms grace_ms user life_ms target ctx_seq count parts...
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
-- A message may be of this very millisecond, or of a clock that was set back since: what comes next is later all the same.
local function follow(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  local last_ms, last_seq = string.match(admitted.last_id, '^(%d+)-(%d+)$')
  ms, seq, last_ms, last_seq = tonumber(ms), tonumber(seq), tonumber(last_ms), tonumber(last_seq)
  if ms > last_ms or (ms == last_ms and seq > last_seq) then admitted.last_id = id end
end
-- parts: `count` triples of item/blob/message, name or id, value; messages carry their fields as a JSON list
for at = 1, tonumber(count) * 3, 3 do
  local kind, name, value = parts[at], parts[at + 1], parts[at + 2]
  if kind == 'item' then redis.call('HSET', items, name, value) end
  if kind == 'blob' then redis.call('HSET', blobs, name, value) end
  if kind == 'message' then follow(redis.call('XADD', messages, name, unpack(cjson.decode(value)))) end
end
if target == '' then
  redis.call('HSET', session, 'last_id', admitted.last_id,
             admitted.sequence_field, admitted.number .. ' ' .. now_ms .. ' ' .. admitted.last_id)
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life_ms) end
  return {'OK', admitted.last_id, false}
end
emit(admitted, events, {'type', 'session.forked', 'from', redis.call('HGET', session, 'forked_from')})
redis.call('HDEL', session, 'filling')
admitted.touched_at = 0  -- now it is to be seen
-- A fork takes over active items only: what it was filled with is what it has.
return settle(admitted, {'OK', admitted.last_id}, {},
              {'state', target, 'ctx_seq', ctx_seq, 'active_items', redis.call('HLEN', items)})

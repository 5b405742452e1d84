--[[
fill_session: give a new session what it takes over from another one; the last call brings it to life, with or without context.
KEYS     session: session events messages items blobs kept
ARGV     idempotency_key now_ms grace_ms user life_ms target ctx_seq count parts...
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
-- Several may fill it at once, all with the same: whoever comes after the last one finds it done.
local known = redis.call('HMGET', session, 'last_id', 'filling', 'last_activity')
if known[1] and not known[2] then return {'OK', known[1], summary()} end
-- However long it takes, and whoever goes on with it: the time of a fork begins when it is complete.
if known[1] and tonumber(now_ms) > tonumber(known[3]) then redis.call('HSET', session, 'last_activity', now_ms) end
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local newest = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
local function is_later(id, other)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)-(%d+)$')
  ms, seq, other_ms, other_seq = tonumber(ms), tonumber(seq), tonumber(other_ms), tonumber(other_seq)
  return ms > other_ms or (ms == other_ms and seq > other_seq)
end
-- A message may be of this very millisecond, or of a clock that was set back since: what comes next is later all the same.
local function follow(id)
  if is_later(id, admitted.last_id) then admitted.last_id = id end
end
-- parts: `count` triples of item/blob/kept/message, name or id, value; messages carry their fields as a JSON list
for at = 1, tonumber(count) * 3, 3 do
  local kind, name, value = parts[at], parts[at + 1], parts[at + 2]
  if kind == 'item' then redis.call('HSET', items, name, value) end
  if kind == 'blob' then redis.call('HSET', blobs, name, value) end
  if kind == 'kept' then redis.call('HSET', kept, name, value) end
  if kind == 'message' and (not newest or is_later(name, newest[1])) then
    follow(redis.call('XADD', messages, name, unpack(cjson.decode(value))))
  end
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
-- Messages that were said elsewhere are not said anew.
local changes = {'state', target, 'ctx_seq', ctx_seq, 'active_items', redis.call('HLEN', items),
                 'messages_told', redis.call('XLEN', messages)}
if redis.call('EXISTS', kept) == 1 then
  changes[#changes + 1] = 'kept_id'
  changes[#changes + 1] = admitted.last_id
end
return settle(admitted, {'OK', admitted.last_id}, {}, changes)

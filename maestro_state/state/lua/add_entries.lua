--[[
add_entries: write what a framework did at once: messages, what it keeps, what it takes back, events. All of it or, when
something that it expects is not so, nothing.
KEYS     session: session events messages kept retracted
ARGV     idempotency_key now_ms grace_ms user count
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | STALE name | FULL name | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
-- Behind `count` come as many words, read where they are since a stack does not hold them: kind, number of values and
-- values of each part. What is expected comes first; `once` rules the part behind it.
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local at, is_passed_over, is_kept_changed, before = 6, false, false, admitted.last_id
local said, told, written = {}, {}, {}
local function tell(entry) told[#told + 1] = entry end
local does = {}
function does.expect(name, value)
  local known = redis.call('HGET', kept, name)
  return (known or '') ~= value and {'STALE', name} or nil
end
function does.room(name, most)
  return redis.call('HSTRLEN', kept, name) > tonumber(most) and {'FULL', name} or nil
end
function does.once(name)
  is_passed_over = redis.call('HSETNX', kept, name, '1') == 0
  is_kept_changed = true
end
function does.set(name, value)
  redis.call('HSET', kept, name, value)
  is_kept_changed = true
end
function does.first(name, value)
  redis.call('HSETNX', kept, name, value)
  is_kept_changed = true
end
function does.append(name, value)
  redis.call('HSET', kept, name, (redis.call('HGET', kept, name) or '') .. value)
  is_kept_changed = true
end
-- By bytes: how `<` compares depends on the locale that the server was started with.
local function is_higher(value, known)
  for i = 1, math.min(#value, #known) do
    local one, other = string.byte(value, i), string.byte(known, i)
    if one ~= other then return one > other end
  end
  return #value > #known
end
function does.highest(name, value)
  if is_higher(value, redis.call('HGET', kept, name) or '') then redis.call('HSET', kept, name, value) end
  is_kept_changed = true
end
function does.here(prefix, suffix, value)
  redis.call('HSET', kept, prefix .. before .. suffix, value)
  is_kept_changed = true
end
function does.drop(name)
  redis.call('HDEL', kept, name)
  is_kept_changed = true
end
function does.clear()
  redis.call('HSET', retracted, '..' .. before, now_ms, '..', before)
  tell({'type', 'message.retracted', 'until', before})
end
function does.retract(id)
  if redis.call('HSETNX', retracted, id, now_ms) == 1 then tell({'type', 'message.retracted', 'message', id}) end
end
function does.message(...) said[#said + 1] = {...} end
function does.event(...) tell({...}) end
while at < 6 + tonumber(count) do
  local kind, values = ARGV[at], tonumber(ARGV[at + 1])
  local is_ruled = is_passed_over
  is_passed_over = false
  if not is_ruled then
    local refusal = does[kind](unpack(ARGV, at + 2, at + 1 + values))
    if refusal then return refusal end
  end
  at = at + 2 + values
end
-- In the order of their ids, once to each stream: see emit.
for _, entry in ipairs(said) do emit(admitted, messages, entry) end
if #said > 0 then written[1] = messages end
-- Without an entry nobody would know that there is something to write to disk.
if is_kept_changed and #said + #told == 0 then tell({'type', 'session.kept'}) end
for _, entry in ipairs(told) do emit(admitted, events, entry) end
if #told > 0 then written[#written + 1] = events end
if is_kept_changed then written[#written + 1] = kept end
if redis.call('EXISTS', retracted) == 1 then written[#written + 1] = retracted end
return settle(admitted, {'OK', admitted.last_id}, written,
              is_kept_changed and {'kept_id', admitted.last_id} or nil)

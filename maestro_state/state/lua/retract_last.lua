--[[
retract_last: take the newest message that was not taken back yet out of what is handed out; it stays in the record.
KEYS     session: session events messages retracted
ARGV     idempotency_key now_ms grace_ms user
RETURNS  OK id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
-- Where the last one was found, if nothing was said since: taking back a thousand is not a million steps.
local popped, newest = unpack(redis.call('HMGET', session, 'popped', 'popped_before'))
local from = '+'
local top = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
if not top then return settle(admitted, {'OK', ''}, {}) end
if popped and newest == top[1] then from = '(' .. popped end
local floor = redis.call('HGET', retracted, '..')
local found
while not found do
  local page = redis.call('XREVRANGE', messages, from, floor and '(' .. floor or '-', 'COUNT', 4)
  if #page == 0 then return settle(admitted, {'OK', ''}, {}) end
  for _, entry in ipairs(page) do
    if not found and redis.call('HEXISTS', retracted, entry[1]) == 0 then found = entry[1] end
    from = '(' .. entry[1]
  end
end
redis.call('HSET', retracted, found, now_ms)
emit(admitted, events, {'type', 'message.retracted', 'message', found})
return settle(admitted, {'OK', found}, {events, retracted}, {'popped', found, 'popped_before', top[1]})

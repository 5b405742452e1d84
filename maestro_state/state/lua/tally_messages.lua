--[[
tally_messages: add messages that were told of, and remember up to when sessions were looked at; never back in time.
KEYS     tally: tally
ARGV     count until_ms keep_ms
RETURNS  OK total
INCLUDES wrong_type
]]
-- What somebody else put there is no count: it begins again.
if is_wrong_type(tally, 'hash') then redis.call('DEL', tally) end
for _, field in ipairs({'messages', 'until'}) do
  if not tonumber(redis.call('HGET', tally, field) or '0') then redis.call('HDEL', tally, field) end
end
local total = redis.call('HINCRBY', tally, 'messages', count)
if tonumber(redis.call('HGET', tally, 'until') or '0') < tonumber(until_ms) then redis.call('HSET', tally, 'until', until_ms) end
redis.call('PEXPIRE', tally, keep_ms)
return {'OK', total}

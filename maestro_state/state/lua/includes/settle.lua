-- settle: write everything this call changed of the record at once, remember its answer, and renew the session when that
-- is due. Answers {'OK', ..., summary}: the summary when it renewed, else false.
local SEQUENCE_LIFE_MS = 60000
local function settle(admitted, answer, written, changes)
  local now = string.format('%.0f', admitted.now)
  local renewing = is_renewal_due(admitted, written)
  local kept = #answer == 2 and answer[2] or cjson.encode(answer)
  changes = changes or {}
  redis.call('HSET', session, 'last_id', admitted.last_id, 'last_activity', now,
             'touched_at', renewing and now or admitted.touched_at,
             admitted.sequence_field, admitted.number .. ' ' .. now_ms .. ' ' .. kept, unpack(changes))
  -- Sequences that said nothing for a minute, far longer than a client goes on trying, are dropped now and then.
  if admitted.is_new_sequence and redis.call('HLEN', session) % 16 == 0 then
    local fields = redis.call('HGETALL', session)
    for at = 1, #fields, 2 do
      local said_at = string.sub(fields[at], 1, 5) == 'lane:' and string.match(fields[at + 1], '^%d+ (%d+)')
      if said_at and tonumber(said_at) < admitted.now - SEQUENCE_LIFE_MS then redis.call('HDEL', session, fields[at]) end
    end
  end
  answer[#answer + 1] = renewing and renew_ttl(admitted)
  return answer
end

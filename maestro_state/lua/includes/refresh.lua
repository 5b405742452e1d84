-- refresh: record an owner's activity and give every key of the session its full time again: once a second, or at once
-- when this call may have made a key (`written`). Answers with the summary when it did: then the index is due.
local function refresh(admitted, written)
  local now = string.format('%.0f', admitted.now)
  local renewing = admitted.now >= admitted.touched_at + 1000
  for _, key in ipairs(renewing and {} or written) do
    renewing = renewing or redis.call('PTTL', key) < 0
  end
  redis.call('HSET', session, 'last_id', admitted.last_id, 'last_activity', now,
             'touched_at', renewing and now or admitted.touched_at)
  if not renewing then return false end
  local life = string.format('%.0f', admitted.ttl_ms + tonumber(grace_ms))
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
  return summary()
end

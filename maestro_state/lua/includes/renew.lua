-- renew: record the activity and give every key of the session its full time again. Written at most once a second
-- (TTLs are counted in seconds), or at once when this call made a key. Answers with the summary when it renewed:
-- that is also when the index is due.
local function renew(admitted, grace, written)
  local renewing = admitted.now >= admitted.touched_at + 1000
  for _, key in ipairs(renewing and {} or written) do
    renewing = renewing or redis.call('PTTL', key) < 0
  end
  if not renewing then
    redis.call('HSET', session, 'last_id', admitted.last_id, 'last_activity', admitted.now)
    return false
  end
  redis.call('HSET', session, 'last_id', admitted.last_id, 'last_activity', admitted.now, 'touched_at', admitted.now)
  local life = string.format('%.0f', admitted.ttl_ms + grace)
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
  return summary()
end

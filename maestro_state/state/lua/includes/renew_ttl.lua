-- renew_ttl: give every key of the session its full time again, and answer with the summary: then the index is due. TTLs are
-- counted in seconds, so that is done once a second, or at once when this call may have made a key (`written`) that has
-- none yet. The first change that the archive lacks is never put off: until it is indexed nobody knows that there is
-- something to write. What follows it may wait, since the index says already that the disk is behind.
local function is_renewal_due(admitted, written)
  if admitted.is_first_unwritten then return true end
  if admitted.now >= admitted.touched_at + 1000 then return true end
  for _, key in ipairs(written) do
    if redis.call('PTTL', key) < 0 then return true end
  end
  return false
end
local function renew_ttl(admitted)
  local life = string.format('%.0f', admitted.ttl_ms + tonumber(grace_ms))
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
  return summary()
end

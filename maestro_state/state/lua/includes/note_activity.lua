-- note_activity: record an owner's activity and renew the session when that is due. Answers with the summary when it was.
local function note_activity(admitted, written)
  local now = string.format('%.0f', admitted.now)
  local renewing = is_renewal_due(admitted, written)
  redis.call('HSET', session, 'last_id', admitted.last_id, 'last_activity', now,
             'touched_at', renewing and now or admitted.touched_at)
  return renewing and renew_ttl(admitted)
end

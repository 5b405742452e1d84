-- admit: the session as this call needs it, or the refusal to answer with. Nothing may be written before this check:
-- a write to an expired session would bring a headless fragment of it back, without TTL.
local function admit(now)
  local found = redis.call('HMGET', session, 'state', 'last_id', 'last_activity', 'ttl_ms', 'touched_at',
                           'user_id')
  local state = found[1]
  if not state then return nil, {'NOT_FOUND'} end
  if not STEPS[state] then return nil, {'BAD_STATE', state} end
  local last_activity, ttl_ms = tonumber(found[3]), tonumber(found[4])
  if now >= last_activity + ttl_ms then return nil, {'EXPIRED'} end
  return {state = state, last_id = found[2], ttl_ms = ttl_ms, touched_at = tonumber(found[5]),
          owner = found[6],
          -- a terminal whose clock is behind must not take the session back in time
          now = math.max(now, last_activity)}
end

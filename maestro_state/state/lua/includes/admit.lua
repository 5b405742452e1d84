-- admit: the session as this call needs it, or the answer to give instead: the first one again if this is a repeat, a
-- refusal if the session is not there, not in a state for it, or expired. Nothing may be written before this: a write
-- to a session that is gone would bring a headless fragment of it back, without TTL.
local function admit(id)
  local sequence_field, number = sequence(id)
  local found = redis.call('HMGET', session, 'state', 'last_id', 'last_activity', 'ttl_ms', 'touched_at', 'user_id',
                           sequence_field, 'archived_id', 'schema')
  if not found[1] then return nil, {'NOT_FOUND'} end
  if is_newer(found[9]) then return nil, {'NEWER', found[9]} end
  local answer = repeated(found[7], number)
  if answer then return nil, answer end
  if not string.find(ALLOWED, ' ' .. found[1] .. ' ', 1, true) then return nil, {'BAD_STATE', found[1]} end
  local now, last_activity, ttl_ms = tonumber(now_ms), tonumber(found[3]), tonumber(found[4])
  if now >= last_activity + ttl_ms then return nil, {'EXPIRED'} end
  return {state = found[1], last_id = found[2], is_on_disk = found[2] == found[8], ttl_ms = ttl_ms,
          touched_at = tonumber(found[5]), owner = found[6], sequence_field = sequence_field, is_new_sequence = not found[7], number = number,
          -- a terminal whose clock is behind must not take the session back in time
          now = math.max(now, last_activity)}
end

-- remaining: how long the session has left, and how long it lives in all, in milliseconds. Two clocks are asked and the later one is believed: the
-- record's, written by terminals whose clocks may be wrong, and the keys' own life, counted by the server alone.
local function remaining(now, grace)
  local found = redis.call('HMGET', session, 'last_activity', 'ttl_ms', 'last_id', 'archived_id')
  local last_activity, ttl_ms = tonumber(found[1]), tonumber(found[2])
  local by_server = redis.call('PTTL', session)
  if by_server > ttl_ms or found[3] ~= found[4] then by_server = by_server - grace end
  -- a record from the future says nothing: the terminal that wrote it was ahead
  local by_record = last_activity > now + 60000 and by_server or last_activity + ttl_ms - now
  return math.min(ttl_ms, math.max(by_record, by_server)), ttl_ms
end

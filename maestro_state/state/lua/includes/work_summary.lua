-- summary: what the index shows of this work session, in the order state/calls/work.py reads. It has the name that
-- repeated and settle call, so that they serve sessions and work sessions alike.
local function summary()
  return redis.call('HMGET', session, 'last_id', 'state', 'created_at', 'last_activity', 'ttl_ms', 'user_id',
                    'archived_id', 'session_type', 'path', 'related_entity', 'metadata', 'accepted', 'applied')
end

-- summary: what the index shows of this session, in the order state/calls/index.py reads.
local function summary()
  return redis.call('HMGET', session, 'last_id', 'state', 'created_at', 'last_activity', 'ttl_ms', 'user_id',
                    'tool_active', 'frozen_at', 'archived_id', 'bound')
end

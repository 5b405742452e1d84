-- begin: make the hash of a session or work session in its first state, unless its id is taken.
local function begin()
  local sequence_field, number = sequence(idempotency_key)
  local answer = repeated(redis.call('HGET', session, sequence_field), number)
  if answer then return answer end
  if redis.call('EXISTS', session) == 1 then return {'EXISTS'} end
  local last_id = now_ms .. '-0'
  redis.call('HSET', session, 'state', state, 'last_id', last_id, 'created_at', now_ms, 'last_activity', now_ms,
             'touched_at', now_ms, 'ttl_ms', ttl_ms, 'schema', SCHEMA, sequence_field, number .. ' ' .. now_ms .. ' ' .. last_id,
             unpack(fields))
  redis.call('PEXPIRE', session, string.format('%.0f', tonumber(ttl_ms) + tonumber(grace_ms)))
  return {'OK', last_id, summary()}
end

--[[
index_session: write a session's summary into the index, unless the index has a newer one.
KEYS     index: summaries recent deadlines dirty running states moves
ARGV     session_id last_id summary last_activity expires_at is_dirty life_ms is_running
RETURNS  OK | OLDER
INCLUDES count_state note_move
]]
-- The index lives as long as the longest session in it: never shorten.
local function keep(key)
  if redis.call('PTTL', key) < tonumber(life_ms) then redis.call('PEXPIRE', key, life_ms) end
end
local known = redis.call('HGET', summaries, session_id)
if known then
  local ms, seq = string.match(known, '^%["(%d+)-(%d+)"')
  local new_ms, new_seq = string.match(last_id, '^(%d+)-(%d+)$')
  ms, seq, new_ms, new_seq = tonumber(ms), tonumber(seq), tonumber(new_ms), tonumber(new_seq)
  -- A row that does not say how far it goes is no row.
  if ms and new_ms and (ms > new_ms or (ms == new_ms and seq > new_seq)) then
    -- What waits for a disk is believed all the same: reading once too often costs a read, once too seldom the change.
    if is_dirty ~= '0' then
      redis.call('ZADD', dirty, 'NX', last_activity, session_id)
      keep(dirty)
    end
    return {'OLDER'}
  end
end
note_move(last_activity)
redis.call('HSET', summaries, session_id, summary)
count_state(known, summary)
redis.call('ZADD', recent, last_activity, session_id)
redis.call('ZADD', deadlines, expires_at, session_id)
if is_running == '1' then
  redis.call('ZADD', running, last_activity, session_id)
else
  redis.call('ZREM', running, session_id)
end
-- Since when it waits for a disk, not when it last changed: else a busy session would never be late.
if is_dirty == '0' then
  redis.call('ZREM', dirty, session_id)
elseif is_dirty == 'anew' then
  redis.call('ZADD', dirty, last_activity, session_id)
else
  redis.call('ZADD', dirty, 'NX', last_activity, session_id)
end
for _, key in ipairs(KEYS) do keep(key) end
return {'OK'}

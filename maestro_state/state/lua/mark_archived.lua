--[[
mark_archived: note that the archive is whole up to an event; if that is still the last one, the keys live no longer than the session from then on.
KEYS     session: session
ARGV     now_ms grace_ms archived_id
RETURNS  OK last_id summary | NOT_FOUND | MOVED last_id
INCLUDES summary remaining
]]
local last_id, known, frozen_at = unpack(redis.call('HMGET', session, 'last_id', 'archived_id', 'frozen_at'))
if not last_id then return {'NOT_FOUND'} end
if last_id ~= archived_id then
  local function precedes(one, other)
    local ms, seq = string.match(one, '(%d+)-(%d+)')
    local other_ms, other_seq = string.match(other, '(%d+)-(%d+)')
    if ms ~= other_ms then return tonumber(ms) < tonumber(other_ms) end
    return tonumber(seq) < tonumber(other_seq)
  end
  -- Noted all the same: the next one who writes it knows by this that the archive is of this history.
  if precedes(archived_id, last_id) and (not known or precedes(known, archived_id)) then
    redis.call('HSET', session, 'archived_id', archived_id)
  end
  return {'MOVED', last_id}
end
-- A frozen one whose time is over stays a little: who is in the middle of reading it reads on.
local LINGER_MS = 60000
local left = remaining(tonumber(now_ms), tonumber(grace_ms))
local life = math.max(frozen_at and LINGER_MS or 1, left)
-- One whose time is over while it is not frozen has an open run: what that prints must find its session.
local is_over = left <= 0 and not frozen_at
local is_repeat = known == archived_id and redis.call('PTTL', session) <= life
-- touched_at 0: the next change renews the keys for the full time with its grace, and goes into the index
redis.call('HSET', session, 'archived_id', archived_id, 'touched_at', 0)
redis.call('HDEL', session, 'archive_waits')
local answer = {'OK', last_id, summary()}
if not is_repeat and not is_over then
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, string.format('%.0f', life)) end
end
return answer

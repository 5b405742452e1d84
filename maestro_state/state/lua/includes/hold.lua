-- hold: the session as the owner of one of its runs needs it, or the answer to give instead. An owner's calls are made
-- once by what they carry (offset, owner, fence), so they need no sequence; and they are not refused when the session's
-- time has passed: a machine that slept in the middle of a run loses nothing.
local function hold()
  local found = redis.call('HMGET', session, 'state', 'last_id', 'last_activity', 'ttl_ms', 'touched_at',
                           'archived_id', 'schema')
  if not found[1] then return nil, {'NOT_FOUND'} end
  if is_newer(found[7]) then return nil, {'NEWER', found[7]} end
  if not string.find(ALLOWED, ' ' .. found[1] .. ' ', 1, true) then return nil, {'BAD_STATE', found[1]} end
  -- owner = user: a worker acts for whoever started the run.
  return {state = found[1], last_id = found[2], is_on_disk = found[2] == found[6], ttl_ms = tonumber(found[4]),
          touched_at = tonumber(found[5]), owner = user, now = math.max(tonumber(now_ms), tonumber(found[3]))}
end

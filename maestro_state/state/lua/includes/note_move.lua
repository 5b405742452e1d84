-- note_move: remember where in `recent` a session was before it moves, comes or goes, so that a list that is read page by
-- page can tell. The last ones only: a page that is asked for later than that is refused.
local MOVES_MAX = 5000
local function note_move(to)
  local from = redis.call('ZSCORE', recent, session_id)
  if from == to or (from and to and tonumber(from) == tonumber(to)) then return end
  redis.call('XADD', moves, 'MAXLEN', '~', MOVES_MAX, '*', session_id, from or '')
  if redis.call('PTTL', moves) < 0 then redis.call('PEXPIRE', moves, math.max(redis.call('PTTL', recent), 60000)) end
end

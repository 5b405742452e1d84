-- spread: keep the sequence of the next id below 1000. A transcript's times have microseconds and stand for these ids:
-- the last line of a file is the cursor to go on from. Only a clock that stands still for 1000 events ever gets here.
local function spread(admitted)
  local ms, seq = string.match(admitted.last_id, '^(%d+)-(%d+)$')
  if tonumber(seq) >= 999 then admitted.now = math.max(admitted.now, tonumber(ms) + 1) end
end

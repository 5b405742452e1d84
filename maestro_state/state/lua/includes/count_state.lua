-- count_state: keep how many sessions are in each state, when one that was in the row `old` is in the row `new`; nil for
-- one that came or went. A row of the index that says no state counts nowhere. To be called when `summaries` is written:
-- what was never counted, or is no number any more, or had no memory, is counted anew from there.
local function add_to_state(row, by)
  local state = row and string.match(row, '^%["[^"]*","[^"]*","([^"]*)"')
  local done = state and redis.pcall('HINCRBY', states, state, by)
  return type(done) ~= 'table' or not done.err
end
local function recount_states()
  redis.call('DEL', states)
  for _, row in ipairs(redis.call('HVALS', summaries)) do
    if not add_to_state(row, 1) then return redis.call('DEL', states) end
  end
  local life = redis.call('PTTL', summaries)
  if life > 0 then redis.call('PEXPIRE', states, life) end
end
local function count_state(old, new)
  local is_counted = redis.call('EXISTS', states) == 1
  if not (is_counted and add_to_state(old, -1) and add_to_state(new, 1)) then recount_states() end
end

-- recall: the answer given to this command id before, or nil. The log is a string of "id answer" lines: one GET finds
-- a repeat, one APPEND remembers, and neither grows with the session.
local function recall(id)
  local log = redis.call('GET', commands)
  if not log then return nil end
  local _, stop = string.find(log, '\n' .. id .. ' ', 1, true)
  if not stop then return nil end
  local answer = cjson.decode(string.sub(log, stop + 1, string.find(log, '\n', stop, true) - 1))
  answer[#answer + 1] = summary()
  return answer
end

--[[
newest_sessions: the summaries of the sessions last active, newest first.
KEYS     index: summaries recent
ARGV     count
RETURNS  OK summaries
INCLUDES -
]]
local ids = redis.call('ZREVRANGE', recent, 0, tonumber(count) - 1)
local found = {}
-- Lua's stack holds some thousands of values: all ids at once would not fit.
for first = 1, #ids, 1000 do
  local page = redis.call('HMGET', summaries, unpack(ids, first, math.min(first + 999, #ids)))
  for place, summary in ipairs(page) do found[first + place - 1] = summary end
end
return {'OK', found}

--[[
mend_index: drop keys of the index that are of another type than they should be; sessions are found again by a sweep.
KEYS     index: summaries recent deadlines dirty running states moves
ARGV     types...
RETURNS  OK dropped
INCLUDES wrong_type
]]
local dropped = 0
for place, key in ipairs({summaries, recent, deadlines, dirty, running, states, moves}) do
  if is_wrong_type(key, types[place]) then
    redis.call('DEL', key)
    dropped = dropped + 1
  end
end
-- What is counted is what the summaries say.
if dropped > 0 then redis.call('DEL', states) end
return {'OK', dropped}

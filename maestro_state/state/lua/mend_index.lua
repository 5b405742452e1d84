--[[
mend_index: drop keys of the index that are of another type than they should be; sessions are found again by a sweep.
KEYS     index: summaries recent deadlines dirty running
ARGV     types...
RETURNS  OK dropped
INCLUDES wrong_type
]]
local dropped = 0
for place, key in ipairs({summaries, recent, deadlines, dirty, running}) do
  if is_wrong_type(key, types[place]) then
    redis.call('DEL', key)
    dropped = dropped + 1
  end
end
return {'OK', dropped}

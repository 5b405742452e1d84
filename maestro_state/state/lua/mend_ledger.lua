--[[
mend_ledger: drop keys of the ledger that are of another type than they should be: nobody of ours wrote them.
KEYS     ledger: counters budgets open attempts counted totals day
ARGV     types...
RETURNS  OK dropped
INCLUDES wrong_type
]]
local dropped = 0
for place, key in ipairs({counters, budgets, open, attempts, counted, totals, day}) do
  if is_wrong_type(key, types[place]) then
    redis.call('DEL', key)
    dropped = dropped + 1
  end
end
return {'OK', dropped}

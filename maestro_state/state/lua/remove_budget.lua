--[[
remove_budget: take limits away; answers with those that were there.
KEYS     ledger: budgets
ARGV     ids...
RETURNS  OK removed
INCLUDES -
]]
local removed = {}
for _, id in ipairs(ids) do
  if redis.call('HDEL', budgets, id) == 1 then removed[#removed + 1] = id end
end
return {'OK', removed}

--[[
set_budget: set a limit, in the place of the one there was; answers with that.
KEYS     ledger: budgets
ARGV     id row keep_ms most
RETURNS  OK before | FULL
INCLUDES -
]]
local before = redis.call('HGET', budgets, id)
if not before and redis.call('HLEN', budgets) >= tonumber(most) then return {'FULL'} end
redis.call('HSET', budgets, id, row)
redis.call('PEXPIRE', budgets, keep_ms)
return {'OK', before}

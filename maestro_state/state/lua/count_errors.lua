--[[
count_errors: count what went wrong.
KEYS     ledger: counters
ARGV     field count keep_ms
RETURNS  OK
INCLUDES -
]]
redis.call('HINCRBY', counters, field, count)
redis.call('PEXPIRE', counters, keep_ms)
return {'OK'}

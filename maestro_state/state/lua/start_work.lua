--[[
start_work: make a work session -> running (or as it was, when it is read back from disk), unless its id is taken.
KEYS     work: session
ARGV     idempotency_key now_ms grace_ms state ttl_ms fields...
RETURNS  OK last_id summary | EXISTS | LATE
INCLUDES work_summary sequence repeated begin
]]
return begin()

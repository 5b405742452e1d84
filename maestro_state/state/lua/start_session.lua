--[[
start_session: make a session -> iniciada, unless its id is taken.
KEYS     session: session
ARGV     idempotency_key now_ms grace_ms state ttl_ms fields...
RETURNS  OK last_id summary | EXISTS | LATE
INCLUDES summary sequence repeated begin
]]
-- No event is written: a session that nothing happened to yet is one small hash. Readers make session.started of it.
return begin()

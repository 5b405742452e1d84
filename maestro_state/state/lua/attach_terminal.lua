--[[
attach_terminal: put a terminal on the list of those looking, until it says nothing more for a while. The first time is activity.
KEYS     session: session attached
ARGV     idempotency_key now_ms grace_ms terminal shown_ms
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
redis.call('ZREMRANGEBYSCORE', attached, '-inf', now_ms)
redis.call('ZADD', attached, tonumber(now_ms) + tonumber(shown_ms), terminal)
return settle(admitted, {'OK', admitted.last_id}, {attached})

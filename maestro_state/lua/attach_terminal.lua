--[[
attach_terminal: put a terminal on the list of those looking, until its lease ends; a beat only prolongs the lease.
KEYS     session: session attached
ARGV     now_ms grace_ms terminal lease_ms is_beat
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED
INCLUDES summary admit renew
]]
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
redis.call('ZREMRANGEBYSCORE', attached, '-inf', now_ms)
redis.call('ZADD', attached, tonumber(now_ms) + tonumber(lease_ms), terminal)
if is_beat == '1' and redis.call('PTTL', attached) >= 0 then return {'OK', admitted.last_id, false} end
return {'OK', admitted.last_id, renew(admitted, tonumber(grace_ms), {attached})}

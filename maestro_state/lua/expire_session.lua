--[[
expire_session: freeze a session whose time is over, or over within the horizon -> finalizada; one with an open run is left.
KEYS     session: session events
ARGV     now_ms grace_ms user target horizon_ms
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | ALIVE left_ms
INCLUDES summary remaining emit
]]
local state, last_id, last_activity, owner = unpack(
  redis.call('HMGET', session, 'state', 'last_id', 'last_activity', 'user_id'))
if not state then return {'NOT_FOUND'} end
if not string.find(ALLOWED, ' ' .. state .. ' ', 1, true) then return {'BAD_STATE', state} end
local left, ttl_ms = remaining(tonumber(now_ms), tonumber(grace_ms))
-- a short session is not cut shorter by more than a tenth
if left > math.min(tonumber(horizon_ms), ttl_ms / 10) then return {'ALIVE', string.format('%.0f', left)} end
local admitted = {last_id = last_id, owner = owner, now = math.max(tonumber(now_ms), tonumber(last_activity))}
emit(admitted, events, {'type', 'session.finalized', 'reason', 'expired'})
redis.call('HSET', session, 'state', target, 'frozen_at', admitted.now, 'last_id', admitted.last_id, 'touched_at', 0)
-- Not activity: the session gets no time back. But what was written just now must outlive its way to the disk.
local life = string.format('%.0f', math.max(redis.call('PTTL', session), tonumber(grace_ms), 60000))
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
return {'OK', admitted.last_id, summary()}

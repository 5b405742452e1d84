--[[
expire_session: freeze a session whose time is over, or over within the horizon -> finalizada. Runs that still wait for a
worker end first; one that is being carried out keeps its session until it has ended, or its owner is found to be gone.
KEYS     session: session events runs
ARGV     now_ms grace_ms user target horizon_ms ending by_record
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | ALIVE left_ms | NEWER number
INCLUDES newer summary remaining emit end_run
]]
local state, last_id, last_activity, owner, open_runs, number, filling = unpack(
  redis.call('HMGET', session, 'state', 'last_id', 'last_activity', 'user_id', 'open_runs', 'schema', 'filling'))
if not state then return {'NOT_FOUND'} end
if is_newer(number) then return {'NEWER', number} end
if not string.find(ALLOWED, ' ' .. state .. ' ', 1, true) then return {'BAD_STATE', state} end
-- A fork that lacks a part of its origin must not be taken for the whole: it is filled to its end, or goes with its keys.
if filling then return {'ALIVE', '0'} end
local now = tonumber(now_ms)
local left, ttl_ms = remaining(now, tonumber(grace_ms))
-- whose record is behind all clocks was made by a terminal whose clock is: whoever goes on in a fork must end it first
if by_record == '1' then left = tonumber(last_activity) + ttl_ms - now end
-- a short session is not cut shorter by more than a tenth
if left > math.min(tonumber(horizon_ms), ttl_ms / 10) then return {'ALIVE', string.format('%.0f', left)} end
local waiting = {}
for run in string.gmatch(open_runs or '', '%S+') do
  if redis.call('HGET', runs, run .. ':status') ~= 'pending' then return {'BAD_STATE', state} end
  waiting[#waiting + 1] = run
end
-- Waited for a worker up to the end: only the end itself ends them, not its coming near.
if #waiting > 0 and left > 0 then return {'ALIVE', string.format('%.0f', left)} end
local admitted = {last_id = last_id, owner = owner, now = math.max(now, tonumber(last_activity))}
for _, run in ipairs(waiting) do
  emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', 'error', 'end', ending})
  redis.call('HINCRBY', session, 'runs_error', 1)
  end_run(run, 'error', ending)
end
emit(admitted, events, {'type', 'session.finalized', 'reason', 'expired'})
-- When its time was over, not when that was noticed; by its record, unless the server's clock says otherwise.
local over, by_record = now + math.min(left, 0), tonumber(last_activity) + ttl_ms
if math.abs(over - by_record) < 2000 then over = math.min(now, by_record) end
redis.call('HSET', session, 'state', target, 'frozen_at', string.format('%.0f', over), 'last_id', admitted.last_id,
           'touched_at', 0)
-- Not activity: the session gets no time back. But what was written just now must outlive its way to the disk.
local life = string.format('%.0f', math.max(redis.call('PTTL', session), tonumber(grace_ms), 60000))
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, life) end
return {'OK', admitted.last_id, summary()}

--[[
start_run: number a run and freeze what it is sent -> executando; a dry one is only recorded. CHANGED: the context is
no longer the one the caller saw (every change of it adds a field to items).
KEYS     session: session events commands items blobs runs
ARGV     command_id now_ms grace_ms user target status items_seen tool run_rest sent digest prompt retries
RETURNS  OK run summary | NOT_FOUND | BAD_STATE state | EXPIRED | CHANGED
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
if redis.call('HLEN', items) ~= tonumber(items_seen) then return {'CHANGED'} end
local run = string.format('%04d', redis.call('HINCRBY', session, 'run_seq', 1))
redis.call('HSETNX', blobs, digest, prompt)
-- The number is known only here: it is put in front of the fields that the caller wrote.
redis.call('HSET', runs, run, '{"id":"' .. run .. '",' .. run_rest, run .. ':sent', sent, run .. ':status', status)
if target == '' then
  emit(admitted, events, {'type', 'run.previewed', 'run', run, 'tool', tool})
else
  emit(admitted, events, {'type', 'run.started', 'run', run, 'tool', tool})
  if tonumber(retries) > 0 then redis.call('HSET', runs, run .. ':retries', retries) end
  local open = redis.call('HGET', session, 'open_runs')
  redis.call('HSET', session, 'state', target, 'open_runs', open and (open .. ' ' .. run) or run)
end
remember(command_id, {'OK', run})
admitted.touched_at = 0  -- a change of state is always indexed
return {'OK', run, renew(admitted, tonumber(grace_ms), {})}

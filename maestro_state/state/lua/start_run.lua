--[[
start_run: number a run and freeze what it is sent -> executando; a dry one is only recorded. CHANGED: the context is
no longer the one the caller saw (every change of it adds a field to items). FULL: as many are open as may be at once.
KEYS     session: session events messages items blobs runs
ARGV     idempotency_key now_ms grace_ms user target status items_seen tool run_rest sent digest prompt retries edits_told runs_most said said_is_cut said_of parts...
RETURNS  OK run summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | CHANGED | FULL open | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
if redis.call('HLEN', items) ~= tonumber(items_seen) then return {'CHANGED'} end
local found = redis.call('HMGET', session, 'run_seq', 'open_runs')
if target ~= '' and tonumber(runs_most) > 0 then
  local _, open = string.gsub(found[2] or '', '%S+', '')
  if open >= tonumber(runs_most) then return {'FULL', found[2]} end
end
local seq = string.format('%.0f', tonumber(found[1] or '0') + 1)
local run = string.format('%04d', seq)
redis.call('HSETNX', blobs, digest, prompt)
for at = 1, #parts, 2 do redis.call('HSETNX', blobs, parts[at], parts[at + 1]) end
-- The number is known only here: it is put in front of the fields that the caller wrote.
redis.call('HSET', runs, run, '{"id":"' .. run .. '",' .. run_rest, run .. ':sent', sent, run .. ':status', status)
local changes = {'run_seq', seq}
if edits_told ~= '' and target ~= '' then changes[3], changes[4] = 'edits_told', edits_told end
if target == '' then
  emit(admitted, events, {'type', 'run.previewed', 'run', run, 'tool', tool})
else
  emit(admitted, events, {'type', 'run.started', 'run', run, 'tool', tool})
  local message = {'user', said, 'metadata', '{"run":"' .. run .. '",' .. said_of}
  if said_is_cut ~= '' then message[5], message[6] = 'content_ref', 'runs/' .. run .. '/prompt.txt' end
  redis.call('HSET', runs, run .. ':asked', emit(admitted, messages, message))
  if tonumber(retries) > 0 then redis.call('HSET', runs, run .. ':retries', retries) end
  for _, change in ipairs({'state', target, 'open_runs', found[2] and (found[2] .. ' ' .. run) or run}) do
    changes[#changes + 1] = change
  end
end
admitted.touched_at = 0  -- a change of state is always indexed
return settle(admitted, {'OK', run}, {}, changes)

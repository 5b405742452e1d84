--[[
claim_run: give a pending run to one owner, who alone may write it until the lease ends; pending -> running.
KEYS     session: session events runs
ARGV     now_ms grace_ms user run owner lease_ms
RETURNS  OK claim summary | NOT_FOUND | BAD_STATE state | NO_RUN | NOT_PENDING status | NEWER number
INCLUDES summary newer hold emit renew_ttl note_activity
]]
local admitted, answer = hold()
if answer then return answer end
local found = redis.call('HMGET', runs, run, run .. ':sent', run .. ':status', run .. ':owner', run .. ':fence')
if not found[1] then return {'NO_RUN'} end
local fence = tonumber(found[5] or '0')
local is_repeat = found[3] == 'running' and found[4] == owner
if not is_repeat then
  if found[3] ~= 'pending' then return {'NOT_PENDING', found[3]} end
  fence = fence + 1
  emit(admitted, events, {'type', 'run.claimed', 'run', run, 'owner', owner})
  redis.call('HSET', runs, run .. ':status', 'running', run .. ':owner', owner, run .. ':fence', fence,
             run .. ':started_at', now_ms, run .. ':lease', tonumber(now_ms) + tonumber(lease_ms))
end
local place = redis.call('HGET', session, 'working_directory') or ''
return {'OK', {string.format('%.0f', fence), found[1], found[2], place}, note_activity(admitted, {})}

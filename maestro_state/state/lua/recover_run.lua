--[[
recover_run: end a running run whose owner is gone, or make it pending again if it may be retried. A lease that has
ended is only a suspicion: the server may have been away itself. It must still be the same one `suspicion_ms` later.
KEYS     session: session events runs outputs
ARGV     now_ms user with_output with_context started run suspicion_ms ending
RETURNS  OK verdict summary | NOT_FOUND | BAD_STATE state | NO_RUN | NEWER number
INCLUDES summary newer hold emit end_run rest with_known
]]
local admitted, answer = hold()
if answer then return answer end
local now = tonumber(now_ms)
local found = redis.call('HMGET', runs, run .. ':status', run .. ':lease', run .. ':suspect', run .. ':retries',
                         run .. ':cancel', run .. ':first', run .. ':last')
local status, lease, suspect, first = found[1], found[2] or '0', found[3], found[6]
if not status then return {'NO_RUN'} end
if status ~= 'running' then return {'OK', status, false} end
if now < (tonumber(lease or '') or 0) then return {'OK', 'alive', false} end
local seen, since = string.match(suspect or '', '^(%d+) (%d+)$')
if seen ~= lease then
  redis.call('HSET', runs, run .. ':suspect', lease .. ' ' .. now_ms)
  return {'OK', 'suspect', false}
end
if now < tonumber(since) + tonumber(suspicion_ms) then return {'OK', 'suspect', false} end
local verdict = found[5] and 'canceled' or 'error'
local retries = tonumber(found[4] or '0')
if verdict == 'error' and retries > 0 then
  verdict = 'pending'
  -- What the lost attempt printed goes: an output is of one attempt only.
  while first do
    local page = redis.call('XRANGE', outputs, first, found[7], 'COUNT', 12)
    for _, entry in ipairs(page) do
      if entry[2][2] == run then redis.call('XDEL', outputs, entry[1]) end
    end
    first = #page == 12 and '(' .. page[12][1] or nil
  end
  redis.call('HDEL', runs, run .. ':lease', run .. ':suspect', run .. ':owner', run .. ':started_at', run .. ':size',
             run .. ':first', run .. ':last', run .. ':usage')
  redis.call('HSET', runs, run .. ':status', verdict, run .. ':retries', retries - 1)
  redis.call('HINCRBY', runs, run .. ':fence', 1)
  emit(admitted, events, {'type', 'run.requeued', 'run', run})
else
  ending = with_known(run, ending)
  emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', verdict, 'end', ending})
  if verdict == 'error' then redis.call('HINCRBY', session, 'runs_error', 1) end
  if end_run(run, verdict, ending) then
    redis.call('HSET', session, 'state', rest(with_output, with_context, started))
  end
end
-- Not activity: the session's clocks stay.
redis.call('HSET', session, 'last_id', admitted.last_id)
return {'OK', verdict, summary()}

--[[
finish_run: end a run by its owner; with the last open one executando -> com_saida | com_contexto | iniciada.
KEYS     session: session events messages runs
ARGV     idempotency_key now_ms grace_ms user with_output with_context started run fence status counter ending last_output tool said said_is_cut said_of
RETURNS  OK status summary | NOT_FOUND | BAD_STATE state | LOST_CLAIM status | NEWER number
INCLUDES summary newer hold emit renew_ttl note_activity end_run rest
]]
local found = redis.call('HMGET', runs, run .. ':status', run .. ':fence', run .. ':ended_by', run .. ':asked')
if found[3] == idempotency_key then return {'OK', status, summary()} end
local admitted, answer = hold()
if answer then return answer end
if found[1] ~= 'running' or found[2] ~= fence then return {'LOST_CLAIM', found[1]} end
if said ~= '' then
  local message = {'assistant', said, 'metadata', '{"run":"' .. run .. '",' .. said_of}
  if found[4] then message[5], message[6] = 'parent_id', found[4] end
  if said_is_cut ~= '' then
    message[#message + 1] = 'content_ref'
    message[#message + 1] = 'runs/' .. run .. '/output.txt'
  end
  emit(admitted, messages, message)
end
emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', status, 'tool', tool, 'end', ending})
if counter ~= '' then redis.call('HINCRBY', session, counter, 1) end
if last_output ~= '' then redis.call('HSET', session, 'last_output', last_output) end
local is_last = end_run(run, status, ending)
redis.call('HSET', runs, run .. ':ended_by', idempotency_key)
if is_last then redis.call('HSET', session, 'state', rest(with_output, with_context, started)) end
admitted.touched_at = 0  -- a change of state is always indexed
return {'OK', status, note_activity(admitted, {})}

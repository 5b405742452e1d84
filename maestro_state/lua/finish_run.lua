--[[
finish_run: end a run by its owner; with the last open one executando -> com_saida | com_contexto | iniciada.
KEYS     session: session events commands items runs
ARGV     command_id now_ms grace_ms user with_output with_context started run fence status counter ending last_output tool
RETURNS  OK status summary | NOT_FOUND | BAD_STATE state | LOST_CLAIM status
INCLUDES summary recall remember admit emit renew end_run settle
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(0)  -- whoever holds the claim may write, however long the machine slept
if refusal then return refusal end
admitted.now = math.max(admitted.now, tonumber(now_ms))
local found = redis.call('HMGET', runs, run .. ':status', run .. ':fence')
if found[1] ~= 'running' or found[2] ~= fence then return {'LOST_CLAIM', found[1]} end
admitted.owner = user  -- a worker acts for whoever started the run
emit(admitted, events, {'type', 'run.finished', 'run', run, 'status', status, 'tool', tool, 'end', ending})
if counter ~= '' then redis.call('HINCRBY', session, counter, 1) end
if last_output ~= '' then redis.call('HSET', session, 'last_output', last_output) end
if end_run(run, status, ending) then settle(with_output, with_context, started) end
remember(command_id, {'OK', status})
admitted.touched_at = 0  -- a change of state is always indexed
return {'OK', status, renew(admitted, tonumber(grace_ms), {})}

--[[
add_discussion_event: append one event to an open discussion; the first thing said is its prompt, the first tool its engine.
KEYS     discussion: session transcript
ARGV     idempotency_key now_ms grace_ms user kind payload prompt engine model
RETURNS  OK id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit spread emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
spread(admitted)
local id = emit(admitted, transcript, {'type', kind, 'payload', payload})
if prompt ~= '' then redis.call('HSETNX', session, 'initial_prompt', prompt) end
local changes = {}
if engine ~= '' and redis.call('HGET', session, 'engine') == 'none' then
  changes = {'engine', engine, 'model', model}
end
return settle(admitted, {'OK', id}, {transcript}, changes)

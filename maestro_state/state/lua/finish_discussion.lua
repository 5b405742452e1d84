--[[
finish_discussion: append the one final_json of a discussion -> closed.
KEYS     discussion: session transcript
ARGV     idempotency_key now_ms grace_ms user target kind payload
RETURNS  OK id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit spread emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
spread(admitted)
local id = emit(admitted, transcript, {'type', kind, 'payload', payload})
return settle(admitted, {'OK', id}, {transcript}, {'state', target})

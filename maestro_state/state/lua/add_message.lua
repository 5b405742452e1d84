--[[
add_message: append one message to a live session.
KEYS     session: session messages
ARGV     idempotency_key now_ms grace_ms user message...
RETURNS  OK id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local id = emit(admitted, messages, message)
return settle(admitted, {'OK', id}, {messages})

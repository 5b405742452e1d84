--[[
add_message: append one message to a live session.
KEYS     session: session messages commands
ARGV     command_id now_ms grace_ms user message...
RETURNS  OK id summary | NOT_FOUND | BAD_STATE state | EXPIRED
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
local id = emit(admitted, messages, message)
remember(command_id, {'OK', id})
return {'OK', id, renew(admitted, tonumber(grace_ms), {messages, commands})}

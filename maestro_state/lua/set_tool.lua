--[[
set_tool: choose the tool that runs of this session use.
KEYS     session: session events commands
ARGV     command_id now_ms grace_ms user tool
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED
INCLUDES summary recall remember admit emit renew
]]
local said = recall(command_id)
if said then return said end
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
emit(admitted, events, {'type', 'tool.selected', 'tool', tool})
redis.call('HSET', session, 'tool_active', tool)
remember(command_id, {'OK', admitted.last_id})
admitted.touched_at = 0  -- the index shows the tool
return {'OK', admitted.last_id, renew(admitted, tonumber(grace_ms), {events, commands})}

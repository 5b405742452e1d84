--[[
set_tool: choose the tool that runs of this session use, and their defaults; none are an empty text.
KEYS     session: session events
ARGV     idempotency_key now_ms grace_ms user tool options
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
emit(admitted, events, {'type', 'tool.selected', 'tool', tool})
admitted.touched_at = 0  -- the index shows the tool
return settle(admitted, {'OK', admitted.last_id}, {events}, {'tool_active', tool, 'tool_options', options})

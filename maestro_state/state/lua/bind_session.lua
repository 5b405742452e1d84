--[[
bind_session: bind a framework's key to a session unless it is bound; with `instead_of`, also if it is bound to that one.
KEYS     binding: binding
ARGV     session_id begun life_ms instead_of only_moves
RETURNS  OK session_id begun | OK
INCLUDES -
]]
-- `begun` behind the id says that there was such a session: one that is nowhere then is elsewhere, or was deleted.
local known = redis.call('GET', binding)
local bound_to, was_begun = string.match(known or '', '^(%S+) ?(%S*)$')
if bound_to and bound_to ~= instead_of then return {'OK', bound_to, was_begun} end
-- A key that was deleted meanwhile must not come back with what somebody was about to do in its session, or a fork of it.
if only_moves ~= '' and not bound_to then return {'OK', '', ''} end
if bound_to == session_id and was_begun ~= '' then begun = was_begun end
redis.call('SET', binding, begun == '' and session_id or session_id .. ' ' .. begun, 'PX', life_ms)
return {'OK', session_id, begun}

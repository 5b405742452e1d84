--[[
bind_session: bind a framework's key to a session unless it is bound; with `instead_of`, also if it is bound to that one.
KEYS     binding: binding
ARGV     session_id life_ms instead_of
RETURNS  OK session_id
INCLUDES -
]]
local known = redis.call('GET', binding)
if known and known ~= instead_of then return {'OK', known} end
redis.call('SET', binding, session_id, 'PX', life_ms)
return {'OK', session_id}

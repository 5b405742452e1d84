--[[
unbind_session: let go of a framework's key, if it is bound to this session.
KEYS     binding: binding
ARGV     session_id
RETURNS  OK | OTHER
INCLUDES -
]]
local known = redis.call('GET', binding)
if known and string.match(known, '^%S*') ~= session_id then return {'OTHER'} end
redis.call('DEL', binding)
return {'OK'}

--[[
forget_session: take a session out of the index.
KEYS     index: summaries recent deadlines dirty
ARGV     session_id
RETURNS  OK
INCLUDES -
]]
redis.call('HDEL', summaries, session_id)
for _, key in ipairs({recent, deadlines, dirty}) do redis.call('ZREM', key, session_id) end
return {'OK'}

--[[
forget_session: take a session out of the index.
KEYS     index: summaries recent deadlines dirty running
ARGV     session_id
RETURNS  OK
INCLUDES -
]]
redis.call('HDEL', summaries, session_id)
for _, key in ipairs({recent, deadlines, dirty, running}) do redis.call('ZREM', key, session_id) end
return {'OK'}

--[[
forget_session: take a session out of the index.
KEYS     index: summaries recent deadlines dirty running states moves
ARGV     session_id
RETURNS  OK
INCLUDES count_state note_move
]]
local row = redis.call('HGET', summaries, session_id)
-- First: a server without memory lets a script only take away, until it has.
redis.call('HDEL', summaries, session_id)
note_move(false)
for _, key in ipairs({recent, deadlines, dirty, running}) do redis.call('ZREM', key, session_id) end
count_state(row)
return {'OK'}

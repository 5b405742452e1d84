--[[
release_session: take rows off the list of what is damaged.
KEYS     quarantine: quarantine
ARGV     session_ids...
RETURNS  OK
INCLUDES -
]]
redis.call('HDEL', quarantine, unpack(session_ids))
return {'OK'}

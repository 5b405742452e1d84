--[[
defer_archive: note why the archive of a session waits, while it does.
KEYS     session: session
ARGV     reason
RETURNS  OK | NOT_FOUND | DONE
INCLUDES -
]]
local last_id, archived_id = unpack(redis.call('HMGET', session, 'last_id', 'archived_id'))
if not last_id then return {'NOT_FOUND'} end
if last_id == archived_id then return {'DONE'} end
redis.call('HSET', session, 'archive_waits', reason)
return {'OK'}

--[[
delete_session: remove every key of a session, for good; if told, only when the disk has all of it.
KEYS     session: session
ARGV     only_archived
RETURNS  OK | NOT_FOUND | MOVED
INCLUDES -
]]
local last_id, archived_id = unpack(redis.call('HMGET', session, 'last_id', 'archived_id'))
if not last_id then return {'NOT_FOUND'} end
if only_archived == '1' and last_id ~= archived_id then return {'MOVED'} end
redis.call('UNLINK', unpack(KEYS))
return {'OK'}

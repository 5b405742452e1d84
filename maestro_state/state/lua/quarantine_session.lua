--[[
quarantine_session: note what is damaged; so many rows at most, since whoever writes damage can write a lot of it.
KEYS     quarantine: quarantine
ARGV     session_id row life_ms most
RETURNS  OK | FULL
INCLUDES wrong_type
]]
if is_wrong_type(quarantine, 'hash') then redis.call('DEL', quarantine) end
local is_known = redis.call('HEXISTS', quarantine, session_id) == 1
if not is_known and redis.call('HLEN', quarantine) >= tonumber(most) then return {'FULL'} end
redis.call('HSET', quarantine, session_id, row)
redis.call('PEXPIRE', quarantine, life_ms)
return {'OK'}

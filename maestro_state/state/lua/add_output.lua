--[[
add_output: append what a run printed. The offset makes a repeat recognisable: what is there is not written again; and
what would leave a gap, as behind a piece that was refused, is not written at all.
KEYS     session: session outputs runs
ARGV     now_ms grace_ms user run fence lease_ms offset data
RETURNS  OK is_canceled summary | NOT_FOUND | BAD_STATE state | LOST_CLAIM status | GAP size | NEWER number
INCLUDES summary newer hold emit renew_ttl note_activity
]]
local admitted, answer = hold()
if answer then return answer end
local found = redis.call('HMGET', runs, run .. ':status', run .. ':fence', run .. ':size', run .. ':cancel')
if found[1] ~= 'running' or found[2] ~= fence then return {'LOST_CLAIM', found[1]} end
local is_canceled = found[4] and 1 or 0
local stored = tonumber(found[3] or '0')
if tonumber(offset) < stored then return {'OK', is_canceled, false} end
if tonumber(offset) > stored then return {'GAP', found[3] or '0'} end
local id = emit(admitted, outputs, {'run', run, 'data', data})
local size = string.format('%.0f', stored + #data)
redis.call('HSET', runs, run .. ':size', size, run .. ':last', id,
           run .. ':lease', string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
if not found[3] then redis.call('HSET', runs, run .. ':first', id) end
return {'OK', is_canceled, note_activity(admitted, {outputs})}

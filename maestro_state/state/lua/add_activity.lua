--[[
add_activity: append what a run's agent did, one event each. Like output it comes with an offset, counted anew by each attempt: what is there is not written again.
KEYS     session: session events runs
ARGV     now_ms grace_ms user run fence lease_ms offset entries...
RETURNS  OK is_canceled summary | NOT_FOUND | BAD_STATE state | LOST_CLAIM status | NEWER number
INCLUDES summary newer hold emit renew_ttl note_activity
]]
local admitted, answer = hold()
if answer then return answer end
local found = redis.call('HMGET', runs, run .. ':status', run .. ':fence', run .. ':cancel', run .. ':did')
if found[1] ~= 'running' or found[2] ~= fence then return {'LOST_CLAIM', found[1]} end
local by, count, first = string.match(found[4] or '', '^(%d+) (%d+) (%S+)')
count = by == fence and tonumber(count) or 0
local id
for at = 3 * math.max(0, count - tonumber(offset)) + 1, #entries, 3 do
  id = emit(admitted, events, {'type', 'run.activity', 'run', run, 'kind', entries[at], 'name', entries[at + 1],
                               'summary', entries[at + 2]})
  first = first or id
  count = count + 1
end
if not id then return {'OK', found[3] and 1 or 0, false} end
redis.call('HSET', runs, run .. ':did', fence .. ' ' .. count .. ' ' .. first .. ' ' .. id,
           run .. ':lease', string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
return {'OK', found[3] and 1 or 0, note_activity(admitted, {events})}

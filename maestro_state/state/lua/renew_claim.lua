--[[
renew_claim: keep a claim for another lease; tells whether the run is to be canceled. An open run keeps its session.
What its tool has consumed so far is kept until the run ends, when it is part of how it ended.
KEYS     session: session runs
ARGV     now_ms grace_ms user run fence lease_ms usage
RETURNS  OK is_canceled summary | NOT_FOUND | BAD_STATE state | LOST_CLAIM status | NEWER number
INCLUDES summary newer hold renew_ttl note_activity
]]
local admitted, answer = hold()
if answer then return answer end
local found = redis.call('HMGET', runs, run .. ':status', run .. ':fence', run .. ':cancel')
if found[1] ~= 'running' or found[2] ~= fence then return {'LOST_CLAIM', found[1]} end
redis.call('HSET', runs, run .. ':lease', string.format('%.0f', tonumber(now_ms) + tonumber(lease_ms)))
if usage ~= '' then redis.call('HSET', runs, run .. ':usage', usage) end
-- A beat is not activity in itself; it only keeps the session from expiring under its run.
local renewed = false
if admitted.now >= admitted.touched_at + admitted.ttl_ms / 4 then
  renewed = note_activity(admitted, {})
end
return {'OK', found[3] and 1 or 0, renewed}

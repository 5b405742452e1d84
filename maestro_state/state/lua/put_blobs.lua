--[[
put_blobs: keep contents by digest, each once; repeating it changes nothing.
KEYS     session: session blobs
ARGV     idempotency_key now_ms grace_ms contents...
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES summary sequence repeated newer admit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
-- No event: content nobody refers to yet is nothing that happened. One call for all of them: each would be copied once
-- more. The same digest is the same content.
redis.call('HSET', blobs, unpack(contents))
return settle(admitted, {'OK', admitted.last_id}, {blobs})

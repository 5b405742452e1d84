--[[
put_blobs: keep contents by digest, each once; repeating it changes nothing.
KEYS     session: session blobs
ARGV     now_ms grace_ms pairs...
RETURNS  OK last_id summary | NOT_FOUND | BAD_STATE state | EXPIRED
INCLUDES summary admit renew
]]
local admitted, refusal = admit(tonumber(now_ms))
if refusal then return refusal end
-- No event: content nobody refers to yet is nothing that happened.
-- One call for all of them: each would be copied once more. The same digest is the same content.
redis.call('HSET', blobs, unpack(pairs))
return {'OK', admitted.last_id, renew(admitted, tonumber(grace_ms), {blobs})}

--[[
missing_blobs: which of these digests the session has no content for yet. Reads only.
KEYS     session: blobs
ARGV     digests...
RETURNS  OK missing
INCLUDES -
]]
local missing = {}
for _, digest in ipairs(digests) do
  if redis.call('HEXISTS', blobs, digest) == 0 then missing[#missing + 1] = digest end
end
return {'OK', missing}

--[[
drop_keys: remove keys of a damaged session; what they held was set aside before.
KEYS     session: session events messages items blobs runs outputs attached kept retracted
ARGV     names...
RETURNS  OK
INCLUDES -
]]
local keys = {session = session, events = events, messages = messages, items = items, blobs = blobs, runs = runs,
              outputs = outputs, attached = attached, kept = kept, retracted = retracted}
for _, name in ipairs(names) do redis.call('UNLINK', keys[name]) end
return {'OK'}

--[[
forget_discussion: take discussions off the list of open ones.
KEYS     discussion_index: open
ARGV     discussion_ids...
RETURNS  OK
INCLUDES -
]]
for _, id in ipairs(discussion_ids) do redis.call('ZREM', open, id) end
return {'OK'}

--[[
index_discussion: put an open discussion on the list of open ones.
KEYS     discussion_index: open
ARGV     discussion_id last_activity life_ms
RETURNS  OK
INCLUDES -
]]
redis.call('ZADD', open, 'GT', last_activity, discussion_id)
-- The list lives as long as the longest discussion in it: never shorten.
if redis.call('PTTL', open) < tonumber(life_ms) then redis.call('PEXPIRE', open, life_ms) end
return {'OK'}

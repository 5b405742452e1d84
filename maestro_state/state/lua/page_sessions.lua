--[[
page_sessions: the sessions of a shard that follow a place in the order of their activity, last active first, and those
that have moved since a moment, with where they were then. No moves are remembered from before `since`: GONE.
KEYS     index: recent moves
ARGV     since before_ms count
RETURNS  OK places moved | GONE
INCLUDES note_move
]]
local oldest = redis.call('XRANGE', moves, '-', '+', 'COUNT', 1)[1]
if oldest and redis.call('XLEN', moves) >= MOVES_MAX and tonumber(string.match(oldest[1], '^%d+')) > tonumber(since) then
  return {'GONE'}
end
-- All that were active at that very moment, however many: whoever asks knows which of them it has seen.
local places = {}
if before_ms ~= '+inf' then places = redis.call('ZRANGEBYSCORE', recent, before_ms, before_ms, 'WITHSCORES') end
local bound = before_ms == '+inf' and '+inf' or '(' .. before_ms
for _, one in ipairs(redis.call('ZRANGE', recent, bound, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, count, 'WITHSCORES')) do
  places[#places + 1] = one
end
return {'OK', places, redis.call('XRANGE', moves, since, '+')}

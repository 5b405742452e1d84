-- turn_of: when it is a job's turn: the number at the end of its id. What has a small one, as the jobs that archive and
-- send have, or none, takes moments and goes first.
local function turn_of(id) return tonumber(string.match(id, '_(%d+)$') or '0') end

--[[
recount_states: count anew how many sessions are in each state; programs from before that was counted moved some unseen.
KEYS     index: summaries states
ARGV     -
RETURNS  OK
INCLUDES count_state
]]
recount_states()
return {'OK'}

--[[
detach_terminal: take a terminal off the list of those looking.
KEYS     session: attached
ARGV     terminal
RETURNS  OK
INCLUDES -
]]
redis.call('ZREM', attached, terminal)
return {'OK'}

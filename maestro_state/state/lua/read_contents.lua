--[[
read_contents: the record, the items and the runs of a session as they are at one moment.
KEYS     session: session items runs retracted
ARGV     -
RETURNS  OK record items runs retracted | NOT_FOUND
INCLUDES -
]]
if redis.call('EXISTS', session) == 0 then return {'NOT_FOUND'} end
return {'OK', redis.call('HGETALL', session), redis.call('HGETALL', items), redis.call('HGETALL', runs),
        redis.call('HGETALL', retracted)}

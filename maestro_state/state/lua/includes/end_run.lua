-- end_run: write how an open run ended and take it off the list of open ones; answers true when it was the last.
-- The fence is raised, so that whoever had the claim can write no more.
local function end_run(run, status, ending)
  redis.call('HSET', runs, run .. ':status', status, run .. ':end', ending)
  redis.call('HINCRBY', runs, run .. ':fence', 1)
  redis.call('HDEL', runs, run .. ':lease', run .. ':suspect', run .. ':cancel', run .. ':usage')
  if redis.call('HEXISTS', runs, run .. ':size') == 1 then redis.call('HSET', session, 'has_output', 1) end
  local open = {}
  for id in string.gmatch(redis.call('HGET', session, 'open_runs') or '', '%S+') do
    if id ~= run then open[#open + 1] = id end
  end
  if #open == 0 then redis.call('HDEL', session, 'open_runs')
  else redis.call('HSET', session, 'open_runs', table.concat(open, ' ')) end
  return #open == 0
end

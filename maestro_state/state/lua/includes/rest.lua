-- rest: the state of a session whose last open run has ended, out of executando: with output, with context, or as it
-- was started.
local function rest(with_output, with_context, started)
  local found = redis.call('HMGET', session, 'has_output', 'active_items')
  if found[1] then return with_output end
  return tonumber(found[2] or '0') > 0 and with_context or started
end

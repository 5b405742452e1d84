-- settle: the state of a session whose last open run has ended, out of executando: with output, with context, or as it
-- was started.
local function settle(with_output, with_context, started)
  local target = with_output
  if redis.call('HEXISTS', session, 'has_output') == 0 then
    local active = 0
    for _, field in ipairs(redis.call('HKEYS', items)) do
      if not string.find(field, ':', 1, true) then active = active + 1
      elseif string.find(field, ':removed_at', 1, true) then active = active - 1 end
    end
    target = active > 0 and with_context or started
  end
  redis.call('HSET', session, 'state', target)
end

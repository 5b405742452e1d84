--[[
note_change: tell who follows all sessions that the row of one changed, or went.
That it went is not told again where that is the last that was told of it lately: a write may be sent twice.
KEYS     change: changes
ARGV     session_id life_ms is_gone
RETURNS  OK
INCLUDES wrong_type
]]
if is_wrong_type(changes, 'stream') then redis.call('DEL', changes) end
if is_gone == '1' then
  for _, entry in ipairs(redis.call('XREVRANGE', changes, '+', '-', 'COUNT', 64)) do
    if entry[2][2] == session_id then
      if entry[2][3] == 'gone' then return {'OK'} end
      break
    end
  end
  redis.call('XADD', changes, 'MAXLEN', '~', 10000, '*', 'id', session_id, 'gone', 1)
else
  redis.call('XADD', changes, 'MAXLEN', '~', 10000, '*', 'id', session_id)
end
if redis.call('PTTL', changes) < tonumber(life_ms) then redis.call('PEXPIRE', changes, life_ms) end
return {'OK'}

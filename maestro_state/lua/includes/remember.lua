-- remember: keep this answer for a repeat of the call. Every answer of the last half is kept: at least 60 calls.
local COMMANDS_BYTES = 8192
local function remember(id, answer)
  local line = id .. ' ' .. cjson.encode(answer) .. '\n'
  local length = redis.call('APPEND', commands, line)
  if length == #line then
    redis.call('SET', commands, '\n' .. line)
  elseif length > COMMANDS_BYTES then
    local tail = redis.call('GETRANGE', commands, -COMMANDS_BYTES / 2, -1)
    redis.call('SET', commands, string.sub(tail, string.find(tail, '\n', 1, true), -1), 'KEEPTTL')
  end
end

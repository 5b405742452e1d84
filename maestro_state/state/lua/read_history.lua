--[[
read_history: the newest messages after an id, newest first, as far as they fit: what is longer is cut to its two ends, what was taken back is left out.
KEYS     session: messages retracted
ARGV     after count most
RETURNS  OK rows
INCLUDES -
]]
local left, wanted = tonumber(most), tonumber(count)
local rows, last, few = {}, '+', 4
-- What was taken back all together lies before everything that is handed out.
local floor = redis.call('HGET', retracted, '..')
if floor then
  local ms, seq = string.match(floor, '^(%d+)-(%d+)$')
  local after_ms, after_seq = string.match(after, '^(%d+)-?(%d*)$')
  if not after_ms or tonumber(ms) > tonumber(after_ms) or (ms == after_ms and tonumber(seq) > (tonumber(after_seq) or 0)) then
    after = floor
  end
end
-- What was taken back or has no words costs nothing of the room: not even a session of nothing else is read whole.
local passes = 500
while left > 0 and #rows < wanted and passes > 0 do
  passes = passes - 1
  -- Few at a time at first: one may be as large as the largest message there can be.
  local page = redis.call('XREVRANGE', messages, last, '(' .. after, 'COUNT', few)
  for _, entry in ipairs(page) do
    if left > 0 and #rows < wanted and redis.call('HEXISTS', retracted, entry[1]) == 0 then
      local id, fields = entry[1], entry[2]
      local content, metadata = fields[2], ''
      for at = 3, #fields, 2 do
        -- A framework's own item may be there, whole: of that nothing is handed on.
        if fields[at] == 'metadata' and string.len(fields[at + 1]) < 4096 then metadata = fields[at + 1] end
      end
      local size = string.len(content)
      if size == 0 then
        size = -40  -- a call of a tool, say: it has no words
      elseif size > left then
        local half = math.floor(left / 2)
        rows[#rows + 1] = {id, fields[1], string.sub(content, 1, half), string.sub(content, -half), size, metadata}
      else
        rows[#rows + 1] = {id, fields[1], content, '', size, metadata}
      end
      left = left - size - 40  -- what stands around it counts too
    end
    last = '(' .. entry[1]
  end
  if #page < few then break end
  few = 16  -- what came was small enough to leave room
end
return {'OK', rows}

--[[
read_history: the newest messages after an id, newest first, as far as they fit: what is longer is cut to its two ends.
KEYS     session: messages
ARGV     after count most
RETURNS  OK rows
INCLUDES -
]]
local left, wanted = tonumber(most), tonumber(count)
local rows, last, few = {}, '+', 4
while left > 0 and #rows < wanted do
  -- Few at a time at first: one may be as large as the largest message there can be.
  local page = redis.call('XREVRANGE', messages, last, '(' .. after, 'COUNT', few)
  for _, entry in ipairs(page) do
    if left > 0 and #rows < wanted then
      local id, fields = entry[1], entry[2]
      local content, metadata = fields[2], ''
      for at = 3, #fields, 2 do
        if fields[at] == 'metadata' then metadata = fields[at + 1] end
      end
      local size = string.len(content)
      if size > left then
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

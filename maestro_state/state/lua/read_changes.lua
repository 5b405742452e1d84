--[[
read_changes: the record of a session, and of its items and runs those that something happened to since an event, or may have: open ones change without one.
KEYS     session: session events items runs retracted
ARGV     since most open...
RETURNS  OK record items runs retracted | NOT_FOUND | MANY
INCLUDES -
]]
local record = redis.call('HGETALL', session)
if #record == 0 then return {'NOT_FOUND'} end
-- An archive that the server was not told of may be of another history: a server may be restored to an earlier state.
if redis.call('HGET', session, 'archived_id') ~= since then return {'MANY'} end
local page = redis.call('XRANGE', events, '(' .. since, '+', 'COUNT', most)
if #page == tonumber(most) or #open == tonumber(most) then return {'MANY'} end
local changed = {item = {}, run = {}}
for _, run in ipairs(open) do changed.run[run] = true end
for _, entry in ipairs(page) do
  local fields = entry[2]
  for at = 1, #fields, 2 do
    local name, value = fields[at], fields[at + 1]
    if name == 'item' or name == 'replaces' then changed.item[value] = true end
    if name == 'run' then changed.run[value] = true end
    -- An output that is promoted changes its run, which its event does not name, and a fork is filled without events.
    if (name == 'kind' and value == 'output') or (name == 'type' and value == 'session.forked') then return {'MANY'} end
  end
end
local function read(hash, ids, suffixes)
  local found = {}
  for id in pairs(ids) do
    local names = {}
    for place, suffix in ipairs(suffixes) do names[place] = id .. suffix end
    for place, value in ipairs(redis.call('HMGET', hash, unpack(names))) do
      if value then
        found[#found + 1] = names[place]
        found[#found + 1] = value
      end
    end
  end
  return found
end
return {'OK', record, read(items, changed.item, {'', ':removed_at'}),
        read(runs, changed.run, {'', ':sent', ':status', ':started_at', ':end', ':relevant', ':usage', ':size', ':first'}),
        redis.call('HGETALL', retracted)}

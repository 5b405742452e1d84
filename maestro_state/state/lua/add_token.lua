--[[
add_token: remember a token by its digest; the list outlives every token that was used within its life.
A full list first forgets what counts no more, then the older half of the browsers that one token signed in most of.
KEYS     token: tokens
ARGV     id row keep_ms most now_ms
RETURNS  OK | EXISTS | FULL
INCLUDES -
]]
if redis.call('HEXISTS', tokens, id) == 1 then return {'EXISTS'} end
local function make_room()
  local rows, browsers, largest = {}, {}, nil
  local all = redis.call('HGETALL', tokens)
  for at = 1, #all, 2 do rows[all[at]] = cjson.decode(all[at + 1]) end
  for name, one in pairs(rows) do
    local parent = one.parent or ''
    local is_over = one.ends_ms > 0 and one.ends_ms <= tonumber(now_ms)
    if is_over or (parent ~= '' and not rows[parent]) then
      redis.call('HDEL', tokens, name)
    elseif parent ~= '' then
      local theirs = browsers[parent] or {}
      browsers[parent] = theirs
      theirs[#theirs + 1] = name
      if not largest or #theirs > #largest then largest = theirs end
    end
  end
  if redis.call('HLEN', tokens) < tonumber(most) or not largest then return end
  table.sort(largest, function(a, b) return rows[a].made_ms < rows[b].made_ms end)
  for at = 1, math.ceil(#largest / 2) do redis.call('HDEL', tokens, largest[at]) end
end
if redis.call('HLEN', tokens) >= tonumber(most) then make_room() end
if redis.call('HLEN', tokens) >= tonumber(most) then return {'FULL'} end
redis.call('HSET', tokens, id, row)
redis.call('PEXPIRE', tokens, keep_ms)
return {'OK'}

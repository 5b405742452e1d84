-- is_wrong_type: whether a key is there and of another type than it should be: nobody of ours made it.
local function is_wrong_type(key, wanted)
  local found = redis.call('TYPE', key)['ok']
  return found ~= 'none' and found ~= wanted
end

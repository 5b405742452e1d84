-- with_known: an ending that nobody who saw the run to its end wrote, with what is known all the same: how much it printed,
-- and what its tool had consumed so far.
local function with_known(run, ending)
  local size, usage = unpack(redis.call('HMGET', runs, run .. ':size', run .. ':usage'))
  local known = ''
  if size then known = known .. ',"output_ref":{"path":"output.txt","size":' .. size .. '}' end
  if usage then known = known .. ',"usage":' .. usage end
  return string.sub(ending, 1, -2) .. known .. '}'
end

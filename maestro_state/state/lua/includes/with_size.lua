-- with_size: an ending that nobody who knew the output wrote, with what is known of the output: its size.
local function with_size(run, ending)
  local size = redis.call('HGET', runs, run .. ':size')
  if not size then return ending end
  return string.sub(ending, 1, -2) .. ',"output_ref":{"path":"output.txt","size":' .. size .. '}}'
end

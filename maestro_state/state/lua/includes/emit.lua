-- emit: append to a stream with the session's next id. All streams of a session share one id space, so that one
-- cursor follows them all. A blocked reader is woken by the first stream that was appended to, maybe with that one's
-- entries alone: a script that appends to two does so in the order of their ids, and writes once to each.
-- Who did it is stored only when it was not the session's owner.
local function emit(admitted, stream, entry)
  local ms, seq = string.match(admitted.last_id, '^(%d+)-(%d+)$')
  if admitted.now > tonumber(ms) then
    ms, seq = string.format('%.0f', admitted.now), '0'
  else
    seq = string.format('%.0f', tonumber(seq) + 1)
  end
  admitted.last_id = ms .. '-' .. seq
  admitted.is_first_unwritten = admitted.is_on_disk
  if user ~= admitted.owner then
    entry[#entry + 1] = 'by'
    entry[#entry + 1] = user
  end
  redis.call('XADD', stream, admitted.last_id, unpack(entry))
  return admitted.last_id
end

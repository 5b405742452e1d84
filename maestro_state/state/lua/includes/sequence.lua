-- sequence: the field that keeps a client's last call, and the number of this one. An idempotency key is "sequence:number": a sequence is
-- one sequence of calls, so its last number is enough to know a repeat, however busy the session is. An id without
-- number is a sequence of one call.
local function sequence(id)
  local colon = string.find(id, ':', 1, true)
  if not colon then return 'lane:' .. id, '0' end
  return 'lane:' .. string.sub(id, 1, colon - 1), string.sub(id, colon + 1)
end

--[[
apply_breadcrumbs: apply the next accepted breadcrumbs: log entry, statistics and cursor, all or none.
KEYS     work: session breadcrumbs log totals
ARGV     idempotency_key now_ms grace_ms user limit
RETURNS  OK applied summary | NOT_FOUND | BAD_STATE state | EXPIRED | LATE | NEWER number
INCLUDES work_summary sequence repeated newer admit emit renew_ttl settle
]]
local admitted, answer = admit(idempotency_key)
if answer then return answer end
local cursor = redis.call('HGET', session, 'cursor')
local found = redis.call('XRANGE', breadcrumbs, cursor and '(' .. cursor or '-', '+', 'COUNT', limit)
if #found == 0 then return {'OK', 0, false} end
-- Counted here first: a field of the totals is written once a call, not once a breadcrumb.
local sums = {}
local function count(field, amount)
  if amount ~= 0 then sums[field] = (sums[field] or 0) + amount end
end
for _, one in ipairs(found) do
  local fields = {}
  for at = 1, #one[2], 2 do fields[one[2][at]] = one[2][at + 1] end
  emit(admitted, log, {'type', 'breadcrumb.applied', 'entry', one[1], 'breadcrumb_id', fields.breadcrumb_id})
  count('breadcrumbs', 1)
  count('depth:' .. fields.depth, 1)
  count('day:' .. fields.day, 1)
  count('errors', tonumber(fields.errors))
  count('files', tonumber(fields.files))
  count('cost:' .. fields.cost_kind, 1)
  count('nano:' .. fields.cost_kind, tonumber(fields.nano))
  for _, name in ipairs({'input', 'output', 'nano'}) do
    count(name, tonumber(fields[name]))
    count('model:' .. name .. ':' .. fields.model, tonumber(fields[name]))
  end
  count('model:breadcrumbs:' .. fields.model, 1)
  for tool, times in pairs(cjson.decode(fields.tools)) do count('tool:' .. tool, times) end
end
for field, amount in pairs(sums) do redis.call('HINCRBY', totals, field, string.format('%.0f', amount)) end
redis.call('HINCRBY', session, 'applied', #found)
return settle(admitted, {'OK', #found}, {log, totals}, {'cursor', found[#found][1]})

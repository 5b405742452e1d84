--[[
charge_run: put down what a run has consumed so far, to its user, its session and everybody; one that is over (`status`) is
also counted, once for ever. Amounts replace those told before; an empty one was not told, and one that is counted, as its
record has it, takes nothing back. Answers with the first budget that is used up, or, for a run that is not begun yet
(`is_beginning`), leaves nothing of. What was told before a run is begun is that of an attempt whose worker was lost: it was
consumed all the same, and what is told from then on is added to it. Of a run that is counted it is known what it was charged:
its record is its session's, and whoever has it carried out again, or calls it over while it goes on, pays for that too.
KEYS     ledger: counters budgets open attempts counted totals day spent
ARGV     run now_ms keep_ms counted_ms user session_id tokens cost is_beginning status facts...
RETURNS  OK | OVER budget spent limit | COUNTED
INCLUDES -
]]
local is_counted = redis.call('ZSCORE', counted, run)
if is_counted and status ~= '' then return {'COUNTED'} end
-- Of a run that is open its row of `attempts` is what earlier attempts came to; of a counted one, all, then that.
local function amounts(row)
  local of_tokens, of_cost, rest = string.match(row or '', '^(%d+) (%d+) ?(.*)$')
  return {tokens = tonumber(of_tokens or '0'), cost = tonumber(of_cost or '0')}, rest
end
local function row_of(one) return string.format('%.0f %.0f', one.tokens, one.cost) end
local before, rest = amounts(redis.call('HGET', is_counted and attempts or open, run))
local earlier = amounts(is_counted and rest or redis.call('HGET', attempts, run))
if is_beginning ~= '' then
  earlier = before
  if before.tokens + before.cost > 0 and not is_counted then redis.call('HSET', attempts, run, row_of(before)) end
end
local after = {}
for unit, told in pairs({tokens = tonumber(tokens) or false, cost = tonumber(cost) or false}) do
  after[unit] = told and earlier[unit] + told or before[unit]
  if status ~= '' then after[unit] = math.max(after[unit], before[unit]) end
end
-- Who it is put down to: scope, name, and where the sum of all days is.
local payers = {{'everyone', '', totals}, {'user', user, totals}, {'session', session_id, spent}}
local ids, sums = {}, {}
for _, unit in ipairs({'tokens', 'cost'}) do
  local more = string.format('%.0f', after[unit] - before[unit])
  for _, payer in ipairs(payers) do
    local field = payer[1] .. ':' .. unit .. ':' .. payer[2]
    for period, key in pairs({day = day, total = payer[3]}) do
      ids[#ids + 1] = payer[1] .. ':' .. period .. ':' .. unit .. ':' .. payer[2]
      sums[#sums + 1] = more == '0' and tonumber(redis.call('HGET', key, field) or '0') or redis.call('HINCRBY', key, field, more)
    end
  end
end
local all = row_of(after) .. ' ' .. row_of(earlier)
if is_counted then
  redis.call('HSET', attempts, run, all)
elseif status == '' then
  redis.call('HSET', open, run, row_of(after))
else
  redis.call('HDEL', open, run)
  redis.call('HDEL', attempts, run)
  if after.tokens + after.cost > 0 then redis.call('HSET', attempts, run, all) end
  redis.call('ZADD', counted, now_ms, run)
  local past = string.format('%.0f', tonumber(now_ms) - tonumber(counted_ms))
  for _, one in ipairs(redis.call('ZRANGEBYSCORE', counted, '-inf', past, 'LIMIT', 0, 100)) do
    redis.call('ZREM', counted, one)
    redis.call('HDEL', attempts, one)
  end
  for at = 1, #facts, 2 do redis.call('HINCRBY', counters, facts[at], facts[at + 1]) end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, keep_ms) end
for at, row in ipairs(redis.call('HMGET', budgets, unpack(ids))) do
  local limit = row and cjson.decode(row).limit
  if limit and (sums[at] > limit or (is_beginning ~= '' and sums[at] == limit)) then
    return {'OVER', ids[at], string.format('%.0f', sums[at]), string.format('%.0f', limit)}
  end
end
return {'OK'}

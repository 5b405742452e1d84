-- repeated: the answer to give when this call was made before, else nil. A number that was overtaken comes from a
-- connection its client has given up long ago: doing it now would do it out of turn.
local function repeated(known, number)
  if not known then return nil end
  local last, answer = string.match(known, '^(%d+) %d+ (.*)$')
  if tonumber(number) > tonumber(last) then return nil end
  if tonumber(number) < tonumber(last) then return {'LATE'} end
  answer = string.sub(answer, 1, 1) == '[' and cjson.decode(answer) or {'OK', answer}
  answer[#answer + 1] = summary()
  return answer
end

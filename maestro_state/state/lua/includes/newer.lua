-- is_newer: whether a record is of a form that only newer programs know; one without a number is of the first form.
local function is_newer(number)
  return number and tonumber(number) > SCHEMA
end

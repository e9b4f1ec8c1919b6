-- The clock of the library. Tests load tests/support/clock.lua instead.

-- Microseconds since 1970, by the clock of Redis.
local function clock_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Takes the place of server/functions/clock.lua in the library that tests load:
-- Redis' clock plus the offset a test has put into ls:test:clock_offset_us.

-- Microseconds since 1970, by Redis, moved by the test.
local function clock_us()
  local t = redis.call('TIME')
  local offset = tonumber(redis.call('GET', 'ls:test:clock_offset_us') or '0')
  return tonumber(t[1]) * 1000000 + tonumber(t[2]) + offset
end

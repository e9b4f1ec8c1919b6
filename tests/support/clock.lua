-- Takes the place of server/functions/clock.lua in the library that tests load:
-- Redis' clock, or the instant at which a test holds it still (ls:test:clock_still_us),
-- plus the offset a test has put into ls:test:clock_offset_us.

-- Microseconds since 1970, by Redis, moved by the test.
local function clock_us()
  local t = redis.call('TIME')
  local set = redis.call('MGET', 'ls:test:clock_still_us', 'ls:test:clock_offset_us')
  local now = tonumber(set[1] or tonumber(t[1]) * 1000000 + tonumber(t[2]))
  return now + tonumber(set[2] or 0)
end

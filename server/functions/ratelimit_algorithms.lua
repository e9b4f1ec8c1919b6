-- RateLimitService, the four algorithms. Invariant: each is a pure account of what
-- was charged and not given back; none admits more than docs/ratelimit.md says of it,
-- and what it tells of a later instant is exact to the microsecond.
--
-- An algorithm is a table of
--   open(rule, record, now, cost)    the counter as it is now; `converted` when its policy's
--                                    numbers were others. Of SLIDING_LOG also reads the logs
--                                    that this cost would be written to
--   passes_at(c, rule, cost, now)    the first instant at which cost passes, <= now when it
--                                    passes now; nil = never
--   charge(c, rule, cost, now)       -> what refund needs to find it again
--   refund(c, rule, charge, cost, now)
--   remaining(c, rule, now), as_new_at(c, rule, now): an instant, past when it is
--   record(c, rule)                  {letter, end, ...}, as the key's hash holds it
-- `end` is the instant from which a record does not matter. A rule is what
-- ratelimit_counters.lua's parse_rule gives. Instants and periods are microseconds.

-- A counter is told from one that Reset forgot by the microsecond in which it began; so
-- is an entry of a log, which is numbered from there on.

local LOG_TRIM = 32 -- old entries removed by one Check

-- floor(a * b / c) and the remainder, exact for a < 2^53 and b, c < 2^45. The product
-- is divided digit by digit, so that nothing exceeds 2^53.
local function mul_div(a, b, c)
  if a * b <= MAX_INTEGER then
    local rest = math.fmod(a * b, c)
    return (a * b - rest) / c, rest
  end
  local quotient, rest, place = 0, 0, 1
  while place * 128 <= a do place = place * 128 end
  while place >= 1 do
    local digit = math.floor(a / place)
    a = a - digit * place
    local part = rest * 128 + digit * b
    rest = math.fmod(part, c)
    quotient = quotient * 128 + (part - rest) / c
    place = place / 128
  end
  return quotient, rest
end

local function window_start(now, period)
  return now - math.fmod(now, period)
end

-- How long Redis is to keep what matters for a span of time.
local function life_ms(span)
  return int(math.ceil(span / 1000))
end

-- A record that still matters; nil else.
local function standing(record, now)
  return record and now < record[2] and record or nil
end

local ALGORITHMS = {}

-- ---- FIXED_WINDOW: {'F', end of the window, units, when it began to count, period} -----

ALGORITHMS.F = {
  numbers = 5,

  open = function(rule, record, now)
    local old = standing(record, now)
    if old and old[5] == rule.period then return {finish = old[2], units = old[3], since = old[4]} end
    -- Another period: what stands is taken as charged in this window.
    local finish = window_start(now, rule.period) + rule.period
    return {finish = finish, units = old and old[3] or 0, since = now, converted = old ~= nil}
  end,

  passes_at = function(c, rule, cost, now)
    if cost > rule.limit then return nil end
    return c.units + cost <= rule.limit and now or c.finish
  end,

  charge = function(c, rule, cost)
    c.units = c.units + cost
    return c.since
  end,

  refund = function(c, rule, since, cost)
    if since ~= c.since then return false end
    c.units = math.max(c.units - cost, 0)
    return true
  end,

  remaining = function(c, rule) return rule.limit - c.units end,
  as_new_at = function(c, rule, now) return c.units > 0 and c.finish or now end,
  record = function(c, rule) return {'F', c.finish, c.units, c.since, rule.period} end,
}

-- ---- SLIDING_WINDOW: {'S', end, start of the window, units in it, units in the one
-- before, when the counter began}. Units of the window before count as if they had been
-- spread over it evenly: units * (what of it the sliding window still covers) / period.

ALGORITHMS.S = {
  numbers = 6,

  open = function(rule, record, now)
    local old, period = standing(record, now), rule.period
    local start = window_start(now, period)
    if not old then return {start = start, units = 0, before = 0, since = now} end
    local c = {start = old[3], units = old[4], before = old[5], since = old[6]}
    if old[2] - old[3] ~= 2 * period then
      -- Another period: all of it is taken as charged now.
      c.start, c.units, c.before, c.since = start, math.min(c.units + c.before, rule.limit), 0, now
      c.converted = true
    elseif start == c.start + period then
      c.start, c.units, c.before = start, 0, c.units
    end
    return c
  end,

  passes_at = function(c, rule, cost, now)
    local period, limit = rule.period, rule.limit
    if cost > limit then return nil end
    -- The first instant of a window at which `before` leaves room for so much.
    local function room_at(start, before, room)
      if room < 0 then return start + period end
      if before == 0 then return start end
      return start + math.max(period - mul_div(room, period, before), 0)
    end
    local instant = room_at(c.start, c.before, limit - c.units - cost)
    if instant < c.start + period then return instant end
    return room_at(c.start + period, c.units, limit - cost)
  end,

  charge = function(c, rule, cost)
    c.units = c.units + cost
    return {c.since, c.start}
  end,

  refund = function(c, rule, charge, cost)
    if charge[1] ~= c.since then return false end
    if charge[2] == c.start then
      c.units = math.max(c.units - cost, 0)
    elseif charge[2] == c.start - rule.period then
      c.before = math.max(c.before - cost, 0)
    else
      return false
    end
    return true
  end,

  remaining = function(c, rule, now)
    local covered = rule.period - math.max(now - c.start, 0)
    local counted, rest = mul_div(c.before, covered, rule.period)
    return rule.limit - c.units - counted - (rest > 0 and 1 or 0)
  end,

  as_new_at = function(c, rule, now)
    if c.units > 0 then return c.start + 2 * rule.period end
    return c.before > 0 and c.start + rule.period or now
  end,

  record = function(c, rule) return {'S', c.start + 2 * rule.period, c.start, c.units, c.before, c.since} end,
}

-- ---- TOKEN_BUCKET: {'B', whole, part, limit, period, when the counter began}, GCRA
-- (ITU-T I.371): the bucket is full again at the theoretical arrival time
-- tat = whole - part / limit. A unit moves it by period / limit, which need not be a
-- whole number of microseconds, and may be less than one.

-- `units` of them, as whole microseconds and a rest in limits of one.
local function spacing(rule, units)
  return mul_div(units, rule.period, rule.limit)
end

-- Units that have not flowed back, rounded up.
local function missing(c, limit, period, now)
  local units, rest = mul_div(c.whole - now, limit, period)
  return units + math.ceil((rest - c.part) / period)
end

ALGORITHMS.B = {
  numbers = 6,

  open = function(rule, record, now)
    local old = standing(record, now)
    if not old then return {whole = now, part = 0, since = now} end
    local c = {whole = old[2], part = old[3], since = old[6]}
    if old[4] ~= rule.limit or old[5] ~= rule.period then
      -- Another rate: as many units are missing as before.
      local whole, rest = spacing(rule, math.min(missing(c, old[4], old[5], now), rule.burst))
      c.whole = now + whole + (rest > 0 and 1 or 0)
      c.part = rest > 0 and rule.limit - rest or 0
      c.since, c.converted = now, true
    end
    return c
  end,

  passes_at = function(c, rule, cost)
    if cost > rule.burst then return nil end
    local whole, rest = spacing(rule, rule.burst - cost)
    return c.whole - whole - (c.part + rest >= rule.limit and 1 or 0)
  end,

  charge = function(c, rule, cost, now)
    local whole, rest = spacing(rule, cost)
    if rest > c.part then
      c.whole, c.part = c.whole + whole + 1, rule.limit - (rest - c.part)
    else
      c.whole, c.part = c.whole + whole, c.part - rest
    end
    return {c.since, now, rule.limit, rule.period}
  end,

  -- What has flowed back since the charge is taken as having been its own: giving back
  -- more could admit more than burst + rate * t.
  refund = function(c, rule, charge, cost, now)
    local whole, rest = spacing(rule, cost)
    local passed = math.max(now - charge[2], 0)
    if charge[1] ~= c.since or whole < passed then return false end
    c.whole, c.part = c.whole - whole + passed, c.part + rest
    if c.part >= rule.limit then c.whole, c.part = c.whole - 1, c.part - rule.limit end
    return true
  end,

  remaining = function(c, rule, now) return rule.burst - missing(c, rule.limit, rule.period, now) end,
  as_new_at = function(c) return c.whole end,
  record = function(c, rule) return {'B', c.whole, c.part, rule.limit, rule.period, c.since} end,
}

-- ---- SLIDING_LOG: {'L', end, instant of the last charge, number of the next, bits}, and
-- a sorted set for each bit that a cost had: the numbers of the charges, by instant, each
-- worth 2^bit. So a count is exact by ZCOUNT, also of entries not removed yet.

local function each_log(rule, bits, visit)
  local b = 0
  while bits > 0 do
    if bits % 2 == 1 then visit(rule.log .. b, 2 ^ b) end
    bits, b = math.floor(bits / 2), b + 1
  end
end

-- b where bits is 2^b; nil else.
local function exponent_of(bits)
  local fraction, exponent = math.frexp(bits)
  return fraction == 0.5 and exponent - 1 or nil
end

-- Units charged after an instant.
local function logged(rule, bits, instant)
  local units = 0
  each_log(rule, bits, function(key, worth)
    units = units + worth * redis.call('ZCOUNT', key, '(' .. int(instant), '+inf')
  end)
  return units
end

ALGORITHMS.L = {
  numbers = 5,

  open = function(rule, record, now, cost)
    local old = standing(record, now)
    local c = {last = 0, number = now, bits = 0}
    if old then
      c = {last = old[3], number = old[4], bits = old[5], converted = old[2] - old[3] ~= rule.period}
    end
    c.units = logged(rule, bit.bor(c.bits, cost > rule.limit and 0 or cost), now - rule.period)
    return c
  end,

  passes_at = function(c, rule, cost, now)
    if cost > rule.limit then return nil end
    local room = rule.limit - cost
    if c.units <= room then return now end
    local from, to = now - rule.period, math.max(c.last, now) -- too early, and early enough
    local b = exponent_of(c.bits)
    if b then -- entries of one worth go one by one
      local gone = redis.call('ZCOUNT', rule.log .. b, '-inf', int(from))
      local nth = int(gone + math.ceil((c.units - room) / c.bits) - 1)
      return tonumber(redis.call('ZRANGE', rule.log .. b, nth, nth, 'WITHSCORES')[2]) + rule.period
    end
    while to - from > 1 do
      local middle = math.floor((from + to) / 2)
      if logged(rule, c.bits, middle) <= room then to = middle else from = middle end
    end
    return to + rule.period
  end,

  charge = function(c, rule, cost, now)
    c.number, c.charged = c.number + 1, cost
    c.bits, c.units, c.last = bit.bor(c.bits, cost), c.units + cost, math.max(c.last, now)
    return c.number
  end,

  refund = function(c, rule, number, cost)
    local found = false
    each_log(rule, cost, function(key, worth)
      if redis.call('ZSCORE', key, int(number)) then c.units, found = c.units - worth, true end
    end)
    c.gone, c.removed, c.last = number, found and cost, 0
    each_log(rule, c.bits, function(key)
      local newest = redis.call('ZREVRANGE', key, 0, 1, 'WITHSCORES')
      c.last = math.max(c.last, tonumber(newest[newest[1] == int(number) and 4 or 2] or 0))
    end)
    return found
  end,

  save = function(c, rule, now)
    each_log(rule, c.charged or 0, function(key)
      write('ZADD', key, int(now), int(c.number))
      local old = redis.call('ZRANGEBYSCORE', key, '-inf', int(now - rule.period), 'LIMIT', 0, LOG_TRIM)
      if #old > 0 then write('ZREM', key, unpack(old)) end
    end)
    each_log(rule, c.converted and c.bits or c.charged or 0, function(key)
      write('PEXPIRE', key, life_ms(rule.period))
    end)
    each_log(rule, c.removed or 0, function(key) write('ZREM', key, int(c.gone)) end)
  end,

  remaining = function(c, rule) return rule.limit - c.units end,
  as_new_at = function(c, rule) return c.last + rule.period end,
  record = function(c, rule) return {'L', c.last + rule.period, c.last, c.number, c.bits} end,
}

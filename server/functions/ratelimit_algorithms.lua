-- RateLimitService, the four algorithms. Invariant: each is a pure account of what
-- was charged and not given back; none admits more than docs/ratelimit.md says of it,
-- and what it tells of a later instant is exact to the microsecond.
--
-- An algorithm is a table of functions of a counter's record r, {name, end, ...}; `end` is the instant from
-- which it does not matter. What is charged or given back changes the record itself.
--   open(rule, old, now, cost, key)   -> the record as it is now, of `old` or nil; true when the rule's numbers were
--                                     others. Of SLIDING_LOG also reads the logs of the key that this cost
--                                     would be written to
--   passes_at(r, rule, cost, now, key)  the first instant at which cost passes, <= now when it
--                                     passes now; nil = never
--   charge(r, rule, cost, now, key)
--   receipt(r, now)                   what refund needs to find the last charge again
--   refund(r, rule, receipt, cost, now, key)
--   remaining(r, rule, now, key), as_new_at(r, now): an instant, past when it is
-- A rule is what ratelimit_counters.lua's parse_rule gives. Instants and periods are microseconds.

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

-- Lua's % is exact for whole numbers below 2^52.
local function window_start(now, period)
  return now - now % period
end

-- How long Redis is to keep what matters for a span of time.
local function life_ms(span)
  return math.ceil(span / 1000)
end

local ALGORITHMS = {}

-- ---- FIXED_WINDOW: {name, end of the window, units, when it began to count, period} -----

ALGORITHMS.F = {
  open = function(rule, old, now)
    local period = rule.period
    if old and old[5] == period then return old end
    -- Another period: what stands is taken as charged in this window.
    return {rule.counter, window_start(now, period) + period, old and old[3] or 0, now, period, 0}, old ~= nil
  end,

  passes_at = function(r, rule, cost, now)
    if cost > rule.limit then return nil end
    return r[3] + cost <= rule.limit and now or r[2]
  end,

  charge = function(r, rule, cost) r[3] = r[3] + cost end,
  receipt = function(r) return r[4] end,

  refund = function(r, rule, since, cost)
    if since ~= r[4] then return false end
    r[3] = math.max(r[3] - cost, 0)
    return true
  end,

  remaining = function(r, rule) return rule.limit - r[3] end,
  as_new_at = function(r, now) return r[3] > 0 and r[2] or now end,
}

-- ---- SLIDING_WINDOW: {name, end, start of the window, units in it, units in the one
-- before, when the counter began}. Units of the window before count as if they had been
-- spread over it evenly: units * (what of it the sliding window still covers) / period.

-- The first instant of a window at which the units before it leave room for so much.
local function room_in(start, period, before, room)
  if room < 0 then return start + period end
  if before == 0 then return start end
  return start + math.max(period - mul_div(room, period, before), 0)
end

ALGORITHMS.S = {
  open = function(rule, old, now)
    local period = rule.period
    local start = window_start(now, period)
    if not old then return {rule.counter, start + 2 * period, start, 0, 0, now} end
    if old[2] - old[3] ~= 2 * period then
      -- Another period: all of it is taken as charged now.
      return {rule.counter, start + 2 * period, start, math.min(old[4] + old[5], rule.limit), 0, now}, true
    end
    if start == old[3] + period then return {rule.counter, start + 2 * period, start, 0, old[4], old[6]} end
    return old
  end,

  passes_at = function(r, rule, cost, now)
    local period, limit = rule.period, rule.limit
    if cost > limit then return nil end
    local instant = room_in(r[3], period, r[5], limit - r[4] - cost)
    if instant < r[3] + period then return instant end
    return room_in(r[3] + period, period, r[4], limit - cost)
  end,

  charge = function(r, rule, cost) r[4] = r[4] + cost end,
  receipt = function(r) return {r[6], r[3]} end,

  refund = function(r, rule, receipt, cost)
    if receipt[1] ~= r[6] then return false end
    if receipt[2] == r[3] then
      r[4] = math.max(r[4] - cost, 0)
    elseif receipt[2] == r[3] - rule.period then
      r[5] = math.max(r[5] - cost, 0)
    else
      return false
    end
    return true
  end,

  remaining = function(r, rule, now)
    local covered = rule.period - math.max(now - r[3], 0)
    local counted, rest = mul_div(r[5], covered, rule.period)
    return rule.limit - r[4] - counted - (rest > 0 and 1 or 0)
  end,

  as_new_at = function(r, now)
    if r[4] > 0 then return r[2] end
    return r[5] > 0 and (r[2] + r[3]) / 2 or now
  end,
}

-- ---- TOKEN_BUCKET: {name, whole, part, limit, period, when the counter began}, GCRA
-- (ITU-T I.371): the bucket is full again at the theoretical arrival time
-- tat = whole - part / limit. A unit moves it by period / limit, which need not be a
-- whole number of microseconds, and may be less than one.

-- `units` of them, as whole microseconds and a rest in limits of one.
local function spacing(rule, units)
  return mul_div(units, rule.period, rule.limit)
end

-- Units that have not flowed back, rounded up.
local function missing(r, limit, period, now)
  local units, rest = mul_div(r[2] - now, limit, period)
  return units + math.ceil((rest - r[3]) / period)
end

ALGORITHMS.B = {
  open = function(rule, old, now)
    if not old then return {rule.counter, now, 0, rule.limit, rule.period, now} end
    if old[4] == rule.limit and old[5] == rule.period then return old end
    -- Another rate: as many units are missing as before.
    local whole, rest = spacing(rule, math.min(missing(old, old[4], old[5], now), rule.burst))
    return {rule.counter, now + whole + (rest > 0 and 1 or 0), rest > 0 and rule.limit - rest or 0, rule.limit, rule.period,
      now}, true
  end,

  passes_at = function(r, rule, cost)
    if cost > rule.burst then return nil end
    local whole, rest = spacing(rule, rule.burst - cost)
    return r[2] - whole - (r[3] + rest >= rule.limit and 1 or 0)
  end,

  charge = function(r, rule, cost)
    local whole, rest = spacing(rule, cost)
    if rest > r[3] then
      r[2], r[3] = r[2] + whole + 1, rule.limit - (rest - r[3])
    else
      r[2], r[3] = r[2] + whole, r[3] - rest
    end
  end,

  receipt = function(r, now) return {r[6], now} end,

  -- What has flowed back since the charge is taken as having been its own: giving back
  -- more could admit more than burst + rate * t.
  refund = function(r, rule, receipt, cost, now)
    local whole, rest = spacing(rule, cost)
    local passed = math.max(now - receipt[2], 0)
    if receipt[1] ~= r[6] or whole < passed then return false end
    r[2], r[3] = r[2] - whole + passed, r[3] + rest
    if r[3] >= rule.limit then r[2], r[3] = r[2] - 1, r[3] - rule.limit end
    return true
  end,

  remaining = function(r, rule, now) return rule.burst - missing(r, rule.limit, rule.period, now) end,
  as_new_at = function(r) return r[2] end,
}

-- ---- SLIDING_LOG: {name, end, instant of the last charge, number of the next, bits}, and
-- a sorted set for each bit that a cost had: the numbers of the charges, by instant, each
-- worth 2^bit. So a count is exact by ZCOUNT, also of entries not removed yet.

local function each_log(bits, visit)
  local b = 0
  while bits > 0 do
    if bits % 2 == 1 then visit(b, 2 ^ b) end
    bits, b = math.floor(bits / 2), b + 1
  end
end

-- b where bits is 2^b; nil else.
local function exponent_of(bits)
  local fraction, exponent = math.frexp(bits)
  return fraction == 0.5 and exponent - 1 or nil
end

-- What the names of a counter's sorted sets begin with.
local function log_name(key, counter)
  return (string.gsub(key.name, 'rate:k:', 'rate:l:', 1)) .. ':' .. counter .. ':'
end

-- The sorted sets of a counter, and what the calls of this FCALL have charged: `added`, by bit the numbers
-- that are to be written. What was read under the same rule is not read again.
local function log_of(key, rule)
  key.logs = key.logs or {}
  local log = key.logs[rule.counter]
  if not log then
    log = {name = log_name(key, rule.counter), added = {}, rule = false, counts = false, told = false, units = 0,
      converted = false, gone = false}
    key.logs[rule.counter] = log
  end
  if log.rule ~= rule then log.rule, log.counts, log.told = rule, {}, {} end
  return log
end

-- Entries of a bit after an instant.
local function entries(log, b, instant, now)
  local added = instant < now and log.added[b]
  return redis.call('ZCOUNT', log.name .. b, '(' .. int(instant), '+inf') + (added and #added or 0)
end

-- Units charged after an instant.
local function logged(log, bits, instant, now)
  local units = 0
  each_log(bits, function(b, worth) units = units + worth * entries(log, b, instant, now) end)
  return units
end

-- Units that count now.
local function counted(log, bits, now)
  local units, counts, from = 0, log.counts, now - log.rule.period
  each_log(bits, function(b, worth)
    counts[b] = counts[b] or entries(log, b, from, now)
    units = units + worth * counts[b]
  end)
  return units
end

-- The first instant at which no more than `room` units count.
local function room_at(r, log, room, now)
  local bits, period = r[5], log.rule.period
  local from, to = now - period, math.max(r[3], now) -- too early, and early enough
  local b = exponent_of(bits)
  if b and not log.added[b] then -- entries of one worth go one by one
    local gone = redis.call('ZCOUNT', log.name .. b, '-inf', int(from))
    local nth = int(gone + math.ceil((log.units - room) / bits) - 1)
    return tonumber(redis.call('ZRANGE', log.name .. b, nth, nth, 'WITHSCORES')[2]) + period
  end
  while to - from > 1 do
    local middle = math.floor((from + to) / 2)
    if logged(log, bits, middle, now) <= room then to = middle else from = middle end
  end
  return to + period
end

ALGORITHMS.L = {
  open = function(rule, old, now, cost, key)
    local log = log_of(key, rule)
    local r, converted = old or {rule.counter, 0, 0, now, 0, 0}, old ~= nil and old[2] - old[3] ~= rule.period
    if converted then r = {rule.counter, old[3] + rule.period, old[3], old[4], old[5], 0} end
    log.units = counted(log, bit.bor(r[5], cost > rule.limit and 0 or cost), now)
    return r, converted
  end,

  passes_at = function(r, rule, cost, now, key)
    local log = key.logs[rule.counter]
    if cost > rule.limit then return nil end
    local room, told = rule.limit - cost, log.told
    if log.units <= room then return now end
    told[room] = told[room] or room_at(r, log, room, now)
    return told[room]
  end,

  charge = function(r, rule, cost, now, key)
    local log = key.logs[rule.counter]
    local last = math.max(r[3], now)
    r[2], r[3], r[4], r[5] = last + rule.period, last, r[4] + 1, bit.bor(r[5], cost)
    log.told, log.units = {}, log.units + cost
    each_log(cost, function(b)
      log.added[b] = log.added[b] or {}
      table.insert(log.added[b], r[4])
      log.counts[b] = log.counts[b] + 1
    end)
  end,

  receipt = function(r) return r[4] end,

  refund = function(r, rule, number, cost, now, key)
    local found, last, log = false, 0, key.logs[rule.counter]
    each_log(cost, function(b)
      if redis.call('ZSCORE', log.name .. b, int(number)) then found = true end
    end)
    each_log(r[5], function(b)
      local newest = redis.call('ZREVRANGE', log.name .. b, 0, 1, 'WITHSCORES')
      last = math.max(last, tonumber(newest[newest[1] == int(number) and 4 or 2] or 0))
    end)
    if found then
      r[2], r[3], log.gone, log.gone_bits = last + rule.period, last, int(number), cost
    end
    return found
  end,

  remaining = function(r, rule, now, key) return rule.limit - key.logs[rule.counter].units end,
  as_new_at = function(r) return r[2] end,
}

-- Writes what the calls have charged, and takes out what was given back. `bits`: of the counter.
local function save_log(log, bits, now)
  local period = log.rule.period
  local life = life_ms(period)
  for b, numbers in pairs(log.added) do
    local name, members = log.name .. b, {}
    for i, number in ipairs(numbers) do members[2 * i - 1], members[2 * i] = int(now), int(number) end
    write('ZADD', name, unpack(members))
    local old = redis.call('ZRANGEBYSCORE', name, '-inf', int(now - period), 'LIMIT', 0, LOG_TRIM * #numbers)
    if #old > 0 then write('ZREM', name, unpack(old)) end
    if not log.converted then write('PEXPIRE', name, life) end
  end
  each_log(log.converted and bits or 0, function(b) write('PEXPIRE', log.name .. b, life) end)
  each_log(log.gone and log.gone_bits or 0, function(b) write('ZREM', log.name .. b, log.gone) end)
end

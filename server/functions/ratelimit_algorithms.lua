-- RateLimitService: the four algorithms. Invariant: none admits more than docs/ratelimit.md specifies, with any charges
-- and refunds, and the times that they return are exact to the microsecond.
--
-- An algorithm is a table of functions on a counter's record r, {name, end, ...}; from `end` on the counter is not
-- needed. charge and refund change the record itself.
--   open(rule, old, now, key)         -> the current record, made from `old` or nil; true if the rule's numbers have
--                                     changed
--   passes_at(r, rule, cost, now, key)  the earliest time at which cost passes, <= now when it passes now; nil = never
--   charge(r, rule, cost, now, key)
--   receipt(r, now)                   the data that refund needs to find the last charge
--   refund(r, rule, receipt, cost, now, key)
--   remaining(r, rule, now, key), as_new_at(r, now): when the counter is as if unused; a past time if it is
-- A rule comes from parse_rule in ratelimit_counters.lua. Instants and periods are microseconds.

-- The microsecond in which a counter began distinguishes it from one that Reset removed.

local CHUNK, LOOK = 512, 32 -- entries of a log in one chunk, and entries read at once

-- floor(a * b / c) and the remainder, exact for a < 2^53 and b, c < 2^45. The product is divided digit by digit, so
-- that no number exceeds 2^53.
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

-- Returns the time for which Redis must keep data that matters for a span of time.
local function life_ms(span)
  return math.ceil(span / 1000)
end

local ALGORITHMS = {}

-- ---- FIXED_WINDOW: {name, end of the window, units, when it began to count, period} -----

ALGORITHMS.F = {
  open = function(rule, old, now)
    local period = rule.period
    if old and old[5] == period then return old end
    -- Another period: the units count as charged in this window.
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
-- before, when the counter began}. Units of the window before count as if they were spread over it
-- evenly: units * (the part of it that the sliding window still covers) / period.

-- Returns the earliest time in a window at which the units of the previous window leave this much room.
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
      -- Another period: all units count as charged now.
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

-- ---- TOKEN_BUCKET: {name, whole, part, limit, period, when the counter began}, GCRA (ITU-T I.371): the bucket is full
-- again at the theoretical arrival time tat = whole - part / limit. A unit moves it by period / limit, which need not
-- be a whole number of microseconds and may be less than one.

-- `units` of them in whole microseconds, and the rest in parts of `limit`.
local function spacing(rule, units)
  return mul_div(units, rule.period, rule.limit)
end

-- Returns the missing units, rounded up.
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

  -- Units refilled since the charge count as returned: returning more could admit more than burst + rate * t.
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

-- ---- SLIDING_LOG: {name, end, time of the last charge, number of the next, live * UNITS + units, time of the oldest}.
-- Charges are numbered; `live` are those from the oldest that may still count, and `units` is their cost. They are kept
-- in chunks, strings of at most CHUNK entries [dI] (time, cost; 0 once it was refunded), after the cost of the whole
-- chunk before [I]; number n is in chunk n / CHUNK, at place n % CHUNK. Times never decrease, so expired charges are
-- dropped from the oldest on, by entries or by chunks. A chunk begins when the one before is full, and in each window
-- of the clock: two periods after its window nothing in it counts.

local UNITS = 1048576 -- more than the maximum of a log, 100,000
local ENTRY, ENTRY_BYTES, SUM_BYTES = '<dI', 12, 4
local DROPPED = 64 -- chunks that one Check removes; the others expire by themselves

local function chunk_of(number)
  return (number - number % CHUNK) / CHUNK
end

-- Returns the number of the oldest entry, the number of the next one, and the units.
local function log_state(r)
  local units = r[5] % UNITS
  return r[4] - (r[5] - units) / UNITS, r[4], units
end

-- Returns the prefix of the names of a counter's chunks.
local function log_name(key, counter)
  return key.base .. 'rate:l:' .. key.id .. ':' .. counter .. ':'
end

-- A counter's log in this FCALL: the chunk of its oldest entry and the number of its next one, as stored; `added`: the
-- entries to write, by chunk; `begun`: the text before them in chunks that begin with them; `told`: the result of a
-- search under the rule.
local function log_of(key, rule, r)
  local logs = key.logs
  if not logs then
    logs = {}
    key.logs = logs
  end
  local log = logs[rule.counter]
  if not log then
    log = {name = log_name(key, rule.counter), first = chunk_of((log_state(r))), next = r[4], period = rule.period,
      added = {}, begun = {}, rule = false, told = false, converted = false, gone = false}
    logs[rule.counter] = log
  end
  return log
end

-- Reads at most `many` entries of a chunk, from a place on.
local function read_entries(log, c, place, many)
  local text, added = '', log.added[c]
  if not log.begun[c] then
    text = redis.call('GETRANGE', log.name .. c, SUM_BYTES + place * ENTRY_BYTES,
      SUM_BYTES + (place + many) * ENTRY_BYTES - 1)
  end
  if added and #text < many * ENTRY_BYTES then
    local stored = log.begun[c] and 0 or log.next % CHUNK
    text = text .. string.sub(added, math.max(place - stored, 0) * ENTRY_BYTES + 1, (place + many - stored) * ENTRY_BYTES)
  end
  return text
end

-- Returns the cost of the previous chunk, and the time of the first entry; nil if the chunk does not exist.
local function read_head(log, c)
  local text = log.begun[c] and log.begun[c] .. log.added[c] or redis.call('GETRANGE', log.name .. c, 0, 11)
  if #text < 12 then return nil end
  return struct.unpack('<Id', text)
end

-- Returns the cost of a whole chunk.
local function sum_of(log, c)
  local text, sum = read_entries(log, c, 0, CHUNK), 0
  for at = 1, #text, ENTRY_BYTES do
    local _, cost = struct.unpack(ENTRY, text, at)
    sum = sum + cost
  end
  return sum
end

-- Returns the cost of all chunks from that one on.
local function units_from(log, c, next)
  local units, last = 0, chunk_of(next - 1)
  for k = c, last do units = units + (k < last and read_head(log, k + 1) or sum_of(log, k)) end
  return units
end

-- Passes over the entries from the oldest on, while they are not after `till` and more than `room` units are left. ->
-- number, units and time of the rest (no time: nothing is left), the time of the last entry that it passed
local function walk(r, log, till, room)
  local number, next, units = log_state(r)
  local passed
  while number < next do
    local c, place = chunk_of(number), number % CHUNK
    local sum, instant
    if place == 0 and c < chunk_of(next - 1) then sum, instant = read_head(log, c + 1) end
    if sum and instant <= till and units - sum > room then
      units, number = units - sum, number + CHUNK
    else
      local text, at = read_entries(log, c, place, LOOK), 1
      -- The chunk has expired, with everything in it.
      if text == '' and c < chunk_of(next - 1) then units = units_from(log, c + 1, next) end
      while at < #text do
        local cost
        instant, cost, at = struct.unpack(ENTRY, text, at)
        if instant > till or units <= room then return number, units, instant, passed end
        units, number, passed = units - cost, number + 1, instant
      end
      if #text < LOOK * ENTRY_BYTES then number = (c + 1) * CHUNK end
    end
  end
  return next, 0, nil, passed
end

-- Drops the charges up to `till`.
local function drop(r, rule, till, key)
  if r[5] < UNITS or r[6] > till then return end
  local number, units, instant = walk(r, log_of(key, rule, r), till, -math.huge)
  r[5], r[6] = (r[4] - number) * UNITS + units, instant or 0
end

-- Returns the time of the newest entry that was not refunded, except one; 0: none.
local function newest(r, log, but)
  local oldest, number = log_state(r)
  while number > oldest do
    local c = chunk_of(number - 1)
    local text = read_entries(log, c, 0, CHUNK)
    for place = math.min(#text / ENTRY_BYTES, number - c * CHUNK) - 1, 0, -1 do
      local instant, cost = struct.unpack(ENTRY, text, place * ENTRY_BYTES + 1)
      if cost > 0 and c * CHUNK + place ~= but then return instant end
    end
    number = c * CHUNK
  end
  return 0
end

ALGORITHMS.L = {
  open = function(rule, old, now, key)
    local r, converted = old or {rule.counter, 0, 0, 0, 0, 0}, old ~= nil and old[2] - old[3] ~= rule.period
    if converted then
      r = {rule.counter, old[3] + rule.period, old[3], old[4], old[5], old[6]}
      local log = log_of(key, rule, r)
      log.converted, log.period = true, rule.period
    end
    drop(r, rule, now - rule.period, key)
    return r, converted
  end,

  passes_at = function(r, rule, cost, now, key)
    local room = rule.limit - cost
    if room < 0 then return nil end
    if r[5] % UNITS <= room then return now end
    local log = log_of(key, rule, r)
    if log.rule ~= rule then log.rule, log.told = rule, {} end
    if not log.told[room] then
      local _, _, _, last = walk(r, log, math.huge, room)
      log.told[room] = (last or r[3]) + rule.period
    end
    return log.told[room]
  end,

  charge = function(r, rule, cost, now, key)
    local log, period, oldest, number, units = log_of(key, rule, r), rule.period, log_state(r)
    local last = math.max(r[3], now)
    local place = number % CHUNK
    if place > 0 and window_start(last, period) ~= window_start(r[3], period) then
      number, place = number - place + CHUNK, 0
    end
    if units == 0 then oldest, r[6] = number, last end
    local c = chunk_of(number)
    if place == 0 then log.begun[c] = struct.pack('<I', oldest < number and sum_of(log, c - 1) or 0) end
    log.added[c] = (log.added[c] or '') .. struct.pack(ENTRY, last, cost)
    r[2], r[3], r[4], r[5] = last + period, last, number + 1, (number + 1 - oldest) * UNITS + units + cost
    log.rule, log.period = false, period -- the remembered result is invalid
  end,

  receipt = function(r) return {r[4] - 1, r[3]} end,

  refund = function(r, rule, receipt, cost, now, key)
    local log, number, oldest, next, units = log_of(key, rule, r), receipt[1], log_state(r)
    if number < oldest or number >= next then return false end
    local c, place = chunk_of(number), number % CHUNK
    local text = read_entries(log, c, place, 1)
    if text ~= struct.pack(ENTRY, receipt[2], cost) then return false end
    log.gone = {chunk = c, place = place, cost = cost, sum = c < chunk_of(next - 1) and read_head(log, c + 1)}
    if receipt[2] == r[3] then r[3] = newest(r, log, number) end
    r[2], r[5] = r[3] + rule.period, (next - oldest) * UNITS + units - cost
    return true
  end,

  remaining = function(r, rule) return rule.limit - r[5] % UNITS end,
  as_new_at = function(r) return r[2] end,
}

-- Writes charges and removes refunded ones. Runs before the record is written, because the first write detects foreign
-- data.
local function save_log(log, r, now)
  local period, oldest, next = log.period, log_state(r)
  local life = life_ms(window_start(r[3], period) + 2 * period - now)
  local removed = {}
  for c, entries in pairs(log.added) do
    local name, before = log.name .. c, log.begun[c]
    if before then
      write('SET', name, before .. entries, 'PX', life)
    elseif write('APPEND', name, entries) ~= SUM_BYTES + #entries + log.next % CHUNK * ENTRY_BYTES then
      removed[1] = name -- it was lost
    end
  end
  for c = log.first, math.min(chunk_of(oldest), log.first + DROPPED) - 1 do removed[#removed + 1] = log.name .. c end
  if #removed > 0 then write('UNLINK', unpack(removed)) end
  if log.converted then
    for c = chunk_of(oldest), chunk_of(next - 1) do write('PEXPIRE', log.name .. c, life) end
  end
  local gone = log.gone
  if gone then
    write('SETRANGE', log.name .. gone.chunk, SUM_BYTES + gone.place * ENTRY_BYTES + 8, struct.pack('<I', 0))
    if gone.sum then write('SETRANGE', log.name .. (gone.chunk + 1), 0, struct.pack('<I', gone.sum - gone.cost)) end
  end
end

-- Random schedules against a model that keeps every charge and counts again each time, in exact integers. Each answer
-- is compared; each wait of an answer is tried at its end and a millisecond before; and what was admitted is checked
-- against the bound of each algorithm at every time.
require "ratelimit"

-- Limits under test. Periods are minutes, so that real time does not matter. In microseconds.
local S = 1000000
local function limit(rule, kind, units, period, burst, after, ban, factor, most, shadow)
  return {rule = rule, kind = kind, limit = units, period = period * S, burst = burst or units, after = after or 0,
    ban = (ban or 0) * S, factor = factor or 1, max_ban = (most or 31622400) * S, shadow = shadow}
end
local LIMITS = {
  limit("FIXED 7/60000", "F", 7, 60),
  limit("LOG 7/60000", "L", 7, 60),
  limit("WINDOW 7/60000", "S", 7, 60),
  limit("BUCKET 7/60000", "B", 7, 60),
  limit("BUCKET 13/97000 burst=5", "B", 13, 97, 5),
  limit("FIXED 5/60000 after=7 ban=20000 factor=3 max=150000", "F", 5, 60, 5, 7, 20, 3, 150),
  limit("LOG 9/41000 after=5 ban=30000", "L", 9, 41, 9, 5, 30),
  limit("BUCKET 6/60000 burst=2 after=3 ban=5000 factor=2", "B", 6, 60, 2, 3, 5, 2),
  limit("@window", "S", 6, 50, 6, 4, 9),
  limit("@shadow", "L", 4, 60, 4, 6, 10, 2, nil, true),
}
local KEYS, IDS = {"bob", "e:ve"}, 24
local counters, requests, base -- counters by key and limit; requests by number; the first instant

local function now() return now_us() - base end -- small enough for exact products
local function window_of(at, period) return at - (at + base) % period end

-- ---- the state of a counter ----

-- Units charged in (after, until], without refunds.
local function units(c, after, till)
  local sum = 0
  for i = #c.charges, 1, -1 do
    local x = c.charges[i]
    if x.at <= after then break end
    if x.at <= till and not x.forgotten then sum = sum + x.cost - x.given_back end
  end
  return sum
end
local function round_up(a, b) return -(-a // b) end

-- How many units would pass at a later time if nothing else happened; negative when over.
local function room(l, c, at)
  local start = window_of(at, l.period)
  if l.kind == "F" then return l.limit - units(c, start - 1, at) end
  if l.kind == "L" then return l.limit - units(c, at - l.period, at) end
  if l.kind == "S" then
    local before = units(c, start - l.period - 1, start - 1)
    return l.limit - round_up(before * (start + l.period - at) + units(c, start - 1, at) * l.period, l.period)
  end
  return l.burst - round_up(math.max(0, c.tat - at * l.limit), l.period)
end

local function as_new_at(l, c, at)
  local start = window_of(at, l.period)
  if l.kind == "F" then return units(c, start - 1, at) > 0 and start + l.period or at end
  if l.kind == "L" then
    for i = #c.charges, 1, -1 do
      local x = c.charges[i]
      if not x.forgotten and x.given_back == 0 then return math.max(at, x.at + l.period) end
    end
    return at
  end
  if l.kind == "S" then
    if units(c, start - 1, at) > 0 then return start + 2 * l.period end
    return units(c, start - l.period - 1, start - 1) > 0 and start + l.period or at
  end
  return math.max(at, round_up(c.tat, l.limit))
end

local function tries_of(c, l, at) return c.tries_window == window_of(at, l.period) and c.tries or 0 end

-- Whether the check can pass at a later time.
local function passes(l, c, cost, at)
  if l.after > 0 and (at < c.ban_end or tries_of(c, l, at) >= l.after) then return false end
  return room(l, c, at) >= cost
end

local function retry_ms(l, c, cost, at)
  local low, high = 0, 1 << 33 -- ms: denied, and passes
  if cost > l.burst then return -1 end
  while high - low > 1 do
    local middle = (low + high) // 2
    if passes(l, c, cost, at + middle * 1000) then high = middle else low = middle end
  end
  return high
end

-- ---- the effect of a check ----

local function add_charge(l, c, cost, at)
  local charge = {at = at, cost = cost, given_back = 0}
  c.charges[#c.charges + 1] = charge
  if l.kind == "B" then c.tat = math.max(c.tat, at * l.limit) + cost * l.period end
  return charge
end

local function give_back(l, c, x)
  if x.forgotten then return end
  x.refunded = true
  if l.kind == "B" then
    c.tat = c.tat - math.max(0, x.cost * l.period - (now() - x.at) * l.limit)
  else
    x.given_back = x.cost
  end
end

local function count_try(l, c, at)
  c.tries, c.tries_window = tries_of(c, l, at) + 1, window_of(at, l.period)
  if c.tries <= l.after then return end
  local again = c.ban > 0 and at < c.ban_end + math.max(c.ban, l.period)
  c.ban = math.min(again and c.ban * l.factor or l.ban, l.max_ban)
  c.ban_end, c.tries = at + c.ban, 0
end

-- ---- one step ----

local function random_check()
  local a = {cost = pick(3) == 0 and 1 + pick(10) or 1, independent = pick(4) == 0, peek = pick(8) == 0, rules = {}}
  local n, seen, words = pick(2) == 0 and 1 or 1 + pick(4), {}, {}
  while #a.rules < n do
    local k, l = pick_from(KEYS), pick_from(LIMITS)
    local word = k .. " " .. l.rule
    if not seen[word] then
      a.rules[#a.rules + 1], words[#words + 1], seen[word] = {limit = l, counter = counters[k][l]}, word, true
    end
  end
  a.text = table.concat(words, ";")
  return a
end

local function send(a, more)
  return check(a.text, with({cost = a.cost, peek = a.peek, mode = a.independent and "INDEPENDENT" or "ALL_OR_NOTHING"}, more))
end

local WORDS = {[0] = "ALLOWED", "DENIED", "BANNED"}

-- The answer of the check, and its charges in the model; whether that is an effect.
local function decide(a, at)
  local all_pass, worst, charged, parts = true, 0, {}, {}
  for _, r in ipairs(a.rules) do
    r.banned = r.limit.after > 0 and at < r.counter.ban_end
    r.refuses = not passes(r.limit, r.counter, a.cost, at)
    all_pass = all_pass and (not r.refuses or r.limit.shadow)
  end
  for _, r in ipairs(a.peek and {} or a.rules) do
    local l, c = r.limit, r.counter
    if not r.refuses and (a.independent or all_pass) then
      charged[#charged + 1] = {limit = l, counter = c, charge = add_charge(l, c, a.cost, at)}
    end
    if l.after > 0 and not r.banned and (a.independent or all_pass or r.refuses) then
      count_try(l, c, at)
      r.banned = at < c.ban_end
    end
  end
  for i, r in ipairs(a.rules) do
    local l, c = r.limit, r.counter
    local outcome = r.banned and 2 or r.refuses and 1 or 0
    local retry = outcome == 0 and 0 or retry_ms(l, c, a.cost, at)
    if l.shadow then outcome = 0 end
    worst = math.max(worst, outcome)
    parts[i] = (": %s %d %d %d %d %d"):format(WORDS[outcome], l.limit, math.max(0, room(l, c, at)), retry,
      round_up(as_new_at(l, c, at) - at, 1000), r.banned and round_up(c.ban_end - at, 1000) or 0)
  end
  return WORDS[worst] .. table.concat(parts), charged, worst == 0 or #charged > 0
end

-- Asks again at the time of the answer, and a millisecond before; then the clock stays there.
local function step_wait(a, wait_ms)
  advance(wait_ms - 1); eq(send(a, {peek = true}).outcome == "ALLOWED", false)
  advance(1); send(a, {peek = true}) "ALLOWED:..."
end

-- Until when a check is remembered: while it may be repeated, and while its charges count.
local function end_of(charged, at)
  local ends = at + 6 * S -- the harness' second, and the margin
  for _, x in ipairs(charged) do ends = math.max(ends, as_new_at(x.limit, x.counter, at)) end
  return ends
end

local function step_check()
  local at, a, id = now(), random_check(), nil
  if not a.peek and pick(3) == 0 then
    id = pick(IDS)
    a.cost, a.independent = 2, false -- the model compares the rules only
    local r = requests[id]
    if r and at < r.ends then
      if pick(2) == 0 then a.text = r.text end
      send(a, {request_id = "r" .. id})(a.text == r.text and r.told:gsub("^%u+", "%0 replayed", 1)
        or "ALREADY_EXISTS NO request_id:...")
      return
    end
  end
  local told, charged, effect = decide(a, at)
  local got = send(a, {request_id = id and "r" .. id})(told)
  if id and effect then requests[id] = {text = a.text, told = told, charged = charged, ends = end_of(charged, at)} end
  local wait, never = 0, false
  for i, r in ipairs(got.rules) do
    if not a.rules[i].limit.shadow then
      wait, never = math.max(wait, r.retry_after_ms), never or r.retry_after_ms < 0
    end
  end
  -- Charges beside a rule that refuses may stop the repeat.
  if wait > 0 and not never and #charged == 0 and pick(20) == 0 then step_wait(a, wait) end
end

local function step_refund()
  local id = pick(IDS)
  local r = requests[id]
  local known = r and now() < r.ends
  refund("r" .. id)(not known and "UNKNOWN" or r.refunded and "ALREADY_REFUNDED" or "REFUNDED")
  if not known or r.refunded then return end
  r.refunded = true
  for _, x in ipairs(r.charged) do give_back(x.limit, x.counter, x.charge) end
end

local function step_reset()
  if pick(40) > 0 then return end
  local k = pick_from(KEYS)
  reset(k) "OK"
  advance(1) -- a counter differs from the previous one by its beginning
  for _, c in pairs(counters[k]) do
    for _, x in ipairs(c.charges) do x.forgotten = true end
    c.tat, c.tries, c.ban_end, c.ban = 0, 0, 0, 0
  end
end

local function step_time()
  local period = pick_from(LIMITS).period
  local edge = window_of(now(), period) + period - now()
  advance_us(pick_from{1 + pick(3), edge - 1, edge, pick(100 * S), pick(9 * S), pick(9 * S)})
end

-- ---- the bounds, over all that was admitted ----

local function within_bounds(l, c)
  for i, first in ipairs(c.charges) do
    local window_end, sum = window_of(first.at, l.period) + l.period, 0
    if not first.forgotten then -- what Reset forgot may be charged again
      for k = i, #c.charges do
        local x = c.charges[k]
        local span = x.at - first.at
        if l.kind == "B" then
          sum = sum + (x.refunded and 0 or x.cost)
          eq(sum * l.period, within(0, l.burst * l.period + span * l.limit))
          if span > 40 * l.period then break end
        else
          sum = sum + x.cost - x.given_back
          if l.kind == "F" and x.at < window_end or l.kind == "L" and span < l.period then eq(sum, within(0, l.limit)) end
          if l.kind == "S" and span <= l.period then eq(sum * l.period, within(0, l.limit * (l.period + span))) end
          if span > l.period then break end
        end
      end
    end
  end
end

-- promise R34
-- promise R11: INDEPENDENT charges each for itself
-- promise R5: outcome: the worst of the rules; rules[] in their order
-- promise R1
-- promise R2: SLIDING_LOG: at most limit in every window
-- promise R3: SLIDING_WINDOW: at most limit * (1 + s / period) in a span s
-- promise R4: TOKEN_BUCKET: burst + rate * t, also below a microsecond
-- promise R6
-- promise R7: retry_after_ms: passes exactly then
-- promise R8
-- promise R20
-- promise R24: Refund: never more than the counter holds
function case.random_schedules_do_as_the_model()
  rounds(10, 200, function() -- of 2,000 steps
    counters, requests, base = {}, {}, now_us()
    shorten_chunks()
    for _, k in ipairs(KEYS) do
      counters[k] = {}
      for _, l in ipairs(LIMITS) do counters[k][l] = {charges = {}, tat = 0, tries = 0, ban_end = 0, ban = 0} end
    end
    put_policy("window", "WINDOW 6/50000 after=4 ban=9000") {policy = any}
    put_policy("shadow", "LOG 4/60000 after=6 ban=10000 factor=2", {shadow = true}) {policy = any}
    for _ = 1, 2000 do
      harness.server("server" .. pick(3)); choose{1, step_refund, 1, step_reset, 3, step_time, 11, step_check}
      harness.forget()
    end
    -- All keys end by themselves.
    eval("local n = 0 for _, key in ipairs(redis.call('KEYS', 'ls:{default/g}:*')) do\n"
      .. "if redis.call('PTTL', key) < 0 then n = n + 1 end end return n") "0"
    for _, of_key in pairs(counters) do
      for l, c in pairs(of_key) do within_bounds(l, c) end
    end
  end)
end

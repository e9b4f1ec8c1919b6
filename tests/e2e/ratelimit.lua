-- RateLimitService on two servers and one Redis, in real time: callers of one key never get more than each algorithm's
-- bound while a server is killed; a policy reaches the other server; what works while the store is short of memory.
require "ratelimit"

local LIMIT, PERIOD_US, AT_A_TIME = 20, 500000, 16

function setup() two_servers() end -- in real time, which lib/ratelimit.lua does not have

-- Calls for so long, several at a time, over both servers; server 1 is killed and restarted on the way. A list of units
-- that were allowed for each algorithm: when the call was sent, and when its answer was there.
local function hammer(us)
  local rules = "hot FIXED 20/500;hot LOG 20/500;hot WINDOW 20/500;hot BUCKET 20/500"
  local allowed, calls, begun, killed = {{}, {}, {}, {}}, {}, world.now_us(), false
  repeat
    local now = world.now_us()
    for i = 1, AT_A_TIME do
      local c = calls[i]
      if c and c.call.done() then
        local got = c.call()
        for k, rule in ipairs(got.response and got.rules or {}) do
          if rule.outcome == "ALLOWED" then table.insert(allowed[k], {sent = c.sent, told = world.now_us()}) end
        end
        calls[i] = nil
      end
      if not calls[i] and now < begun + us then
        use(1 + i % 2)
        calls[i] = {sent = world.now_us(), call = start(RateLimit.Check, check_request(rules, {mode = "INDEPENDENT"}))}
      end
    end
    if not killed and now > begun + us // 3 then
      killed = true
      servers[1]:kill()
      servers[1]:restart()
    end
  until next(calls) == nil
  return allowed
end

-- The most units that were certainly allowed within [from, from + span].
local function certainly_in(all, from, span)
  local n = 0
  for _, unit in ipairs(all) do if unit.sent >= from and unit.told <= from + span then n = n + 1 end end
  return n
end

-- promise C19
function case.bounds_hold_while_callers_hammer_and_a_server_dies()
  local fixed, log, window, bucket = table.unpack(hammer(count(3, 30) * 1000000))
  for _, all in ipairs{fixed, log, window, bucket} do eq(#all >= LIMIT, true) end
  for _, unit in ipairs(fixed) do
    eq(certainly_in(fixed, unit.sent - unit.sent % PERIOD_US, PERIOD_US - 1), within(0, LIMIT))
  end
  for _, unit in ipairs(log) do eq(certainly_in(log, unit.sent, PERIOD_US - 1), within(0, LIMIT)) end
  for _, row in ipairs{{window, PERIOD_US}, {bucket, 4 * PERIOD_US}} do
    for _, first in ipairs(row[1]) do
      for _, last in ipairs(row[1]) do
        local span = last.told - first.sent
        if span >= 0 and span <= row[2] then
          eq(certainly_in(row[1], first.sent, span), within(0, LIMIT * (1 + span / PERIOD_US)))
        end
      end
    end
  end
end

local function limit_in_force(policy)
  local got = check("bob @" .. policy)
  return got.response and got.rules[1].limit or says(got.error.code, "NOT_FOUND") and 0
end

function case.a_policy_reaches_the_other_server()
  use(2); eq(limit_in_force "spread", 0)
  for limit = 1, 3 do
    use(1); put_policy("spread", "LOG " .. limit .. "/3600000")
    eq(limit_in_force "spread", limit)
    use(2); until_(function() return limit_in_force "spread" == limit end)
  end
  delete_policy "spread" "OK"
  use(1); until_(function() return limit_in_force "spread" == 0 end)
end

function case.without_memory_only_checks_are_refused()
  put_policy("memory", "LOG 5/3600000")
  check("bob @memory", {request_id = "first"}) {rules = {{remaining = 4}}}
  redis "CONFIG SET maxmemory 1"
  check "bob @memory" "RESOURCE_EXHAUSTED NO..."
  refund "first" "REFUNDED"
  use(2); refund "first" "ALREADY_REFUNDED"
  reset "bob" "OK"
  redis "CONFIG SET maxmemory 0"
  check("bob @memory", {request_id = "second"}) {rules = {{remaining = 4}}}
end

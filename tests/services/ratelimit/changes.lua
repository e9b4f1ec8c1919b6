-- Policies change at random while three servers use them, each with its own memory: no server uses numbers that were
-- replaced more than a second ago, and what is admitted stays within the bound of the numbers that admitted it,
-- counting what the old ones have admitted.
require "ratelimit"

local PERIOD = 20000000 -- microseconds
local policies

-- The bucket's rate stays ten a period; its burst changes.
local function put_change(p)
  local units = 1 + pick(9)
  local limit = p.name == "BUCKET" and "BUCKET 10/20000 burst=" .. units or p.name .. " " .. units .. "/20000"
  put_policy(p.name, limit) {policy = any}
  p.changes[#p.changes + 1] = {at = now_us(), units = units}
end

-- The highest of the numbers that were in force within the last second; whether `units` was one of them.
local function most_in_force(p, units)
  local most, known = 0, false
  for i = #p.changes, 1, -1 do
    local change = p.changes[i]
    most, known = math.max(most, change.units), known or change.units == units
    if change.at <= now_us() - 1000000 then break end -- all before it were replaced by then
  end
  return most, known
end

-- Checks what was just admitted against the bound of `units`.
local function expect_bound(p, units)
  local now, sum = now_us(), 0
  local window = now - now % PERIOD
  for i = #p.charges, 1, -1 do
    local at = p.charges[i].at
    local span = now - at
    sum = sum + p.charges[i].cost
    if span > 4 * PERIOD then break end
    if p.name == "FIXED" and at >= window or p.name == "LOG" and span < PERIOD
      or p.name == "WINDOW" and span <= PERIOD and at >= window then
      eq(sum, within(1, units))
    end
    if p.name == "BUCKET" and (i == 1 or p.charges[i - 1].at < at) then
      eq(sum * PERIOD, within(1, units * PERIOD + span * 10))
    end
  end
end

local function step_check()
  local p, cost = pick_from(policies), 1 + pick(3)
  local got = check("bob @" .. p.name, cost) {rules = {{}}}
  local limit = got.rules[1].limit
  local most, known = most_in_force(p, limit)
  if p.name ~= "BUCKET" and not known then
    error(("%s: a limit of %d was replaced more than a second ago"):format(p.name, limit))
  end
  if got.outcome ~= "ALLOWED" then return end
  p.charges[#p.charges + 1] = {at = now_us(), cost = cost}
  expect_bound(p, p.name == "BUCKET" and most or limit)
end

-- promise R30: a change takes effect on all servers within a second; the cache is bounded
-- promise R31: new limits keep the counter within the new bound; another algorithm starts afresh
function case.changes_are_in_force_within_a_second_and_keep_their_bound()
  rounds(4, 80, function() -- of 2,500 steps
    policies = {}
    for i, name in ipairs{"FIXED", "LOG", "WINDOW", "BUCKET"} do
      policies[i] = {name = name, changes = {}, charges = {}}
      put_change(policies[i])
    end
    for _ = 1, 2500 do
      harness.server("server" .. pick(3))
      choose{1, function() put_change(pick_from(policies)) end, 1, function() advance_us(pick(PERIOD)) end,
        10, function() advance_us(pick(500000)) end, 28, step_check}
      harness.forget()
    end
  end)
end

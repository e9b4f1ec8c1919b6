-- Calls that share an FCALL have the answers and effects of the same calls one after the other: random calls of few
-- tokens and names are made twice. The clock is stopped within a batch.
-- promise L49
require "lock"

local NAMES, TOKENS = 4, 12
local function token(i) return ("T%02d-of-sixteen-bytes"):format(i) end

local function some_names(n)
  local first = pick(NAMES)
  return repeated(n, function(k) return "n" .. (first + k) % NAMES end)
end

local makes = {
  ["Lock.Acquire"] = function(of)
    local targets = {}
    for k, name in ipairs(some_names(1 + (pick(3) == 0 and pick(3) or 0))) do
      local mode = pick(6)
      targets[k] = {name = name, mode = mode == 4 and "SHARED" or mode == 5 and "PERMIT" or nil,
        capacity = mode == 5 and 3 or nil, permits = mode == 5 and 1 + pick(2) or nil}
    end
    return {group = "g", token = of, owner = of, lease_ms = LEASE, targets = targets}
  end,
  ["Lock.Release"] = function(of) return {group = "g", token = of, names = some_names(pick(3))} end,
  ["Lock.Renew"] = function(of)
    return {leases = {{group = "g", names = some_names(pick(3)), token = of, lease_ms = LEASE * (1 + pick(3))}}}
  end,
}
local methods = {"Lock.Acquire", "Lock.Acquire", "Lock.Acquire", "Lock.Release", "Lock.Release", "Lock.Renew"}

-- The text of an answer; a BUSY may name any of several holders.
local function note(log, answered)
  log[#log + 1] = tostring(answered):gsub(" by .*", "")
  local r = answered.response
  if r and r.fences then
    for _, f in ipairs(r.fences) do log[#log + 1] = f.name .. "=" .. f.fence end
  end
  if r and r.results then log[#log + 1] = r.results[1].lease_ms end
  if r and r.lease_ms then log[#log + 1] = r.lease_ms end
end

local function run(together, steps)
  local log = {}
  harness.reset(); redis "SET ls:test:clock_still_us 1700000000000000"
  for _, step in ipairs(steps) do
    local method = Lock[step.method:match("%.(.*)")]
    local answers = together and method.together(step.requests) or {}
    for i, request in ipairs(step.requests) do
      -- The Release of an unknown token has a second round, which is never shared.
      if not together or not answers[i].response and answers[i].error.code == "OK" then answers[i] = method(request) end
      note(log, answers[i])
    end
    if step.pass then pass(LEASE / 1000 // 3) end
  end
  for n = 0, NAMES - 1 do log[#log + 1] = tostring(inspect("n" .. n)) .. " " .. inspect("n" .. n).last_fence end
  return table.concat(log, "\n")
end

function case.a_batch_is_its_calls_one_by_one()
  rounds(100, 3000, function()
    local steps = repeated(60, function()
      local method = pick_from(methods)
      return {method = method, pass = pick(4) == 0,
        requests = repeated(1 + pick(8), function() return makes[method](token(pick(TOKENS))) end)}
    end)
    eq(run(true, steps), run(false, steps))
  end)
end

-- ---- tries of one name ----

local function try_of(i)
  return {group = "g", token = token(i), owner = token(i), lease_ms = LEASE, targets = {{name = "n0"}}}
end
local function try_all(...)
  local list = {}
  for i, of in ipairs{...} do list[i] = try_of(of) end
  return (texts(Lock.Acquire.together(list)):gsub("%-of%-sixteen%-bytes", ""))
end

-- The first call reads the name and its holder; the others only look whether their tokens are known.
function case.tries_of_a_taken_name_read_it_once()
  redis_only "calls share an FCALL"
  Lock.Acquire(try_of(0)) "ACQUIRED"
  eq(commands_of("get", function()
    try_all(1, 2, 3, 4, 5, 6, 7)(("BUSY n0 held by T00, "):rep(6) .. "BUSY n0 held by T00")
  end), 2 + 7)
end

function case.holder_in_a_batch_is_answered_as_the_holder()
  Lock.Acquire(try_of(0)); try_all(1, 0, 2) "BUSY n0 held by T00, ACQUIRED again, BUSY n0 held by T00"
  redis("DEL", "ls:{default/g}:lock:t:" .. token(0))
  try_all(1, 0, 2) "BUSY n0 held by , TOKEN_SPENT, BUSY n0 held by "
end

-- More calls than the store can handle, until it recovers: calls past their deadline are not run, those that
-- release or renew are not refused, and afterwards all calls succeed. The store is a redis-server that is stopped.
require "lock"
require "stock"

local FEW, CALLS, LOCKS = {"--in-flight", "8", "--in-flight-per-connection", "8"}, 200, 40

-- Each call is sent at once, whatever waits.
local EAGER = {in_flight_max = 8192, no_retry = true, timeout_ms = 60000}

local function stop_redis(what) world.kill(servers[1]:redis_pid(), what) end
local function deduct_start(order, timeout_ms)
  return start(Stock.Deduct, deduct_request(order, "-", "a:1"), {timeout_ms = timeout_ms or 60000})
end

-- promise K16 Whose time is over first, the server's or the client's, is chance: it is tried until some calls were
-- not run, and some may have been.
function case.calls_past_their_deadline_are_not_run()
  local ordered, round = 0, 0
  server({args = FEW}, EAGER)
  put "a 100000"
  until_(function()
    local calls, maybe, over = {}, 0, 0
    round = round + 1
    stop_redis "STOP"
    for i = 1, CALLS do calls[i] = deduct_start(("o%d-%d"):format(round, i), 400) end
    for i, call in ipairs(calls) do
      local got = call()
      eq(got.response, nil)
      calls[i] = got.error
      maybe = maybe + (got.error.applied == "MAYBE" and 1 or 0)
      over = over + (got.error.code == "DEADLINE_EXCEEDED" and got.error.applied == "NO" and 1 or 0)
    end
    stop_redis "CONT"
    for i = 1, CALLS do
      if order(("o%d-%d"):format(round, i)).response then
        ordered = ordered + 1
        eq(calls[i].applied, "MAYBE")
      end
    end
    return maybe > 0 and over > 0
  end)
  eq(stock "a".item.available, 100000 - ordered)
end

-- promise K14
function case.releases_succeed_under_overload_and_then_all_calls_do()
  local taking, releases, taken = {}, {}, 0
  local s = server({args = FEW}, EAGER)
  put "a 1000"
  for i = 1, LOCKS do acquire(("T%d l%d"):format(i, i)) "ACQUIRED" end
  stop_redis "STOP"
  for k = 1, 4 do
    use(open(s:url(), EAGER))
    for i = 1, CALLS do taking[#taking + 1] = deduct_start(("o%d-%d"):format(k, i)) end
  end
  use(open(s:url(), EAGER))
  for i = 1, LOCKS do releases[i] = start(Lock.Release, {group = "g", token = token_of("T" .. i)}) end
  stop_redis "CONT"
  for _, call in ipairs(releases) do call "RELEASED" end
  for _, call in ipairs(taking) do
    local got = call()
    if got.response then taken = taken + 1 else got "RESOURCE_EXHAUSTED NO..." end
  end
  eq(stock "a".item.available, 1000 - taken)
  for i = 1, LOCKS do acquire(("U%d l%d"):format(i, i)) "ACQUIRED" end -- it is free, and there is room
end

-- ---- the end of a drain: a server that drains for no time ----

local function start_ending()
  store = world.redis{append_only = true}
  server({store = store:url(), args = {"--in-flight", "8", "--drain-ms", "0"}}, EAGER)
end

-- Stops the server; each open call gets the error of the stop.
local function expect_stopped(calls)
  servers[1]:signal "TERM"
  for _, call in ipairs(calls) do
    local got = call()
    if got.error.code ~= "RESOURCE_EXHAUSTED" then eq(got.error, {code = "UNAVAILABLE", from_peer = true}) end
  end
  servers[1]:ended(0)
end

-- promise W15
-- There is no room for the last of them: all are there.
function case.shutdown_answers_all_queued_calls()
  local calls = {}
  start_ending()
  world.kill(store:pid(), "STOP")
  for i = 1, CALLS do calls[i] = deduct_start("o" .. i) end
  until_(function() return calls[CALLS].done() end)
  expect_stopped(calls)
end

-- promise W15
function case.shutdown_answers_all_waiting_calls()
  local calls = {}
  start_ending()
  acquire "T l" "ACQUIRED"
  for i = 1, CALLS do
    calls[i] = start(Lock.Acquire, with(acquire_request("W" .. i, "l"), {wait_ms = 60000}), {timeout_ms = 120000})
    -- No more at once than may queue for room to run.
    if i % LOCKS == 0 then until_(function() return inspect "l".waiters == i end) end
  end
  expect_stopped(calls)
end

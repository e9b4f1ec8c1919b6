-- Calls with guards that do not end by their handler's return: the caller disconnects, the host is closed, killed or
-- frozen, or the handler continues after it returned.
require "guarded"

local ENDING = "UNAVAILABLE NO the server is shutting down"

-- ---- callers that disconnect ----

-- promise GD14
function case.caller_that_disconnects_in_the_queue_of_a_lock_leaves_it()
  local first, other = hold("Queue", X), to_host(host)
  begin("Queue", X2, other)
  until_waiters(1)
  other:close()
  until_waiters(0)
  let_end(first)
  eq(n_effects "o-2", 0)
end

-- An Enter with an attempt keeps waiting for its locks, and gives them back at once when they are granted.
-- promise GD14
function case.what_is_granted_to_a_caller_who_went_away_is_given_back()
  local first, other = hold("Queue", X), to_host(host)
  begin("Buy", X2, other)
  until_waiters(1)
  other:close()
  let_end(first)
  eq(buy("Buy", X2), {attempt = 2})
  eq(n_effects "o-2", 1)
end

-- An Enter that waits may still begin an attempt when its caller is gone: that attempt ends at once.
-- promise GD14: a caller that disconnects leaves queues; attempts that begin for it are given back
function case.attempt_begun_for_a_disconnected_caller_is_given_back()
  local fails, other = with(X, {code = 10}), to_host(host) -- ABORTED
  local first = hold("Buy", fails)
  begin("Buy", doing("WAIT", fails), other)
  ended(begin("Once", order "o-2", other)) "YES" -- behind it on its connection, and answered by the only thread that is left
  other:close()
  open_gate()
  ended(first) "ABORTED NO order_id: not now"
  buy("Buy", doing("WAIT", fails)) "ABORTED NO order_id: not now"
end

-- Occupies all threads of the host with handlers that wait for the gate.
local function occupy()
  local busy = {}
  for i = 1, THREADS do busy[i] = hold("Free", X) end
  return busy
end
local function let_all_end(busy)
  open_gate()
  for _, call in ipairs(busy) do ended(call) "YES" end
end

-- A call of order o-2 whose guards have admitted it: it has item x, and no thread is free for it.
local function admit_without_thread(method, way)
  local target = {group = "items", token = token_of "T"}
  Lock.Acquire(with(target, {lease_ms = LIMIT, targets = {{name = "item:x"}}})) "ACQUIRED"
  local call = begin(method, X2, way)
  until_waiters(1)
  local busy = occupy()
  Lock.Release(target) "RELEASED..."
  until_waiters(0)
  until_holders(1)
  return busy, call
end

-- promise GD15
function case.locks_are_released_if_the_caller_leaves_before_a_thread_is_free()
  local other = to_host(host)
  local busy = admit_without_thread("Buy", other)
  other:close()
  until_holders(0)
  let_all_end(busy)
  eq(n_effects "o-2", 0)
  eq(buy("Buy", X2), {attempt = 2})
end

-- The effect happens, and a repeat gets its result.
function case.a_handler_whose_caller_goes_away_ends_and_its_result_is_stored()
  local other = to_host(host)
  hold("Buy", X, other)
  other:close()
  open_gate()
  until_holders(0)
  eq(buy("Buy", doing("WAIT", X)), {attempt = 1})
  eq(n_effects(), 1)
end

-- Its leases were not renewed while it waited for a thread, so others may hold its locks.
-- promise GD15: a call whose caller disconnects, or that a drain refuses after its admission, holds nothing; a call that
--   lost its locks before it runs does not run
function case.call_that_lost_its_locks_before_a_thread_was_free_does_not_run()
  local busy, call = admit_without_thread("Short")
  servers[1]:signal "STOP"
  local until_ms = world.now_ms() + SHORT
  until_(function() world.pause(); return world.now_ms() > until_ms end)
  let_all_end(busy)
  ended(call) "UNAVAILABLE NO the lock or attempt of its guards was lost before the call ran"
  servers[1]:signal "CONT"
  eq(n_effects "o-2", 0)
end

-- ---- the end of a host ----

function case.drain_end_refuses_calls_in_guards_and_awaits_running_ones()
  local first, waits = hold("Buy", X), begin("Queue", X2)
  until_waiters(1)
  host.process:signal "INT"
  ended(waits)(ENDING)
  until_waiters(0)
  eq(holders "x", 1)
  let_end(first)
  host.process:ended(0)
  eq({holders "x", n_effects "o-1 1"}, {0, 1})
end

-- promise GD15
function case.drain_end_refuses_admitted_calls_and_releases_their_locks()
  local busy, call = admit_without_thread "Buy"
  host.process:signal "INT"
  ended(call)(ENDING)
  eq(holders "x", 0)
  let_all_end(busy)
  host.process:ended(0)
  eq(n_effects "o-2", 0)
end

function case.calls_in_guards_continue_during_a_drain()
  local first, waits = hold("Queue", X), begin("Queue", X2)
  until_waiters(1)
  host.process:signal "TERM"
  let_end(first)
  ended(waits) "YES"
  host.process:ended(0)
  eq(n_effects(), 2)
end

-- ---- handlers that continue after they returned ----

local function defer(method, request, way, options)
  local call = begin(method, doing("DEFER", request), way, options)
  host.process:line("deferred " .. request.order_id)
  return call
end

-- promise GD18
function case.deferred_calls_keep_no_thread()
  local calls = {}
  for i = 1, 4 * THREADS do calls[i] = defer(i % 2 == 0 and "Free" or "Once", order("d-" .. i)) end
  buy("Free", X2) "YES"
  buy("Once", X2) "YES"
  open_gate()
  for _, call in ipairs(calls) do ended(call) "YES" end
  eq(n_effects "d-", #calls)
end

function case.a_deferred_call_keeps_its_locks_until_it_is_finished()
  local call = defer("Buy", X)
  eq(holders "x", 1)
  let_end(call)
  eq(holders "x", 0)
  buy("Buy", doing("DEFER", X)) "YES"
  eq(n_effects(), 1)
end

-- promise GD18: a deferred call ends by lks_host_finish, before or after its handler returns; it occupies no thread, and
--   the host waits for it
function case.a_deferred_call_may_be_finished_before_its_handler_returns()
  for _, method in ipairs{"Free", "Buy"} do
    buy(method, doing("END", X)) "YES"
    buy(method, doing("END", X2, {code = 8})) "RESOURCE_EXHAUSTED NO cannot be started"
  end
  eq(holders "x", 0)
  host.process:signal "INT" -- nothing keeps it open
  host.process:ended(0)
end

-- promise GD19: a deferred call is informed once that its caller is gone or its deadline over
function case.deferred_call_is_cancelled_when_its_caller_is_gone()
  local other = to_host(host)
  defer("Buy", X, other)
  other:close()
  host.process:line "cancelled o-1"
  until_holders(0)
  eq(n_effects(), 0)
end

-- promise GD19
function case.deferred_call_is_cancelled_when_its_deadline_is_over()
  local late, call = defer("Free", X2), defer("Buy", X, nil, {timeout_ms = AWAY})
  host.process:line "cancelled o-1"
  until_holders(0)
  eq(ended(call).error.code, "DEADLINE_EXCEEDED")
  let_end(late)
  eq(select(2, host.process:output():gsub("cancelled", "")), 1)
  eq(n_effects(), 1)
end

-- promise GD18
function case.a_host_waits_for_its_deferred_calls()
  local free_one, call = defer("Free", X2), defer("Buy", X)
  host.process:signal "TERM"
  let_end(call)
  ended(free_one) "YES"
  host.process:ended(0)
  eq(holders "x", 0)
end

-- ---- two hosts ----

local ALL_AT_ONCE = 8

-- Sends each of n orders to both hosts at once. Returns whether both answers were equal for each.
local function click_twice(method, scheme, n)
  local hosts, calls, same = {start_host(ALL_AT_ONCE), start_host(ALL_AT_ONCE)}, {}, true
  local ways = {to_host(hosts[1], scheme), to_host(hosts[2], scheme)}
  for i = 1, n do
    local request = order(("click-%s-%d"):format(scheme, i))
    calls[i] = {begin(method, request, ways[1]), begin(method, request, ways[2])}
  end
  for _, both in ipairs(calls) do
    local one, other = ended(both[1]) "YES", ended(both[2]) "YES"
    same = one.receipt == other.receipt and same
  end
  return same
end

-- promise GD20: double clicks at two hosts have one effect each, over tcp, nng and gRPC; without guards two; a killed
--   process blocks nothing beyond its leases
-- promise E14: two clicks of an order at once are one effect and one answer, over SP and libnng
-- promise E16: ... each order runs once however often it is sent
function case.double_clicks_at_two_hosts_have_one_effect_each()
  local n = count(100, 1000)
  for i, scheme in ipairs{"tcp", "grpc", "nng+tcp"} do
    eq(click_twice("Once", scheme, n), true) -- each answer names its order, so each ran
    eq(n_effects(), i * n)
  end
end

-- What the guard is for: the same clicks without it.
-- promise GD20
function case.without_guards_double_clicks_have_two_effects_each()
  eq(click_twice("Free", "tcp", 50), false)
  eq(n_effects(), 100)
end

-- promise GD20
-- promise E17: ... killed in the handler: no lock outlives its lease, and the repeat runs as attempt 2
function case.a_process_killed_in_a_handler_bars_nothing_beyond_its_leases()
  local second = start_host(THREADS)
  hold("Short", X)
  host.process:kill()
  local call = begin("Short", doing("WAIT", X), to_host(second))
  eq(let_end(call), {attempt = 2})
  eq(n_effects(), 1)
  host = second
end

-- After its leases another host runs the call. The fence refuses later writes of the frozen handler, its result is not
-- stored, and its caller gets the result of the other host.
-- promise GD9: a handler frozen beyond its leases: the fence refuses its write, its result is not stored, and its caller
--   gets the other result
-- promise E18: ... frozen in the handler: the fence refuses its late write, and its caller gets the result of the next
--   attempt
function case.handler_frozen_beyond_its_leases_writes_nothing_and_replays()
  local second, first = start_host(THREADS), hold("Short", X)
  host.process:signal "STOP"
  local call = begin("Short", doing("WAIT", X), to_host(second))
  second.process:line "running o-1 attempt=2"
  local response = let_end(call).response
  host.process:signal "CONT"
  host.process:line "stale o-1 attempt=1 lost=1"
  eq(ended(first).response, response)
  eq({n_effects(), n_effects "o-1 2"}, {1, 1})
end

-- Guards around the handlers of a host: every answer that a caller may get, with a real lockstockd.
require "guarded"

local HELD = "ABORTED NO the lock on items is held by others"
local OVER = "RESOURCE_EXHAUSTED NO over the limit of buyer_id"
local NOT_ENDED = "ABORTED %s order_id: an earlier call with it has not ended: it is running, or its process is gone and its "
  .. "lease has not expired"

local REASONS = {ABORTED = "busy", ALREADY_EXISTS = "id_reused", RESOURCE_EXHAUSTED = "rate_limited"}
local function refused(method, request, text)
  local got = buy(method, request)(text)
  eq(got.error.reason, REASONS[got.error.code] or got.error.reason)
  return got
end

-- ---- locks ----

-- promise GD3: locks are held exactly while the handler runs, and it gets their fences
-- promise E15: ... two orders for the same item run one after the other
function case.locks_are_held_while_the_handler_runs_and_no_longer()
  local first, second = hold("Lock", X), order("o-2", "y x y")
  eq(holders "x", 1)
  refused("Lock", second, HELD)
  buy("Lock", Y2) "YES"
  eq(n_effects(), 1)
  let_end(first)
  eq(holders "x", 0)
  local got = buy("Lock", second) "YES"
  eq({holders "x", holders "y"}, {0, 0})
  eq(got.fences, {item_lock "x".last_fence, item_lock "y".last_fence}) -- in the order of their names
end

-- With two threads, eight calls wait in the queue of one lock: none of the threads waits with them.
-- promise GD16: calls that wait for guards occupy no thread
function case.calls_that_wait_for_a_lock_keep_no_thread()
  local first, calls = hold("Queue", X), {}
  for i = 1, 8 do calls[i] = begin("Queue", X) end
  until_waiters(8)
  buy("Queue", Y2) "YES"
  let_end(first)
  for _, call in ipairs(calls) do ended(call) "YES" end
  eq(n_effects "o-1", 9)
end

-- promise GD4: leases are renewed while the handler runs
function case.a_lock_is_renewed_while_its_handler_outlasts_the_lease()
  local first, until_ms = hold("Short", X), world.now_ms() + 2 * SHORT
  until_(function() world.pause(); return world.now_ms() > until_ms end)
  refused("Lock", X2, HELD)
  eq(let_end(first), {receipt = containing "lost=0", attempt = 1})
end

-- promise GD5: no guard waits beyond the call's deadline
function case.a_wait_is_cut_to_the_deadline_of_the_call()
  local first = hold("Queue", X)
  buy("Queue", X2, AWAY)(HELD)
  let_end(first)
end

-- promise GD1: a key: one value is used as it is, several never equal other values, from whichever path; an absent field
--   is unset; an unset or long key is INVALID_ARGUMENT by its path; names are sorted, without duplicates, 16 at most
function case.missing_guard_key_in_the_request_is_refused()
  local many = {}
  for i = 1, 17 do many[i] = tostring(i) end
  refused("Lock", order "o-1", "INVALID_ARGUMENT NO items: must be set, because it is a key of the guard")
  refused("Lock", order("o-1", long(124)), "INVALID_ARGUMENT NO items: too long; the key of the guard may have at most 128 bytes")
  refused("Lock", order("o-1", table.concat(many, " ")), "INVALID_ARGUMENT NO items: gives more than 16 locks for one call")
  buy("Lock", order("o-1", long(123))) "YES"
  eq(n_effects(), 1)
end

-- ---- one effect a key ----

-- promise GD6: a repeat gets the first response byte for byte, and waits for it
function case.a_repeat_gets_the_first_response()
  local first, calls = hold("Buy", X), {}
  for i = 1, 6 do calls[i] = begin("Buy", doing("WAIT", X)) end
  local response = eq(let_end(first).response, {attempt = 1})
  for _, call in ipairs(calls) do eq(ended(call).response, response) end
  eq(buy("Buy", doing("WAIT", X)).response, response)
  eq(n_effects(), 1)
end

-- Each code of a handler that is final, and each that is temporary.
-- promise GD7: definite errors and errors with an effect are replayed; temporary errors run again
function case.final_error_is_replayed_and_retryable_error_runs_again()
  local CODES = split("CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    .. "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED")
  local APPLIED = {"YES", "NO", "MAYBE"}
  local rows = {
    for_good = "INVALID_ARGUMENT NO, NOT_FOUND NO, ALREADY_EXISTS NO, PERMISSION_DENIED NO, UNAUTHENTICATED NO, "
      .. "FAILED_PRECONDITION YES, OUT_OF_RANGE NO, UNIMPLEMENTED NO, DATA_LOSS MAYBE, INTERNAL YES, UNAVAILABLE YES",
    may_pass = "CANCELLED NO, UNKNOWN MAYBE, DEADLINE_EXCEEDED MAYBE, RESOURCE_EXHAUSTED NO, ABORTED NO, INTERNAL MAYBE, "
      .. "UNAVAILABLE NO"}
  local function index_of(list, word) for i, one in ipairs(list) do if one == word then return i end end end
  for kind, texts_of_kind in pairs(rows) do
    for code, applied in texts_of_kind:gmatch "([%u_]+) (%u+)" do
      local request = order(code .. applied, nil, {doing = "FAIL", code = index_of(CODES, code), applied = index_of(APPLIED, applied)})
      for try = 1, 2 do
        buy("Once", request)(("%s %s order_id: attempt %d"):format(code, applied, kind == "for_good" and 1 or try))
      end
    end
  end
end

-- promise GD2
function case.another_request_with_the_same_key_is_refused()
  buy("Coded", X) "YES"
  refused("Coded", Y, "ALREADY_EXISTS NO order_id: was already used for a different request")
  buy("Alone", X) "YES" -- where the key alone counts
  buy("Alone", Y) "YES"
  eq(n_effects(), 2)
end

-- promise GD2
function case.a_map_in_another_order_is_the_same_request()
  local a, b = {key = "a", value = 1}, {key = "b", value = 2}
  buy("Once", order("o-1", nil, {quantities = {a, b}})) "YES"
  buy("Once", order("o-1", nil, {quantities = {b, a}})) "YES"
  eq(n_effects(), 1)
end

-- promise GD8: a response too long to be stored is the same error for all
function case.a_response_too_long_to_be_stored_is_an_error_for_all()
  for _ = 1, 2 do
    buy("Once", order("o-1", nil, {doing = "FILL", bytes = 262144}))
      "RESOURCE_EXHAUSTED YES the response is longer than the 262144 bytes that can be stored for a repeated call"
    buy("Once", order("o-2", nil, {doing = "FILL", bytes = 262000})) "YES"
    eq(n_effects(), 2)
  end
end

-- A request that is too large to stay unpacked while the guards are asked is unpacked again for the handler.
function case.a_large_request_reaches_its_handler_whole()
  for _ = 1, 2 do buy("Once", order("o-1", long(65536))) "YES" end
  eq(n_effects "o-1", 1)
end

-- ---- refusals ----

-- The refused call was not charged.
local function use_up_limit(method)
  for _, id in ipairs{"u-1", "u-2"} do buy(method, order(id, "y")) "YES" end
end

-- promise GD11: a refusal is a code, or the outcome named for it
function case.refusal_is_a_code_by_default()
  local first = hold("Coded", X)
  eq(refused("Coded", doing("WAIT", X), NOT_ENDED:format "NO").error.retry_after_ms, within(1, 30000))
  refused("Coded", X2, HELD)
  use_up_limit "Coded"
  eq(refused("Coded", X2, OVER).error.retry_after_ms, within(1, 7200000))
  let_end(first)
  eq({n_effects "o-1", n_effects "o-2"}, {1, 0})
end

-- promise GD11
function case.refusal_uses_the_outcome_named_for_it()
  local first, soon = hold("Told", X), above(0)
  eq(buy("Told", doing("WAIT", X)) "RUNNING", {retry_after_ms = soon, receipt = ""})
  eq(buy("Told", X2) "BUSY", {retry_after_ms = 0, receipt = ""})
  use_up_limit "Told"
  eq(buy("Told", X2) "LIMITED", {retry_after_ms = soon, receipt = ""})
  let_end(first)
  eq(buy("Told", with(Y, {buyer_id = "bob"})) "OTHER", {retry_after_ms = 0, receipt = ""})
  eq({n_effects "o-1", n_effects "o-2"}, {1, 0})
end

function case.metrics_count_calls_that_guards_ran_answered_and_refused()
  for _ = 1, 2 do buy("Buy", X) "YES" end
  for _ = 1, 3 do buy("Limit", X) "YES" end
  refused("Limit", X, OVER)
  local pipe = io.popen("curl -s " .. host.urls.http .. "/metrics")
  local page = pipe:read "a"
  pipe:close()
  for _, row in ipairs{'Buy",outcome="ran"} 1', 'Buy",outcome="answered"} 1', 'Buy",outcome="refused"} 0', 'Limit",outcome="ran"} 3',
    'Limit",outcome="refused"} 1'} do
    eq(page, containing('\nlockstock_guarded_calls_total{grpc_service="lockstock.test.ShopService",grpc_method="' .. row .. "\n"))
  end
end

-- promise GD21: the counter of a limit is its method's, unless guards share a name; a guard may choose the algorithm
function case.each_method_has_a_counter_unless_its_guard_names_one()
  for _ = 1, 3 do buy("Limit", X) "YES" end
  refused("Limit", X, OVER)
  buy("Coded", X) "YES"
  buy("One", X) "YES" -- shares a name with the other
  refused("Other", X, OVER)
  for _ = 1, 5 do buy("Bucket", X) "YES" end -- a SLIDING_WINDOW of 1 would let one through
  refused("Bucket", X, OVER)
end

-- The second try of a call whose first try still runs.
-- promise GD22
function case.retry_of_a_running_call_gets_a_code_instead_of_an_outcome()
  local call = begin("Told", doing("WAIT", X), nil, {no_retry = false})
  ended(call)(NOT_ENDED:format "MAYBE")
end

-- A refused call gives back what it took: the repeat runs as the first attempt.
-- promise GD12: locks, units and attempts taken for a refused call are given back
function case.call_refused_by_its_lock_can_be_repeated()
  local first = hold("Lock", X)
  refused("Coded", X2, HELD)
  let_end(first)
  eq(buy("Coded", X2), {attempt = 1})
end

-- ---- without lockstockd ----

local function cannot_ask(method, guard)
  buy(method, X, AWAY)("UNAVAILABLE NO the " .. guard .. " guard cannot ask a server: ...")
end

-- promise GD13
function case.without_lockstockd_a_call_is_refused_by_the_guard_that_could_not_ask()
  servers[1]:kill()
  cannot_ask("Limit", "rate limit")
  cannot_ask("Once", "idempotency")
  cannot_ask("Lock", "lock")
  eq(n_effects(), 0)
  for _ = 1, 2 do buy("Open", X) "YES" end -- a limit that opens
  servers[1]:restart()
  buy("Buy", X) "YES"
end

-- The refusal arrives before the caller gives up.
-- promise GD5
function case.unanswering_lockstockd_is_reported_before_the_deadline()
  buy("Buy", X) "YES"
  servers[1]:signal "STOP"
  cannot_ask("Once", "idempotency")
  servers[1]:signal "CONT"
end

-- promise GD13: without lockstockd: UNAVAILABLE, NO, naming the guard; a limit with fail_open allows
function case.a_limit_that_opens_is_a_limit_while_it_can_be_asked()
  buy("Open", X) "YES"
  refused("Open", X, OVER)
end

-- The handler's effect has happened, so the caller gets the result although it cannot be stored. It is stored once
-- lockstockd is back.
-- promise GD10: a result that cannot be stored in time is stored later
function case.result_not_stored_in_time_is_answered_and_stored_later()
  local call = begin("Once", doing("WAIT", X), nil, {timeout_ms = AWAY})
  host.process:line "running o-1"
  servers[1]:kill()
  local first = let_end(call).response
  servers[1]:restart()
  eq(buy("Once", doing("WAIT", X)).response, first)
  eq(n_effects(), 1)
end

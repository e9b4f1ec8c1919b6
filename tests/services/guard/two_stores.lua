-- Enter with locks in the lock store and the other parts in Redis: changes between its calls. 1 checks the other
-- parts, 2 takes the locks, 3 takes the other parts, 4 releases the locks after a refusal.
require "guard"

local PARTS = " once=k limit=bob/5 order=o1/a:2 hold=60000 lock=l"
local END = " once=k order=o1 hold=60000 lock=l"

-- promise GS27: lock store: a refusal after the locks are taken releases them, and takes nothing else
function case.change_after_the_check_refuses_enter()
  for change, said in pairs{
    [function() enter("T9 limit=bob/5", {limits = {cost = 4}}); enter "T8 limit=bob/5" end] = "LIMITED",
    [function() deduct "o9 - a:9" end] = "OUT_OF_STOCK SOLD_OUT a:1",
    [function() enter "T9 once=k" end] = "IN_PROGRESS 1",
    [function() enter "T9 once=k"; complete "T9 once=k done" end] = "REPLAY 1 200 done"} do
    harness.reset(); setup(); put "a 10"
    local left
    harness.before(3, function()
      change(); inspect "l" "EXCLUSIVE T1"
      left = {tostring(order "o1"), remaining "bob 5"}
    end)
    enter("T1" .. PARTS)(said); inspect "l" "FREE"
    eq({tostring(order "o1"), remaining "bob 5"}, left)
    enter "T1 order=o2/a:1 lock=m" "TOKEN_SPENT"
  end
end

-- promise GS27
function case.an_attempt_that_began_after_the_look_is_not_waited_for()
  harness.before(3, function() enter "T9 once=k" end)
  wait "S1 T1 once=k lock=l" "IN_PROGRESS 1"; inspect "l" "FREE"
end

-- promise GS27
function case.the_lease_is_that_of_the_part_that_ends_first()
  enter "T1 limit=bob/5 lock=l" {lease_ms = about(LEASE)}
  enter("T2 once=k lock=m", {lease_ms = 30000}) {lease_ms = about(30000)}; pass(10)
  renew_guard("T2 lock=m", {lease_ms = 60000}) "RENEWED"
  enter("T2 once=k lock=m", {lease_ms = 30000}) "ENTERED 1 again" {lease_ms = about(20000)}
end

-- promise GS28: lock store: no copy of an Enter is entered with locks that another copy, or Leave, releases
function case.a_copy_does_not_enter_after_a_refusal()
  put "a 2"
  local copy
  harness.before(3, function()
    deduct "o9 - a:1"
    harness.before(1, function() -- the release of the locks
      copy = enter "T1 order=o1/a:1 lock=l"
    end)
  end)
  enter "T1 order=o1/a:2 lock=l" "OUT_OF_STOCK SOLD_OUT a:1"
  copy "TOKEN_SPENT"; inspect "l" "FREE"; stock "a" "1 0 1"
end

-- promise GS28
-- One copy waits for the lock, and is woken while the other has the lock and takes the rest next.
function case.a_waiting_copy_is_refused_while_another_enters()
  put "a 1"; enter "T9 lock=l"
  wait "S1 T1 order=o1/a:1 lock=l" "WAITS"; complete "T9 lock=l"
  local woken
  harness.before(3, function()
    inspect "l" "EXCLUSIVE T1"; put "a 0"; woken = deliver(); put "a 1"
  end)
  enter "T1 order=o1/a:1 lock=l" "TOKEN_SPENT"
  woken "S1 T1 OUT_OF_STOCK SOLD_OUT a:0"; inspect "l" "FREE"; stock "a" "1 0 0"
end

-- promise GS13
function case.the_end_of_a_hold_is_looked_for()
  local function looks_for_it()
    for _, a in ipairs(harness.alarms()) do
      if a["function"] == "stock_expire" then return a.base end
    end
  end
  put "a 10"
  enter("T1" .. PARTS); eq(looks_for_it(), "ls:{default/g}:")
  enter("T1" .. PARTS) "ENTERED 1 a:8 again"; eq(looks_for_it(), "ls:{default/g}:")
  renew_guard("T1" .. END) "RENEWED"; eq(looks_for_it(), "ls:{default/g}:")
  force_release "l" "T1"
  renew_guard("T1" .. END) "LOCK_LOST"; eq(looks_for_it(), "ls:{default/g}:")
end

-- promise GS28
function case.a_copy_that_enters_first()
  put "a 10"
  harness.before(3, function() enter("T1" .. PARTS) "ENTERED 1 a:8" end)
  enter("T1" .. PARTS) "ENTERED 1 a:8 again" {fences = {{name = "l"}}}
  stock "a" "8 2 0"; eq(remaining "bob 5", 4); inspect "l" "EXCLUSIVE T1"
end

-- promise GS28
function case.a_copy_that_has_left()
  for leave, said in pairs{[complete] = "REPLAY 1 200", [retry] = "TOKEN_SPENT"} do
    harness.reset(); setup(); put "a 10"
    harness.before(3, function() enter("T1" .. PARTS) "ENTERED 1 a:8"; leave("T1" .. END) {outcome = "LEFT"}; remember() end)
    enter("T1" .. PARTS)(said); unchanged()
    harness.before(3, function() enter "T2 limit=eve/5 lock=l" "ENTERED"; leave "T2 lock=l" "LEFT RELEASED" end)
    enter "T2 limit=eve/5 lock=l" "TOKEN_SPENT"
    eq(remaining "eve 5", 4)
  end
end

-- promise GS28
function case.a_leave_before_the_rest_is_taken()
  put "a 10"
  harness.before(3, function() retry("T1" .. END) {outcome = "SUPERSEDED", locks = "RELEASED"} end)
  enter("T1" .. PARTS) "TOKEN_SPENT"
  stock "a" "10 0 0"; record "k" "NONE"; eq(remaining "bob 5", 5); inspect "l" "FREE"
end

-- promise GS29: lock store: a repeat goes on where a call ended between the two stores
function case.a_store_that_is_unreachable_between_the_calls()
  put "a 10"
  local function unreachable() return "MAYBE" end
  for n, applied in ipairs{"NO", "NO", "MAYBE"} do
    harness.before(n, function() return "NO" end)
    enter("T1" .. PARTS)("UNAVAILABLE " .. applied .. "...")
  end
  for n, applied in ipairs{"NO", "MAYBE", "MAYBE"} do
    harness.before(n, unreachable)
    enter("T1" .. PARTS)("UNAVAILABLE " .. applied .. "...")
  end
  inspect "l" "EXCLUSIVE T1"; stock "a" "10 0 0"
  enter "T2 lock=l" "BUSY l held by T1"
  enter("T1" .. PARTS) "ENTERED 1 a:8"; eq(remaining "bob 5", 4)
  harness.before(2, unreachable); renew_guard("T1" .. END) "UNAVAILABLE MAYBE..."; renew_guard("T1" .. END) "RENEWED"
  harness.before(2, unreachable); complete("T1" .. END .. " done") "UNAVAILABLE MAYBE..."; inspect "l" "EXCLUSIVE T1"
  complete("T1" .. END .. " done") "LEFT RELEASED CONFIRMED again"; inspect "l" "FREE"
end

-- promise GS28
-- Enter and Leave keep what was decided in one place, whatever the groups of the parts.
function case.a_leave_before_the_rest_of_other_groups()
  put "a 10"
  harness.before(3, function() retry "T1 once=k lock=l" "SUPERSEDED RELEASED" end)
  enter("T1 once=k limit=bob/5 lock=l", {limits = {group = "h"}}) "TOKEN_SPENT"
  harness.before(3, function() retry("T2 once=k lock=l", {once = {group = "h"}}) end)
  enter("T2 once=k order=o1/a:1 lock=l", {once = {group = "h"}}) "TOKEN_SPENT"
  local r = enter_request("T3", "once=k", "limit=bob/5", "lock=l")
  r.group = ""
  harness.before(3, function() Guard.Leave{token = r.token, kind = "RETRYABLE", once = r.once, locks = r.locks} end)
  Guard.Enter(r) "TOKEN_SPENT"
  stock "a" "10 0 0"; inspect "l" "FREE"; record "k" "NONE"
end

local function no_answer() return "MAYBE" end

-- promise GS29
function case.a_repeat_releases_what_a_refused_call_could_not()
  harness.before(3, function() enter "T8 limit=bob/1"; harness.before(1, no_answer) end)
  enter "T1 limit=bob/1 lock=l" "UNAVAILABLE MAYBE..."; inspect "l" "EXCLUSIVE T1"
  enter "T1 limit=bob/1 lock=l" "TOKEN_SPENT"; inspect "l" "FREE"
end

-- promise GS29
function case.a_repeat_that_is_refused_at_once_releases_the_locks_of_the_first_try()
  harness.before(3, no_answer); enter "T1 limit=bob/1 lock=l" "UNAVAILABLE MAYBE..."
  enter "T8 limit=bob/1"; enter "T1 limit=bob/1 lock=l" "LIMITED"; inspect "l" "FREE"
  harness.before(3, no_answer); enter "T2 once=k lock=l" "UNAVAILABLE MAYBE..."
  enter "T9 once=k"; wait "S1 T2 once=k lock=l" "IN_PROGRESS 1"; inspect "l" "FREE" -- a waiter holds nothing
end

-- promise GS29
function case.an_error_of_the_rest_releases_the_locks()
  put "a 10"; harness.before(3, function() deduct "o1 - a:3" end)
  enter "T1 order=o1/a:2 lock=l" "ALREADY_EXISTS NO order_id: used for another order"; inspect "l" "FREE"
end

-- promise GS28
-- The first copy has entered, and has given up its attempt but not its lock, when the second asks for the rest.
function case.a_copy_that_comes_too_late_does_not_release()
  harness.before(3, function()
    enter "T1 once=k lock=l" "ENTERED 1"; retry "T1 once=k x" "LEFT"; renew_guard "T1 lock=l" "RENEWED"
  end)
  enter "T1 once=k lock=l" "TOKEN_SPENT"; inspect "l" "EXCLUSIVE T1"
end

-- promise GS28
-- One copy is refused after it waited for another attempt, and the other one takes the lock or its place in the queue.
function case.a_copy_that_comes_after_a_refusal_releases()
  enter "T9 once=k"; wait "S1 T1 once=k limit=bob/1 lock=l" "WAITS"; retry "T9 once=k"
  local woken
  harness.before(2, function() enter "T8 limit=bob/1"; woken = deliver() end)
  enter "T1 once=k limit=bob/1 lock=l" "TOKEN_SPENT"; woken "S1 T1 LIMITED"; inspect "l" "FREE"
end

-- promise GS28
function case.a_copy_that_queues_after_a_refusal_leaves_the_queue()
  enter "T9 once=k"; wait "S1 T1 once=k limit=bob/1 lock=l"; retry "T9 once=k"; enter "T7 lock=l"
  local woken
  harness.before(2, function() enter "T8 limit=bob/1"; woken = deliver() end)
  wait "S2 T1 once=k limit=bob/1 lock=l" "WAITS"; woken "S1 T1 LIMITED"; wait "S2 T6 lock=l" "WAITS"
  complete "T7 lock=l"; deliver() "S2 T1 TOKEN_SPENT, S2 T6 ENTERED"
end

-- promise GS28
function case.copy_whose_wait_timed_out_spends_nothing()
  enter "T9 once=k"; wait "S1 T1 once=k lock=l"; wait "S2 T1 once=k lock=l"
  timed_out "S1 T1" "IN_PROGRESS 1"; retry "T9 once=k"; deliver() "S2 T1 ENTERED 2"
end

-- promise GS28
function case.copy_does_not_shorten_the_record_of_another()
  enter "T9 lock=l"; wait "S1 T1 limit=bob/5 lock=l" "WAITS"
  local before = redis_number("PTTL", keys_like "*guard:T1*"[1])
  enter "T1 limit=bob/5 lock=l" "BUSY l held by T9"; eq(redis_number("PTTL", keys_like "*guard:T1*"[1]), above(before - 60000))
end

-- promise GS3
function case.a_renewed_entry_is_known_as_long_as_its_locks()
  local function kept_ms() return redis_number("PTTL", keys_like "*guard:*"[1]) end
  enter("T1 once=k lock=l", {lease_ms = 1000}); local before = kept_ms()
  renew_guard("T1 once=k lock=l", {lease_ms = 3600000}) "RENEWED"; eq(kept_ms(), above(before + 3000000))
end

-- Enter, Renew and Leave of calls that do not wait.
require "guard"

local ALL = " once=k limit=bob/5 order=o1/a:2 hold=60000 lock=l"

-- promise GS1: Enter takes all parts or none; a refused call charges no limit and sells nothing
function case.all_parts_are_taken()
  put "a 10"
  enter("T1" .. ALL) "ENTERED 1 a:8" {
    token = token_of "T1", attempt_fence = above(0), lease_ms = about(LEASE), hold_ms = within(1, 60000), replayed = false,
    fences = {{name = "l", fence = above(0)}}, rules = {{outcome = "ALLOWED", limit = 5, remaining = 4}}}
  stock "a" "8 2 0"; inspect "l" "EXCLUSIVE T1"; record "k" "IN_PROGRESS 1"; eq(remaining "bob 5", 4)
end

-- promise GS1
-- Each part in turn stands in the way, and nothing of the others is taken, whatever their order.
function case.refused_enter_takes_nothing()
  local refusals = {
    {"T0 once=k", "IN_PROGRESS 1"}, {"T0 limit=bob/5 limit=eve/1", "LIMITED"},
    {"T0 order=o0/a:9", "OUT_OF_STOCK SOLD_OUT a:1"}, {"T0 lock=l", "BUSY l held by T0"}}
  for _, row in ipairs(refusals) do
    harness.reset(); setup(); put "a 10"
    enter(row[1]) {outcome = "ENTERED"}
    enter "T9 limit=eve/1" {outcome = row[2] == "LIMITED" and "LIMITED" or "ENTERED"}
    if row[2] ~= "LIMITED" then RateLimit.Reset{group = "g", key = "eve"} end
    remember()
    enter "T1 once=k limit=bob/5 limit=eve/1 order=o1/a:2 hold=60000 lock=l" (row[2]); unchanged()
  end
end

-- promise GS2: the first part that refuses is the answer: once, limits, stock, locks
function case.the_order_of_refusals()
  put "a 1"; enter "T0 once=k limit=bob/1 lock=l"
  enter "T1 once=k limit=bob/1 order=o1/a:2 lock=l" "IN_PROGRESS 1" {retry_after_ms = about(LEASE)}
  enter "T1 limit=bob/1 order=o1/a:2 lock=l" "LIMITED" {retry_after_ms = above(0), rules = {{outcome = "DENIED", remaining = 0}}}
  enter "T1 order=o1/a:2 lock=l" "OUT_OF_STOCK SOLD_OUT a:1"
  enter "T1 lock=l" "BUSY l held by T0" {holder = {lease_ms = about(LEASE)}}
  enter("T1 once=k", {once = {fingerprint = "another"}}) "MISMATCH"
end

-- promise GS3: a repeat with the same token is the same answer, and charges nothing
function case.a_repeat_is_the_first_answer()
  put "a 10"
  for _, parts in ipairs{ALL, " limit=bob/5 order=o1/a:2 hold=60000 lock=l", " limit=bob/5 order=o1/a:2 hold=60000",
    " limit=bob/5 order=o1/a:2", " limit=bob/5 lock=l", " limit=bob/5"} do
    harness.reset(); setup(); put "a 10"
    local first = enter("T1" .. parts)
    remember()
    local again = enter("T1" .. parts)
    again(tostring(first) .. " again") {fences = first.fences, attempt_fence = first.attempt_fence}; unchanged()
    eq(remaining "bob 5", 4)
  end
  enter "T2 order=o2/a:2 hold=60000"; pass(20)
  enter "T2 order=o2/a:2 hold=60000" "ENTERED a:8 again" {hold_ms = within(1, 40000)}
end

-- promise GS3
-- The locks are still held, but the record is gone: the attempt is new, and charged.
function case.new_attempt_that_holds_its_locks_is_not_a_repeat()
  one_store_only "a token enters once"
  enter "T1 once=k limit=bob/5 lock=a,b" "ENTERED 1" {fences = {{name = "a"}, {name = "b"}}}
  inspect "a" "EXCLUSIVE T1"; inspect "b" "EXCLUSIVE T1"
  Idempotency.Delete{scope = "s", key = "k", group = "g"} "OK"
  enter "T1 once=k limit=bob/5 lock=a,b" "ENTERED 1" {rules = {{outcome = "ALLOWED", remaining = 3}}}
end

-- promise GS1
function case.a_refused_try_counts_towards_a_ban()
  local more = {limits = {rules = {{key = "eve", limit =
    {algorithm = "FIXED_WINDOW", limit = 1, period_ms = 10000000, penalty = {after = 2, ban_ms = 60000}}}}}}
  enter("T1", more) "ENTERED"; enter("T2", more) "LIMITED" {rules = {{banned_ms = 0}}}
  enter("T3", more) "LIMITED" {rules = {{outcome = "BANNED", banned_ms = within(1, 60000)}}}
end

-- promise GS4: what a token has given back or lost is not taken again with it
function case.a_token_is_for_one_enter()
  enter "T1 once=k lock=l"; retry "T1 once=k lock=l"
  enter "T1 once=k lock=l" "TOKEN_SPENT"; record "k" "FAILED_RETRYABLE 1"; enter "T2 once=k lock=l" "ENTERED 2"
  force_release "l" "T2"; enter "T2 once=k lock=l" "TOKEN_SPENT"
end

-- promise GS5: a completed call is replayed, whatever the limits, stock and locks say by then
function case.a_completed_call_is_replayed()
  put "a 2"; enter "T1 once=k limit=bob/1 order=o1/a:2 hold=60000 lock=l"
  complete "T1 once=k order=o1 hold=60000 lock=l done" "LEFT RELEASED CONFIRMED"
  stock "a" "0 0 2"; inspect "l" "FREE"
  complete "T1 once=k order=o1 hold=60000 lock=l done" "LEFT RELEASED CONFIRMED again"
  enter "T0 lock=l"; remember()
  enter "T2 once=k limit=bob/1 order=o2/a:2 hold=60000 lock=l" "REPLAY 1 200 done"; unchanged()
end

-- promise GS6: after a failure the hold is cancelled and the next Enter runs; a FINAL one is replayed
function case.failures()
  put "a 2"; enter "T1 once=k order=o1/a:2 hold=60000 lock=l"
  retry "T1 once=k order=o1 hold=60000 lock=l why" "LEFT RELEASED EXPIRED"
  stock "a" "2 0 0"; record "k" "FAILED_RETRYABLE 1" {record = {detail = "why"}}
  enter "T2 once=k order=o2/a:2 hold=60000 lock=l" "ENTERED 2 a:0"
  finally "T2 once=k order=o2 hold=60000 lock=l no" "LEFT RELEASED CANCELLED"
  enter "T3 once=k lock=l" {outcome = "REPLAY", result = {code = -1}}
end

-- promise GS26: an order is the same in all attempts: its hold is renewed, and an ended one is taken again
function case.an_order_of_an_earlier_attempt()
  put "a 5"; enter("T1 once=k order=o1/a:2 hold=60000", {lease_ms = 10000}); pass(11)
  enter "T2 once=k order=o1/a:2 hold=90000" "ENTERED 2 a:3" {hold_ms = within(80000, 90000)}; stock "a" "3 2 0" -- it was held
  retry "T2 once=k order=o1 hold=90000" "LEFT EXPIRED"; stock "a" "5 0 0"
  enter("T3 once=k order=o1/a:2 hold=1000", {lease_ms = 10000}) "ENTERED 3 a:3"; pass(11); stock "a" "5 0 0"
  enter "T4 once=k order=o1/a:2 hold=60000" "ENTERED 4 a:3"; stock "a" "3 2 0"
  complete "T4 once=k order=o1 hold=60000 done" "LEFT CONFIRMED"; stock "a" "3 0 2"
end

-- promise GS26
function case.an_order_that_cannot_be_taken_again()
  put "a 2"; enter "T1 once=k order=o1/a:2 hold=60000"; retry "T1 once=k order=o1 hold=60000"
  deduct "o2 - a:1"; enter "T2 once=k order=o1/a:2 hold=60000" "OUT_OF_STOCK SOLD_OUT a:1"; record "k" "FAILED_RETRYABLE 1"
  cancel "o1"; enter "T3 once=k order=o1/a:2 hold=60000" "OUT_OF_STOCK CANCELLED"
  enter "T4 once=j order=o1/a:1 hold=60000" "ALREADY_EXISTS NO order_id: used for another order"
end

-- promise GS7: an attempt that was taken over changes neither the result nor the hold
function case.attempt_that_was_taken_over_is_superseded()
  put "a 10"; enter("T1 once=k order=o1/a:1 hold=60000000 lock=l", {lease_ms = 10000}); pass(11)
  enter "T2 once=k order=o1/a:1 hold=60000000 lock=l" "ENTERED 2 a:9"
  renew_guard "T1 once=k" "ATTEMPT_LOST"
  complete "T1 once=k order=o1 hold=60000000 lock=l late" "SUPERSEDED NOT_HELD"; order "o1" "RESERVED  a:1:0"
  retry "T1 once=k order=o1 hold=60000000 lock=l late" "SUPERSEDED NOT_HELD"; order "o1" "RESERVED  a:1:0"
  complete "T2 once=k order=o1 hold=60000000 lock=l done" "LEFT RELEASED CONFIRMED"
end

-- promise GS8: Leave after the hold has ended changes nothing
function case.a_hold_that_has_ended()
  put "a 10"; enter "T1 once=k order=o1/a:1 hold=1000 lock=l"; pass(2)
  complete "T1 once=k order=o1 hold=1000 lock=l done" {outcome = "HOLD_ENDED", stock = "EXPIRED"}
  pass(-2); remember(); complete "T1 once=k order=o1 hold=1000 lock=l done" {outcome = "HOLD_ENDED", stock = "EXPIRED"}
  renew_guard "T1 once=k order=o1 hold=1000 lock=l" "HOLD_ENDED"; unchanged()
  record "k" "IN_PROGRESS 1"; inspect "l" "EXCLUSIVE T1"
  retry "T1 once=k order=o1 hold=1000 lock=l" {outcome = "LEFT", locks = "RELEASED", stock = "EXPIRED"}
  stock "a" "10 0 0"
  -- Also where the first call says so, or gives the units back.
  enter "T2 order=o2/a:1 hold=1000"; pass(2); renew_guard "T2 order=o2 hold=1000" "HOLD_ENDED"
  pass(-2); renew_guard "T2 order=o2 hold=1000" "HOLD_ENDED"
  enter "T3 order=o3/a:1 hold=1000"; pass(2); retry "T3 order=o3 hold=1000" "LEFT EXPIRED"
  pass(-2); order "o3" "EXPIRED  a:1:0"
end

-- promise GS9: Renew extends all parts or none, and says which one is lost
function case.renew_extends_all_or_none()
  put "a 10"; enter("T1 once=k order=o1/a:1 hold=60000 lock=l", {lease_ms = 60000})
  renew_guard "T1 once=k order=o1 hold=900000 lock=l" "RENEWED"
  pass(500); inspect "l" {holders = {{lease_ms = about(LEASE - 500000)}}}
  record "k" {record = {lease_ms = about(LEASE - 500000)}}; order "o1" {order = {hold_ms = about(400000)}}
  for part, lose in pairs{
    LOCK_LOST = function() force_release "l" "T1" end,
    HOLD_ENDED = function() cancel "o1" end,
    ATTEMPT_LOST = function() Idempotency.Delete{scope = "s", key = "k", group = "g"} "OK" end} do
    harness.reset(); setup(); put "a 10"; enter "T1 once=k order=o1/a:1 hold=60000 lock=l"
    lose(); remember()
    renew_guard("T1 once=k order=o1 hold=900000 lock=l", {lease_ms = 2 * LEASE})(part)
    if part ~= "LOCK_LOST" or not harness.has_two_stores then unchanged() end -- the locks are asked last there
  end
end

-- promise GS10: a Leave that comes before its Enter keeps it from being entered
function case.a_late_enter_is_refused()
  retry "T1 lock=l" "LEFT NOT_HELD"; enter "T1 lock=l" "TOKEN_SPENT"; inspect "l" "FREE"
end

-- promise GS11: the parts are those of the other services
function case.parts_of_the_other_services()
  put "a 10"
  Guard.Enter{token = token_of "T1", owner = "T1", lease_ms = LEASE, once = {scope = "s", key = "k"},
    limits = {rules = {{key = "bob", limit = {algorithm = "FIXED_WINDOW", limit = 1, period_ms = 86400000}}}},
    stock = {group = "g", order_id = "o1", lines = {{sku = "a", quantity = 1}}}, locks = {targets = {{name = "l"}}}} "ENTERED 1 a:9"
  Idempotency.Get{scope = "s", key = "k"} {record = {state = "IN_PROGRESS"}}
  Lock.Inspect{name = "l"} {mode = "EXCLUSIVE"}; order "o1" "CONFIRMED  a:1:0"
  RateLimit.Check{rules = {{key = "bob", limit = {algorithm = "FIXED_WINDOW", limit = 1, period_ms = 86400000}}}} "DENIED"
  Lock.Release{group = "l", token = token_of "T1"} "RELEASED"
end

-- promise GS11
function case.a_policy_is_read_once()
  RateLimit.PutPolicy{name = "p", limit = {algorithm = "FIXED_WINDOW", limit = 1, period_ms = 86400000}}
  local limits = {rules = {{key = "bob", policy = "p"}}}
  enter("T1 lock=l", {limits = limits}) "ENTERED"; enter("T2 lock=m", {limits = limits}) "LIMITED"
  enter("T3 lock=m", {limits = {rules = {{key = "bob", policy = "q"}}}}) "NOT_FOUND NO limits.rules[0].policy: no such policy"
end

-- promise GS12: sold without a hold, an order is not touched by Renew and Leave
function case.order_sold_without_a_hold_stays_sold()
  put "a 10"; enter "T1 once=k order=o1/a:1" "ENTERED 1 a:9" {hold_ms = 0}
  renew_guard "T1 once=k order=o1" "RENEWED"; retry "T1 once=k order=o1" "LEFT"; order "o1" "CONFIRMED  a:1:0"
end

-- promise GS13: holds of an Enter expire as others do
function case.a_hold_expires()
  put "a 10"; enter "T1 order=o1/a:4 hold=1000"; pass(2); enter "T2 order=o2/a:10 hold=60000" "ENTERED a:0"
  order "o1" "EXPIRED  a:4:0"
end

-- promise GS14: in a cluster all parts lie in one group
function case.in_a_cluster_parts_lie_in_one_group()
  one_store_only "the locks may lie elsewhere"
  harness.alter("if this_node() == '' then return end", "")
  local apart = "INVALID_ARGUMENT NO group: in a cluster all parts must be in one group"
  put "a 10"; enter("T1" .. ALL) "ENTERED 1 a:8"
  for _, more in ipairs{{once = {group = "h"}}, {limits = {group = "h"}}, {stock = {group = "h"}}, {locks = {group = "h"}}} do
    remember(); enter("T2" .. ALL, more)(apart); unchanged()
    if not more.limits then
      renew_guard("T1 once=k order=o1 hold=60000 lock=l", more)(apart)
      complete("T1 once=k order=o1 hold=60000 lock=l", more)(apart); unchanged()
    end
  end
end

-- promise GS15: a group in buckets is refused by name
function case.buckets_are_refused()
  put("a 10", {buckets = 4})
  enter "T1 order=o1/a:1" "FAILED_PRECONDITION NO stock.group: is in buckets..."
  complete "T1 order=o1 hold=60000" "HOLD_ENDED"; retry "T1 order=o1 hold=60000" "LEFT"
end

-- promise GS1
-- Calls of one FCALL see each other.
function case.calls_together()
  one_store_only "calls in two stores share no FCALL"
  put "a 3"
  local requests = repeated(6, function(i) return enter_request("T" .. i, "limit=bob/5", "order=o" .. i .. "/a:1", "lock=l" .. i) end)
  texts(Guard.Enter.together(requests)) ("ENTERED a:2, ENTERED a:1, ENTERED a:0, " .. ("OUT_OF_STOCK SOLD_OUT a:0"):rep(3, ", "))
  eq(remaining "bob 5", 2); stock "a" "0 0 3"
end

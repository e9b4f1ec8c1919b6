-- Enters that wait: in the queue of their locks, and for another attempt.
require "guard"

-- promise GS16: a waiter holds nothing, and gets all parts when its turn comes
function case.a_waiter_gets_all_parts()
  put "a 10"; enter "T1 lock=l"
  wait "S1 T2 once=k limit=bob/5 order=o1/a:2 hold=60000 lock=l" "WAITS"
  stock "a" "10 0 0"; record "k" "NONE"; eq(remaining "bob 5", 5)
  complete "T1 lock=l" "LEFT RELEASED"; deliver() "S1 T2 ENTERED 1 a:8"
  inspect "l" "EXCLUSIVE T2"; eq(remaining "bob 5", 4)
end

-- promise GS17: what has changed meanwhile refuses the waiter, and its turn passes on
function case.change_during_the_wait_refuses_the_waiter()
  for change, said in pairs{
    [function() enter "T8 limit=bob/5"; enter("T9 limit=bob/5", {limits = {cost = 4}}) end] = "LIMITED",
    [function() deduct "o9 - a:9" end] = "OUT_OF_STOCK SOLD_OUT a:1",
    [function() enter "T9 once=k"; complete "T9 once=k done" end] = "REPLAY 1 200 done"} do
    harness.reset(); setup(); put "a 10"; enter "T1 lock=l"
    wait "S1 T2 once=k limit=bob/5 order=o1/a:2 lock=l" "WAITS"; wait "S2 T3 lock=l" "WAITS"
    change(); complete "T1 lock=l"; deliver()("S1 T2 " .. said .. ", S2 T3 ENTERED")
    inspect "l" "EXCLUSIVE T3"; enter "T2 lock=m" {outcome = said == "LIMITED" and "TOKEN_SPENT" or any}
  end
end

-- promise GS18: where another attempt runs, the call waits for its end and stands in no queue
function case.a_double_click_gets_the_result()
  enter "T1 once=k lock=l"; wait "S1 T2 once=k lock=l" "WAITS"; wait "S2 T3 once=k" "WAITS"
  inspect "l" {waiters = 0}
  complete "T1 once=k lock=l done"; deliver() "S1 T2 REPLAY 1 200 done, S2 T3 REPLAY 1 200 done"
end

-- promise GS18
function case.after_a_failure_one_waiter_runs()
  enter "T1 once=k lock=l"; wait "S1 T2 once=k lock=l"; wait "S1 T3 once=k lock=l"
  retry "T1 once=k lock=l"
  local first = eq(deliver():match("^S1 (T[23]) ENTERED 2$"), any)
  complete(first .. " once=k lock=l done"); deliver() (("S1 %s REPLAY 2 200 done"):format(first == "T2" and "T3" or "T2"))
end

-- promise GS18
-- Its turn comes while another attempt runs: the lock passes on.
function case.a_waiter_whose_attempt_runs_elsewhere_lets_others_pass()
  enter "T1 lock=l"; wait "S1 T2 once=k lock=l" "WAITS"; wait "S1 T3 lock=l" "WAITS"
  enter "T4 once=k"; complete "T1 lock=l"; deliver() "S1 T3 ENTERED"
  retry "T4 once=k"; deliver() "" -- T2 is in the queue again, with its old number
  wait "S2 T5 lock=l"; complete "T3 lock=l"; deliver() "S1 T2 ENTERED 2"
end

-- promise GS19: the end of a lease wakes the waiter
function case.the_end_of_a_lease_wakes()
  enter("T1 once=k lock=l", {lease_ms = 10000}); wait "S1 T2 once=k lock=l" "WAITS"
  pass(11); ring(); deliver() "S1 T2 ENTERED 2"
  enter("T3 lock=m", {lease_ms = 10000}); wait "S1 T4 once=j lock=m" "WAITS"
  pass(11); ring(); deliver() "S1 T4 ENTERED 1"
end

-- promise GS20: a call whose wait is over takes nothing
function case.wait_that_timed_out_takes_nothing()
  enter "T1 lock=l"; wait "S1 T2 once=k limit=bob/5 lock=l"; timed_out "S1 T2" "TIMED_OUT l held by T1"
  record "k" "NONE"; eq(remaining "bob 5", 5); enter "T2 lock=m"
  enter "T3 once=j"; wait "S1 T4 once=j limit=bob/5" "WAITS"
  timed_out "S1 T4" "IN_PROGRESS 1" {retry_after_ms = about(LEASE)}
  wait "S1 T5 once=j"; retry "T3 once=j"; timed_out "S1 T5" "IN_PROGRESS 1" {retry_after_ms = 0}
  record "j" "FAILED_RETRYABLE 1"
  -- Its turn has come, and it was not asked yet.
  wait "S1 T6 lock=l"; wait "S1 T7 lock=l"; complete "T1 lock=l"; timed_out "S1 T6" "TIMED_OUT..."; deliver() "S1 T7 ENTERED"
end

-- promise GS21: a call whose connection is lost is in nobody's way, and keeps its number for a repeat
function case.an_abandoned_call_is_in_nobodys_way()
  enter "T1 lock=l"; wait "S1 T2 once=k lock=l"; wait "S2 T3 lock=l"
  abandoned "S1 T2" "CANCELLED NO..."
  complete "T1 lock=l"; deliver() "S2 T3 ENTERED"
  wait "S1 T4 lock=l"; wait "S1 T2 once=k lock=l" "WAITS"; complete "T3 lock=l"; deliver() "S1 T2 ENTERED 1"
end

-- promise GS16
-- In one queue with Acquire, in the order of their coming.
function case.the_queue_is_that_of_acquire()
  acquire "T1 l"; wait "S1 T2 once=k lock=l" "WAITS"
  park("S1", "", "T3", "Lock.Acquire", with(acquire_request("T3", "l"), {wait_ms = WAIT})); wait "S2 T4 lock=l"
  release "T1 l"; deliver() "S1 T2 ENTERED 1"; complete "T2 once=k lock=l"
  deliver() "S1 T3 ACQUIRED"; release "T3 l"; deliver() "S2 T4 ENTERED"
end

-- promise GS16
function case.limits_alone_do_not_wait()
  wait "S1 T1 limit=bob/1" "ENTERED"; wait "S1 T2 limit=bob/1" "LIMITED"
end

-- promise GS22: each part says whether it is waited for
function case.a_part_that_is_not_waited_for()
  enter "T1 once=k lock=l"
  wait("S1 T2 once=k lock=m", {once = {no_wait = true}}) "IN_PROGRESS 1"; wait("S1 T3 lock=l", {locks = {no_wait = true}}) "BUSY l held by T1"
  wait("S1 T4 once=k lock=l", {locks = {no_wait = true}}) "WAITS"; timed_out "S1 T4" "IN_PROGRESS 1" {retry_after_ms = about(LEASE)}
  wait("S1 T5 once=k lock=m", {locks = {no_wait = true}}) "WAITS"; enter "T6 lock=m"
  retry "T1 once=k lock=l"; deliver() "S1 T5 BUSY m held by T6"
end

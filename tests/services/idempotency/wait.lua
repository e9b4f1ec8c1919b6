-- Begins that wait: messages when an attempt ends, the next attempt, and waiters that time out or lose their connection
-- or server.
require "idempotency"

-- promise I17: waiters get the replay the moment it is stored; one message a server
function case.a_result_is_everyones_at_once()
  begin "k T1"; wait "S1 k T2" "WAITS"; wait "S2 k T3" "WAITS"; wait "S1 k T4" "WAITS"
  wait "S1 l T5" "EXECUTE 1" -- another key: no attempt runs there
  messages() ""
  begin "k T1"; complete("k 200 paid", {headers = {{key = "a", value = "1"}}}) "STORED"
  deliver() "S1 T2 REPLAY 1 200 paid a=1, S1 T4 REPLAY 1 200 paid a=1, S2 T3 REPLAY 1 200 paid a=1"
  eq(waiting_keys(), 0)
end

-- promise I17
function case.one_message_a_server()
  begin "k T1"
  for i = 1, 20 do wait(("S%d k W%d"):format(1 + i % 2, i)) "WAITS" end
  complete "k 200" "STORED"; messages() "S1:k S2:k"
  complete "k 200" "STORED again"; messages() ""
end

-- promise I18
function case.after_a_failure_exactly_one_runs()
  begin "k T1"; wait "S1 k T2"; wait "S1 k T3"; wait "S2 k T4"
  fail_retryable "k" "STORED"; deliver() "S1 T2 EXECUTE 2"
  fail_retryable "k" "STORED"; deliver() "S1 T3 EXECUTE 3"
  complete "k 200 at last" "STORED"; deliver() "S2 T4 REPLAY 3 200 at last"; eq(waiting_keys(), 0)
end

-- promise I19: the end of a lease hands over; Extend puts it off; lost messages are made up for
function case.the_end_of_a_lease_hands_over()
  local first = begin "k T1".fence
  wait "S1 k T2"; wait "S2 k T3"; wait "S2 k T4"; eq(ring(), about(LEASE)); messages() ""
  pass(400); eq(ring(), about(LEASE - 400000))
  pass(600)
  eq(ring(), within(1, 1000)) -- S2 looks
  deliver() "S2 T3 EXECUTE 2"; eq(ring(), about(LEASE))
  complete("k 200 late", {fence = first}) "SUPERSEDED"; messages() ""
  complete "k 200" "STORED"; deliver() "S1 T2 REPLAY 2 200, S2 T4 REPLAY 2 200"
end

-- promise I19
function case.the_alarm_is_for_the_end_of_the_lease()
  begin("k T1", {lease_ms = 90000}); begin "k T2" {retry_after_ms = within(1, 90000)}
  wait "S1 k T2"; eq(ring(), within(0, 90000)); extend "k" "EXTENDED"
  eq(ring(), about(LEASE)); messages() ""
end

-- promise I19
function case.alarm_without_a_running_attempt_wakes_a_waiter()
  begin "k T1"; wait "S1 k T2"; complete "k 200"
  messages() "S1:k" -- suppose that it is lost
  eq(ring(), within(0, 1000)); deliver() "S1 T2 REPLAY 1 200"
  begin "l T1"; wait "S1 l T3"; redis("DEL", key "r:l"); eq(ring(), within(0, 1000)); deliver() "S1 T3 EXECUTE 1"
end

-- ---- the wait is over ----

-- promise I20: wait_ms over: IN_PROGRESS with retry_after_ms, and no attempt begins
function case.timed_out_waiter_gets_the_rest_of_the_lease()
  begin "k T1"; wait "S1 k T2"; pass(300); remember()
  timed_out "S1 T2" "IN_PROGRESS 1" {retry_after_ms = about(LEASE - 300000)}; unchanged()
end

-- promise I20
function case.timed_out_waiter_does_not_run()
  begin "k T1"; wait "S1 k T2"; wait "S1 k T3"; wait "S1 k T4"
  pass(1001); timed_out "S1 T2" "IN_PROGRESS 1" {retry_after_ms = 0}; fail_retryable "k" "STORED"
  timed_out "S1 T3" "IN_PROGRESS 1" {retry_after_ms = 0}
  forget "k"; timed_out "S1 T4" "IN_PROGRESS 0"; get "k" "NONE"
end

function case.result_before_the_timeout_is_the_answer()
  begin "k T1"; wait "S1 k T2"; wait "S1 k T3"
  wait "S2 k T3" -- the same call again, through another server
  fail_retryable "k"
  local second = woken "S2 T3" "EXECUTE 2".fence
  timed_out "S1 T3" "EXECUTE 2" {fence = second}
  complete "k 200"; timed_out "S1 T2" "REPLAY 2 200"
end

-- promise I21: a Begin whose connection is lost starts nothing
function case.an_abandoned_one_does_not_run()
  begin "k T1"; wait "S1 k T2"; wait "S1 k T3"; fail_retryable "k"
  remember(); abandoned "S1 T2" "CANCELLED NO the caller's connection is gone"; unchanged()
  deliver() "S1 T3 EXECUTE 2"
end

-- ---- servers ----

function case.a_dead_server_is_in_nobodys_way()
  begin "k T1"; wait "S1 k T2"; wait "S2 k T3"; server_down "S1"
  fail_retryable "k"; deliver() "S2 T3 EXECUTE 2"
  wait "S2 k T4"; complete "k 200"; deliver() "S2 T4 REPLAY 2 200"; eq(waiting_keys(), 0)
end

function case.missed_messages_are_recovered()
  begin "k T1"; wait "S1 k T2"; wait "S1 k T3"; server_down "S1"
  fail_retryable "k"; server_up "S1"; messages() ""
  woken "S1 T2" "EXECUTE 2" -- as all waiters are, when it receives messages again
  woken "S1 T3" "WAITS"
  complete "k 200"; deliver() "S1 T3 REPLAY 2 200"
end

-- promise I22: a waiter is known as long as it waits; the key expires
function case.waiter_key_lives_as_long_as_the_longest_wait()
  begin "k T1"; wait("S1 k T2", {wait_ms = 500000}); eq(ttl "w:k", about(510000))
  wait("S1 k T3", {wait_ms = 2000000}); eq(ttl "w:k", about(2010000))
  wait("S2 k T4", {wait_ms = 1000}); eq(ttl "w:k", about(2010000)); eq(redis_number("SCARD", key "w:k"), 2)
end

function case.call_that_does_not_wait_is_not_registered()
  wait "S1 k T1" "EXECUTE 1"; wait "S1 k T1" "EXECUTE 1"
  begin "k T2" "IN_PROGRESS 1"; wait("S1 k T2", {fingerprint = "another"}) "MISMATCH"
  complete "k 200"; wait "S1 k T2" "REPLAY 1 200"; eq(waiting_keys(), 0)
end

function case.a_waiter_may_find_another_request()
  begin "k T1"; wait "S1 k T2"; forget "k"; begin("k T3", {fingerprint = "another"}) "EXECUTE 1"
  deliver() "S1 T2 MISMATCH"
end

-- promise I17
function case.a_result_costs_the_same_however_many_wait()
  local function cost(waiters)
    local k = "k" .. waiters
    begin(k .. " T1")
    for i = 1, waiters do wait(("S1 %s W%d"):format(k, i)) "WAITS" end
    local before = all_commands()
    complete(k .. " 200") "STORED"
    return all_commands() - before
  end
  eq(cost(1), cost(100))
end

-- Waiting: unclaimed offers, waiters that time out or lose their connection or server, and repeated tokens.
-- promise L33
require "lock_queue"

-- ---- offers ----

-- promise L34
-- promise L35: a server that is gone or silent does not delay the rest
function case.unclaimed_offer_passes_to_the_next_waiter()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; wait "S2 T4 a"
  release "T1"; messages() "S1:W T2 S1:A a S2:A a"
  pass(3)
  eq(promote "a", -1) -- no waiter is left
  -- S1 has not claimed: T3 is passed over too, and S1 gets a message.
  messages() "S1:W T3 S2:W T4"; inspect "a" "FREE"
  woken "S2 T4" "ACQUIRED"; wait "S2 T5 a" "QUEUED"
  woken "S1 T3" "QUEUED" -- it was only slow: back at its number
  woken "S1 T2" "QUEUED"; queue "a" "T2 T3 T5"
  for _, now in ipairs{"T4 T2", "T2 T3", "T3 T5"} do
    local holder, next_one = now:match("(%S+) (%S+)")
    release(holder); deliver()(next_one)
  end
  release "T5"; eq(queue_keys(), 0)
end

-- promise L34
function case.late_claim_takes_a_name_that_is_still_free()
  acquire "T1 a"; wait "S1 T2 a"; release "T1"; pass(10)
  woken "S1 T2" "ACQUIRED"; inspect "a" "EXCLUSIVE T2"
end

-- promise L34
function case.an_offer_is_not_a_lock()
  acquire "T1 a"; wait "S1 T2 a"; release "T1"; pass(3)
  acquire "T3 a" "ACQUIRED"; woken "S1 T2" "QUEUED"
  release "T3"; deliver() "T2"
end

-- ---- servers ----

-- promise L35
function case.waiters_of_a_server_that_is_gone_are_passed_over_at_once()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; wait "S2 T4 a"
  wait "S2 T5 a"; server_down "S1"; release "T1"; messages() "S2:W T4 S2:A a"
  queue "a" "T5"; woken "S2 T4" "ACQUIRED"
  -- The server is back: it checks every call.
  server_up "S1"; woken "S1 T3" "QUEUED"; woken "S1 T2" "QUEUED"; queue "a" "T2 T3 T5"
end

-- promise L35
-- promise L53: a try on names that nobody holds or can claim is granted, however many waiters died
function case.queue_entries_of_dead_servers_do_not_block()
  acquire "T1 b"
  for i = 0, 999 do wait("S1 D" .. i .. " a b") "QUEUED" end
  acquire "T2 a" "BUSY a held by D0"
  server_down "S1"
  acquire "T3 a" "ACQUIRED" -- at once, however many they were
  release "T3"; release "T1"; eq(queue_keys(), 0); acquire "T4 a b" "ACQUIRED"; eq(queue_keys(), 0)
end

-- promise L50: a waiter blocked only by other waiters is visited each 300 ms; it waits for lease + 1 s behind a dead
--   or frozen server
-- Nobody holds b: only V bars W, and V's server does not answer any more.
function case.a_waiter_blocked_only_by_dead_ones_is_looked_at()
  acquire "T1 x"; wait "S1 V x y" "QUEUED"; wait "S2 W y" "QUEUED"
  messages(); eq(promote "y", 300)
  server_down "S1"; pass(1); ring_alarms(); deliver() "W"; eq(promote "y", -1)
end

-- promise L50
function case.a_waiter_behind_a_dead_writer_is_looked_at()
  acquire "T1 a:S"; wait "S1 V a" "QUEUED"; wait "S2 W a:S" "QUEUED"
  server_down "S1"; pass(1); ring_alarms(); deliver() "W"
end

-- promise L50
-- x was held when W came; W gets a message when it is free.
function case.room_that_comes_later_is_looked_at_too()
  acquire "T1 x"; acquire "T2 y"; wait "S1 V x y" "QUEUED"; wait "S2 W y" "QUEUED"
  release "T2"; messages() "S1:A y S2:A y"
  server_down "S1"; pass(1); ring_alarms(); deliver() "W"
end

-- promise L50
-- W waits behind V, which waits behind the dead U; and V's server does not look.
function case.a_waiter_that_blocks_a_blocker_is_looked_at()
  server_up "S3"; acquire "T1 x"; wait "S1 U x y" "QUEUED"; wait "S3 V y z" "QUEUED"; wait "S2 W z" "QUEUED"
  server_down "S1"; messages()
  promote "z" -- the only one that S2 asks for
  eq(messages(), containing "S3:W V"); woken "S3 V" "ACQUIRED"; inspect "z" "EXCLUSIVE V"
end

-- promise L50
-- A frozen server has a subscription, but claims nothing.
function case.a_frozen_server_costs_half_a_second()
  acquire "T1 a"; wait "S1 V a" "QUEUED"; wait "S2 W a" "QUEUED"
  pass(1000)
  local offered_ms = eq(promote "a", within(1, 500))
  messages() "S1:W V S1:A a S2:A a"
  pass(offered_ms / 1000); promote "a"; messages() "S2:W W"; woken "S2 W" "ACQUIRED"
end

-- promise L50
function case.one_server_asks_nothing_for_its_own()
  acquire "T1 x"; wait "S1 V x y" "QUEUED"; wait "S1 W y" "QUEUED"
  eq(promote "y", -1); messages() ""; wait "S2 U y" "QUEUED"
  messages() "S1:A y S2:A y" -- it may come before W again, with its number
end

-- promise L34
-- promise L53
function case.an_offer_to_a_dead_server_blocks_no_try()
  acquire "T1 a"; wait "S1 V a" "QUEUED"
  release "T1"; acquire "T2 a" "BUSY a held by V"
  server_down "S1"; acquire "T2 a" "ACQUIRED"; woken "S1 V" "QUEUED"
  release "T2"; server_up "S1"; woken "S1 V" "ACQUIRED"
end

-- promise L53
-- The token's waiting call ended with its server.
function case.a_try_with_the_token_that_waits_is_granted()
  acquire "T1 a"; wait "S1 T2 a b" "QUEUED"; wait "S1 T3 a" "QUEUED"
  wait "S1 T4 c a" "QUEUED"; acquire "T2 a b" "BUSY a held by T1"
  server_down "S1"
  acquire "T9 b c" "ACQUIRED" -- which takes T2 out of b, and T4 out of c
  release "T9"; acquire "T4 c a" "BUSY a held by T1"; queue "a" "T2 T3"
  release "T1"; acquire "T2 a b" "ACQUIRED"
  release "T2"; acquire "T3 a" "ACQUIRED"; eq(queue_keys(), 0)
end

-- promise L45
function case.a_clock_set_back_an_hour_does_not_keep_an_offer()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"
  release "T1"; messages() "S1:W T2"
  pass(-3600); acquire "T3 a" "ACQUIRED"; woken "S1 T2" "QUEUED"; wait "S2 T4 a" "QUEUED"
  release "T3"; messages() "S1:W T2 S1:A a S2:A a"
  pass(-3600)
  promote "a" -- in time: the ms of an answer are not by Redis' clock
  messages() "S2:W T4"
  acquire "T5 b:P200/200"; wait "S1 T6 b:P200/200" "QUEUED"
  release "T5"; pass(-3600); acquire "T7 b:P1/200" "ACQUIRED"
end

-- promise L36: tokens are read again after a lost subscription
function case.waiters_are_read_again_after_missed_messages()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; release "T1"
  server_down "S1" -- its messages are lost
  server_up "S1"; woken "S1 T3" "QUEUED"; woken "S1 T2" "ACQUIRED"
  release "T2"; messages() "S1:W T3"
end

function case.waiter_whose_record_was_lost_queues_again()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; redis("DEL", key "t:T2"); woken "S1 T2" "QUEUED"
  release "T1"; deliver() "T3"
  release "T3"; deliver() "T2"
end

function case.waiters_whose_records_have_ended_are_removed_from_each_queue()
  acquire "T1 a b"; wait "S1 T2 a b"; wait "S1 T3 a b"; wait "S1 T4 b"
  redis("DEL", key "t:T2"); redis("DEL", key "t:T3")
  release "T1"; woken "S1 T4" "ACQUIRED"; queue "a" ""; queue "b" ""
  acquire "T5 a" "ACQUIRED"
end

-- ---- withdrawal ----

-- promise L37: TIMED_OUT: the waiter is withdrawn; an earlier grant wins
function case.timed_out_waiter_is_withdrawn()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"
  timed_out "S1 T2" "TIMED_OUT a held by T1" {holder = {lease_ms = above(0)}}; queue "a" "T3"
  wait "S1 T2 a" "TOKEN_SPENT"; timed_out "S1 T3" "TIMED_OUT a held by T1"; eq(queue_keys(), 0)
  release "T1"; messages() ""; acquire "T3 a" "TOKEN_SPENT"; inspect "a" "FREE"
end

-- promise L37
function case.a_grant_that_came_first_wins()
  acquire "T1 a"; wait "S1 T2 a"; release "T1"; timed_out "S1 T2" "ACQUIRED"; inspect "a" "EXCLUSIVE T2"
end

-- promise L37
function case.a_lapsed_offer_times_out()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T3 a"; release "T1"
  messages(); pass(3)
  timed_out "S1 T2" "TIMED_OUT a held by T3" -- the next in turn
  deliver() "T3"
end

-- promise L38: a lost connection withdraws its waiters without spending their tokens, and no others
function case.an_abandoned_waiter_keeps_its_number()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; abandoned "S1 T2" "CANCELLED NO..."
  queue "a" "T3"; wait "S2 T2 a" "QUEUED"; queue "a" "T2 T3"
  release "T1"; messages() "S1:A a S2:W T2 S2:A a"
end

-- promise L38
function case.an_abandoned_offer_passes_on()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T3 a"; release "T1"
  abandoned "S1 T2"; messages() "S1:W T2 S1:A a S2:A a S2:W T3"; woken "S2 T3" "ACQUIRED"
  release "T3"; eq(queue_keys(), 0)
end

-- promise L38
-- promise L51
function case.only_the_server_that_parks_a_waiter_abandons_it()
  acquire "T1 a"; wait "S1 T2 a"
  wait "S2 T2 a" -- sent again to another server
  abandoned "S1 T2"; queue "a" "T2"
  wait "S2 T3 a"
  -- Repeated to the same server on another connection.
  wait "S1 T4 a"
  local first = calls[#calls]
  wait "S1 T4 a"; harness.event(first.number, "ABANDONED"); queue "a" "T2 T3 T4"
  release "T1"; deliver() "T2"
end

-- promise L39: Release withdraws, leaves a tombstone and ends the parked call
function case.a_release_withdraws()
  acquire "T1 a"; wait "S1 T2 a b"; wait "S2 T3 a"
  release "T2 c" "NOT_HELD" -- not its name
  queue "a" "T2 T3"; release "T2 b" "NOT_HELD"
  queue "a" "T3"; messages() "S1:W T2"
  woken "S1 T2" "TOKEN_SPENT"; release "T2" "NOT_HELD"
  release "T1"; messages() "S2:W T3"
  release "T3" "NOT_HELD" -- offered, not claimed
  woken "S2 T3" "TOKEN_SPENT"; acquire "T4 a" "ACQUIRED"; eq(queue_keys(), 0)
end

-- promise L39
function case.a_late_copy_after_the_release_does_not_queue()
  acquire "T1 a"; release "T2 a"; wait "S1 T2 a" "TOKEN_SPENT"; eq(queue_keys(), 0)
end

-- ---- the same token again ----

-- promise L40: the same token again: the same place, replayed; other targets ALREADY_EXISTS
function case.the_same_token_again_is_the_same_place()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; wait "S2 T2 a" "QUEUED"
  queue "a" "T2 T3"; acquire "T2 a" "BUSY a held by T1"
  acquire "T2 b" "ALREADY_EXISTS NO token: used for other targets"; queue "a" "T2 T3"
  release "T1"; messages() "S1:W T2 S1:A a S2:W T2 S2:A a"
  acquire "T2 a" "ACQUIRED" -- the first call gets it
  messages() "S1:W T2 S2:W T2"; woken "S2 T2" "ACQUIRED again"; woken "S1 T2" "ACQUIRED again"
  release "T2"; messages() "S1:W T3"
end

-- promise L51
function case.a_lost_copy_takes_out_itself_alone()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; wait "S2 T2 a" "QUEUED"
  abandoned "S2 T2" "CANCELLED..." -- the one that came last
  queue "a" "T2"
  -- For a copy that does not exist any more: changes nothing.
  fcall("lock_abandon", "ls:{default/g}:", "1", token_of "T2" .. " S1.gone"); queue "a" "T2"
  release "T1"; messages() "S1:W T2"; woken "S1 T2" "ACQUIRED"
end

function case.a_release_ends_all_copies()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; wait "S2 T2 a" "QUEUED"
  release "T2" "NOT_HELD"; messages() "S1:W T2 S2:W T2"
  woken "S1 T2" "TOKEN_SPENT"; woken "S2 T2" "TOKEN_SPENT"
end

-- promise L51
function case.the_turn_of_a_copy_outlives_the_others_server()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; wait "S2 T2 a" "QUEUED"; wait "S1 T3 a" "QUEUED"
  server_down "S2"; release "T1"; deliver() "T2"
end

-- promise L51
function case.a_copy_that_waits_less_shortens_nothing()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; wait("S2 T2 a", {lease_ms = 1000, wait_ms = 1}) "QUEUED"
  eq(ttl "t:T2", above(WAIT + LEASE))
end

-- promise L51
function case.copies_are_bounded_and_the_dead_make_room()
  acquire "T1 a"
  for _ = 1, 16 do wait "S1 T2 a" "QUEUED" end
  wait "S2 T2 a" "RESOURCE_EXHAUSTED NO token: 16 calls already wait with it"
  server_down "S1"; wait "S2 T2 a" "QUEUED"
  release "T1"; deliver() "T2"
end

-- promise L40
function case.a_copy_that_times_out_ends_the_other()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T2 a"; timed_out "S1 T2" "TIMED_OUT a held by T1"
  messages() "S2:W T2"; woken "S2 T2" "TOKEN_SPENT"
end

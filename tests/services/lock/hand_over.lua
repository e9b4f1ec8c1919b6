-- A Release grants at once what its own server parks: to whom, from when on, which messages are sent, and what happens
-- when they are lost. Offers: wait.lua.
require "lock_queue"

local DAY = 86400000

-- ---- turns ----

-- promise L57: a Release grants at once to the next waiter if its own server parks it in one copy, in order, with the
--   usual lease and fence; waiters of other servers get an offer
function case.release_grants_to_a_waiter_of_its_own_server()
  local before = fence_of(acquire "T1 a")
  wait "S1 T2 a" "QUEUED"; wait "S1 T3 a" "QUEUED"
  release_at "S1 T1" "RELEASED"; messages() "S1:R T2"
  local given = inspect "a" "EXCLUSIVE T2" {waiters = 1}.holders[1].fence
  deliver_grant "S1 T2" "ACQUIRED" {lease_ms = LEASE, fences = {{fence = given}}}; eq(given, above(before))
  renew "T2 a" "RENEWED"; release_at "S1 T2" "RELEASED"
  messages() "S1:R T3"; deliver_grant "S1 T3" "ACQUIRED"
  release_at "S1 T1" "RELEASED again"; release_at "S1 T3" "RELEASED"
  messages() ""; eq(queue_keys(), 0)
end

-- promise L57
function case.waiter_at_another_server_is_not_overtaken()
  acquire "T1 a"; wait "S2 T2 a"; wait "S1 T3 a"; release_at "S1 T1"
  messages() "S1:A a S2:W T2 S2:A a"; woken "S2 T2" "ACQUIRED"
  release_at "S1 T2"; messages() "S1:R T3"; deliver_grant "S1 T3" "ACQUIRED"
end

-- promise L57
function case.all_names_are_granted_at_once()
  acquire "T1 a"; acquire "T2 b"; wait "S1 T3 a b"; wait "S1 T4 b a"
  release_at "S1 T1"; messages() ""; acquire "T5 a" "BUSY a held by T3"
  release_at "S1 T2"
  messages() "S1:R T3 S1:A a" -- T4 did not wait for the end of a lease there
  local got = deliver_grant "S1 T3" "ACQUIRED" {fences = {{}, {}}}
  inspect "b" "EXCLUSIVE T3" {holders = {{fence = got.fences[2].fence}}}
  inspect "a" "EXCLUSIVE T3" {holders = {{fence = got.fences[1].fence}}}
  release_at "S1 T3 a"; deliver() ""
  release_at "S1 T3 b"; deliver() "T4"
  release_at "S1 T4"; eq(queue_keys(), 0)
end

-- Cases that the short way leaves to the general one.
function case.first_waiter_is_granted()
  acquire "T1 a"; wait "S1 T2 a:S"; wait "S1 T3 a b"; wait "S1 T4 a"
  release_at "S1 T1 a"; deliver() "T2"
  release_at "S1 T2"; deliver() "T3"
  release_at "S1 T3"; deliver() "T4"
  redis("ZADD", key "w:a", "1", token_of "T9") -- which no server knows
  release_at "S1 T4"; deliver() ""; acquire "T5 a" "ACQUIRED"
end

function case.one_fcall_grants_for_each_of_its_releases()
  acquire "T1 a"; acquire "T2 b"; wait "S1 T3 a"; wait "S1 T4 b"; harness.server "S1"
  texts(Lock.Release.together{{group = "g", token = token_of "T1"}, {group = "g", token = token_of "T2"}}) "RELEASED, RELEASED"
  harness.server "harness"; deliver() "T3 T4"
end

-- ---- leases ----

-- promise L57
function case.the_lease_begins_with_the_release()
  acquire "T1 a"; wait "S1 T2 a"; pass(300); release_at "S1 T1"; pass(400)
  woken "S1 T2" "ACQUIRED again" {lease_ms = about(LEASE - 400000)} -- the message was lost
  pass(500); acquire "T3 a" "BUSY a held by T2"
  pass(200); acquire "T3 a" "ACQUIRED"
  woken "S1 T2" "ACQUIRED again" -- it got the message
end

function case.granted_waiter_has_its_requested_lease()
  acquire "T1 a"; wait("S1 T2 a", {lease_ms = 2 * LEASE}); release_at "S1 T1"; messages() "S1:R T2"
  deliver_grant "S1 T2" "ACQUIRED" {lease_ms = 2 * LEASE}; inspect "a" {holders = {{lease_ms = about(2 * LEASE)}}}
end

-- promise L57
-- A lease that ends later than the one before, and one that ends sooner.
function case.fences_rise_also_when_the_clock_steps_back()
  local before = fence_of(acquire "T1 a")
  wait("S1 T2 a", {lease_ms = 10 * LEASE}); wait "S1 T3 a"; pass(-3000)
  for _, turn in ipairs{"T1 T2", "T2 T3"} do
    local holder, next_one = turn:match("(%S+) (%S+)")
    release_at("S1 " .. holder); messages()("S1:R " .. next_one)
    before = eq(fence_of(deliver_grant("S1 " .. next_one) "ACQUIRED"), above(before))
  end
end

-- promise L57
-- They look at the end of the lease before; a sooner end is a message.
function case.those_behind_have_their_turn_when_the_lease_ends()
  acquire "T1 a"; wait "S1 T2 a"; wait("S1 T3 a", {lease_ms = LEASE // 10}); wait "S2 T4 a"
  pass(500); release_at "S1 T1"; deliver() "T2"
  pass(700); ring_alarms(); deliver() ""
  release_at "S1 T2"; messages() "S1:R T3 S1:A a S2:A a"; deliver_grant "S1 T3" "ACQUIRED"
  pass(200); ring_alarms(); deliver() "T4"
end

-- When the name's key would end too soon after its last lease.
function case.a_long_lease_keeps_the_names_key()
  acquire("T1 a", {lease_ms = DAY}); wait("S1 T2 a", {lease_ms = DAY}); redis("PEXPIRE", key "n:a", "8000000")
  pass(7200); release_at "S1 T1"; messages() "S1:R T2"; eq(ttl "n:a", above(2 * DAY)); eq(ttl "t:T2", above(DAY))
end

-- ---- grants that no caller receives ----

-- promise L58: such a grant is taken back and keeps its number if no caller received it; a received grant stays
function case.grant_that_no_caller_received_is_taken_back()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T3 a"; wait "S1 T4 a"
  release_at "S1 T1"; inspect "a" "EXCLUSIVE T2"
  pass(1)
  abandoned "S1 T2" "CANCELLED..." -- before the message came
  messages() "S1:R T2 S1:A a S2:W T3 S2:A a"; wait "S1 T2 a" "QUEUED"; woken "S2 T3" "ACQUIRED"
  deliver_grant "S1 T2" "QUEUED" -- the message was for the first call
  queue "a" "T2 T4" -- its number was kept
  release_at "S2 T3"; deliver() "T2"
end

-- promise L58
function case.a_grant_of_several_names_is_taken_back_whole()
  acquire "T1 a"; wait "S1 T2 b:S a c:P2/3"; release_at "S1 T1"; inspect "c" "PERMIT/3 T2=2"
  acquire "T4 b:S" "ACQUIRED"
  abandoned "S1 T2"; inspect "a" "FREE"; inspect "b" "SHARED T4"
  inspect "c" "FREE"; acquire "T3 a c" "ACQUIRED"
end

-- promise L58
function case.grant_that_lost_a_name_is_not_offered_again()
  acquire "T1 a"; wait "S1 T2 a b"; release_at "S1 T1"; force_release "b" "T2"
  abandoned "S1 T2"; inspect "a" "FREE"; acquire "T2 a b" "TOKEN_SPENT"
end

-- promise L58
function case.grant_that_a_caller_received_stays()
  acquire "T1 a"; wait "S1 T2 a"; release_at "S1 T1"
  wait "S2 T2 a" "ACQUIRED again" -- the caller came back
  abandoned "S1 T2" "CANCELLED..."; inspect "a" "EXCLUSIVE T2"; renew "T2 a" "RENEWED"
end

-- promise L58
function case.only_the_copy_that_was_granted_takes_back()
  acquire "T1 a"; wait "S1 T2 a"; release_at "S1 T1"
  fcall("lock_abandon", "ls:{default/g}:", "1", token_of "T2" .. " S1.another." .. LEASE) "OK\n-1..."
  inspect "a" "EXCLUSIVE T2"; release "T2" "RELEASED"
  abandoned "S1 T2"; acquire "T2 a" "TOKEN_SPENT"
end

function case.a_wait_that_ends_with_the_grant_on_its_way_has_it()
  acquire "T1 a"; wait "S1 T2 a"; release_at "S1 T1"; timed_out "S1 T2" "ACQUIRED again"; release "T2" "RELEASED"
end

-- ---- servers ----

function case.waiter_parked_at_two_servers_gets_an_offer()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T2 a"; release_at "S1 T1"
  messages() "S1:W T2 S2:W T2"; acquire "T3 a" "BUSY a held by T2"
  inspect "a" {holders = {}}; woken "S2 T2" "ACQUIRED"; woken "S1 T2" "ACQUIRED again"
end

-- promise L57
function case.a_server_that_hears_nothing_is_granted_nothing()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T3 a"; server_down "S1"
  release_at "S1 T1" "RELEASED"; inspect "a" "FREE"; deliver() "T3"
  server_up "S1"; woken "S1 T2" "QUEUED"
  release_at "S1 T3"; deliver() "T2"
end

function case.foreign_record_of_the_first_waiter_is_not_changed()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; server_down "S1"
  redis("SET", key "t:T2", "x"); release_at "S1 T1" "RELEASED"; redis("GET", key "t:T2") "x"
  redis("DEL", key "w:a"); acquire "T4 b"; wait "S2 T5 b"; redis("DEL", key "w:b")
  redis("SET", key "w:b", "x"); release_at "S2 T4" (foreign); inspect "b" (foreign)
  acquire "T6 c"; wait "S1 T7 c"; redis("DEL", key "s:c"); redis("SET", key "s:c", "x"); remember()
  release_at "S1 T6" (foreign) -- S1 gets no message
  unchanged()
end

function case.a_hand_over_works_while_memory_is_short()
  acquire "T1 a"; wait "S1 T2 a"; redis "CONFIG SET maxmemory 1"; release_at "S1 T1"; deliver() "T2"
end

-- ---- the way into a queue ----

-- promise L59: the usual way into a queue has the same checks: expiry, one place for a token, no change of foreign
--   data
function case.new_waiter_joins_at_the_end_of_the_queue()
  acquire "T1 a"
  for _, call in ipairs{"S2 T2 a", "S1 T3 a", "S2 T4 a", "S1 T5 a"} do wait(call) "QUEUED" end
  queue "a" "T2 T3 T4 T5"
  wait "S1 T4 a" "QUEUED" -- again
  queue "a" "T2 T3 T4 T5"; wait "S1 T1 a" "ACQUIRED again"; wait "S1 T3 b" "ALREADY_EXISTS NO..."
  pass(-3000); wait "S1 T6 a" "QUEUED"; queue "a" "T2 T3 T4 T5 T6"
end

-- promise L59
function case.a_queue_of_foreign_data_is_refused()
  local function refused()
    remember(); wait "S1 T3 a" (foreign); unchanged()
  end
  acquire "T1 a"; wait "S1 T2 a"; redis("DEL", key "w:a"); redis("SET", key "w:a", "x")
  refused(); redis("DEL", key "w:a", key "s:a"); redis("ZADD", key "w:a", "1", token_of "T2")
  redis("SET", key "s:a", "x"); refused()
end

local function lasts(...)
  for _, name in ipairs{...} do eq(ttl(name), above(WAIT + LEASE - 1)) end
end

-- promise L43: no key of the queue remains, and each expires
function case.keys_of_a_queue_end_however_it_was_made()
  acquire "T1 a"; wait "S1 T2 a"; redis("DEL", key "s:a"); wait "S1 T3 a"
  lasts "s:a"; redis("DEL", key "s:a"); wait "S2 T4 a:S"; lasts "s:a"
  redis("DEL", key "w:a"); wait "S2 T5 a"; lasts "w:a"
  -- A queue that was removed as a whole, and is made again by the same call.
  acquire "T6 c"; wait "S1 T7 b c"; server_down "S1"; wait "S2 T8 b c"; queue "b" "T8"
  lasts("w:b", "s:b", "n:b")
end

-- promise L43
-- The name's key is already kept long enough; the queue's keys end with it.
function case.keys_of_a_queue_end_with_its_names()
  acquire "T1 a"; wait "S1 T2 a:S"; redis("PEXPIRE", key "w:a", "1000000")
  redis("PEXPIRE", key "s:a", "1000000"); renew("T1 a", {lease_ms = DAY}) "RENEWED"
  pass(7200); wait "S1 T3 a"; lasts("w:a", "s:a", "n:a")
end

-- ---- resources ----

-- promise L42: a hand-over is a constant number of commands
-- Some use the clock that tests move.
function case.a_hand_over_on_one_server_is_few_commands_for_any_number_of_waiters()
  -- The Release that hands over, and the Acquire that queues behind many others.
  local function spent(waiters)
    harness.reset(); setup(); acquire "H0 a"
    for i = 1, waiters do wait("S1 H" .. i .. " a") "QUEUED" end
    local before = all_commands()
    release_at "S1 H0" "RELEASED"
    local of_release = all_commands() - before
    messages()
    before = all_commands()
    wait "S1 H0again a" "QUEUED"
    return {of_release, all_commands() - before}
  end
  local ten = spent(10)
  eq(spent(1000), ten); eq(ten, {within(1, 13), within(1, 13)})
end

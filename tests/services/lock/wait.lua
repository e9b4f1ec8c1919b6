-- Waiting: the order of grants, the messages, and the cost. The end of a wait: wait_ends.lua.
-- promise L48
require "lock_queue"

-- ---- turns ----

-- promise L31
function case.a_release_hands_over()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; wait "S2 T3 a" "QUEUED"
  queue "a" "T2 T3"; messages() ""
  inspect "a" {waiters = 2}; release "T1" "RELEASED"
  messages() "S1:W T2 S1:A a S2:A a"; inspect "a" {holders = {}, waiters = 2}
  acquire "T4 a" "BUSY a held by T2"; renew "T2 a" "LOST"
  woken "S1 T2" "ACQUIRED" {lease_ms = LEASE, fences = {{fence = above(0)}}}
  inspect "a" "EXCLUSIVE T2" {waiters = 1}; renew "T2 a" "RENEWED"; messages() ""
  release "T2"; messages() "S2:W T3"; woken "S2 T3" "ACQUIRED"
  release "T3"; eq(queue_keys(), 0)
end

function case.list_shows_the_longest_lease_and_the_number_of_waiters()
  local function listed(owner, waiters) Lock.List{} {locks = {{owner = owner, waiters = waiters}}} end
  local short = {lease_ms = LEASE // 2}
  acquire("T1 a:S", short); acquire "T2 a:S"; acquire("T5 a:S", short); listed("T2", 0); wait "S1 T3 a" "QUEUED"
  listed("T2", 1); wait "S1 T4 a" "QUEUED"
  listed("T2", 2); release "T1"; release "T5"
  release "T2" -- and offers the lock to T3
  woken "S1 T3" "ACQUIRED"
  listed("T3", 1)
end

function case.list_counts_a_waiter_to_whom_the_lock_is_offered()
  acquire "T1 a"; wait "S1 T2 a:S" "QUEUED"; wait "S1 T3 a:S" "QUEUED"
  release "T1" -- and offers the lock to both
  woken "S1 T2" "ACQUIRED"
  Lock.List{} {locks = {{owner = "T2", holders = 1, waiters = 1}}}
end

-- promise L34: an offer lasts at most 0.5 s, is claimed by the server that parks the call, and the lease starts at the
--   claim
function case.the_lease_begins_at_the_claim()
  acquire "T1 a"; wait "S1 T2 a"
  local before = fence_of(acquire "T3 b")
  pass(300); release "T1"; pass(1); woken "S1 T2" "ACQUIRED" {fences = {{fence = above(before)}}}
  pass(900); acquire "T4 a" "BUSY a held by T2" {holder = {lease_ms = about(LEASE - 900000)}}
end

-- promise L30
function case.all_names_come_at_once()
  acquire "T1 a"; acquire "T2 b"; wait "S1 T3 a b" "QUEUED"; wait "S1 T4 b a" "QUEUED"
  release "T1"; messages() ""
  acquire "T5 a" "BUSY a held by T3" -- free, but its turn
  release "T2"; messages() "S1:W T3 S1:A b S1:A a"; acquire "T5 a" "BUSY a held by T3"
  woken "S1 T3" "ACQUIRED" {fences = {{}, {}}}
  release "T3 a"; deliver() ""
  release "T3 b"; deliver() "T4"
  release "T4"; eq(queue_keys(), 0)
end

-- promise L31
function case.the_end_of_a_lease_hands_over()
  acquire "T1 a"; wait "S1 T2 a"; wait "S2 T3 a"; eq(promote "a", about(LEASE))
  pass(1000); eq(promote "a", within(1, 500)); deliver() "T2"
  eq(promote "a", about(LEASE)); acquire "T1 a" "TOKEN_SPENT"
  release "T2"; deliver() "T3"; eq(promote "a", -1)
end

function case.an_acquire_that_finds_a_lease_over_hands_over()
  acquire "T1 a"; wait "S1 T2 a"; pass(1000); acquire "T3 a" "BUSY a held by T2"; deliver() "T2"
end

-- promise L31
function case.force_release_hands_over()
  acquire "T1 a"; wait "S1 T2 a"; force_release "a" "T1"
  force_release "a" "" -- an offer is not a holder
  deliver() "T2"; acquire "T1 a" "TOKEN_SPENT"
end

-- promise L33: alarms are set for the end of each lease, and moved when it comes sooner
function case.a_waiter_arms_an_alarm_for_each_lease()
  acquire "T1 a"; pass(400); wait "S1 T2 b a" "QUEUED"
  eq(harness.alarms(calls[1].number), { -- b is free
    {["function"] = "lock_promote", argument = "a", in_ms = about(LEASE - 400000)},
  })
end

-- promise L33
function case.waiters_learn_of_an_earlier_lease_end()
  acquire "T1 a"; wait("S1 T2 a", {lease_ms = 20}); wait "S2 T3 a"; release "T1"
  messages() "S1:W T2 S1:A a S2:A a" -- the offer's
  woken "S1 T2" "ACQUIRED"
  messages() "S1:A a S2:A a" -- its lease is shorter
end

-- ---- rules of modes ----

-- promise L41: capacity fixed while anyone waits
function case.a_capacity_is_fixed_while_anyone_waits()
  acquire "T1 a"; wait "S1 T2 a:P1/3" "QUEUED"
  wait "S1 T3 a:P1/4" "FAILED_PRECONDITION NO targets[0].capacity: another one is in use"
  acquire "T3 a:P1/4" "FAILED_PRECONDITION NO targets[0].capacity: another one is in use"; wait "S1 T4 a" "QUEUED"
  timed_out "S1 T2"; wait "S1 T5 a:P1/4" "QUEUED"
  release "T1"; deliver() "T4"
  release "T4"; deliver() "T5"; inspect "a" "PERMIT/4 T5=1"
end

-- ---- resources ----

-- promise L32: ... bounded, and continued
function case.more_than_one_call_can_promote_is_continued()
  local n = 300
  acquire "T1 a"
  for i = 1, n do wait("S1 R" .. i .. " a:S") "QUEUED" end
  release "T1"; eq(holders_kept "a", within(1, n - 1)); eq(messages(), containing "S1:A a")
  local more = 0
  while promote "a" == 0 do more = more + 1 end
  eq(more, within(1, 9)); eq(holders_kept "a", n)
  queue "a" ""; eq(queue_keys(), 0)
  for i = 1, n do woken("S1 R" .. i) "ACQUIRED" end
end

-- promise L42
function case.a_hand_over_is_the_same_number_of_commands_for_any_number_of_waiters()
  local function spent(waiters)
    harness.reset(); setup(); acquire "H0 a"
    for i = 1, waiters do wait(("S%d H%d a"):format(2 - i % 2, i)) "QUEUED" end
    local before = all_commands()
    release "H0" "RELEASED"; woken "S1 H1" "ACQUIRED"
    return all_commands() - before
  end
  local ten = spent(10)
  eq(spent(1000), ten); eq(ten, within(1, 40))
end

-- promise L44: waiting ends also without memory
function case.waiting_ends_also_when_memory_is_short()
  acquire "T1 a"; wait "S1 T2 a"; wait "S1 T3 a"; wait "S1 T4 a"
  redis "CONFIG SET maxmemory 1" -- as renew_release.lua, where Acquire is refused
  timed_out "S1 T3" "TIMED_OUT a held by T1"; abandoned "S1 T4" "CANCELLED..."
  promote "a"; release "T1"; woken "S1 T2" "ACQUIRED"
end

-- promise L43
function case.every_key_of_the_queue_ends()
  acquire "T1 a"; wait "S1 T2 a b:P1/2"; wait "S1 T3 b:P1/2"; abandoned "S1 T3"
  wait("S1 T4 a", {lease_ms = 1000, wait_ms = 1}) -- a shorter wait does not shorten it
  eq(endless_keys(), ""); eq(ttl "t:T2", above(WAIT + LEASE)); eq(ttl "w:a", above(2 * 86400000))
  local ends = redis("PEXPIRETIME", key "n:a")
  redis("PEXPIRETIME", key "w:a")(ends); redis("PEXPIRETIME", key "s:a")(ends)
end

-- promise L45: the order survives a clock that steps back; an offer does not block for longer
function case.a_clock_that_steps_back_keeps_the_order()
  acquire "T1 a"; wait "S1 T2 a"; pass(-3000); wait "S2 T3 a:S"; queue "a" "T2 T3"
  release "T1"; messages() "S1:W T2 S1:A a S2:A a"
  pass(-3000) -- by its end, the offer would now last for long
  promote "a"; deliver() "T3"
end

-- promise B7: foreign data at any key of a lock: no change
function case.foreign_data_is_refused_and_left_alone()
  for i, command in ipairs{"SET w:b foreign", "SET s:b foreign", "SET n:b foreign", "SETRANGE n:b 0 x",
    "SETRANGE n:b 1 x", "SET h:b foreign"} do
    harness.reset(); setup(); acquire "T1 a b:S"; acquire "T3 b:S"
    wait "S1 T4 b c"; redis((command:gsub(" (.:b)", " ls:{default/g}:lock:%1"))); remember()
    wait "S1 T2 c a b" (foreign); release "T1" (foreign)
    force_release "b" (foreign); release "T4" (foreign)
    if i >= 3 then renew "T1" (foreign) end
    unchanged()
  end
end

-- promise B7
function case.foreign_entries_are_refused_and_left_alone()
  acquire "T1 a b:S"; acquire("T3 b:S", {lease_ms = LEASE // 2})
  redis("HSET", key "h:b", "foreign-token-of-16", "foreign-and-as-long-as-it-likes"); remember()
  force_release "b" (foreign)
  pass(LEASE / 2000); release "T1" (foreign); acquire "T2 b" (foreign); unchanged()
end

-- promise L23
function case.inspect_shows_waiters_in_order()
  acquire "T1 a"; wait "S1 T2 a" "QUEUED"; pass(3); wait "S2 T3 a b" "QUEUED"
  local function waiting(...)
    local owners = {...}
    for i, owner in ipairs(owners) do owners[i] = {owner = owner} end
    inspect "a" {waiters = #owners, queue = owners}
  end
  inspect "a" {queue = {{owner = "T2", waited_ms = 3000, left_ms = within(WAIT - 3001, WAIT - 3000)},
    {owner = "T3", waited_ms = 0, left_ms = WAIT}}}
  release "T1"; waiting("T2", "T3") -- it is offered to T2
  woken "S1 T2" "ACQUIRED"; waiting "T3"
  redis("DEL", key "t:T3"); inspect "a" {waiters = 1, queue = {}}
end

-- promise L23
function case.inspect_shows_at_most_a_hundred_waiters()
  acquire "T a"
  for i = 1, 101 do wait(("S1 W%d a:S"):format(i)) "QUEUED" end
  local function shown() local seen = inspect "a"; return #seen.queue, seen.queue[1].owner, seen.waiters end
  local function first_hundred() local n, first, waiters = shown(); eq({n, first, waiters}, {100, "W1", 101}) end
  first_hundred()
  release "T"; first_hundred() -- offered to all
end

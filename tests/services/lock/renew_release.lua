-- Renew and Release: only the token's holder, all or nothing, and the same answer to a repeat.
require "lock"

local function renews(text, lease_ms, said, left_ms)
  renew(text, {lease_ms = lease_ms})(said) {results = {{lease_ms = left_ms and about(left_ms)}}}
end

-- promise L15
function case.a_renewal_never_shortens()
  acquire "T1 a b"; renews("T1 a", 3000000, "RENEWED"); renews("T1 a", 10, "RENEWED", 3000000)
  renews("T1", 10, "RENEWED", LEASE) -- the shorter of the two
  inspect "a" {holders = {{lease_ms = about(3000000)}}}
end

function case.expired_lease_is_lost()
  acquire "T1 a"; pass(1000); remember(); renew "T1" "LOST" {results = {{lease_ms = 0}}}
  renew "T1 a" "LOST"; renew "T9 a" "LOST"
  renew "T9" "LOST"; unchanged()
  acquire "T2 a" "ACQUIRED"; renew "T1 a" "LOST"; renew "T2 a" "RENEWED"
  pass(1000); renews("T2 a", 10, "LOST"); renews("T2", 10, "LOST")
end

-- promise L17: Renew over groups: apart, in order
function case.leases_of_many_groups_are_renewed_each_for_itself()
  local leases, results = {}, {}
  for i = 1, 5 do
    local name, token = "n" .. i, token_of("T" .. i)
    if i ~= 3 then Lock.Acquire{targets = {{name = name}}, token = token, lease_ms = LEASE} "ACQUIRED" end
    leases[i] = {names = {name}, token = token, lease_ms = i * LEASE}
    results[i] = {group = name, outcome = i == 3 and "LOST" or "RENEWED", lease_ms = about(i == 3 and 0 or i * LEASE)}
  end
  leases[4].group, leases[4].names = "n4", {} -- of the group's name, all names of the token
  Lock.Renew{leases = leases} {results = results}
end

-- promise L19
function case.repeated_release_is_answered_again()
  acquire "T1 a b:S"; release "T1" "RELEASED"
  remember()
  for _, again in ipairs{"T1", "T1 a", "T1 b a"} do release(again) "RELEASED again" end
  unchanged(); acquire "T2 a b" "ACQUIRED"
  release "T1" "RELEASED again"; inspect "a" "EXCLUSIVE T2"
end

-- promise L19
function case.release_reports_each_name_that_was_not_held()
  acquire "T1 a b"; release "T1 x" "NOT_HELD"; release "T1 x b" "NOT_HELD x=NOT_HELD b=RELEASED"
  release "T1 x b" "NOT_HELD x=NOT_HELD b=RELEASED again"; inspect "a" "EXCLUSIVE T1"
  acquire "T2 c"; renew "T2 c" "RENEWED"; release "T2 x" "NOT_HELD"
  renew "T2 c x" "LOST"; release "T2 c x" "NOT_HELD c=RELEASED x=NOT_HELD"
end

-- The store's clock was ahead for a moment: the lease seemed to have expired when it was released.
function case.a_token_released_after_its_lease_stays_spent_when_the_clock_steps_back()
  acquire("T1 a", {lease_ms = 5000}); acquire("T2 b:S c", {lease_ms = 5000}); acquire "T3 b:S"
  pass(6); release "T1" "NOT_HELD"; release "T2" "NOT_HELD"; pass(-6)
  acquire "T1 a" "TOKEN_SPENT"; acquire "T2 b:S c" "TOKEN_SPENT"
  acquire "T4 a c" "ACQUIRED"; inspect "b" "SHARED T3"
end

-- promise L7: TOKEN_SPENT: a late copy after the release
function case.an_unseen_token_is_spent_by_its_release()
  release "T1 a" "NOT_HELD"; release "T1 a" "NOT_HELD"
  release "T1" "NOT_HELD"; acquire "T1 a" "TOKEN_SPENT"; renew "T1 a" "LOST"
end

local MINUTE, HOUR, DAY = 60000, 3600000, 86400000
local RETAINED = 10 * MINUTE
local function kept(of, ms) eq(ttl(of), about(ms)) end

-- promise L26
function case.records_are_kept_as_long_as_stated()
  acquire "T1 a b"; kept("t:T1", LEASE + RETAINED); kept("n:a", LEASE + DAY + HOUR)
  renews("T1", LEASE + HOUR // 2, "RENEWED") -- the key's end is far enough
  kept("n:a", LEASE + DAY + HOUR); renews("T1", 5000000, "RENEWED"); kept("t:T1", 5000000 + 2 * RETAINED)
  kept("n:a", 5000000 + DAY + HOUR); renews("T1 a", 10, "RENEWED"); renews("T1 a b", 10, "RENEWED")
  kept("t:T1", 5000000 + 2 * RETAINED); release "T1 a"; kept("t:T1", 5000000 + 2 * RETAINED); release "T1"
  kept("t:T1", RETAINED); eq(ttl "n:a", above(DAY - 90000))
  release "T2"; kept("t:T2", RETAINED)
end

-- promise L26
-- The same of a token that has one name.
function case.records_of_one_name_are_kept_as_long_as_stated()
  acquire "T1 a"; kept("t:T1", LEASE + RETAINED); kept("n:a", LEASE + DAY + HOUR)
  renews("T1", LEASE + MINUTE, "RENEWED"); kept("t:T1", LEASE + MINUTE + 2 * RETAINED)
  renews("T1 a", LEASE + 2 * MINUTE, "RENEWED") -- the keys' ends are far enough
  kept("t:T1", LEASE + MINUTE + 2 * RETAINED); kept("n:a", LEASE + DAY + HOUR)
  renews("T1 a", LEASE + MINUTE + RETAINED + HOUR // 2, "RENEWED")
  kept("t:T1", LEASE + MINUTE + 3 * RETAINED + HOUR // 2); kept("n:a", LEASE + DAY + HOUR)
  renews("T1 a", 10, "RENEWED", LEASE + MINUTE + RETAINED + HOUR // 2)
  renews("T1 a", 2 * LEASE + 2 * HOUR, "RENEWED"); kept("n:a", 2 * LEASE + 2 * HOUR + DAY + HOUR); release "T1"
  kept("t:T1", RETAINED)
  -- The token's end is far enough, the name's is not.
  acquire "T3 c"; renews("T3 c", LEASE + HOUR - MINUTE, "RENEWED")
  renews("T3 c", LEASE + HOUR + 4 * MINUTE, "RENEWED"); kept("n:c", LEASE + HOUR + 4 * MINUTE + DAY + HOUR)
  acquire("T2 b", {lease_ms = MINUTE}); release "T2"; kept("t:T2", MINUTE + RETAINED)
end

-- promise L27: Renew, Release, ForceRelease without memory; not Acquire
-- promise B6: a Release of an unknown token leaves a mark and needs memory for it; no other Release does
function case.locks_are_kept_and_given_back_when_memory_is_short()
  local base = "ls:{default/g}:"
  acquire "T1 a"; acquire "T2 b:S"; redis "CONFIG SET maxmemory 1"; redis "SET any thing" "OOM..."
  fcall("lock_acquire", base, "6", token_of "T5", "owner", "1000", "0", ".", "c") "OOM ..." -- RESOURCE_EXHAUSTED NO
  renew "T1" "RENEWED"; release "T1" "RELEASED"
  -- A mark for each made-up token would need memory without end.
  fcall("lock_release_unseen", base, "4", token_of "T3", "S1", "", "a") "OOM ..."
  fcall("lock_release", base, "4", token_of "T3", "S1", "", "a") "UNSEEN..."; inspect "b" "SHARED T2"
  force_release "b" "T2"
  redis "CONFIG SET maxmemory 0"; acquire "T1 a" "TOKEN_SPENT"; release "T3 a" "NOT_HELD"
  acquire "T3 a" "TOKEN_SPENT"; acquire "T4 a b" "ACQUIRED"
end

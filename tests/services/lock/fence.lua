-- Fences: each grant of a name has a greater fence than all before it, even when the clock is set back or the key is
-- lost; and the fence register.
require "lock"

-- promise L20: fences increase: clock back, released, over, key lost
function case.a_fence_outlives_release_and_expiry()
  local first = fence_of(acquire "T1 a")
  release "T1"; inspect "a" "FREE" {last_fence = first}
  pass(-3600); acquire "T2 a" {fences = {{fence = first + 1}}}
  pass(1000); inspect "a" "FREE" {last_fence = first + 1}; acquire "T3 a" {fences = {{fence = first + 2}}}
end

-- A grant after the key was lost has a greater one.
function case.a_fence_is_an_instant_where_the_clock_has_not_stepped_back()
  acquire "T1 a"; release "T1"; pass(10)
  local now = now_us()
  eq(fence_of(acquire "T2 a"), above(now - 1))
  acquire "T3 b:S"; pass(10)
  now = now_us()
  acquire "T4 b:S c" {fences = {{fence = above(now - 1)}, {fence = above(now - 1)}}}
end

-- promise L20
function case.a_lost_key_does_not_bring_a_fence_back()
  local before = fence_of(acquire "T1 a")
  redis("DEL", key "n:a")
  before = eq(fence_of(acquire "T2 a"), above(before))
  redis "FLUSHALL"; eq(fence_of(acquire "T3 a"), above(math.max(before, now_us() - 10000000)))
end

-- promise L22: CheckFence: OK, STALE, high_water; stays
function case.register_refuses_lower_fences()
  check_fence "disk 5" "OK 5"; check_fence "disk 5" "OK 5"
  check_fence "disk 4" "STALE 5"; check_fence "disk 9" "OK 9"; check_fence "disk 5" "STALE 9"
  pass(9007199254 - os.time()) -- to where fences are as large as numbers are exact
  check_fence "disk 9007199254740991" "OK 9007199254740991"
  check_fence "disk 9007199254740990" "STALE 9007199254740991"
  check_fence "disk 9007199254740991" "OK 9007199254740991"
end

-- promise L22
function case.registers_are_apart_and_stay()
  check_fence "a 7" "OK 7"; check_fence "b}:lock:r 3" "OK 3"
  check_fence "b 2" "OK 2"; check_fence "a 6" "STALE 7"; redis "PTTL ls:{default/a}:lock:r" "-1"
  pass(100 * 86400); check_fence "a 6" "STALE 7"
  harness.namespace "other"; check_fence "a 6" "OK 6"
end

-- promise L48
-- promise B9: ResetFence sets a register or deletes it
function case.foreign_register_is_not_changed()
  redis "SET ls:{default/a}:lock:r foreign"; check_fence "a 7" (foreign)
  redis "GET ls:{default/a}:lock:r" "foreign"
  redis "HSET ls:{default/b}:lock:r f 1"; check_fence "b 7" (foreign); reset_fence "a 7" (foreign)
  reset_fence "b 0" (foreign)
end

-- promise B8: CheckFence and ResetFence refuse values that no clock can have given
-- A number that is no fence would make every holder STALE for good.
function case.fence_that_no_clock_can_have_issued_is_refused()
  local refused = "INVALID_ARGUMENT NO fence: over 24 hours ahead of the store's clock; no lock can have issued it"
  local given = fence_of(acquire "T1 a")
  check_fence("row " .. given) "OK ..."
  remember(); check_fence "row 9007199254740991" (refused); check_fence("row " .. given + 90000000000)(refused)
  reset_fence "row 9007199254740991" (refused); unchanged(); check_fence("row " .. given) "OK ..."
  -- A fence from before the clock was set back is accepted.
  pass(-80000); check_fence("row " .. given) "OK ..."; check_fence("row " .. given + 1) "OK ..."
end

-- promise B9
function case.a_register_is_reset()
  check_fence "row 9000" "OK 9000"; reset_fence "row 70" "9000"
  check_fence "row 69" "STALE 70"; check_fence "row 71" "OK 71"
  reset_fence "row 0" "71"; eq(harness.snapshot(), "")
  check_fence "row 1" "OK 1"; reset_fence "never 0" "0"
  reset_fence "never 5" "0"; check_fence "never 4" "STALE 5"
  Lock.ResetFence{fence = 5} "INVALID_ARGUMENT NO resource: must not be empty"
  reset_fence "never -1" "INVALID_ARGUMENT NO fence: must be 0 to 9007199254740991"
end

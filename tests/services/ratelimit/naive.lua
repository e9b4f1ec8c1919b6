-- Limiters that people write by hand fail, step by step as two clients would run them; beside each, the same through
-- the service.
require "ratelimit"

local function incr(name) return redis_number("INCR naive:" .. name) end

-- INCR, then EXPIRE when it was the first: a client that dies between the two leaves a counter that never ends.
function case.incr_then_expire_locks_out_for_ever()
  eq(incr "bob", 1)
  -- It dies here and never sends EXPIRE naive:bob 1.
  local last
  for _ = 1, 10 do last = incr "bob" end
  eq(last, above(5)); redis "PTTL naive:bob" "-1"
  -- A Check is one function: nothing can happen between counting and setting the end.
  check "bob FIXED 5/1000" "ALLOWED:..."; eq(ttl "k:bob", above(0))
end

-- GET, compare, INCR: two clients that read before either wrote are both admitted.
function case.get_then_incr_lets_two_in()
  redis "SET naive:bob 4"
  redis "GET naive:bob" "4" -- both go on
  redis "GET naive:bob" "4"
  incr "bob"; eq(incr "bob", 6)
  local rule = "bob FIXED 5/1000"
  check(rule, 4)
  peek(rule, 1) "ALLOWED:..." -- both have looked
  peek(rule, 1) "ALLOWED:..."; check(rule) "ALLOWED:..."; check(rule) "DENIED:..."
end

-- One counter a window admits twice the limit within two milliseconds. FIXED_WINDOW promises no more; the other
-- algorithms refuse it.
function case.a_counter_a_window_admits_twice_the_limit()
  local function admitted(try)
    local n = 0
    advance(999)
    for _ = 1, 2 do
      for _ = 1, 150 do n = n + (try() and 1 or 0) end
      advance(1)
    end
    return n
  end
  eq(admitted(function() return incr("bob:" .. now_us() // 1000000) <= 100 end), 200)
  each({"LOG", "WINDOW", "BUCKET"}, function(algorithm)
    eq(admitted(function() return check("bob " .. algorithm .. " 100/1000").outcome == "ALLOWED" end), 100)
  end)
end

-- Two counters, one after the other: the second refuses, but the first was charged.
function case.one_limit_after_the_other_charges_for_nothing()
  redis "SET naive:all 100"
  for _ = 1, 5 do
    eq(incr "bob", within(1, 5)) -- passes
    eq(incr "all", above(100)) -- does not
  end
  redis "SET naive:all 0" -- there is room again, but not for bob
  eq(incr "bob", above(5))
  local rules = "bob FIXED 5/60000;all FIXED 100/1000"
  check("all FIXED 100/1000", 100) "ALLOWED:..."
  many(5, rules, "DENIED:..."); advance(1000); check(rules) {rules = {{remaining = 4}, {}}}
end

-- A client that repeats a call without answer is charged twice.
function case.a_repeat_is_charged_twice()
  incr "bob" -- the reply is lost
  eq(incr "bob", 2)
  check_id("bob FIXED 5/1000", 1, "r") -- the reply is lost
  check_id("bob FIXED 5/1000", 1, "r") {rules = {{remaining = 4}}}
end

-- Refund and Reset: a charge is returned once, and never more than the counter still holds; and the rest of a counter
-- in the store.
require "ratelimit"

local ALL = "bob FIXED 9/1000;bob LOG 9/1000;bob WINDOW 9/1000;eve BUCKET 9/1000"

function case.each_algorithm_gives_back()
  check(ALL, 3); check_id(ALL, 5, "r") "ALLOWED:..."; check(ALL, 2) "DENIED:..."; refund "r" "REFUNDED"
  peek(ALL, 1) "ALLOWED: ALLOWED 9 6 0 1000 0: ALLOWED 9 6 0 1000 0: ALLOWED 9 6 0 2000 0: ALLOWED 9 6 0 334 0"
  check(ALL, 6) "ALLOWED:..."; check(ALL, 1) "DENIED:..."
end

-- promise C19
-- promise R23: Refund: REFUNDED once, ALREADY_REFUNDED, UNKNOWN
function case.a_check_is_refunded_once()
  check_id(ALL, 2, "r") "ALLOWED:..."; check_id(ALL, 4, "s") "ALLOWED:..."; refund "r" "REFUNDED"
  remember(); refund "r" "ALREADY_REFUNDED"; unchanged(); eq(ttl "q:r", above(0))
  peek(ALL, 1) "ALLOWED: ALLOWED 9 5 0 1000 0: ALLOWED 9 5 0 1000 0: ALLOWED 9 5 0 2000 0: ALLOWED 9 5 0 445 0"
end

-- promise R23
function case.uncharged_request_cannot_be_refunded()
  remember(); refund "r" "UNKNOWN"
  check "bob FIXED 1/1000"; remember(); check_id("bob FIXED 1/1000", 1, "r") "DENIED:..."; refund "r" "UNKNOWN"
  unchanged()
  check_id("bob LOG 1/1000", 1, "s"); refund("s", "other") "UNKNOWN"
  harness.namespace "other"; refund "s" "UNKNOWN"
  harness.namespace "default"
  advance(6000) -- as long as the check is remembered
  refund "s" "UNKNOWN"
end

-- A check with an empty group is in the group of its key.
function case.a_refund_needs_the_group_of_its_check()
  check("bob FIXED 1/1000", {group = "", request_id = "r"}) "ALLOWED:..."; refund("r", "bob") "REFUNDED"
end

-- promise R24
-- The window has passed: REFUNDED, but nothing is returned.
function case.refund_of_an_ended_fixed_window_returns_nothing()
  advance(900)
  check_id("bob FIXED 9/1000;bob LOG 9/1000;bob WINDOW 9/1000;bob BUCKET 9/1000;bob LOG 90000/90000", 5, "r") "ALLOWED:..."
  advance(99); check("bob FIXED 9/1000", 4); advance(1); check("bob FIXED 9/1000", 7)
  refund "r" "REFUNDED"; eq(left "bob FIXED 9/1000", 2)
end

-- promise R24
-- Units that have flowed back are not returned again.
function case.refund_of_a_bucket_omits_refilled_units()
  local rule = "bob BUCKET 10/1000 burst=10"
  each({
    {6, 0, 500, 9, "ALLOWED: ALLOWED 10 1 0 900 0"}, -- 5 of 6 have
    {5, 0, 500, 10, "DENIED: DENIED 10 0 100 1000 0"},
    {5, 3, 600, 8, "DENIED: DENIED 10 0 100 1000 0"}, -- more than all 5 of it
  }, function(row)
    local units, beside, ms, later, said = table.unpack(row)
    check_id(rule, units, "r") "ALLOWED:..."
    if beside > 0 then check(rule, beside) "ALLOWED:..." end
    advance(ms); check(rule, later) "ALLOWED:..."; refund "r" "REFUNDED"; peek(rule, 1)(said)
  end)
end

-- promise R24
function case.a_log_gives_back_its_own_entries()
  local rule = "bob LOG 10/1000"
  check_id(rule, 1, "a") "ALLOWED:..."
  advance(100)
  check_id(rule, 3, "b") "ALLOWED:..." -- two entries, of one and of two units
  advance(100); check_id(rule, 6, "c") "ALLOWED:..."; refund "c" "REFUNDED"
  peek(rule, 1) "ALLOWED: ALLOWED 10 6 0 900 0"; refund "a" "REFUNDED"
  peek(rule, 8) "DENIED: DENIED 10 7 900 900 0"; refund "b" "REFUNDED"; peek(rule, 8) "ALLOWED: ALLOWED 10 10 0 0 0"
end

-- promise R24
-- Nor when the policy has changed.
function case.a_changed_policy_gives_nothing_back()
  each({"FIXED", "LOG", "WINDOW", "BUCKET"}, function(algorithm)
    put_policy("api", algorithm .. " 9/1000"); check_id("bob @api", 5, "r") "ALLOWED:..."
    put_policy("api", algorithm .. " 9/2000"); check("bob @api", 4) "ALLOWED:..."; refund "r" "REFUNDED"
    check "bob @api" "DENIED:..."
  end)
end

-- ---- Reset ----

-- promise R25: Reset forgets every counter and ban of a key
function case.reset_forgets_counters_and_bans_of_a_key()
  local rules = "bob FIXED 1/1000 after=1 ban=9000;bob LOG 3/1000;bob WINDOW 1/1000;bob BUCKET 1/1000;eve FIXED 1/1000"
  check(rules) "ALLOWED:..."; check("bob LOG 3/1000", 2) "ALLOWED:..."
  check(rules) "BANNED:..."; reset "bob" "OK"
  redis "KEYS ls:{*" "ls:{default/g}:rate:k:eve\n"; check(rules) "DENIED:..."
  reset "eve" "OK"; check(rules) "ALLOWED:..."; reset "nobody" "OK"
end

-- promise R25
function case.the_group_of_a_reset_is_its_key()
  check("bob FIXED 1/1000", {group = ""}); reset("bob", "") "OK"
  check("bob FIXED 1/1000", {group = ""}) "ALLOWED:..."
end

-- ---- remains in the store ----

-- promise R33
function case.every_key_ends_when_it_matters_no_more()
  local HOUR = 3600000
  local function ends(of, hours) eq(ttl(of), within(HOUR * hours - 60000, HOUR * hours)) end
  let_keys_end(); advance(HOUR // 4); check "a FIXED 2/3600000"; ends("k:a", 0.75)
  check "b LOG 2/3600000"; ends("k:b", 1); ends("l:b:L,2,3600000:0", 1.75); check "c WINDOW 2/3600000"
  ends("k:c", 1.75); check "d BUCKET 2/3600000"; ends("k:d", 0.5)
  -- A log whose policy has a longer period than before.
  put_policy("api", "LOG 5/3600000"); check "e @api"; put_policy("api", "LOG 5/7200000"); check "e @api"
  ends("l:e:@api,L:0", 3.75)
  -- The latest end of several counters.
  check "a FIXED 2/7200000"; ends("k:a", 1.75); check "a FIXED 2/3600000"; ends("k:a", 1.75)
  advance(HOUR * 2); check "a FIXED 2/3600000"; ends("k:a", 0.75)
end

-- promise R33
-- Expired counters of a key are removed by the next write; there are at most 128.
function case.counters_of_a_key_are_bounded()
  for i = 1, 128 do check("bob FIXED " .. i .. "/1000") "ALLOWED:..." end
  remember(); check "bob FIXED 129/1000" "RESOURCE_EXHAUSTED NO..."; unchanged()
  check "eve FIXED 1/1000;bob FIXED 129/1000" "RESOURCE_EXHAUSTED..."; unchanged()
  check "bob FIXED 128/1000" "ALLOWED:..."
  advance(1000); check "bob FIXED 129/1000;bob FIXED 130/1000" "ALLOWED:..."
  redis("STRLEN", key "k:bob") "104" -- of two counters
end

local function chunks(expected)
  local found = ""
  for i = 0, #expected - 1 do found = found .. redis("EXISTS", key("l:bob:L,1000,1000:" .. i)) end
  eq(found, expected)
end

-- promise R2
-- promise R33
-- A log is kept in chunks of 512 entries. Expired entries are removed with the next charge, and the count is exact.
function case.chunks_of_a_log_are_removed_when_all_entries_expired()
  local rule = "bob LOG 1000/1000"
  for i = 1, 1000 do
    check(rule) "ALLOWED:..."
    harness.forget()
    if i % 100 == 0 then advance(1) end
  end
  check(rule) "DENIED: DENIED 1000 0 990 999 0"; peek(rule, 300) "DENIED: DENIED 1000 0 992 999 0"
  peek(rule, 700) "DENIED: DENIED 1000 0 996 999 0"; peek(rule, 701) "DENIED: DENIED 1000 0 997 999 0"
  chunks "110"
  advance(995) -- entries of the first six milliseconds are over
  peek(rule, 601) "DENIED: DENIED 1000 600 1 4 0"
  chunks "110"; check(rule) "ALLOWED: ALLOWED 1000 599 0 1000 0"
  chunks "011" -- another window has begun, and with it another chunk
  many(599, rule, "ALLOWED:..."); check(rule) "DENIED: DENIED 1000 0 1 1000 0"
  peek(rule, 401) "DENIED: DENIED 1000 0 1000 1000 0"
  chunks "01110"; reset "bob" "OK"
  chunks "00000"
end

-- promise R2
-- A chunk ends two periods after the window in which it began, so no entry of a later window is in it.
function case.an_entry_of_the_next_window_begins_a_chunk()
  local rule = "bob LOG 1000/1000"
  advance(600); check(rule); check(rule); chunks "10"
  advance(600); check(rule) "ALLOWED: ALLOWED 1000 997 0 1000 0"; chunks "11"
end

-- promise R2
function case.an_entry_does_not_come_before_the_last_one()
  local rule = "bob LOG 2/1000"
  advance(900); check(rule); advance(-500); check(rule) "ALLOWED: ALLOWED 2 0 0 1500 0"
  advance(1100); check(rule) "DENIED: DENIED 2 0 400 400 0"; advance(400); check(rule) "ALLOWED:..."
end

-- promise R24
-- Refunded entries do not count in the cost of their chunk.
function case.refunded_entries_do_not_count_in_a_chunk()
  local rule = "bob LOG 1000/1000"
  for i = 0, 599 do
    check_id(rule, 1, "r" .. i) "ALLOWED:..."
    harness.forget()
  end
  for _, id in ipairs{"r10", "r511", "r599"} do refund(id) "REFUNDED" end
  advance(1); check(rule, 400) "ALLOWED:..."; peek(rule, 4) "DENIED: DENIED 1000 3 999 1000 0"
  advance(999); peek(rule, 601) "DENIED: DENIED 1000 600 1 1 0"; check(rule, 600) "ALLOWED: ALLOWED 1000 0 0 1000 0"
end

-- promise R40: a clock that steps back admits no more
function case.a_clock_set_back_admits_no_more()
  local rules = "bob FIXED 5/1000;bob LOG 5/1000;bob WINDOW 5/1000;bob BUCKET 5/1000"
  advance(100000); check(rules, 5) "ALLOWED:..."
  advance(-1500)
  for _ = 1, 5 do
    for rule in rules:gmatch("[^;]+") do check(rule) "DENIED:..." end
    advance(300)
  end
end

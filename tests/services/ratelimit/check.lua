-- Check: outcomes and numbers of an answer, what is charged, and repeats.
-- promise R8: reset_after_ms, banned_ms
require "ratelimit"

-- promise R15: more than `after` tries in one window ban the key
-- promise R19: "1 s, 5 allowed, over 7 tries locked for 2 s"
-- promise E11: five a second, and over seven tries a ban of two seconds: which try gets which answer; others are not
--   affected;
-- it ends
function case.five_a_second_over_seven_tries_locked_for_two()
  local rule = "bob FIXED 5/1000 after=7 ban=2000"
  many(5, rule, "ALLOWED:..."); many(2, rule, "DENIED:...")
  for _ = 1, 20 do
    check(rule) "BANNED:..."
    advance(100)
  end
  check(rule) "ALLOWED:..."
end

-- promise R1: FIXED_WINDOW: at most limit in each window of the clock
-- promise R6: limit, remaining
function case.each_algorithm_reports_limit_remaining_and_times()
  check "bob FIXED 2/1000" "ALLOWED: ALLOWED 2 1 0 1000 0"; check "bob LOG 2/1000" "ALLOWED: ALLOWED 2 1 0 1000 0"
  check "bob WINDOW 2/1000" "ALLOWED: ALLOWED 2 1 0 2000 0"
  check "bob BUCKET 2/1000" "ALLOWED: ALLOWED 2 1 0 500 0"
  advance(100); check "bob FIXED 2/1000" "ALLOWED: ALLOWED 2 0 0 900 0"
  check "bob LOG 2/1000" "ALLOWED: ALLOWED 2 0 0 1000 0"; check "bob WINDOW 2/1000" "ALLOWED: ALLOWED 2 0 0 1900 0"
  check "bob BUCKET 2/1000" "ALLOWED: ALLOWED 2 0 0 900 0"; check "bob FIXED 2/1000" "DENIED: DENIED 2 0 900 900 0"
  check "bob LOG 2/1000" "DENIED: DENIED 2 0 900 1000 0"; check "bob WINDOW 2/1000" "DENIED: DENIED 2 0 1400 1900 0"
  check "bob BUCKET 2/1000" "DENIED: DENIED 2 0 400 900 0"
end

-- promise R4
-- Ten million a second are one each tenth of a microsecond; three a second are one each 333,333 and a third.
function case.rates_are_exact_below_a_microsecond()
  local fast, third = "bob BUCKET 10000000/1000 burst=10", "bob BUCKET 3/1000 burst=2"
  check(fast, 7) "ALLOWED:..."; check(fast, 4) "DENIED:..."
  advance_us(1); check(fast, 10) "ALLOWED:..."; check(fast, 1) "DENIED:..."; check(third, 2) "ALLOWED:..."
  for _, us in ipairs{333333, 333332, 333332} do -- the two thirds of a microsecond more are not lost
    advance_us(us); check(third) "DENIED:..."
    advance_us(1); check(third) "ALLOWED:..."
  end
end

-- promise R9: cost, 0 = 1; more than ever fits: DENIED, retry_after_ms -1
function case.a_cost_is_that_many_units()
  for _, name in ipairs{"FIXED", "LOG", "WINDOW", "BUCKET"} do
    local rule = "bob " .. name .. " 10/1000"
    check(rule, 0) {rules = {{remaining = 9}}}; check(rule, 5) {rules = {{remaining = 4}}}
    check(rule, 5) "DENIED:..."
    check(rule, 4) {rules = {{remaining = 0}}}; check(rule, 1) "DENIED:..."
  end
end

-- promise R9
-- A cost above the limit is DENIED and not an error, because a policy may be smaller than what its callers ask.
function case.cost_above_the_limit_is_denied_permanently()
  remember(); check("bob FIXED 5/1000", 6) "DENIED: DENIED 5 5 -1 0 0"
  check("bob LOG 5/1000", 6) "DENIED: DENIED 5 5 -1 0 0"; check("bob WINDOW 5/1000", 6) "DENIED: DENIED 5 5 -1 0 0"
  check("bob BUCKET 5/1000 burst=7", 8) "DENIED: DENIED 5 7 -1 0 0"
  check("bob LOG 5/1000", 9007199254740991) "DENIED: DENIED 5 5 -1 0 0"; unchanged()
end

-- ---- several rules ----

-- promise R10: ALL_OR_NOTHING charges none unless all pass
function case.none_is_charged_unless_all_pass()
  local rules = "bob FIXED 1/1000;bob LOG 2/1000;bob WINDOW 3/1000;eve BUCKET 4/1000"
  local others = ": ALLOWED 2 1 0 1000 0: ALLOWED 3 2 0 2000 0: ALLOWED 4 3 0 250 0"
  check(rules)("ALLOWED: ALLOWED 1 0 0 1000 0" .. others)
  remember(); check(rules)("DENIED: DENIED 1 0 1000 1000 0" .. others); unchanged()
end

local function independent(rules, more) return check(rules, with({mode = "INDEPENDENT"}, more)) end

-- ---- what is counted ----

-- promise R13: a counter is (group, key, policy or limit); once a check
-- promise R14: group empty only with one rule, whose key it is
-- promise R35: names cannot reach another counter
function case.a_counter_is_group_key_and_limit()
  local rule = "bob FIXED 1/1000"
  check(rule, {group = ""}) "ALLOWED:..." -- the group is "bob"
  check(rule, {group = "bob"}) "DENIED:..."; check(rule, {group = "other"}) "ALLOWED:..."
  check(rule) "ALLOWED:..."; check(rule) "DENIED:..."
  for _, other in ipairs{"eve FIXED 1/1000", "bob FIXED 1/1001", "bob FIXED 2/1000", "bob LOG 1/1000"} do
    check(other) "ALLOWED:..."
  end
  harness.namespace "other"; check(rule) "ALLOWED:..."
end

-- promise R13
function case.equal_rules_in_other_words_share_a_counter()
  check "bob BUCKET 1/1000" "ALLOWED:..."; check "bob BUCKET 1/1000 burst=1" "DENIED:..."
  check "bob FIXED 1/1000 after=9 ban=5" "ALLOWED:..."; check "bob FIXED 1/1000 after=9 ban=5 factor=1" "DENIED:..."
end

-- promise R35
function case.names_are_only_names()
  for _, name in ipairs{"a:b", "a}", "{a", "a*", "a%3Ab", "a,F", "\u{e9}", "a\nb"} do
    check_id(name .. " LOG 1/1000", 1, name) "ALLOWED:..."; check(name .. " LOG 1/1000") "DENIED:..."
    refund(name) "REFUNDED"
  end
end

-- promise R34: many servers share a counter; combined calls are as separate ones
function case.calls_may_travel_together()
  local request = check_request "bob FIXED 2/1000 after=4 ban=500;bob LOG 3/1000;eve BUCKET 5/1000"
  for i, one in ipairs(RateLimit.Check.together(repeated(6, request))) do
    one(i <= 2 and "ALLOWED:..." or i <= 4 and "DENIED:..." or "BANNED:...")
  end
end

-- ---- peek ----

-- promise R12: peek charges nothing, counts no try, begins no ban
function case.peek_reports_and_charges_nothing()
  local rules = "bob FIXED 2/1000 after=3 ban=500;bob LOG 2/1000 after=3 ban=500;"
    .. "bob WINDOW 2/1000 after=3 ban=500;bob BUCKET 2/1000 after=3 ban=500"
  local function five_peeks(said)
    remember()
    for _ = 1, 5 do peek(rules, 1)(said) end
    unchanged()
  end
  five_peeks "ALLOWED:..."; peek(rules, 3) "DENIED:..."; unchanged()
  check(rules); check(rules); five_peeks "DENIED:..."; check(rules); check(rules) "BANNED:..."
  five_peeks "BANNED:..."
end

-- promise R12
-- The next try would begin a ban: it would not pass, although there is no ban.
function case.a_peek_foresees_a_ban()
  local rule = "bob FIXED 9/1000 after=1 ban=500"
  check(rule); advance(100); peek(rule, 1) "DENIED: DENIED 9 8 900 900 0"
  advance(900); peek(rule, 1) "ALLOWED: ALLOWED 9 9 0 0 0"
end

-- promise R12
function case.a_peek_has_no_identity()
  check("g FIXED 2/1000", {group = "", request_id = "r"}) "ALLOWED:..."
  check("g FIXED 2/1000", {group = "", request_id = "r", peek = true}) "ALLOWED: ALLOWED 2 1 0 1000 0"
end

-- ---- request_id ----

-- promise R5
-- promise R20: request_id: the first answer is replayed while the call may be repeated and its charge counts
function case.a_repeat_is_the_first_answer()
  local rules = "bob FIXED 3/90000;bob LOG 3/90000;bob WINDOW 3/90000;bob BUCKET 3/90000"
  local first = tostring(check_id(rules, 2, "r"))
  remember(); advance(1000); check_id(rules, 2, "r")((first:gsub("^ALLOWED", "ALLOWED replayed"))); unchanged()
end

-- promise R21: the same id for another check: ALREADY_EXISTS; a policy may change, or be deleted
function case.a_request_id_means_one_check()
  put_policy("api", "FIXED 5/1000"); check_id("bob FIXED 5/1000", 1, "r") "ALLOWED:..."
  remember()
  for _, other in ipairs{"bob FIXED 6/1000", "eve FIXED 5/1000", "bob LOG 5/1000", "bob FIXED 5/1000;bob LOG 5/1000",
    "bob @api"} do
    check_id(other, 1, "r") "ALREADY_EXISTS NO request_id:..."
  end
  check_id("bob FIXED 5/1000", 2, "r") "ALREADY_EXISTS NO request_id:..."
  independent("bob FIXED 5/1000", {request_id = "r"}) "ALREADY_EXISTS NO request_id:..."; unchanged()
end

-- promise R5
-- promise R20
-- promise R21
function case.a_repeat_survives_a_change_of_its_policy()
  put_policy("api", "FIXED 5/10000"); check_id("bob @api", 1, "r") "ALLOWED: ALLOWED 5 4 0 10000 0"
  put_policy("api", "LOG 1/1000"); check_id("bob @api", 1, "r") "ALLOWED replayed: ALLOWED 5 4 0 10000 0"
end

-- promise R5
-- promise R20
-- promise R21
function case.a_repeat_survives_the_end_of_its_policy()
  put_policy("api", "FIXED 5/10000"); check_id("bob FIXED 5/10000;bob @api", 1, "r") "ALLOWED:..."
  delete_policy "api" "OK"; check_id("bob FIXED 5/10000;bob @api", 1, "r") "ALLOWED replayed:..."
  remember(); check_id("bob FIXED 5/10000;bob @api", 1, "s") "NOT_FOUND NO rules[1].policy:..."; unchanged()
end

-- promise R22: a refusal leaves no record
function case.a_refusal_leaves_no_record_and_may_change()
  check "bob FIXED 1/1000"; remember(); check_id("bob FIXED 1/1000", 1, "r") "DENIED:..."; unchanged()
  advance(1000); check_id("bob FIXED 1/1000", 1, "r") "ALLOWED:..."
end

-- promise R20
-- What was charged is an effect, whatever the outcome of the whole.
function case.a_partly_charged_check_is_recorded()
  check "bob FIXED 1/1000"; independent("bob FIXED 1/1000;bob LOG 3/1000", {request_id = "r"}) "DENIED:..."
  independent("bob FIXED 1/1000;bob LOG 3/1000", {request_id = "r"}) "DENIED replayed:..."
  peek("bob LOG 3/1000", 1) "ALLOWED: ALLOWED 3 2 0 1000 0"; refund "r" "REFUNDED"
  peek("bob LOG 3/1000", 1) "ALLOWED: ALLOWED 3 3 0 0 0"
end

-- promise R20
-- promise R33: every key ends; counters of a key and entries of a log are bounded
function case.request_is_remembered_while_it_may_be_repeated()
  each({ -- rules, the ms that its caller has left, those that it is kept, units
    -- As long as its caller may repeat it, and 5 s more.
    {"bob FIXED 5/1000", 1000, 6000, 1},
    {"eve FIXED 5/1000", 30000, 35000, 1},
    {"ann FIXED 5/1000", 4294967295, 86405000, 1},
    -- As long as the charge counts.
    {"bob BUCKET 1/1000 burst=100", 1000, 90000, 90},
    {"bob FIXED 90/3600000", 1000, 3600000, 90},
    {"bob WINDOW 90/60000", 1000, 120000, 90},
    {"bob LOG 90/400000;bob FIXED 90/20000", 1000, 400000, 90},
  }, function(row)
    local rules, repeat_ms, kept, units = table.unpack(row)
    harness.repeat_ms(repeat_ms); check_id(rules, units, "r") "ALLOWED:..."
    eq(ttl "q:r", within(3590000 + kept, 3600000 + kept)) -- see setup
    advance(kept - 1); check_id(rules, units, "r") "ALLOWED replayed:..."
    advance(1); check_id(rules, units, "r") {replayed = false}
  end)
end

-- promise R20
-- A bucket of 100 that gains one a second: the first answer is lost, and the repeat comes after more than a period. It
-- is charged once and can be refunded.
function case.a_slow_retry_is_charged_once()
  local rules = "bob BUCKET 1/1000 burst=100"
  check_id(rules, 60, "r") "ALLOWED:..."
  advance(2500); check_id(rules, 60, "r") "ALLOWED replayed:..."; eq(left(rules), 42)
  advance(7500); refund "r" "REFUNDED"; eq(left(rules), 100)
end

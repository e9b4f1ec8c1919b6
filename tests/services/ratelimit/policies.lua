-- Policies on several servers, each with its own memory.
-- promise R13
require "ratelimit"

local function list(size, token) return RateLimit.ListPolicies{page_size = size, page_token = token} end
local UNLIMITED = "ALLOWED 9007199254740991 9007199254740991 0 0 0"

-- promise R26: PutPolicy, GetPolicy: the policy in force with its defaults; NOT_FOUND
function case.get_policy_returns_what_put_policy_stored()
  local put = put_policy("api", "BUCKET 5/1000 burst=10 after=7 ban=2000 factor=3 max=9000", {shadow = true})
    {policy = {name = "api", version = now_us()}}.policy
  get_policy "api" {policy = {version = put.version, shadow = true, limit = {algorithm = "TOKEN_BUCKET", limit = 5,
    period_ms = 1000, burst = 10, penalty = {after = 7, ban_ms = 2000, factor = 3, max_ban_ms = 9000}}}}
end

-- promise R26
-- The answer has the defaults of fields that were not set.
function case.policy_answer_has_the_defaults()
  put_policy("api", "BUCKET 5/1000 after=1 ban=1")
    {policy = {shadow = false, limit = {burst = 5, penalty = {factor = 1, max_ban_ms = 366 * 24 * 3600 * 1000}}}}
  eq(put_policy("api", "FIXED 5/1000").policy.limit.penalty, nil)
end

-- promise R27: expected_version: ABORTED with the current one; no version is used twice
-- promise R28: ListPolicies in order, by pages; DeletePolicy
function case.versions_are_compared_and_never_reused()
  put_policy("api", "FIXED 5/1000", {expected_version = 3}) "ABORTED NO expected_version:..."
  eq(last_error.message, containing "the current one is 0")
  local first = put_policy("api", "FIXED 5/1000").policy.version
  local second = put_policy("api", "FIXED 6/1000", {expected_version = first}) {policy = {version = above(first)}}.policy.version
  remember(); put_policy("api", "FIXED 7/1000", {expected_version = first}) "ABORTED NO expected_version:..."
  eq(last_error.message, containing("the current one is " .. second))
  delete_policy("api", first) "ABORTED NO expected_version:..."; unchanged()
  delete_policy("api", second) "OK"; get_policy "api" "NOT_FOUND NO name:..."
  delete_policy "api" "NOT_FOUND NO name:..."
  advance(-10000); put_policy("api", "FIXED 5/1000") {policy = {version = above(second)}}
end

-- promise R33
-- Marks of deleted policies, and of the last change, end a day after the clock has passed them.
function case.marks_of_deleted_policies_expire()
  put_policy("api", "FIXED 5/1000"); delete_policy "api" "OK"
  for _, mark in ipairs{"ls:{default/policies}:rate:v", "ls:{default/policies}:rate:c"} do
    eq(redis_number("PTTL", mark), within(86000000, 86400001)) -- a version may be a microsecond ahead
    redis("DEL", mark)
  end
  redis "KEYS ls:*rate*" ""
end

-- promise R28
function case.pages_are_in_order()
  local names, found, token = {"a", "a/b", "b", "c", "\u{e9}"}, {}, ""
  eq(list(0).policies, {})
  for i = 5, 1, -1 do put_policy(names[i], "FIXED 5/1000") end
  repeat
    local page = list(2, token)
    for _, policy in ipairs(page.policies) do found[#found + 1] = policy.name end
    token = page.next_page_token
    eq(token == "", #found == 5)
  until token == ""
  eq(found, names); eq(#list(0).policies, 5)
  delete_policy "b"; eq(#list(0).policies, 4)
  harness.namespace "other"; eq(list(0).policies, {})
end

-- promise R29: Check by policy; unknown: NOT_FOUND, the rule named
function case.a_check_goes_by_the_policy()
  put_policy("api", "FIXED 1/1000"); check "bob @api" "ALLOWED: ALLOWED 1 0 0 1000 0"
  check "bob @api" "DENIED: DENIED 1 0 1000 1000 0"; check "eve @api" "ALLOWED:..."
  check "bob FIXED 1/1000" "ALLOWED:..." -- another counter
  check "bob @api;bob FIXED 9/1000" "DENIED:..."
end

-- promise R29
function case.an_unknown_policy_is_named()
  put_policy("api", "FIXED 1/1000"); remember(); check "bob @api;bob @none" "NOT_FOUND NO rules[1].policy:..."
  check "bob @api;bob @none" "NOT_FOUND NO rules[1].policy:..." -- from memory
  unchanged()
end

function case.namespaces_have_policies_of_their_own()
  put_policy("api", "FIXED 1/1000"); check "bob @api" "ALLOWED:..."
  harness.namespace "other"; check "bob @api" "NOT_FOUND NO rules[0].policy:..."
  put_policy("api", "FIXED 2/1000"); check "bob @api" "ALLOWED: ALLOWED 2 1 0 1000 0"
end

-- ---- several servers ----

local function reads(n, f) eq(commands_of("hmget", f), n) end

-- promise R26
-- promise R30
function case.a_policy_is_read_once_a_second()
  put_policy("api", "FIXED 1000/60000"); check "bob @api"
  reads(0, function()
    for _ = 1, 8 do check "bob @api"; advance(100) end
  end)
  advance(200)
  reads(1, function() check "bob @api" end)
  harness.server "two"
  reads(1, function() check "bob @api" end)
end

function case.absence_of_a_policy_is_remembered_equally_long()
  check "bob @api" "NOT_FOUND..."
  reads(0, function() check "bob @api" "NOT_FOUND..." end)
  harness.server "two"; put_policy("api", "FIXED 1/1000"); harness.server "harness"; advance(1000)
  check "bob @api" "ALLOWED:..."
end

-- promise R30
-- In force at once on the server that changed it, on the others within a second.
function case.a_change_is_in_force_within_a_second()
  local function on_each(said)
    for _, server in ipairs{"one", "two", "three"} do harness.server(server); check "bob @api" (said) end
  end
  put_policy("api", "FIXED 100/60000"); on_each "ALLOWED:..."; harness.server "one"
  put_policy("api", "FIXED 1/60000"); check "bob @api" "DENIED: DENIED 1 0 60000 60000 0"
  advance(1000); on_each "DENIED: DENIED 1 0 59000 59000 0"; harness.server "two"; delete_policy "api"
  check "bob @api" "NOT_FOUND..."
  advance(1000); on_each "NOT_FOUND NO rules[0].policy:..."
end

-- promise R30
-- More names than a server remembers: the oldest are forgotten, and nothing else happens.
function case.the_cache_is_bounded()
  put_policy("api", "FIXED 100000/60000"); check "bob @api" "ALLOWED:..."
  for i = 1, 9000 do
    advance_us(10); check("bob @p" .. i) "NOT_FOUND..."
    harness.forget()
  end
  reads(1, function() check "bob @api" "ALLOWED:..." end)
  reads(0, function() check "bob @p9000" "NOT_FOUND..." end)
end

-- ---- changes of a policy in use ----

local ALGORITHMS = {"FIXED", "LOG", "WINDOW", "BUCKET"}

-- promise R31
-- Charges under the old numbers count under the new ones.
function case.other_numbers_keep_the_counter()
  each(ALGORITHMS, function(algorithm)
    put_policy("api", algorithm .. " 5/1000"); check("bob @api", 2) "ALLOWED:..."
    put_policy("api", algorithm .. " 3/10000"); peek("bob @api", 2) "DENIED:..."; check "bob @api" "ALLOWED:..."
    check "bob @api" "DENIED:..."
  end)
end

-- promise R6
-- promise R31
function case.more_than_the_new_limit_is_waited_for()
  each(ALGORITHMS, function(algorithm)
    put_policy("api", algorithm .. " 9/10000"); check("bob @api", 9) "ALLOWED:..."
    put_policy("api", algorithm .. " 3/1000")
    local wait = check "bob @api" "DENIED:..." {rules = {{remaining = 0, retry_after_ms = within(1, 2000)}}}.rules[1].retry_after_ms
    advance(wait - 1); peek("bob @api", 1) "DENIED:..."
    advance(1); check "bob @api" "ALLOWED:..."
  end)
end

-- promise R31
function case.another_algorithm_starts_a_new_counter()
  put_policy("api", "FIXED 1/1000"); check "bob @api" "ALLOWED:..."
  put_policy("api", "LOG 1/1000"); check "bob @api" "ALLOWED:..."; check "bob @api" "DENIED:..."
  put_policy("api", "FIXED 1/1000")
  check "bob @api" "DENIED:..." -- its old counter, in its old window
  put_policy("api", "WINDOW 3/1000"); check "bob @api" "ALLOWED: ALLOWED 3 2 0 2000 0"
end

-- ---- shadow ----

-- promise R32: shadow counts and reports, and allows
function case.a_shadow_counts_and_lets_pass()
  put_policy("api", "FIXED 1/1000", {shadow = true}); check "bob @api" "ALLOWED: ALLOWED 1 0 0 1000 0"
  advance(100); check "bob @api" "ALLOWED: ALLOWED 1 0 900 900 0"
  -- It is not charged beside a rule that denies either.
  check "eve @api;bob FIXED 1/1000" "ALLOWED:..."; check "dan @api;bob FIXED 1/1000" "DENIED:..."
  peek("dan @api", 1) "ALLOWED: ALLOWED 1 1 0 0 0"
  put_policy("api", "FIXED 1/1000"); check "bob @api" "DENIED: DENIED 1 0 900 900 0"
end

-- ---- unlimited ----

-- promise R41
function case.an_unlimited_policy_is_reported_as_unlimited()
  for _, policy in ipairs{put_unlimited "api", get_policy "api".policy} do
    eq(policy, {unlimited = true, shadow = false}); eq(policy.limit, nil)
  end
  put_policy("apj", "FIXED 1/1000", {shadow = true})
  list(0) {policies = {{unlimited = true}, {unlimited = false, shadow = true}}}
  put_policy("api", "FIXED 1/1000") {policy = {unlimited = false}}
end

-- promise R41
-- Nothing is written, because there is nothing to give back.
function case.an_unlimited_policy_counts_nothing()
  put_unlimited "api"; check "bob @api" ("ALLOWED: " .. UNLIMITED)
  remember(); check_id("bob @api", 9007199254740991, "r1")("ALLOWED: " .. UNLIMITED)
  peek("bob @api", 1)("ALLOWED: " .. UNLIMITED); refund "r1" "UNKNOWN"; unchanged()
end

-- promise R41
-- Other rules are checked and charged as without it.
function case.an_unlimited_policy_lets_others_judge()
  put_unlimited "api"; check_id("bob @api;bob FIXED 1/1000;eve @api", 0, "r1")
    ("ALLOWED: " .. UNLIMITED .. ": ALLOWED 1 0 0 1000 0: " .. UNLIMITED)
  check "bob FIXED 1/1000;bob @api" ("DENIED: DENIED 1 0 1000 1000 0: " .. UNLIMITED); refund "r1" "REFUNDED"
  check "bob @api;bob FIXED 1/1000" "ALLOWED:..."
end

-- promise R41
-- Counters from before it was unlimited stay.
function case.a_policy_may_become_unlimited_and_back()
  put_policy("api", "FIXED 1/60000"); check_id("bob @api", 0, "r1") "ALLOWED: ALLOWED 1 0 0 60000 0"
  put_unlimited "api"; check "bob @api" "ALLOWED:..."
  check_id("bob @api", 0, "r1") "ALLOWED replayed: ALLOWED 1 0 0 60000 0"
  put_policy("api", "FIXED 1/60000"); check "bob @api" "DENIED:..."
end

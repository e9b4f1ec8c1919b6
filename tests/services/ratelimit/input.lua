-- Bad input: INVALID_ARGUMENT, the field's name first, nothing changed.
-- promise R4
-- promise R13
-- promise R14
-- promise R36: bad input: INVALID_ARGUMENT, field named, no change
require "ratelimit"

local LONGEST, LONG, MOST = long(128), long(129), 9007199254740991
local UNITS, SPAN = 1000000000000, 31622400000

local clock = setup
function setup() -- a counter and a policy that good requests would change
  clock(); check "a FIXED 5/1000" "ALLOWED:..."; put_policy("api", "FIXED 5/1000") {policy = any}
end

local good = check_request "a FIXED 5/1000"
local function rules(text) return rules_of(text) end

function case.check_names_the_invalid_field()
  local nine = rules "a FIXED 1/1;b FIXED 1/1;c FIXED 1/1;d FIXED 1/1;e FIXED 1/1;f FIXED 1/1;g FIXED 1/1;h FIXED 1/1;i FIXED 1/1"
  refuses(RateLimit.Check, good) {
    {"group", group = LONG}, {"cost", cost = -1}, {"cost", cost = MOST + 1}, {"cost", cost = math.mininteger},
    {"request_id", request_id = LONG}, {"rules", rules = {}}, {"mode", mode = 3}, {"rules", rules = nine},
    {"group", group = "", rules = rules "a FIXED 1/1;b FIXED 1/1"},
  }
end

function case.rules_name_the_invalid_field()
  local two = {rules = rules "a FIXED 5/1000;b FIXED 5/1000"}
  refuses(RateLimit.Check, with(good, two)) {
    {"rules[1].key", rules = {[2] = {key = ""}}}, {"rules[1].key", rules = {[2] = {key = LONG}}},
    {"rules[2].key", rules = rules "a FIXED 5/1000;b FIXED 5/1000;a FIXED 5/1000"},
  }
  local a = two.rules[1]
  for _, b in ipairs{{key = "b"}, {key = "b", policy = ""}, {key = "b", policy = LONG}} do
    refuses(RateLimit.Check, {group = "g", rules = {a, b}}) {{"rules[1].policy"}}
  end
  refuses(RateLimit.Check, {group = "g", rules = rules "a @api;b @api;b @api"}) {{"rules[2].key"}}
  refuses(RateLimit.Check, {group = "g", rules = rules "a BUCKET 5/1000;a BUCKET 5/1000 burst=5"}) {{"rules[1].key"}}
end

function case.limits_name_the_invalid_field()
  for _, row in ipairs{
    {"limit", "FIXED 0/1000", "FIXED -1/1000", "FIXED 1000000000001/1000", "FIXED 9223372036854775807/1000",
      "LOG 100001/1000"},
    {"period_ms", "FIXED 5/0", "FIXED 5/-1", "FIXED 5/31622400001", "FIXED 5/9223372036854775807"},
    {"burst", "FIXED 5/1000 burst=1", "LOG 5/1000 burst=5", "WINDOW 5/1000 burst=5", "BUCKET 5/1000 burst=-1",
      "BUCKET 5/1000 burst=1000000000001", "BUCKET 1/31622400000 burst=2", "BUCKET 1/1000 burst=31622401",
      "BUCKET 100/31622400000 burst=101", "BUCKET 1000000000000/31622400000 burst=1000000000001"},
    {"penalty.after", "FIXED 5/1000 after=-1", "FIXED 5/1000 after=1000000000001 ban=1", "FIXED 5/1000 ban=1",
      "FIXED 5/1000 factor=1", "FIXED 5/1000 max=1"},
    {"penalty.ban_ms", "FIXED 5/1000 after=1", "FIXED 5/1000 after=1 ban=-1", "FIXED 5/1000 after=1 ban=31622400001"},
    {"penalty.factor", "FIXED 5/1000 after=1 ban=9 factor=-1", "FIXED 5/1000 after=1 ban=9 factor=1001"},
    {"penalty.max_ban_ms", "FIXED 5/1000 after=1 ban=9 max=8", "FIXED 5/1000 after=1 ban=9 max=-1",
      "FIXED 5/1000 after=1 ban=9 max=31622400001"},
  } do
    for i = 2, #row do
      refuses(RateLimit.Check, {group = "g", rules = rules("a FIXED 5/1000;b " .. row[i])}) {{"rules[1].limit." .. row[1]}}
      refuses(RateLimit.PutPolicy, {name = "api", limit = limit_of(row[i])}) {{"limit." .. row[1]}}
    end
  end
  refuses(RateLimit.PutPolicy, {name = "api", limit = limit_of "FIXED 5/1000"}) {
    {"limit.algorithm", limit = {algorithm = "UNSPECIFIED"}}, {"limit.algorithm", limit = {algorithm = 5}},
  }
end

-- promise R41: unlimited: allowed, not counted or remembered, and reported as unlimited, without limit or shadow
function case.an_unlimited_policy_refuses_other_fields()
  refuses(RateLimit.PutPolicy, {name = "api", unlimited = true}) {
    {"limit", limit = limit_of "FIXED 5/1000"}, {"shadow", shadow = true},
  }
end

-- The largest valid numbers are counted exactly.
function case.the_largest_numbers_work()
  advance(1) -- not at the beginning of a window
  for _, row in ipairs{
    {"k FIXED 1000000000000/31622400000", UNITS},
    {"k WINDOW 1000000000000/31622400000", UNITS},
    {"k BUCKET 1000000000000/31622400000 burst=1000000000000", UNITS},
    {"k BUCKET 1000000000000/1 burst=1000000000000", UNITS},
    {"k BUCKET 1/31622400000 burst=1", 1},
    {"k BUCKET 1/1000 burst=31622400", 31622400},
    {"k LOG 100000/31622400000", 100000},
    {"k FIXED 1000000000000/1 after=1000000000000 ban=31622400000 factor=1000 max=31622400000", UNITS},
  } do
    local rule, units = table.unpack(row)
    if units > 1 then
      check(rule, units - 1) "ALLOWED:..." {rules = {{remaining = 1}}}; check(rule, units) "DENIED:..."
    end
    check(rule, 1) "ALLOWED:..."; check(rule, 1) "DENIED:..." {rules = {{retry_after_ms = within(1, 2 * SPAN)}}}
  end
  put_policy(LONGEST, "LOG 100000/1") {policy = any}
  check("a FIXED 5/1000", {group = LONGEST, request_id = LONGEST, rules = {{key = LONGEST}}, cost = MOST}) "DENIED:..."
end

-- Products of up to 85 bits: one unit more or less would be seen.
function case.long_products_are_exact()
  for i = 0, 39 do
    local cost, rule = UNITS - 1 - i * 23456789017, "k" .. i .. " BUCKET 999999999989/31622399999 burst=1000000000000"
    check(rule, cost) "ALLOWED:..." {rules = {{remaining = UNITS - cost}}}
    check(rule, UNITS - cost + 1) "DENIED:..."; check(rule, UNITS - cost) "ALLOWED:..."
  end
end

function case.refund_and_reset_name_the_invalid_field()
  refuses(RateLimit.Refund, {group = "g", request_id = "g"}) {
    {"group", group = ""}, {"group", group = LONG}, {"request_id", request_id = ""}, {"request_id", request_id = LONG},
  }
  refuses(RateLimit.Reset, {key = "a"}) {{"group", group = LONG}, {"key", key = ""}, {"key", key = LONG}}
end

function case.policies_name_the_invalid_field()
  local versions = {{"expected_version", expected_version = -1}, {"expected_version", expected_version = MOST + 1}}
  local names = {{"name", name = ""}, {"name", name = LONG}}
  refuses(RateLimit.PutPolicy, {name = "api"}) {{"limit"}}
  for _, rows in ipairs{versions, names} do
    refuses(RateLimit.PutPolicy, {name = "api", limit = limit_of "FIXED 5/1000"})(rows)
    refuses(RateLimit.DeletePolicy, {name = "api"})(rows)
  end
  refuses(RateLimit.GetPolicy, {})(names)
  refuses(RateLimit.ListPolicies, {}) {{"page_size", page_size = -1}, {"page_size", page_size = 1001},
    {"page_token", page_token = LONG}}
end

function case.bytes_that_are_no_request()
  refuses_bytes(RateLimit.Check, {{"\x0a\x05g", ""}, {"\x0a\x01\xff", ""}, {"\x0a\x02g\0", ""}, {"\x12\x03\x1a\x01", ""},
    {"\xff", ""}})
end

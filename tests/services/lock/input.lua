-- Bad input to LockService: its code, the field's name, and nothing changed.
-- promise L47: bad input: INVALID_ARGUMENT, field named, no change
require "lock"

local TOKEN, LONG = "0123456789abcdef", long(129)

function setup()
  acquire "T1 held p:P1/5" "ACQUIRED"; release "T2" "NOT_HELD"
end

-- ---- Acquire ----

local good = {group = "g", targets = {{name = "a"}}, token = TOKEN, lease_ms = LEASE}

function case.texts_of_acquire()
  refuses(Lock.Acquire, good) {
    {"group", group = LONG},
    {"targets[0].name", group = LONG, targets = {{name = LONG}}}, -- as clients send a lock without a group
    {"targets[0].name", targets = {{name = ""}}},
    {"targets[0].name", targets = {{name = LONG}}},
    {"token", token = "0123456789abcde"},
    {"token", token = "x"},
    {"token", token = long(65)},
    {"token", token = "0123456789 abcdef"},
    {"token", token = "0123456789abcdef\n"},
    {"token", token = "\x7f" .. TOKEN},
    {"owner", owner = LONG},
  }
end

function case.the_longest_texts_are_taken()
  local longest = long(128)
  Lock.Acquire(with(good, {group = longest, targets = {{name = longest}}, owner = longest, token = long(64)})) "ACQUIRED"
  Lock.Acquire(with(good, {targets = {{name = "x"}}, lease_ms = 86400000})) "ACQUIRED"
end

function case.numbers_of_acquire()
  local most = math.maxinteger
  refuses(Lock.Acquire, good) {
    {"lease_ms", lease_ms = 0},
    {"lease_ms", lease_ms = 9},
    {"lease_ms", lease_ms = -1},
    {"lease_ms", lease_ms = 86400001},
    {"lease_ms", lease_ms = most},
    {"wait_ms", wait_ms = -1},
    {"targets[0].permits", targets = {{permits = 1}}},
    {"targets[0].permits", targets = {{mode = "EXCLUSIVE", permits = 1}}},
    {"targets[0].capacity", targets = {{mode = "EXCLUSIVE", capacity = 1}}},
    {"targets[0].permits", targets = {{mode = "SHARED", permits = -1}}},
    {"targets[0].capacity", targets = {{mode = "SHARED", capacity = 5}}},
    {"targets[0].capacity", targets = {{mode = "PERMIT"}}},
    {"targets[0].capacity", targets = {{mode = "PERMIT", permits = 1, capacity = -5}}},
    {"targets[0].capacity", targets = {{mode = "PERMIT", permits = 1, capacity = 1 << 53}}},
    {"targets[0].permits", targets = {{mode = "PERMIT", permits = 6, capacity = 5}}},
    {"targets[0].permits", targets = {{mode = "PERMIT", permits = -1, capacity = 5}}},
    {"targets[0].permits", targets = {{mode = "PERMIT", permits = most, capacity = 5}}},
  }
end

-- promise L28
function case.targets_of_acquire()
  refuses(Lock.Acquire, good) {
    {"targets", targets = {}},
    {"targets", targets = repeated(17, {name = "a"})},
    {"targets[1].name", targets = repeated(2, {name = "a"})}, -- the same name twice
    {"group", group = "", targets = {{name = "a"}, {name = "b"}}}, -- compulsory with two names
    {"targets[1].capacity", targets = {{name = "a"}, {name = "b", mode = "PERMIT"}}},
  }
end

-- promise L46: wait_ms at most a day
function case.wait_ms_is_at_most_a_day()
  Lock.Acquire(with(good, {wait_ms = 86400000})) "ACQUIRED"
  harness.reset(); refuses(Lock.Acquire, good) {{"wait_ms", wait_ms = 86400001}}; eq(harness.snapshot(), "")
end

-- ---- Renew, Release ----

local function names(n) return repeated(n, function(i) return "n" .. i - 1 end) end

function case.renew_names_the_lease_and_its_field()
  local lease = {group = "g", names = {"n0"}, token = TOKEN, lease_ms = LEASE}
  local keep = {leases = {lease, lease}}
  Lock.Renew(keep); Lock.Renew{leases = repeated(256, lease)} {results = any}
  remember()
  local function second(field, spoilt) return {field, leases = {[2] = spoilt}} end
  refuses(Lock.Renew, keep) {
    {"leases", leases = {}},
    {"leases", leases = repeated(257, lease)},
    second("leases[1].group", {group = LONG}),
    second("leases[1].group", {group = "", names = {}}),
    second("leases[1].group", {group = "", names = names(2)}),
    second("leases[1].token", {token = ""}),
    second("leases[1].token", {token = "short"}),
    second("leases[1].lease_ms", {lease_ms = 0}),
    second("leases[1].lease_ms", {lease_ms = 86400001}),
    second("leases[1].names", {names = names(17)}),
    second("leases[1].names[1]", {names = {"n0", "n0"}}),
    second("leases[1].names[1]", {names = {"n0", ""}}),
  }
end

function case.release_names_its_field()
  refuses(Lock.Release, {group = "g", token = TOKEN}) {
    {"group", group = "", names = {}},
    {"group", group = "", names = names(2)},
    {"group", group = LONG, names = names(2)},
    {"names", names = names(17)},
    {"names[1]", names = {"n1", "n1"}},
    {"names[0]", names = {LONG, "n1"}},
    {"token", token = ""},
    {"token", token = "0123456789abcde\t"},
  }
end

-- ---- the others ----

function case.names_of_inspect_and_force_release()
  for _, method in ipairs{Lock.Inspect, Lock.ForceRelease} do
    refuses(method, {}) {{"name"}, {"name", name = LONG}, {"name", name = LONG, group = LONG}, {"group", name = "a", group = LONG}}
  end
end

function case.the_wait_of_a_watch()
  refuses(Lock.WatchForceReleases, {}) {{"wait_ms"}, {"wait_ms", wait_ms = -1}, {"wait_ms", wait_ms = 86400001}}
end

function case.pages_of_list()
  refuses(Lock.List, {}) {{"page_size", page_size = -1}, {"page_size", page_size = 1001}, {"prefix", prefix = LONG}}
  for _, token in ipairs{"x", "-1", "1 ", "0.", "0.123", "0.12345678901g", "0.123456789012x", "18446744073709551616",
    "99999999999999999999999", "0\x01", ".123456789012", "0*", "0" .. (".123456789012"):rep(153)} do
    refuses(Lock.List, {}) {{"page_token", page_token = token}}
  end
  Lock.List{page_token = "18446744073709551615.0123456789ab"} "OK"
end

function case.fences_of_check_fence()
  refuses(Lock.CheckFence, {resource = "r", fence = 1}) {
    {"resource", resource = ""}, {"resource", resource = LONG},
    {"fence", fence = 0}, {"fence", fence = 1 << 53}, {"fence", fence = -1},
  }
end

function case.bytes_that_are_no_request()
  refuses_bytes(Lock.Acquire, {
    {"\x0a\x02g\xff", "group"}, -- not UTF-8
    {"\x0a\x02g\x00", "group"}, -- a NUL
    {"\x12\x04\x0a\x02\xc0\x80", "targets[0].name"},
    {"\x12\x05\x0a\x01x\x10\x09", "targets[0].mode"}, -- an unknown mode
    {"\x0a\x05g", ""}, -- cut short
  })
end

-- Bad input to IdempotencyService: its code, the field's name, and nothing changed.
-- promise I25: bad input: INVALID_ARGUMENT, field named, no change
require "idempotency"

local TOKEN = "0123456789abcdef"

function setup()
  servers_reset(); begin "k T1" "EXECUTE 1"
end

local good = {scope = "s", key = "k", attempt_token = TOKEN, lease_ms = LEASE}

function case.texts_of_begin()
  refuses(Idempotency.Begin, good) {
    {"scope", scope = ""}, {"scope", scope = long(129)}, {"key", key = ""}, {"key", key = long(256)},
    {"attempt_token", attempt_token = long(15)}, {"attempt_token", attempt_token = long(65)},
    {"fingerprint", fingerprint = long(65)},
  }
end

function case.numbers_of_begin()
  refuses(Idempotency.Begin, good) {
    {"lease_ms", lease_ms = 0}, {"lease_ms", lease_ms = 9}, {"lease_ms", lease_ms = -1}, {"lease_ms", lease_ms = 86400001},
    {"lease_ms", lease_ms = math.maxinteger}, {"retain_ms", retain_ms = -1}, {"retain_ms", retain_ms = 999},
    {"retain_ms", retain_ms = 2592000001}, {"wait_ms", wait_ms = -1}, {"wait_ms", wait_ms = 86400001},
  }
end

function case.the_bounds_themselves_are_taken()
  Idempotency.Begin{scope = long(128), key = long(255), attempt_token = long(64), fingerprint = long(64),
    lease_ms = 86400000, retain_ms = 2592000000, wait_ms = 86400000} "EXECUTE 1"
  Idempotency.Begin(with(good, {key = "other", lease_ms = 10, retain_ms = 1000})) "EXECUTE 1"
end

-- ---- Extend, Complete, Fail ----

local function of_attempt(more) return with({scope = "s", key = "k", fence = fence()}, more) end

function case.extend_is_checked()
  local extension = of_attempt{lease_ms = LEASE}
  refuses(Idempotency.Extend, extension) {
    {"scope", scope = ""}, {"key", key = long(256)}, {"fence", fence = 0}, {"fence", fence = 1 << 53}, {"fence", fence = -1},
    {"lease_ms", lease_ms = 9}, {"lease_ms", lease_ms = 86400001},
  }
  Idempotency.Extend(extension) "EXTENDED"
end

-- promise I8
function case.complete_is_checked()
  local many = repeated(33, {key = "Location"})
  refuses(Idempotency.Complete, of_attempt{headers = {{key = "Location"}}}) {
    {"scope", scope = long(129)}, {"key", key = ""}, {"fence", fence = 0}, {"body", body = long(256 * 1024 + 1)},
    {"headers", headers = many}, {"headers[0].key", headers = {{key = ""}}}, {"headers[0].key", headers = {{key = long(129)}}},
    {"headers[0].value", headers = {{value = long(4097)}}}, {"headers[0].key", headers = {{key = "lockstock-failure"}}},
    {"headers[0].key", headers = {{key = "lockstock-"}}}, {"headers[0].key", headers = {{key = "LOCKSTOCK-Failure"}}},
    {"headers[31].key", headers = repeated(32, function(i) return {key = i < 32 and "Location" or ""} end)},
  }
end

function case.fail_is_checked()
  local failure = of_attempt{kind = "FINAL"}
  refuses(Idempotency.Fail, failure) {
    {"scope", scope = ""}, {"key", key = ""}, {"fence", fence = 0}, {"kind", kind = 0}, {"kind", kind = 3},
    {"detail", detail = long(1025)},
  }
  Idempotency.Fail(with(failure, {detail = long(1024)})) "STORED"
  get "k" "FAILED_FINAL 1 -1 lockstock-failure=xxx..." {record = {detail = long(1024)}}
end

-- ---- Get, Delete, tickets ----

function case.get_and_delete_are_checked()
  for _, method in ipairs{Idempotency.Get, Idempotency.Delete} do
    refuses(method, {scope = "s", key = "k"}) {{"scope", scope = ""}, {"key", key = long(256)}}
  end
end

function case.tickets_are_checked()
  local new = {scope = "s", subject = "me", ttl_ms = 1000}
  refuses(Idempotency.IssueTicket, new) {
    {"scope", scope = ""}, {"subject", subject = ""}, {"subject", subject = long(129)}, {"ttl_ms", ttl_ms = 999},
    {"ttl_ms", ttl_ms = 86400001},
  }
  refuses(Idempotency.ConsumeTicket, {scope = "s", subject = "me", ticket = "t", consumer_id = TOKEN}) {
    {"scope", scope = ""}, {"subject", subject = ""}, {"ticket", ticket = ""}, {"ticket", ticket = long(129)},
    {"consumer_id", consumer_id = long(15)}, {"consumer_id", consumer_id = long(65)},
  }
  Idempotency.IssueTicket(new) "OK"; Idempotency.IssueTicket(with(new, {ttl_ms = 86400000})) "OK"
end

-- ---- the wire ----

function case.bytes_that_are_no_request()
  refuses_bytes(Idempotency.Begin, {
    {"\x0a\x05s", ""}, -- cut short
    {"\x0a\x01\xff", ""}, -- scope: not UTF-8
    {"\x0a\x02s\0", ""}, -- scope: NUL
    {"\x0a\x01s\x12\x02k\0", ""}, -- key: NUL
  })
end

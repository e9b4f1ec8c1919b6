-- Begin and the states of a record. The rows of the table in docs/idempotency.md: model.lua.
require "idempotency"

-- The value of a Lua expression over the values v of key k's record.
local function of_record(expression)
  return redis("EVAL", "local v = {struct.unpack('<c1ddddBc0Bc0Hc0', redis.call('GET', KEYS[1]))} return " .. expression,
    "1", key "r:k")
end

function case.a_lease_ends_at_its_end()
  -- The clock is set, not moved: exactly the end.
  begin "k T1"
  local ends = tonumber(of_record "string.format('%.0f', v[4])")
  local seconds, us = redis("TIME"):match("(%d+)\n(%d+)")
  local now = tonumber(seconds) * 1000000 + tonumber(us)
  eq((ends - now) // 1000, about(LEASE))
  redis("EVAL", "return redis.call('SETRANGE', KEYS[1], 17, struct.pack('<d', ARGV[1]))", "1", key "r:k",
    ("%d"):format(now))
  begin "k T2" "EXECUTE 2"
end

-- promise I4
-- promise I7: Fail RETRYABLE: the next Begin executes
-- promise I9: repeated: STORED, replayed, the first stays; ended otherwise: SUPERSEDED
-- promise I15: Get: all of the record; NOT_FOUND
function case.retryable_failure_is_executed_again()
  local first = begin "k T1".fence
  fail_retryable "k timeout" "STORED"; fail_retryable "k again" "STORED again"
  get "k" "FAILED_RETRYABLE 1 (timeout)"; complete "k 200 after all" "SUPERSEDED"
  fail_final "k after all" "SUPERSEDED"; extend "k" "LOST"
  begin "k T2" "EXECUTE 2" {fence = above(first)}; get "k" "IN_PROGRESS 2"; fail_retryable "k" "STORED"
  begin "k T2" "EXECUTE 3" -- an ended attempt is removed, so this is a new one
end

-- promise I8: Fail FINAL: every Begin replays it, distinct from any result
-- promise I9
-- promise I15
function case.final_failure_is_replayed()
  begin "k T1"; fail_final "k card refused" "STORED"; fail_final "k another" "STORED again"
  begin "k T2" "REPLAY 1 -1 lockstock-failure=card refused"
  begin "k T1" "REPLAY 1 -1 lockstock-failure=card refused"
  get "k" "FAILED_FINAL 1 -1 lockstock-failure=card refused (card refused)"
  complete "k 200 after all" "SUPERSEDED"; fail_retryable "k after all" "SUPERSEDED"; extend "k" "LOST"
  pass(2000); begin "k T3" "REPLAY 1 -1 lockstock-failure=card refused"
end

-- promise I13: fences of a key strictly increase: clock back, deleted, forgotten
function case.fences_never_go_back()
  local last = 0
  for i, move in ipairs{0, 1000 + LEASE / 1000, -500, 0} do -- the clock steps back, too
    last = eq(begin("k " .. (i % 2 == 0 and "a" or "b")) "EXECUTE...".fence, above(last))
    if move ~= 0 then pass(move) end
    fail_retryable "k"
  end
  -- The record has ended, but the clock still runs.
  pass(1000); redis("DEL", key "r:k"); begin "k T1" "EXECUTE 1" {fence = above(last)}
end

-- promise I26: an empty token or consumer is made up
function case.an_empty_token_is_made_up()
  local request = {scope = "s", key = "k", lease_ms = LEASE}
  Idempotency.Begin(request) "EXECUTE 1"; begin "k T1" "IN_PROGRESS 1"
  eq(of_record "#v[6]", "32"); Idempotency.Begin(request) "IN_PROGRESS 1"
  get "k" "IN_PROGRESS 1" -- another one: not recognised, not executed
end

-- ---- places ----

-- promise I27: scope and key are one name each, in a group of their own; namespaces apart
function case.scopes_keys_and_namespaces_are_apart()
  for _, row in ipairs{{"default", "a", "b/c"}, {"default", "a/b", "c"}, {"default", "a%2Fb", "c"}, {"default/a", "b", "c"},
    {"default", "}", ":"}, {"default", "{x}", "{x}"}, {"default", " ", "\u{e4}"}, {"other", "a", "b/c"}} do
    harness.namespace(row[1]); Idempotency.Begin{scope = row[2], key = row[3], lease_ms = LEASE} "EXECUTE 1"
  end
  redis "KEYS ls:{default/a/b%2Fc}:*" "ls:{default/a/b%2Fc}:idem:r\n"
  eval "return #redis.call('KEYS', 'ls:{*')" "8"
end

-- ---- how long ----

-- promise I14: retain_ms, 0 = 24 h, of the attempt that ends; while it runs its lease more; every key ends
-- promise I15
function case.records_end()
  local function ends(of, ms) eq(ttl("r:" .. of), about(ms)) end
  begin "k T1"; ends("k", LEASE + DAY); get "k" {record = {retain_ms = 0}}
  extend("k", {lease_ms = 10}); ends("k", LEASE + DAY); extend("k", {lease_ms = 2 * LEASE})
  ends("k", 2 * LEASE + DAY); complete "k 200"; ends("k", DAY); get "k" {record = {retain_ms = about(DAY)}}

  begin("l T1", {retain_ms = 5000000}); fail_retryable "l"; ends("l", 5000000)
  begin("l T1", {lease_ms = 2 * LEASE, retain_ms = 7000000}); ends("l", 2 * LEASE + 7000000); pass(3000)
  begin("l T1", {retain_ms = 8000000}); ends("l", LEASE + 8000000); fail_final "l"; ends("l", 8000000)
  get "l" {record = {retain_ms = about(8000000)}}
  forget "l"; redis "KEYS ls:{*" "ls:{default/s/k}:idem:r\n"
end

-- promise I23: without memory: Begin and IssueTicket are refused, calls that end an attempt work, results are stored
function case.results_are_stored_when_memory_is_short()
  local k, l, m = begin "k T1".fence, begin "l T1".fence, begin "m T1".fence
  local ticket = issue(600000)
  wait "S1 k T2" "WAITS"
  redis "CONFIG SET maxmemory 1"
  -- The store answers RESOURCE_EXHAUSTED, applied NO.
  fcall("idempotency_begin", "ls:{default/s/n}:", "6", "T1", "p", "1000", "1000", "0", "S1") "OOM ..."
  fcall("idempotency_issue_ticket", "ls:{default/s/t}:", "2", "me", "5000") "OOM ..."
  extend("k", {fence = k}) "EXTENDED"; complete("k 200 kept all the same", {fence = k}) "STORED"
  fail_final("l x", {fence = l}) "STORED"; fail_retryable("m x", {fence = m}) "STORED"
  get "k" "COMPLETED 1 200 kept all the same"; forget "m" "OK"
  consume(ticket, "C1") "CONSUMED"; woken "S1 T2" "REPLAY 1 200 kept all the same"
  redis "CONFIG SET maxmemory 0"; begin "k T3" "REPLAY 1 200 kept all the same"; get "m" "NONE"
end

-- ---- foreign data ----

-- promise I24: foreign data: FAILED_PRECONDITION, no change
function case.foreign_data_is_not_changed()
  each({{"DEL", "HSET ? x y"}, {"GET", "SET ? x"}, {"GET", "SETRANGE ? 0 X"}, {"GET", "SETRANGE ? 33 xx"}, -- its token's length
  }, function(row)
    begin "k T1"; redis(row[1], key "r:k"); redis((row[2]:gsub("?", "ls:{default/s/k}:idem:r"))); remember()
    begin "k T2" (foreign); extend "k" (foreign)
    complete "k 200" (foreign); fail_final "k" (foreign)
    get "k" (foreign); wait "S1 k T3" (foreign); unchanged()
  end)
  -- The result itself.
  begin "m T1"; complete "m 200 paid"; redis("APPEND", key "r:m", "foreign"); begin "m T2" (foreign)
  get "m" (foreign)
  -- Waiters.
  begin "l T1"; redis("SET", key "w:l", "x"); remember(); wait "S1 l T2" (foreign)
  complete "l 200" (foreign); fail_retryable "l" (foreign)
  forget "l" (foreign); unchanged()
end

-- IdempotencyService, all in the scope "s". "T1" is an attempt token.
--
--   begin "k T1" "EXECUTE 1"              and "IN_PROGRESS 1", "MISMATCH", "REPLAY 1 200 body name=value"
--   complete "k 200 body" "STORED"        of the last fence that was given, fence(); or {fence = ...}
--   fail_retryable "k detail"   fail_final "k detail"   extend "k" "EXTENDED"
--   get "k" "COMPLETED 1 200 body"        and "NONE"
--   forget "k" "OK"                       Delete
--   wait "S1 k T2" "WAITS"                a Begin at S1 that may wait
--   deliver() "S1 T2 EXECUTE 2"           wakes the calls of all messages, until there are none; their answers

require "servers"

LEASE, DAY = 1000000, 86400000

function setup() servers_reset() end

local function result_text(result)
  local text = " " .. result.code .. (result.body ~= "" and " " .. result.body or "")
  for _, header in ipairs(result.headers) do text = text .. " " .. header.key .. "=" .. header.value end
  return text
end

local last_fence
function fence() return last_fence end

lines["Idempotency.Begin"] = function(r)
  if r.outcome == "EXECUTE" then last_fence = r.fence end
  -- Fields of other outcomes are not set.
  eq(r.fence ~= 0, r.outcome == "EXECUTE")
  eq(r.result ~= nil, r.outcome == "REPLAY")
  if r.outcome ~= "IN_PROGRESS" then eq(r.retry_after_ms, 0) end
  return r.outcome .. (r.outcome ~= "MISMATCH" and " " .. r.attempt or "") .. (r.result and result_text(r.result) or "")
end
lines["Idempotency.Get"] = function(r)
  local record = r.record
  eq(record.scope, "s")
  return record.state .. " " .. record.attempt .. (record.result and result_text(record.result) or "")
    .. (record.detail ~= "" and " (" .. record.detail .. ")" or "")
end

local function begin_request(k, token, more)
  return with({scope = "s", key = k, attempt_token = token_of(token), lease_ms = LEASE}, more)
end
begin = word(function(more, k, token) return Idempotency.Begin(begin_request(k, token, more)) end)
local function of_attempt(method, more, request)
  return Idempotency[method](with(with({scope = "s", fence = last_fence}, request), more))
end
complete = word(function(more, k, code, ...)
  return of_attempt("Complete", more, {key = k, code = math.tointeger(code), body = table.concat({...}, " ")})
end)
local function fail(kind)
  return word(function(more, k, ...)
    return of_attempt("Fail", more, {key = k, kind = kind, detail = table.concat({...}, " ")})
  end)
end
fail_retryable, fail_final = fail "RETRYABLE", fail "FINAL"
extend = word(function(more, k) return of_attempt("Extend", more, {key = k, lease_ms = LEASE}) end)
get = word(function(_, k)
  local got = Idempotency.Get{scope = "s", key = k}
  if got.error.code == "NOT_FOUND" then got.text = "NONE" end
  if got.response then eq(got.record.key, k) end
  return got
end)
forget = word(function(_, k) return Idempotency.Delete{scope = "s", key = k} end)

function issue(ttl_ms, subject)
  return Idempotency.IssueTicket{scope = "s", subject = subject or "me", ttl_ms = ttl_ms} "OK".ticket
end
function consume(ticket, consumer, more)
  return Idempotency.ConsumeTicket(with({scope = "s", subject = "me", ticket = ticket,
    consumer_id = consumer and token_of(consumer) or ""}, more))
end

-- A key of a record: key "r:k", "w:k" of its waiters; key "t:<ticket>".
function key(text)
  local kind, of = text:match("^(%a):(.*)$")
  return "ls:{default/s/" .. of .. "}:idem:" .. kind
end
function ttl(text) return redis_number("PTTL", key(text)) end
function waiting_keys() return redis_number("EVAL", "return #redis.call('KEYS', 'ls:*:idem:w')", "0") end

-- ---- waiting ----

local alarm
function on_parked(call)
  alarm = harness.alarms(call.number)[1]
  eq(alarm, {["function"] = "idempotency_lease_over", argument = call.server, lasting = false})
end

wait = word(function(more, server, k, token)
  return park(server, k, token, "Idempotency.Begin", begin_request(k, token, with({wait_ms = WAIT}, more)))
end)

-- Runs the alarm of the last wait, or of any server and record; ms until again.
function ring(server, k)
  return harness.ring("idempotency_lease_over", server and "ls:{default/s/" .. k .. "}:" or alarm.base, server or alarm.argument)
end

-- Messages as "S1:k".
local function read_messages()
  local list = harness.messages()
  for i, m in ipairs(list) do list[i] = m[1] .. ":" .. eq(m[2]:match("^W ls:{default/s/([^}]+)}:idem:w$"), any) end
  return list
end
function messages() return table.concat(read_messages(), " ") end
function deliver() return wake_all(read_messages, function(call) return call.key end) end

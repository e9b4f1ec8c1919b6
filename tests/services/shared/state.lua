-- Calls of one function that share an FCALL, and so a state, have the answers and effects of the same calls one by one:
-- random batches, once together in one group, once one by one in another. The clock is stopped within a batch.
require "ratelimit"

local BATCH, LIMITS = 64, {"FIXED 7/60000", "LOG 40/60000", "LOG 6/60000", "WINDOW 9/60000", "BUCKET 7/60000",
  "BUCKET 13/97000 burst=5", "FIXED 5/60000 after=7 ban=20000 factor=3 max=150000", "LOG 9/41000 after=5 ban=30000",
  "BUCKET 6/60000 burst=2 after=3 ban=5000 factor=2"}

-- The requests together, and the same ones one by one in the other group; field: the one that has the group.
local function compare(method, requests, field)
  local function of(group) return function(i) return with(requests[i], {[field] = group}) end end
  local answers = method.together(repeated(#requests, of "together"))
  for i, one in ipairs(answers) do
    local alone = method(of "alone"(i))
    if tostring(one) ~= tostring(alone) then
      error(("call %d of %d: %s, but alone %s"):format(i, #requests, tostring(one), tostring(alone)))
    end
  end
  return answers
end

-- ---- Check ----

local function random_rules()
  local first, k, words = pick(#LIMITS), pick_from{"bob", "eve"}, {}
  for i = 1, pick(2) == 0 and 1 or 1 + pick(3) do words[i] = k .. " " .. LIMITS[(first + i) % #LIMITS + 1] end
  return table.concat(words, ";")
end

-- promise R43: Checks that share an FCALL are answered as if alone; a key is read once and written once
function case.checks_are_answered_as_alone()
  rounds(6, 100, function() -- of 50 batches
    shorten_chunks()
    for _ = 1, 50 do
      local is_peek = pick(6) == 0
      compare(RateLimit.Check, repeated(1 + pick(BATCH), function()
        return check_request(random_rules(), {cost = pick(3) == 0 and 1 + pick(8) or 1, peek = is_peek,
          mode = pick(4) == 0 and "INDEPENDENT" or "ALL_OR_NOTHING",
          request_id = not is_peek and pick(4) == 0 and "r" .. pick(40) or ""})
      end), "group")
      local id = "r" .. pick(40)
      refund(id, "together")(tostring(refund(id, "alone")))
      advance_us(pick(pick(2) == 0 and 2000000 or 40000000)); harness.forget()
    end
  end)
end

-- promise R43
-- Only the counter that exceeds the most that a key may have is refused.
function case.full_key_refuses_only_new_counters()
  local requests = repeated(130, function(i) return check_request("bob FIXED " .. 1 + (i - 1) % 129 .. "/60000") end)
  for from = 1, 130, 60 do compare(RateLimit.Check, {table.unpack(requests, from, math.min(from + 59, 130))}, "group") end
  RateLimit.Check(with(requests[129], {group = "together"})) "RESOURCE_EXHAUSTED..."
end

-- promise R43
function case.a_key_is_read_once_and_written_once()
  local requests = repeated(BATCH, check_request "bob LOG 100/60000")
  RateLimit.Check.together{requests[1]}; redis "CONFIG RESETSTAT"
  RateLimit.Check.together(requests)[BATCH] "ALLOWED: ALLOWED 100 35 0 60000 0"
  for command, n in pairs{get = 1, set = 1, append = 1, getrange = 0} do eq(harness.commands(command), n) end
end

-- ---- Begin ----

lines["Idempotency.Begin"] = function(r)
  return ("%s attempt %d fence %d code %d retry %d"):format(r.outcome, r.attempt, r.fence, r.result and r.result.code or 0,
    r.retry_after_ms)
end

-- A batch of Begins; the fence of the attempt that runs, if one does.
local function begin_batch(n)
  local requests = repeated(n, function()
    return {key = "k", attempt_token = ("attempt-%08d"):format(pick(6)), fingerprint = pick(10) == 0 and "2" or "1",
      lease_ms = 5000}
  end)
  compare(Idempotency.Begin, requests, "scope")
  local last = Idempotency.Begin(with(requests[1], {scope = "together"}))
  return last.outcome == "EXECUTE" and last.fence
end

-- promise I37: Begins that share an FCALL are answered as if alone; the record is read once and written once
function case.begins_are_answered_as_alone()
  rounds(5, 50, function() -- of 100 batches
    local fence = 1
    for _ = 1, 100 do
      fence = begin_batch(1 + pick(BATCH)) or fence
      local how = pick(6)
      for _, scope in ipairs{"together", "alone"} do
        local request = {scope = scope, key = "k", fence = fence}
        if how == 0 then Idempotency.Complete(with(request, {code = 200})) end
        if how == 1 then Idempotency.Fail(with(request, {kind = "RETRYABLE"})) end
        if how == 2 then Idempotency.Delete{scope = scope, key = "k"} end
      end
      advance(pick(pick(2) == 0 and 100 or 8000)); harness.forget()
    end
  end)
end

-- promise I37
function case.a_record_is_read_once_and_written_once()
  redis "CONFIG RESETSTAT"; begin_batch(BATCH)
  eq(harness.commands "get", 1 + BATCH + 1) -- once together, BATCH times alone, and once more
  eq(harness.commands "set", 2)
end

-- promise I37
function case.foreign_data_of_waiters_refuses_only_waiting_calls()
  redis "SET ls:{default/s/k}:idem:w x"
  local answers = Idempotency.Begin.together(repeated(3, function(i)
    return {scope = "s", key = "k", attempt_token = "attempt-0000000" .. i, lease_ms = 5000, wait_ms = i == 2 and 5000 or 0}
  end))
  answers[1] {outcome = "EXECUTE"}
  answers[2] (foreign)
  answers[3] {outcome = "IN_PROGRESS"}
end

-- ---- a sequence ----

-- promise D16
function case.sequence_continues_from_call_to_call()
  redis "SET ls:{default/s}:id:s 9007199254740900"
  local answers = Id.Next.together(repeated(BATCH, function(i)
    return {kind = "SEQUENCE", name = "s", count = i == 4 and 100 or 1}
  end))
  for i, one in ipairs(answers) do
    if i == 4 then one "OUT_OF_RANGE..." -- more than are left; the next ones are not
    else one{ids = {9007199254740900 + i - (i > 4 and 1 or 0)}} end
  end
  redis "GET ls:{default/s}:id:s" "9007199254740963"
end

-- Random calls over several keys, with a driven clock, against a small model of the contract: answers, waiting calls,
-- and what becomes of them.
require "idempotency"

local KEYS, TOKENS, WAITERS, TICK = 3, 8, 12, 1000
local records, waiters, fences, now -- waiters in the order of their coming; fences: some that were given lately

local function leased(r) return r.state == "IN_PROGRESS" and r.ends > now end

-- The answer and the effects of a Begin.
local function model_begin(r, token, fingerprint, lease)
  if r.state ~= "NONE" and r.fingerprint ~= fingerprint then return "MISMATCH" end
  if r.state == "COMPLETED" or r.state == "FAILED_FINAL" then return "REPLAY " .. r.attempt .. " " .. r.result end
  if r.state == "IN_PROGRESS" and r.token == token then
    if not leased(r) then r.ends = now + lease end
    return "EXECUTE " .. r.attempt
  end
  if leased(r) then return "IN_PROGRESS " .. r.attempt end
  r.attempt = r.state == "NONE" and 1 or r.attempt + 1
  r.state, r.token, r.fingerprint, r.ends = "IN_PROGRESS", token, fingerprint, now + lease
  r.fence = nil -- the one it is answered with
  return "EXECUTE " .. r.attempt
end

-- The fence of an EXECUTE: the attempt's own, or a new and higher one.
local function take_fence(r)
  if not r.fence then
    r.fence = eq(fence(), above(r.highest))
    r.highest = r.fence
    fences[1 + pick(64)] = r.fence
  end
  eq(fence(), r.fence)
end
local function any_fence(r) return pick(4) > 0 and r.fence or fences[1 + pick(64)] or 7 end
local function any_lease() return TICK // 2 + TICK * pick(4) end
local function any_record()
  local i = pick(KEYS)
  return records[i], "k" .. i
end

-- ---- what waits ----

local function drop(w)
  for i, one in ipairs(waiters) do
    if one == w then return table.remove(waiters, i) end
  end
end

-- Wakes the parked calls of a record; the answer of each.
local function model_wake(r, servers)
  local answers = {}
  for _, server in ipairs(servers) do
    for _, w in ipairs({table.unpack(waiters)}) do
      if w.server == server and w.record == r then
        local line = model_begin(r, w.token, w.fingerprint, w.lease)
        if line:sub(1, 11) ~= "IN_PROGRESS" then
          drop(w)
          answers[#answers + 1] = server .. " " .. w.token .. " " .. line
        end
      end
    end
  end
  return table.concat(answers, ", ")
end
local function expect_woken(r, servers)
  local answers = deliver()(model_wake(r, servers))
  if answers:find("EXECUTE") then take_fence(r) end
end

-- ---- calls ----

local function do_begin(may_wait)
  local r, k = any_record()
  local token = r.state == "IN_PROGRESS" and pick(4) == 0 and r.token or "T" .. pick(TOKENS)
  local fingerprint = (pick(12) == 0 or r.state == "NONE") and pick_from{"one", "two", ""} or r.fingerprint
  local lease, server = any_lease(), pick_from{"S1", "S2"}
  for _, w in ipairs(waiters) do -- a token waits once on a server
    may_wait = may_wait and not (w.server == server and w.token == token)
  end
  may_wait = may_wait and #waiters < WAITERS
  local expected = model_begin(r, token, fingerprint, lease)
  local more = {fingerprint = fingerprint, lease_ms = lease * 1000}
  local said
  if may_wait then said = wait(server .. " " .. k .. " " .. token, more) else said = begin(k .. " " .. token, more) end
  if may_wait and expected:sub(1, 11) == "IN_PROGRESS" then
    said "WAITS"
    waiters[#waiters + 1] = {server = server, key = k, record = r, token = token, fingerprint = fingerprint, lease = lease}
    return
  end
  said(expected)
  if expected:sub(1, 7) == "EXECUTE" then
    take_fence(r)
  elseif expected:sub(1, 11) == "IN_PROGRESS" then
    said{retry_after_ms = about((r.ends - now) * 1000)}
  end
end

local function do_extend()
  local r, k = any_record()
  local of, lease = any_fence(r), any_lease()
  local mine = r.state == "IN_PROGRESS" and of == r.fence
  extend(k, {fence = of, lease_ms = lease * 1000})(mine and "EXTENDED" or "LOST")
  if mine then r.ends = math.max(r.ends, now + lease) end
end

local function do_end(how, call, result)
  return function()
    local r, k = any_record()
    local of, text = any_fence(r), "r" .. pick(1000)
    local said = call(k .. (how == "COMPLETED" and " 200 " or " ") .. text, {fence = of})
    if r.state == "NONE" or of ~= r.fence then
      said "SUPERSEDED"
    elseif r.state == "IN_PROGRESS" then
      said "STORED"
      r.state, r.result = how, result .. text
      expect_woken(r, {"S1", "S2"})
    else
      said(r.state == how and "STORED again" or "SUPERSEDED")
    end
  end
end

local function delete(r, k)
  forget(k) "OK"
  for name in pairs(r) do
    if name ~= "highest" then r[name] = nil end
  end
  r.state = "NONE"
  expect_woken(r, {"S1", "S2"})
end
local function do_delete()
  local r, k = any_record()
  if r.state == "COMPLETED" or r.state == "FAILED_FINAL" or pick(6) == 0 then delete(r, k) end
end

local function do_get()
  local r, k = any_record()
  local said = get(k)(r.state == "NONE" and "NONE" or r.state .. " " .. r.attempt .. "...")
  if r.state ~= "NONE" then said{record = {fingerprint = r.fingerprint}} end
  if r.state == "COMPLETED" or r.state == "FAILED_FINAL" then eq(tostring(said), containing(r.result)) end
  if r.state == "IN_PROGRESS" then said{record = {lease_ms = about(leased(r) and (r.ends - now) * 1000 or 0)}} end
end

-- ---- events ----

-- The alarm of a waiting call.
local function do_ring()
  if #waiters == 0 then return end
  local w = pick_from(waiters)
  local again = ring(w.server, w.key)
  if leased(w.record) then
    eq(again, about((w.record.ends - now) * 1000)); deliver() ""
  else
    eq(again, 1000)
    expect_woken(w.record, {w.server})
  end
end

local function do_event()
  if #waiters == 0 then return end
  local w = drop(pick_from(waiters))
  local r, call = w.record, w.server .. " " .. w.token
  if pick(2) == 0 then
    abandoned(call) "CANCELLED NO the caller's connection is gone"
  elseif r.state == "NONE" then
    timed_out(call) "IN_PROGRESS 0"
  elseif r.fingerprint == w.fingerprint and (r.state == "FAILED_RETRYABLE" or r.state == "IN_PROGRESS" and not leased(r)) then
    timed_out(call)("IN_PROGRESS " .. r.attempt) {retry_after_ms = 0}
  else
    timed_out(call)(model_begin(r, w.token, w.fingerprint, w.lease)) -- changes nothing here
  end
end

-- promise I1: one EXECUTE at a time; the others are IN_PROGRESS with the rest of its lease, also when sent together
-- promise I2: COMPLETED: every Begin is REPLAY
-- promise I3: the same attempt_token while its attempt runs: the same attempt, fence and lease
-- promise I4: ... after its lease, if nobody took over: the same attempt with a new lease; after its end: a new
--   attempt
-- promise I5: an expired lease is taken over, with the next attempt number
-- promise I6: a late result is SUPERSEDED or LOST and changes nothing
-- promise I10: MISMATCH in each state; empty is a value like any other
-- promise I11: Extend: later, never sooner, also after the lease; LOST once ended
-- promise I12: Delete: forgotten, the next Begin executes
-- promise I18: after Fail RETRYABLE and Delete exactly one of them runs, the others wait on
function case.every_answer_is_the_models()
  rounds(20, 1000, function()
    records, waiters, fences, now = {}, {}, {}, 0
    for i = 0, KEYS - 1 do records[i] = {state = "NONE", highest = 0} end
    for _ = 1, 1000 do
      choose{5, function() do_begin(false) end, 6, function() do_begin(true) end, 2, do_extend,
        2, do_end("COMPLETED", complete, "200 "), 2, do_end("FAILED_RETRYABLE", fail_retryable, ""),
        1, do_end("FAILED_FINAL", fail_final, "-1 lockstock-failure="), 2, do_delete, 1, do_get, 1, do_ring, 1, do_event,
        1, function() now = now + TICK pass(TICK) end}
    end
    for i, r in pairs(records) do
      repeat
        delete(r, "k" .. i)
        local left = 0
        for _, w in ipairs(waiters) do left = left + (w.record == r and 1 or 0) end
      until left == 0
    end
    eq(waiting_keys(), 0)
  end)
end

-- IdempotencyService. Keys and states: idempotency_record.lua. Begins of one record that share an FCALL read it once
-- and write it once.

-- Returns the answer of a Begin that changes nothing; nil: the attempt may run.
local function stored_answer(record, token, fingerprint, now)
  if not record then return nil end
  if record.fingerprint ~= fingerprint then return {'MISMATCH'} end
  if record.state == 'C' or record.state == 'F' then return {'REPLAY', record.attempt, result_of(record)} end
  if not has_lease(record, now) then return nil end
  -- The reply was lost. The lease is the first call's: the caller counts from there.
  if record.token == token then return {'EXECUTE', record.attempt, record.fence} end
  return {'IN_PROGRESS', record.attempt, lease_left_ms(record, now)}
end

local function record_in(s)
  if s.record == nil then s.record = load_record(s.base) or false end
  return s.record
end

-- The record is kept long enough to recognize a late Complete of an expired attempt that was not taken over.
local function execute(s, now, token, fingerprint, lease_ms, retain_ms)
  local old, attempt, fence = s.record, 1, now
  touch(s)
  if old then
    -- An expired attempt with the same token that was not taken over continues.
    local goes_on = old.state == 'R' and old.token == token
    attempt, fence = old.attempt, old.fence
    if not goes_on then attempt, fence = attempt + 1, math.max(fence + 1, now) end
  end
  s.record = {key = s.base .. 'idem:r', state = 'R', attempt = attempt, fence = fence,
    lease_end = now + lease_ms * 1000, retain_ms = retain_ms, token = token, fingerprint = fingerprint}
  s.life_ms = lease_ms + retain_ms
  return {'EXECUTE', attempt, fence}
end

local function wait(s, server, wait_ms)
  redis.call('SCARD', s.base .. 'idem:w') -- foreign data ends the call here, while nothing is changed
  touch(s)
  s.servers = s.servers or {}
  s.servers[#s.servers + 1], s.wait_ms = server, math.max(s.wait_ms or 0, wait_ms)
end

local function begin(s, token, fingerprint, lease_ms, retain_ms, wait_ms, server)
  local now = clock()
  local reply = stored_answer(record_in(s), token, fingerprint, now)
    or execute(s, now, token, fingerprint, lease_ms + 0, retain_ms + 0)
  if reply[1] == 'IN_PROGRESS' and wait_ms ~= '0' then
    wait(s, server, wait_ms + 0)
    reply[1] = 'WAIT'
  end
  return reply
end

local BEGINS = {
  open = function(base)
    return {base = base, record = nil, life_ms = false, servers = false, wait_ms = false, touched = false, at = 0}
  end,

  close = function(s)
    if s.servers then wait_here(s.base, s.servers, s.wait_ms) end
    if s.life_ms then save_record(s.record, 'R', '', '', 'PX', s.life_ms) end
  end,
}

-- -> {'EXECUTE', attempt, fence}
--    {'REPLAY', attempt, result}
--    {'IN_PROGRESS' or, parked, 'WAIT', attempt, ms left of its lease}
--    {'MISMATCH'}
define_pass('idempotency_begin', {}, begin, BEGINS)

-- For a parked call that was woken: the same answers.
define_pass('idempotency_begin_again', {'allow-oom'}, begin, BEGINS)

-- For a call whose wait is over: the same answers, but it does not begin to run, because its caller may be giving up.
-- {'IN_PROGRESS', ..., 0}: the next Begin may run.
define_pass('idempotency_begin_over', {'no-writes'}, function(s, token, fingerprint, lease_ms, retain_ms, wait_ms,
  server)
  local record = record_in(s)
  return stored_answer(record, token, fingerprint, clock()) or {'IN_PROGRESS', record and record.attempt or 0, 0}
end, BEGINS)

-- The lease that a member of idem:w waits for has ended: one of its parked calls may run.
-- -> {'OK', ms until again}
define('idempotency_lease_over', {'allow-oom'}, function(base, now, member)
  local record = load_record(base)
  if record and has_lease(record, now) then return {'OK', lease_left_ms(record, now)} end
  wake(base, member)
  return {'OK', WOKEN_AGAIN_MS}
end)

-- Returns the record if its attempt has that fence.
local function attempt_of(base, fence)
  local record = load_record(base)
  return record and record.fence == tonumber(fence) and record or nil
end

local function extend_attempt(record, now, lease_ms)
  record.lease_end = math.max(record.lease_end, now + lease_ms * 1000)
  save_record(record, 'R', '', '', 'KEEPTTL')
  write('PEXPIRE', record.key, lease_ms + record.retain_ms, 'GT')
end

-- -> {'EXTENDED'} {'LOST'}
define('idempotency_extend', {'allow-oom'}, function(base, now, fence, lease_ms)
  local record = attempt_of(base, fence)
  if not record or record.state ~= 'R' then return {'LOST'} end
  extend_attempt(record, now, tonumber(lease_ms))
  return {'EXTENDED'}
end)

-- Ends the attempt of `record`; nil: it is another attempt's. The first end is final. Runs without memory too, because
-- the end of an attempt must not be lost.
-- -> {'STORED', 1 if again} {'SUPERSEDED', 0}
local function finish(base, record, state, detail, result)
  if not record then return {'SUPERSEDED', 0} end
  if record.state == state then return {'STORED', 1} end
  if record.state ~= 'R' then return {'SUPERSEDED', 0} end
  local members = waiting_members(base)
  save_record(record, state, detail, result, 'PX', record.retain_ms)
  wake_all(base, members)
  return {'STORED', 0}
end

define('idempotency_complete', {'allow-oom'}, function(base, now, fence, result)
  return finish(base, attempt_of(base, fence), 'C', '', result)
end)

-- With a result the failure is final.
define('idempotency_fail', {'allow-oom'}, function(base, now, fence, detail, ...)
  local result = ...
  return finish(base, attempt_of(base, fence), result and 'F' or 'T', detail, result or '')
end)

-- -> {'OK', state, attempt, fingerprint, lease_ms, retain_ms, detail, result or ''} or {'NONE'}
define('idempotency_get', {'no-writes'}, function(base, now)
  local record = load_record(base)
  if not record then return {'NONE'} end
  local retain_ms = record.state == 'R' and 0 or math.max(0, redis.call('PTTL', record.key))
  return {'OK', STATE[record.state], record.attempt, record.fingerprint, lease_left_ms(record, now), retain_ms,
    record.detail, result_of(record)}
end)

-- -> {'OK'}
define('idempotency_delete', {'allow-oom'}, function(base, now)
  local members = waiting_members(base)
  write('DEL', base .. 'idem:r')
  wake_all(base, members)
  return {'OK'}
end)

services.idempotency = {
  begins = BEGINS, stored_answer = stored_answer, record_in = record_in, execute = execute,
  lease_left_ms = lease_left_ms, finish = finish, extend = extend_attempt, wait_here = wait_here,

  -- Returns the record if its attempt has that token.
  attempt_with = function(base, token)
    local record = load_record(base)
    return record and record.token == token and record or nil
  end,
}

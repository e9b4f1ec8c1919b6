-- IdempotencyService, its functions. What is kept, and the states: idempotency_record.lua.

local function replay(record)
  local result = redis.call('HGET', record.key, 'r') or foreign()
  return {'REPLAY', record.attempt, result}
end

-- What a Begin with `token` is told without any change; nil when it may run.
local function told(record, token, fingerprint, now)
  if not record then return nil end
  if record.fingerprint ~= fingerprint then return {'MISMATCH'} end
  if record.state == 'C' or record.state == 'F' then return replay(record) end
  if not has_lease(record, now) then return nil end
  -- Its reply was lost. The lease is that of the first: the caller counts from there.
  if record.token == token then return {'EXECUTE', record.attempt, record.fence} end
  return {'IN_PROGRESS', record.attempt, lease_left_ms(record, now)}
end

local function execute(base, record, now, token, fingerprint, lease_ms, retain_ms)
  local key = base .. 'idem:r'
  if record and record.state == 'R' and record.token == token then
    -- Its lease ran out and nobody took over: it goes on.
    give_lease(key, lease_ms, retain_ms, now)
    return {'EXECUTE', record.attempt, record.fence}
  end
  local attempt, fence = 1, now
  if record then attempt, fence = record.attempt + 1, math.max(record.fence + 1, now) end
  give_lease(key, lease_ms, retain_ms, now,
    's', 'R', 'n', int(attempt), 'f', int(fence), 't', token, 'p', fingerprint)
  if record then write('HDEL', key, 'd') end
  return {'EXECUTE', attempt, fence}
end

local function begin(base, now, token, fingerprint, lease_ms, retain_ms, wait_ms, server)
  local record = load_record(base)
  local reply = told(record, token, fingerprint, now)
    or execute(base, record, now, token, fingerprint, tonumber(lease_ms), tonumber(retain_ms))
  wait_ms = tonumber(wait_ms)
  if reply[1] == 'IN_PROGRESS' and wait_ms > 0 then
    wait_here(base, server, wait_ms)
    reply[1] = 'WAIT'
  end
  return reply
end

-- -> {'EXECUTE', attempt, fence}
--    {'REPLAY', attempt, result}
--    {'IN_PROGRESS' or, parked, 'WAIT', attempt, ms left of its lease}
--    {'MISMATCH'}
define('idempotency_begin', {}, begin)

-- The parked call was woken: the same answers.
define('idempotency_begin_again', {'allow-oom'}, begin)

-- Its wait is over: the same answers, but it does not begin to run, because its caller
-- may be giving up. {'IN_PROGRESS', ..., 0}: whoever asks now may run.
define('idempotency_begin_over', {'no-writes'}, function(base, now, token, fingerprint, lease_ms,
  retain_ms, wait_ms, server)
  local record = load_record(base)
  return told(record, token, fingerprint, now) or {'IN_PROGRESS', record and record.attempt or 0, 0}
end)

-- A lease has ended for which that server parks calls: one of them may run.
-- -> {'OK', ms until again}
define('idempotency_lease_over', {'allow-oom'}, function(base, now, server)
  local record = load_record(base)
  if record and has_lease(record, now) then return {'OK', lease_left_ms(record, now)} end
  wake(base, server)
  return {'OK', WOKEN_AGAIN_MS}
end)

-- -> {'EXTENDED'} {'LOST'}
define('idempotency_extend', {'allow-oom'}, function(base, now, fence, lease_ms)
  local record = load_record(base)
  lease_ms = tonumber(lease_ms)
  if not record or record.fence ~= tonumber(fence) or record.state ~= 'R' then return {'LOST'} end
  write('HSET', record.key, 'l', int(math.max(record.lease_end, now + lease_ms * 1000)))
  write('PEXPIRE', record.key, int(lease_ms + record.retain_ms), 'GT')
  return {'EXTENDED'}
end)

-- Ends the attempt with that fence; the first end stays. Memory may be short: what ran
-- must not be forgotten, so this is done all the same.
-- -> {'STORED', 1 when again} {'SUPERSEDED', 0}
local function finish(base, fence, state, ...)
  local record = load_record(base)
  if not record or record.fence ~= tonumber(fence) then return {'SUPERSEDED', 0} end
  if record.state == state then return {'STORED', 1} end
  if record.state ~= 'R' then return {'SUPERSEDED', 0} end
  local servers = waiting_servers(base)
  write('HSET', record.key, 's', state, ...)
  write('PEXPIRE', record.key, int(record.retain_ms))
  wake_all(base, servers)
  return {'STORED', 0}
end

define('idempotency_complete', {'allow-oom'}, function(base, now, fence, result)
  return finish(base, fence, 'C', 'r', result)
end)

-- With a result it is final.
define('idempotency_fail', {'allow-oom'}, function(base, now, fence, detail, ...)
  if ... then return finish(base, fence, 'F', 'd', detail, 'r', ...) end
  return finish(base, fence, 'T', 'd', detail)
end)

-- -> {'OK', state, attempt, fingerprint, lease_ms, retain_ms, detail, result or ''} or {'NONE'}
define('idempotency_get', {'no-writes'}, function(base, now)
  local record = load_record(base)
  if not record then return {'NONE'} end
  local more = redis.call('HMGET', record.key, 'd', 'r')
  local retain_ms = record.state == 'R' and 0 or math.max(0, redis.call('PTTL', record.key))
  return {'OK', STATE[record.state], record.attempt, record.fingerprint, lease_left_ms(record, now), retain_ms,
    more[1] or '', more[2] or ''}
end)

-- -> {'OK'}
define('idempotency_delete', {'allow-oom'}, function(base, now)
  local servers = waiting_servers(base)
  write('DEL', base .. 'idem:r')
  wake_all(base, servers)
  return {'OK'}
end)

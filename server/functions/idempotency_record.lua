-- IdempotencyService, what is kept: of each (scope, key) one record, in a group of its
-- own, so that the keys of a busy scope spread over a cluster.
--
--   Invariant: `n` and `f` only grow while a record is kept; the record changes only by
--   a Begin that finds nobody running, and by the attempt whose fence is `f`. So what an
--   attempt stores late, after another one took over, changes nothing.
--
--              Begin: attempt 1              Complete
--   (none) ----------------------> RUNNING ------------> COMPLETED
--     ^                            | ^ | ^ \  Fail FINAL
--     |             Fail RETRYABLE | | | |  +----------> FAILED FINALLY
--     |                            v | +-+
--     |          FAILED RETRYABLY ---+  lease over, Begin with another
--     |             Begin: attempt + 1, token: attempt + 1, new fence
--     |             new fence
--     +-- Delete, or the end of the record: from any
--
--                       (none)      RUNNING       ... lease over   FAILED        COMPLETED,
--                                   (R)           (R)              RETRYABLY (T) FAILED FINALLY (C, F)
--   Begin               R           IN_PROGRESS   R, attempt + 1   R, attempt+1  REPLAY
--    same token         R           EXECUTE       R, new lease     R, attempt+1  REPLAY
--    other fingerprint  R           MISMATCH      MISMATCH         MISMATCH      MISMATCH
--   Complete, Fail      SUPERSEDED  C, T or F     C, T or F        as it ended: STORED, replayed;
--                                                                  otherwise SUPERSEDED
--   Extend              LOST        later         R, new lease     LOST          LOST
--   (the last two with the fence of the attempt; with another one SUPERSEDED, LOST)
--
-- Keys, after the base "ls:{namespace/scope/key}:":
--   idem:r  hash    s  state: R, C, T or F
--                   n  number of the attempt, 1 for the first
--                   f  its fence
--                   t  its token
--                   l  end of its lease, microseconds
--                   p  fingerprint
--                   k  ms that a result is kept
--                   r  C, F: the result, a StoredResult as it was serialised
--                   d  T, F: detail
--   idem:w  set     servers that park a Begin of this record
--   idem:t  hash    of a ticket: see idempotency_ticket.lua
-- docs/idempotency.md says how large each is and when it ends.

local STATE = {R = 'IN_PROGRESS', C = 'COMPLETED', T = 'FAILED_RETRYABLE', F = 'FAILED_FINAL'}

local function foreign()
  fail('FAILED_PRECONDITION', 'the store holds foreign data under this name')
end

-- nil when there is none. Without the result, which may be large.
local function load_record(base)
  local key = base .. 'idem:r'
  local v = redis.call('HMGET', key, 's', 'n', 'f', 't', 'l', 'p', 'k')
  if not v[1] then return nil end
  local record = {key = key, state = v[1], attempt = tonumber(v[2]), fence = tonumber(v[3]), token = v[4],
    lease_end = tonumber(v[5]), fingerprint = v[6], retain_ms = tonumber(v[7])}
  if not (STATE[v[1]] and record.attempt and record.fence and v[4] and record.lease_end and
    v[6] and record.retain_ms) then
    foreign()
  end
  return record
end

local function has_lease(record, now)
  return record.state == 'R' and record.lease_end > now
end

-- Of its lease, rounded up: 0 means that it is over.
local function lease_left_ms(record, now)
  return has_lease(record, now) and math.ceil((record.lease_end - now) / 1000) or 0
end

-- Gives the attempt a lease from now on. It ends late enough that what comes after the
-- lease, while nobody took over, is still known.
local function give_lease(key, lease_ms, retain_ms, now, ...)
  write('HSET', key, 'l', int(now + lease_ms * 1000), 'k', int(retain_ms), ...)
  write('PEXPIRE', key, int(lease_ms + retain_ms))
end

-- ---- who waits -------------------------------------------------------------------

-- When a server is woken once more whose waiters nothing has ended: a message may be lost.
local WOKEN_AGAIN_MS = 1000
-- Servers that stay on after the last wait they were registered for.
local WAITING_SLACK_MS = 10000

local function wait_here(base, server, wait_ms)
  local key, retain_ms = base .. 'idem:w', wait_ms + WAITING_SLACK_MS
  local longer = redis.call('PTTL', key) < retain_ms
  write('SADD', key, server)
  if longer then write('PEXPIRE', key, int(retain_ms)) end
end

-- Read before the first write, as all that may be of a foreign type.
local function waiting_servers(base)
  return redis.call('SMEMBERS', base .. 'idem:w')
end

local function wake(base, server)
  write('PUBLISH', 'ls:wake:' .. server, 'W ' .. base .. 'idem:w')
end

-- Every parked call is looked at again; those that wait on register anew.
local function wake_all(base, servers)
  if #servers == 0 then return end
  write('DEL', base .. 'idem:w')
  for _, server in ipairs(servers) do wake(base, server) end
end

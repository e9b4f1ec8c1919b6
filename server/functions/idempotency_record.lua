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
--   idem:r  string  state (R, C, T or F); number of the attempt, 1 for the first; its fence; end of its lease,
--                   microseconds; ms that a result is kept (four doubles, little-endian); its token and the
--                   fingerprint, each after its length (1 byte); T, F: detail, after its length (2 bytes);
--                   C, F: the result, a StoredResult as it was serialised, to the end
--   idem:w  set     servers that park a Begin of this record
--   idem:t  string  of a ticket: see idempotency_ticket.lua
-- docs/idempotency.md says how large each is and when it ends.

local STATE = {R = 'IN_PROGRESS', C = 'COMPLETED', T = 'FAILED_RETRYABLE', F = 'FAILED_FINAL'}

local RECORD = '<c1ddddBc0Bc0Hc0'

-- nil when there is none.
local function load_record(base)
  local key = base .. 'idem:r'
  local text = redis.call('GET', key)
  if not text then return nil end
  local state, attempt, fence, lease_end, retain_ms, token, fingerprint, detail, result_at = struct.unpack(RECORD, text)
  if not STATE[state] then foreign() end
  return {key = key, state = state, attempt = attempt, fence = fence, lease_end = lease_end, retain_ms = retain_ms,
    token = token, fingerprint = fingerprint, detail = detail, text = text, result_at = result_at}
end

-- May be large, so it is taken out of the text only where it is asked for, and once.
local function result_of(record)
  record.result = record.result or string.sub(record.text, record.result_at)
  return record.result
end

local function save_record(r, state, detail, result, ...)
  write('SET', r.key, struct.pack(RECORD, state, r.attempt, r.fence, r.lease_end, r.retain_ms, #r.token, r.token,
    #r.fingerprint, r.fingerprint, #detail, detail) .. result, ...)
end

local function has_lease(record, now)
  return record.state == 'R' and record.lease_end > now
end

-- Of its lease, rounded up: 0 means that it is over.
local function lease_left_ms(record, now)
  return has_lease(record, now) and math.ceil((record.lease_end - now) / 1000) or 0
end

-- ---- who waits -------------------------------------------------------------------

-- When a server is woken once more whose waiters nothing has ended: a message may be lost.
local WOKEN_AGAIN_MS = 1000
-- Servers that stay on after the last wait they were registered for.
local WAITING_SLACK_MS = 10000

-- Says that the servers park Begins of the record, for so long at least.
local function wait_here(base, servers, wait_ms)
  local key, retain_ms = base .. 'idem:w', wait_ms + WAITING_SLACK_MS
  local longer = redis.call('PTTL', key) < retain_ms
  write('SADD', key, unpack(servers))
  if longer then write('PEXPIRE', key, retain_ms) end
end

-- Read before the first write, as all that may be of a foreign type.
local function waiting_servers(base)
  return redis.call('SMEMBERS', base .. 'idem:w')
end

local function wake(base, server)
  write('PUBLISH', channel_of(server), 'W ' .. base .. 'idem:w')
end

-- Every parked call is looked at again; those that wait on register anew.
local function wake_all(base, servers)
  if #servers == 0 then return end
  write('DEL', base .. 'idem:w')
  for _, server in ipairs(servers) do wake(base, server) end
end

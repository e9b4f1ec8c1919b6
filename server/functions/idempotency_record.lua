-- IdempotencyService: keys. Each (scope, key) is one record in a separate group, so that the keys of a busy scope are
-- spread over a cluster.
--
--   Invariant: attempt and fence only grow while a record is kept. Only a Begin that finds no running attempt, and the
--   attempt with the record's fence, change it. So an attempt that was taken over cannot change the record.
--
--              Begin: attempt 1              Complete
--   (none) ----------------------> RUNNING ------------> COMPLETED
--     ^                            | ^ | ^ \  Fail FINAL
--     |             Fail RETRYABLE | | | |  +----------> FAILED FINALLY
--     |                            v | +-+
--     |          FAILED RETRYABLY ---+  lease over, Begin with another
--     |             Begin: attempt + 1, token: attempt + 1, new fence
--     |             new fence
--     +-- Delete, or the end of the record: from any state
--
--                       (none)      RUNNING       ... lease over   FAILED        COMPLETED,
--                                   (R)           (R)              RETRYABLY (T) FAILED FINALLY (C, F)
--   Begin               R           IN_PROGRESS   R, attempt + 1   R, attempt+1  REPLAY
--    same token         R           EXECUTE       R, new lease     R, attempt+1  REPLAY
--    other fingerprint  R           MISMATCH      MISMATCH         MISMATCH      MISMATCH
--   Complete, Fail      SUPERSEDED  C, T or F     C, T or F        the stored end: STORED, replayed;
--                                                                  another end: SUPERSEDED
--   Extend              LOST        later         R, new lease     LOST          LOST
--   (the last two with the fence of the attempt; with another one SUPERSEDED, LOST)
--
-- Keys, after the base "ls:{namespace/scope/key}:":
--   idem:r  string  state (R, C, T or F); number of the attempt, 1 for the first; its fence; end of its lease,
--                   microseconds; ms that a result is kept (four doubles, little-endian); its token and the
--                   fingerprint, each after its length (1 byte); T, F: detail, after its length (2 bytes);
--                   C, F: the result, a serialized StoredResult, to the end
--   idem:w  set     "<server>" that parks Begins of this record; "<server> <key>" that parks one Enter (guard.lua);
--                   messages name it by that key
--   idem:t  string  a ticket: idempotency_ticket.lua
-- docs/idempotency.md has their sizes and ends.

local STATE = {R = 'IN_PROGRESS', C = 'COMPLETED', T = 'FAILED_RETRYABLE', F = 'FAILED_FINAL'}

local RECORD = '<c1ddddBc0Bc0Hc0'

-- Returns nil if there is no record.
local function load_record(base)
  local key = base .. 'idem:r'
  local text = redis.call('GET', key)
  if not text then return nil end
  local state, attempt, fence, lease_end, retain_ms, token, fingerprint, detail, result_at = struct.unpack(RECORD, text)
  if not STATE[state] then foreign() end
  return {key = key, state = state, attempt = attempt, fence = fence, lease_end = lease_end, retain_ms = retain_ms,
    token = token, fingerprint = fingerprint, detail = detail, text = text, result_at = result_at}
end

-- A result may be large, so it is copied only when needed, and only once.
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

-- Returns the ms left of its lease, rounded up; 0: it has expired.
local function lease_left_ms(record, now)
  return has_lease(record, now) and math.ceil((record.lease_end - now) / 1000) or 0
end

-- ---- waiting ---------------------------------------------------------------------

-- The time after which a server whose waiters were not answered is woken again: a message may be lost.
local WOKEN_AGAIN_MS = 1000
-- Servers stay registered for this time after the last wait.
local WAITING_SLACK_MS = 10000

-- Registers members of idem:w for at least this time.
local function wait_here(base, members, wait_ms)
  local key, retain_ms = base .. 'idem:w', wait_ms + WAITING_SLACK_MS
  local longer = redis.call('PTTL', key) < retain_ms
  write('SADD', key, unpack(members))
  if longer then write('PEXPIRE', key, retain_ms) end
end

-- Read before the first write, like every key that may have a foreign type.
local function waiting_members(base)
  return redis.call('SMEMBERS', base .. 'idem:w')
end

local function wake(base, member)
  local server, key = string.match(member, '^(%S+) ?(.*)$')
  write('PUBLISH', channel_of(server), 'W ' .. (key ~= '' and key or base .. 'idem:w'))
end

-- Wakes all parked calls; those that still wait register again.
local function wake_all(base, members)
  if #members == 0 then return end
  write('DEL', base .. 'idem:w')
  for _, member in ipairs(members) do wake(base, member) end
end

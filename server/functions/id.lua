-- IdService: grants. A SNOWFLAKE id is (ms, worker, sequence). A server makes ids by itself, within ranges of time that
-- these functions grant to it.
--
--   Invariant: ranges of one worker granted to two owners never overlap. The end of each range (its high-water mark) is
--   written before a server gets the range, and the next owner's range begins after it. The ranges of one owner may
--   overlap, because it never goes back.
--
-- An owner is one run of one server. Uniqueness does not depend on leases or clocks: they only keep servers from
-- sharing a worker, and keep ids near the current time.
--
-- A loss of data looks like a new store. No range reaches further than a lease ahead of the clock, so a function that
-- finds no data grants nothing for one lease, and later never grants a time before that moment (the floor).
--
-- Keys, after the base:
--   id:workers  hash    of base "ls:{meta}:". floor -> ms; worker -> "low high at owner": the owner's ranges are from
--                       low to high, and the last was granted at `at` (ms since 1970)
--   id:s        string  the last number of the sequence that the base names
--   generation  string  of base "ls:{meta}:": the primary that wrote last; in Redis Cluster this_primary()

local EPOCH_MS = 1704067200000             -- 2024-01-01
local END_MS = EPOCH_MS + 2 ^ 41           -- where 41 bits end, in 2093
local WORKERS = 1024
local RANGE_MS = 1000
local AHEAD_MS = 1000                      -- how far ahead of the clock a range may begin
local LEASE_MS = 3000                      -- at least RANGE_MS + AHEAD_MS

local function number(text)
  return tonumber(text) or foreign()
end

local function parse_worker(text)
  local low, high, at, owner = string.match(text, '^(%d+) (%d+) (%d+) (%w+)$')
  return {low = number(low), high = number(high), at = number(at), owner = owner}
end

-- Returns the ms until another owner may have the worker; -1 = now. A lease in the future means that the clock was set
-- back.
local function lease_left(worker, now_ms)
  local left = worker.at + LEASE_MS - now_ms
  return left > 0 and left <= LEASE_MS and left or -1
end

-- Returns the worker that the owner has, even if the owner does not know it yet (calls sent at once); otherwise the
-- free worker whose range can begin soonest at or after `first`; otherwise nil, and the ms until one is free.
local function take_worker(key, owner, first, now_ms)
  local workers, flat = {}, redis.call('HGETALL', key)
  local best, soonest = nil, LEASE_MS

  for i = 1, #flat, 2 do
    if flat[i] ~= 'floor' then
      local worker = parse_worker(flat[i + 1])
      worker.n, workers[flat[i]] = flat[i], worker
      if worker.owner == owner then return worker end
    end
  end
  for i = 0, WORKERS - 1 do
    local n = int(i)
    local worker = workers[n] or {n = n, low = 0, high = 0, at = 0, owner = ''}
    local left = lease_left(worker, now_ms)
    if left > 0 then
      soonest = math.min(soonest, left)
    elseif not best or worker.high < best.high then
      best = worker
      if worker.high <= first then break end
    end
  end
  return best, soonest
end

-- had: the worker, -1 = none; unused: the first ms it has not used
-- -> {'OK', worker, first ms, ms behind the last, ms of the clock}
--  | {'STARTING', ms}  nothing can be granted until then
--  | {'AHEAD', ms}     the owner is too far ahead of the clock; until the clock has caught up
--  | {'TAKEN', ms}     all workers are in use; until the next lease ends
define('id_grant', {}, function(base, now, owner, had, unused)
  local key, now_ms = base .. 'id:workers', math.floor(now / 1000)
  local floor, primary = redis.call('HGET', key, 'floor'), this_primary()

  -- In a cluster each grant checks this, because the slot may get another primary without the server's knowledge.
  local is_another = primary ~= '' and redis.call('GET', base .. 'generation') ~= primary
  if is_another then write('SET', base .. 'generation', primary) end
  if is_another or not floor then
    write('HSET', key, 'floor', int(now_ms + LEASE_MS))
    return {'STARTING', int(LEASE_MS)}
  end
  floor = number(floor)
  -- The floor is further ahead only after the clock was set back; then ids continue from the floor.
  if floor > now_ms and floor <= now_ms + LEASE_MS then return {'STARTING', int(floor - now_ms)} end

  local first = math.max(now_ms, floor, number(unused))
  local known = redis.call('HGET', key, had)
  local worker = known and parse_worker(known)
  if worker and worker.owner == owner then
    worker.n = had
  else
    local soonest
    worker, soonest = take_worker(key, owner, first, now_ms)
    if not worker then return {'TAKEN', int(soonest)} end
  end
  -- An owner continues in its own ranges: at the beginning of its unused part, or at the first ms if the reply was lost
  -- and it knows of no range. Another owner begins after them.
  local low = worker.owner == owner and worker.low or worker.high
  first = math.max(first, low)
  -- At most one range in the time of a range, so that a server that makes ids faster than that does not run ahead.
  local since = now_ms - worker.at
  if first > now_ms + AHEAD_MS and since >= 0 and since < RANGE_MS then return {'AHEAD', int(RANGE_MS - since)} end
  local till = first + RANGE_MS
  if first <= EPOCH_MS or till > END_MS then
    fail('OUT_OF_RANGE', "kind: the store's clock is outside of 2024 to 2093")
  end
  write('HSET', key, worker.n,
    table.concat({int(low), int(math.max(worker.high, till)), int(now_ms), owner}, ' '))
  return {'OK', worker.n, int(first), int(till), int(now_ms)}
end)

-- With Sentinel: a server has connected to a primary and not called it yet. A new primary may lack grants of the one
-- before, which reach at most a lease ahead of that primary's clock. generation: identifies the primary
-- -> {'OK', 1: it is another one than before}
-- Runs without memory too, because a full store must still accept functions that free memory.
define('id_generation', {'allow-oom'}, function(base, now, generation)
  local key = base .. 'generation'
  local known = redis.call('GET', key)
  if known == generation then return {'OK', 0} end
  write('SET', key, generation)
  if not known then return {'OK', 0} end
  write('HSET', base .. 'id:workers', 'floor', int(math.floor(now / 1000) + LEASE_MS))
  return {'OK', 1}
end)

-- -> {'OK', the last number}. The calls of an FCALL take numbers in order, and the last one is written once.
define_pass('id_sequence', {}, function(s, how_many)
  s.last = s.last or number(redis.call('GET', s.key) or '0')
  if s.last > MAX_INTEGER - how_many then fail('OUT_OF_RANGE', 'name: the sequence is at its end, 2^53-1') end
  touch(s)
  s.last = s.last + how_many
  return {'OK', s.last}
end, {
  open = function(base) return {key = base .. 'id:s', last = false, touched = false, at = 0} end,
  close = function(s) write('SET', s.key, int(s.last)) end,
})

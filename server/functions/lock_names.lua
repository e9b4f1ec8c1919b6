-- LockService: keys. Only the keys of a name determine its holders: a lease runs while the token's entry there ends in
-- the future, regardless of other keys. A token's record has the names that it was granted, waits for and has released,
-- so that a token is granted at most once while its record is kept.
--
-- Keys, after the base; names, owners and tokens are percent-encoded. Values are packed (little-endian, B a byte, d a
-- double) in the format in brackets:
--   lock:n:<name>   string  [BBBdd] LAYOUT, a kind, whether lock:w:<name> has waiters, the last fence issued, when the
--                           key ends. Then, by its kind:
--                           F        no holder
--                           E, S, P  [dddd] and a token: its only holder, in that mode. An entry [ddd] (end, fence,
--                                    permits), and the capacity
--                           s, p     [dddd] several holders: no lease ends before the first number; capacity, permits
--                                    in use, number of holders that are offers
--   lock:h:<name>   hash    several holders: token -> entry. Fence 0: not a holder yet, the name is offered to a
--                           waiter until the end
--   lock:t:<token>  string  [BBdd] LAYOUT, a state, since when (of a waiter: its number), when the key ends. Then
--                           "<parked> <owner> <target>[,<target>...]", a target "[!]<name>[ <mode> <permits>
--                           <capacity>]", without mode EXCLUSIVE, with ! when it was released; no target: a tombstone
--                           of a token that was never granted. States: H holds, X spent, and of a waiter Q, O, A (see
--                           lock_queue.lua). <parked> is "<server>.<copy>.<lease_ms>[,...]", one for each parked call
--                           of the token. A grant to a parked call adds ":<number>" until a caller asks for it, because
--                           no caller may know of it
--   lock:w:<name>   zset    waiters for the name: tokens by number
--   lock:s:<name>   hash    while there are waiters:
--                           @<server>  each server that parks waiters of the name: 1, or 0 when an offer to it has
--                                      lapsed and it has sent nothing since
--                           c, p       capacity that PERMIT waiters want, and how many there are
--   lock:r          string  the highest fence that CheckFence has seen
-- Times are microseconds. Holders whose lease has expired stay until they block a call: the permits in use may be too
-- high, but only after the first end has passed. docs/locks.md has the sizes and ends of the keys.

local LAYOUT = 2
local TOKEN_RETAIN_MS = 600000
local FENCE_RETAIN_MS = 86400000
local FENCE_SLACK_MS, TOKEN_SLACK_MS = 3600000, 600000 -- added so that not every call must move the key's end
local FENCE_AHEAD_US = FENCE_RETAIN_MS * 1000 -- how far the clock may have been set back
local OFFER_US = 500000
local HOLDERS_MAX = 4096
local MODE = {E = 'EXCLUSIVE', S = 'SHARED', P = 'PERMIT'}

local NAME, NAME_BYTES = '<BBBdd', 19
local HELD, HELD_BYTES = '<BBBdddddd', 51 -- the token follows
local ENTRY, ENTRY_BYTES = '<ddd', 24
local TOKEN, TOKEN_BYTES = '<BBdd', 18
local SPACE = 32
local FREE, EXCLUSIVE, HOLDS, QUEUED = 70, 69, 72, 81 -- F, E, H, Q
local STATES = {[72] = 'H', [88] = 'X', [81] = 'Q', [79] = 'O', [65] = 'A'}
local ONE_HOLDER, SEVERAL_HOLDERS = {[69] = 'E', [83] = 'S', [80] = 'P'}, {[115] = 'S', [112] = 'P'}
local ONE_OF, SEVERAL_OF = {E = 69, S = 83, P = 80}, {S = 115, P = 112}

local function ms_left(end_us, now)
  return math.floor((end_us - now) / 1000)
end

-- ---- work ----------------------------------------------------------------------

-- Work that the FCALL has done for others than its callers, in units of about 8 us. Its calls share one budget; a call
-- that was not served is repeated.
local WORK_MAX = 512
local ENTRIES_OF_WORK = 8 -- words of HGETALL, two for each holder
local units_done, worked_in = 0, 0

local function worked(units)
  if worked_in ~= fcall then units_done, worked_in = 0, fcall end
  units_done = units_done + units
  return units_done
end

-- ---- names ---------------------------------------------------------------------

-- Reads the state of a name; `one` is token and entry of its only holder, `several` the key of several holders.
local function read_lock(base, name)
  local key = base .. 'lock:n:' .. name
  local text = redis.call('GET', key)
  local lock = {key = key, several_key = base .. 'lock:h:' .. name, queue_key = base .. 'lock:w:' .. name,
    servers_key = base .. 'lock:s:' .. name, fence = 0, kept = 0, used = 0, offers = 0}
  if not text then return lock end
  local layout, kind, waits = string.byte(text, 1, 3)
  if layout ~= LAYOUT or #text < NAME_BYTES then foreign() end
  lock.fence, lock.kept = struct.unpack('<dd', text, 4)
  lock.waits = waits == 1
  if kind == FREE then return lock end
  if #text < HELD_BYTES then foreign() end
  local first, second, third, fourth = struct.unpack('<dddd', text, NAME_BYTES + 1)
  lock.soonest = first
  if ONE_HOLDER[kind] then
    lock.mode, lock.used, lock.capacity, lock.offers = ONE_HOLDER[kind], third, fourth, second == 0 and 1 or 0
    lock.one = {string.sub(text, HELD_BYTES + 1), string.sub(text, NAME_BYTES + 1, NAME_BYTES + ENTRY_BYTES)}
  else
    lock.mode, lock.capacity, lock.used, lock.offers = SEVERAL_HOLDERS[kind] or foreign(), second, third, fourth
    lock.several = lock.several_key
  end
  return lock
end

-- The key must exist at least until then.
local function keep(lock, until_us)
  if lock.kept < until_us then lock.kept, lock.moved = until_us + FENCE_SLACK_MS * 1000, true end
end

-- Marks the lock as changed; write_lock writes it.
local function changed(lock)
  lock.changed, dirty = true, true
end

local function write_lock(lock, now)
  if not lock.changed then return end
  local waits, text = lock.waits and 1 or 0
  if not lock.mode then
    text = struct.pack(NAME, LAYOUT, FREE, waits, lock.fence, lock.kept)
  elseif lock.one then
    text = struct.pack(NAME, LAYOUT, ONE_OF[lock.mode], waits, lock.fence, lock.kept) .. lock.one[2] ..
      struct.pack('<d', lock.capacity) .. lock.one[1]
  else
    text = struct.pack(HELD, LAYOUT, SEVERAL_OF[lock.mode], waits, lock.fence, lock.kept, lock.soonest, lock.capacity,
      lock.used, lock.offers)
  end
  if lock.moved then
    local ms = int(math.ceil((lock.kept - now) / 1000))
    write('SET', lock.key, text, 'PX', ms)
    if lock.several then write('PEXPIRE', lock.several, ms) end
    if lock.waits then
      write('PEXPIRE', lock.queue_key, ms)
      write('PEXPIRE', lock.servers_key, ms)
    end
  else
    write('SET', lock.key, text, 'KEEPTTL')
  end
  lock.changed, lock.moved = nil, nil
end

local function parse_entry(entry)
  if #entry ~= ENTRY_BYTES then foreign() end
  return struct.unpack(ENTRY, entry)
end

-- Returns end, fence, permits of a holder; nil if there is none or its lease has expired.
local function valid_lease(entry, now)
  if not entry then return nil end
  local end_us, fence, permits = parse_entry(entry)
  if end_us <= now then return nil end
  -- The clock was set back: no server would notice that the offer is not claimed.
  if fence == 0 and end_us > now + OFFER_US then return nil end
  return end_us, fence, permits
end

-- The same for a token of a lock.
local function lease_of(lock, token, now)
  local one = lock.one
  if one then return valid_lease(one[1] == token and one[2], now) end
  return valid_lease(lock.several and redis.call('HGET', lock.several, token), now)
end

-- Reads every holder: from now on the lock has no expired holders in memory; `remove_expired` writes that. With `taken`, only
-- offers stay: each holder is added to `taken`, as stored token and entry, because reading thousands of them takes long
-- (lock_describe does).
local function read_holders(lock, now, taken)
  local all = lock.one or {}
  if lock.several then
    all = redis.call('HGETALL', lock.several)
    worked(#all / ENTRIES_OF_WORK)
  end
  local holders, over, lapsed, used, soonest, offers = {}, {}, {}, 0, math.huge, 0
  for i = 1, #all, 2 do
    local token, entry = all[i], all[i + 1]
    local _, fence = parse_entry(entry)
    if taken and fence ~= 0 then
      taken[#taken + 1], taken[#taken + 2] = token, entry
      over[#over + 1] = token
    else
      local end_us, _, permits = valid_lease(entry, now)
      if end_us then
        holders[#holders + 1] = {token = token, end_us = end_us, fence = fence, permits = permits}
        used = used + permits
        soonest = math.min(soonest, end_us)
        if fence == 0 then offers = offers + 1 end
      else
        over[#over + 1] = token
        if fence == 0 then lapsed[#lapsed + 1] = token end
      end
    end
  end
  -- After all checks, so that foreign data ends the call before a change.
  lock.holders, lock.over, lock.lapsed = holders, over, lapsed
  lock.used, lock.soonest, lock.offers = used, soonest, offers
  if used == 0 then lock.mode = nil end
end

-- An offer that ends later than one made now is from before the clock was set back.
local function drop_expired(lock, now)
  if not lock.mode then return end
  if lock.soonest <= now or lock.offers > 0 and lock.soonest > now + OFFER_US then read_holders(lock, now) end
end

-- Removes the holders.
local function clear(lock)
  if lock.several then write('UNLINK', lock.several) end
  lock.mode, lock.one, lock.several = nil, nil, nil
end

local function remove_expired(lock)
  local gone = lock.over
  if not gone then return end
  lock.over = nil
  if lock.one and #gone == 0 then return end
  if not lock.mode then clear(lock) elseif #gone > 0 then write('HDEL', lock.several, unpack(gone)) end
  changed(lock)
end

-- Whether `wanted` must wait for the holders.
local function is_barred(lock, wanted)
  if not lock.mode then return false end
  if wanted.mode == 'E' or wanted.mode ~= lock.mode then return true end
  return wanted.mode == 'P' and (wanted.capacity ~= lock.capacity or lock.used + wanted.permits > lock.capacity)
end

-- Used before a holder is added to others: foreign data there ends the call now.
local function is_full(lock)
  if lock.one then redis.call('HLEN', lock.several_key) end
  return lock.used >= HOLDERS_MAX and lock.several and redis.call('HLEN', lock.several) >= HOLDERS_MAX
end

-- `watched`: the end that waiters know of, if it is not `soonest`.
local function put_holder(lock, wanted, token, end_us, fence)
  local watched = lock.watched or lock.mode and lock.soonest or math.huge
  if end_us < watched then lock.sooner = true end
  local entry = struct.pack(ENTRY, end_us, fence, wanted.permits)
  if not lock.mode then
    clear(lock)
    lock.one, lock.soonest = {token, entry}, end_us
  else
    local one = lock.one
    if one then
      lock.one, lock.several, lock.moved = nil, lock.several_key, true
      write('HSET', lock.several, one[1], one[2], token, entry)
    else
      write('HSET', lock.several, token, entry)
    end
    lock.soonest = math.min(lock.soonest, end_us)
  end
  lock.mode, lock.capacity, lock.used = wanted.mode, wanted.capacity, lock.used + wanted.permits
  lock.fence, lock.holders = math.max(lock.fence, fence), nil
  if fence == 0 then lock.offers = lock.offers + 1 end
  keep(lock, end_us + FENCE_RETAIN_MS * 1000)
  changed(lock)
end

local function renew_holder(lock, token, end_us, fence, permits)
  local entry = struct.pack(ENTRY, end_us, fence, permits)
  if lock.one then lock.one[2] = entry else write('HSET', lock.several, token, entry) end
  if lock.used == permits then lock.soonest = end_us end
  keep(lock, end_us + FENCE_RETAIN_MS * 1000)
  changed(lock)
end

local function drop_holder(lock, token, permits, was_offer)
  lock.used, lock.holders = lock.used - permits, nil
  if was_offer then lock.offers = lock.offers - 1 end
  if lock.used == 0 then
    lock.watched = lock.watched or lock.soonest
    clear(lock)
  else
    write('HDEL', lock.several, token)
  end
  changed(lock)
end

-- ---- tokens --------------------------------------------------------------------

-- For each target: name, mode, permits, capacity, and whether it was released.
local function each_target(targets)
  local next_target = string.gmatch(targets, '(!?)([^ ,]+) ?(%a?) ?(%d*) ?(%d*)')
  return function()
    local released, name, mode, permits, capacity = next_target()
    if not name then return nil end
    if mode == '' then return name, 'E', 1, 0, released == '!' end
    return name, mode, tonumber(permits), tonumber(capacity), released == '!'
  end
end

local function target_text(name, mode, permits, capacity, released)
  local text = released and '!' .. name or name
  return mode == 'E' and text or string.format('%s %s %d %d', text, mode, permits, capacity)
end

local function wants_of(targets)
  local wants = {}
  for name, mode, permits, capacity in each_target(targets) do
    wants[#wants + 1] = {name = name, mode = mode, permits = permits, capacity = capacity}
  end
  return wants
end

local function parse_record(text)
  local layout, state = string.byte(text, 1, 2)
  local parked, owner, targets = string.match(text, '^(%S*) (%S*) (.*)$', TOKEN_BYTES + 1)
  if layout ~= LAYOUT or not STATES[state] or not targets then foreign() end
  local since, kept = struct.unpack('<dd', text, 3)
  return {state = STATES[state], since = since, kept = kept, parked = parked, owner = owner, targets = targets}
end

-- Returns the name of a record with one target, EXCLUSIVE; otherwise nil.
local function only_target(text)
  return string.match(text, '^%S* %S* ([^ ,!]+)$', TOKEN_BYTES + 1)
end

-- The record of a token, or nil.
local function read_record(key)
  local text = redis.call('GET', key)
  return text and parse_record(text)
end

-- Whether the record belongs to a waiter; otherwise its token holds or is spent.
local function waits(record)
  return record and record.state ~= 'H' and record.state ~= 'X'
end

local function write_record(key, state, since, kept, words, ...)
  write('SET', key, struct.pack(TOKEN, LAYOUT, string.byte(state), since, kept) .. words, ...)
end

-- A token that was never granted.
local function write_spent(key, now)
  write_record(key, 'X', now, now + TOKEN_RETAIN_MS * 1000, '  ', 'PX', int(TOKEN_RETAIN_MS))
end

-- The token has released everything that it was granted: its record, whose key ends at `kept`, stays without parked
-- calls, but is spent. A key that ends soon enough keeps its end.
local function write_given_back(key, text, kept, now)
  local ends_late, was_parked = kept > now + 2 * TOKEN_RETAIN_MS * 1000, string.byte(text, TOKEN_BYTES + 1) ~= SPACE
  if not ends_late and not was_parked then
    write('SETRANGE', key, '1', 'X')
    return
  end
  local words = string.find(text, ' ', TOKEN_BYTES + 1, true)
  local spent = '\2X' .. string.sub(text, 3, TOKEN_BYTES) .. string.sub(text, words)
  if ends_late then
    write('SET', key, spent, 'PX', int(TOKEN_RETAIN_MS))
  else
    write('SET', key, spent, 'KEEPTTL')
  end
end

-- Returns nil if the record is lost or foreign: a holder is described after the writes, and that must not fail.
local function record_of(base, token)
  local ok, record = pcall(read_record, base .. 'lock:t:' .. token)
  return ok and record or nil
end

local function owner_of(base, token)
  local record = record_of(base, token)
  return record and record.owner or ''
end

-- Returns one of the holders of the lock.
local function any_holder(lock, now)
  if lock.holders then return lock.holders[1] end
  local some = lock.one or redis.call('HRANDFIELD', lock.several, 1, 'WITHVALUES')
  return {token = some[1], end_us = valid_lease(some[2], now) or now}
end

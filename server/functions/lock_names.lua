-- LockService, what is kept. A name's hash alone says who holds it: a lease runs
-- while the token's entry there ends in the future, whatever other keys say. A
-- token's record says what it was given, what it waits for and what it gave back,
-- so that a token is granted at most once while its record is kept.
--
-- Keys, after the base; names, owners and tokens come percent-encoded:
--   lock:n:<name>   hash    f        the last fence given
--                           s        "<mode> <capacity> <used> <soonest>[ <offers>]", only while there are holders:
--                                    mode E, S or P; permits in use; no lease ends before `soonest`;
--                                    how many of the holders are offers, when there are any
--                           <token>  a holder each: "<end> <fence> <permits>" (no token is as short as f, s);
--                                    fence 0: not a holder yet, the name is offered to a waiter until <end>
--   lock:t:<token>  string  "<life> <owner> <target>...", a target "<name> <mode> <permits> <capacity>",
--                           its mode in small letters once released; no target: the tombstone of a
--                           token that was never granted. life: since when it holds, 0 when spent, or
--                           of a waiter (see lock_queue.lua) "<Q, O or A><number>:<server>.<copy>[,...]", a
--                           "<server>.<copy>" for each call that is parked with the token
--   lock:w:<name>   zset    who waits for the name: tokens by number
--   lock:s:<name>   hash    while anyone waits:
--                           @<server>  each server that parks waiters of the name: 1, or 0 when an offer to it
--                                      lapsed and it has not been heard since
--                           c, p       capacity that PERMIT waiters want, and how many they are
--   lock:r          string  the highest fence CheckFence has seen
-- Instants are microseconds, written by %d: Redis' Lua makes a 64-bit integer of
-- them, exact below 2^53 like %.0f and cheaper. Holders whose lease is over stay in
-- the hash until someone is stopped by them: so `used` may be too high, but only
-- while `soonest` is past. docs/locks.md says how large each key is and when it
-- ends.

local TOKEN_RETAIN_MS = 600000
local FENCE_RETAIN_MS = 86400000
local FENCE_AHEAD_US = FENCE_RETAIN_MS * 1000 -- by how much the clock may have stepped back
local OFFER_US = 500000
local HOLDERS_MAX = 4096
local FIELDS_BESIDE_HOLDERS = 2
local MODE = {E = 'EXCLUSIVE', S = 'SHARED', P = 'PERMIT'}

local function foreign()
  fail('FAILED_PRECONDITION', 'the store holds foreign data under this name')
end

local function ms_left(end_us, now)
  return math.floor((end_us - now) / 1000)
end

-- ---- work ----------------------------------------------------------------------

-- What the FCALL has done for others than its callers, in units of about 8 us: what one of its
-- calls has done is missing to the next. Whoever is not served calls again.
local WORK_MAX = 512
local ENTRIES_OF_WORK = 8 -- words of HGETALL, two a holder
local units_done, worked_in = 0, 0

local function worked(units)
  if worked_in ~= fcall then units_done, worked_in = 0, fcall end
  units_done = units_done + units
  return units_done
end

local function is_tired()
  return worked(0) >= WORK_MAX
end

-- ---- names ---------------------------------------------------------------------

local function read_lock(key, token)
  local v = redis.call('HMGET', key, 'f', 's', token)
  local lock = {key = key, fence = tonumber(v[1] or 0) or foreign(), used = 0, offers = 0, entry = v[3]}
  if v[2] then
    local mode, capacity, used, soonest, offers = string.match(v[2], '^([ESP]) (%d+) (%d+) (%d+) ?(%d*)$')
    if not mode then foreign() end
    lock.mode, lock.capacity, lock.used, lock.soonest = mode, tonumber(capacity), tonumber(used), tonumber(soonest)
    lock.offers = tonumber(offers) or 0
  end
  return lock
end

-- end, fence, permits of a holder; nil when there is none or its lease is over.
local function parse_entry(entry, now)
  if not entry then return nil end
  local end_us, fence, permits = string.match(entry, '^(%d+) (%d+) (%d+)$')
  end_us = tonumber(end_us) or foreign()
  if end_us <= now then return nil end
  -- The clock has stepped back: nobody would notice that it is not claimed.
  if fence == '0' and end_us > now + OFFER_US then return nil end
  return end_us, tonumber(fence), tonumber(permits)
end

local function is_offer(entry)
  return string.find(entry, ' 0 ', 1, true) ~= nil
end

-- Reads every holder: the lock is from now on as if those whose lease is over were gone.
-- `settle` makes it so. With `taken`, as if nobody held it, and only its offers were left:
-- each holder is added there, token and entry as they stand, because to read thousands of
-- them takes long; lock_describe does.
local function look(lock, now, taken)
  local all = lock.mode and redis.call('HGETALL', lock.key) or {}
  worked(#all / ENTRIES_OF_WORK)
  local holders, over, lapsed, used, soonest, offers = {}, {}, {}, 0, math.huge, 0
  for i = 1, #all, 2 do
    local token, entry = all[i], all[i + 1]
    if #token > 1 and taken and not is_offer(entry) then
      if not string.find(entry, '^%d+ %d+ %d+$') then foreign() end
      taken[#taken + 1], taken[#taken + 2] = token, entry
      over[#over + 1] = token
    elseif #token > 1 then
      local end_us, fence, permits = parse_entry(entry, now)
      if end_us then
        holders[#holders + 1] = {token = token, end_us = end_us, fence = fence, permits = permits}
        used = used + permits
        soonest = math.min(soonest, end_us)
        if fence == 0 then offers = offers + 1 end
      else
        over[#over + 1] = token
        if is_offer(entry) then lapsed[#lapsed + 1] = token end
      end
    end
  end
  -- Only now: what is foreign is told before anything has changed.
  lock.holders, lock.over, lock.lapsed = holders, over, lapsed
  lock.used, lock.soonest, lock.offers = used, soonest, offers
  if used == 0 then lock.mode = nil end
end

-- An offer that ends later than one made now is of a time before the clock stepped back.
local function look_if_over(lock, now)
  if not lock.mode then return end
  if lock.soonest <= now or lock.offers > 0 and lock.soonest > now + OFFER_US then look(lock, now) end
end

local function summary(lock)
  local text = string.format('%s %d %d %d', lock.mode, lock.capacity, lock.used, lock.soonest)
  return lock.offers > 0 and text .. ' ' .. int(lock.offers) or text
end

local function settle(lock)
  local gone = lock.over
  if not gone then return end
  lock.over = nil
  if not lock.mode then gone[#gone + 1] = 's' end
  if #gone > 0 then write('HDEL', lock.key, unpack(gone)) end
  if lock.mode then write('HSET', lock.key, 's', summary(lock)) end
end

-- Whether `wanted` has to wait for the holders.
local function is_barred(lock, wanted)
  if not lock.mode then return false end
  if wanted.mode == 'E' or wanted.mode ~= lock.mode then return true end
  return wanted.mode == 'P' and (wanted.capacity ~= lock.capacity or lock.used + wanted.permits > lock.capacity)
end

local function is_full(lock)
  return lock.used >= HOLDERS_MAX and redis.call('HLEN', lock.key) >= HOLDERS_MAX + FIELDS_BESIDE_HOLDERS
end

-- `watched`: the end that those who wait know of, when not `soonest`.
local function put_holder(lock, wanted, token, end_us, fence)
  local watched = lock.watched or lock.mode and lock.soonest or math.huge
  if end_us < watched then lock.sooner = true end
  lock.soonest = lock.mode and math.min(lock.soonest, end_us) or end_us
  lock.mode, lock.capacity, lock.used = wanted.mode, wanted.capacity, lock.used + wanted.permits
  lock.fence, lock.holders = math.max(lock.fence, fence), nil
  if fence == 0 then lock.offers = lock.offers + 1 end
  local entry = string.format('%d %d %d', end_us, fence, wanted.permits)
  write('HSET', lock.key, 'f', int(lock.fence), 's', summary(lock), token, entry)
  return entry
end

local function drop_holder(lock, token, permits, was_offer)
  lock.used, lock.holders = lock.used - permits, nil
  if was_offer then lock.offers = lock.offers - 1 end
  if lock.used == 0 then
    lock.mode = nil
    write('HDEL', lock.key, token, 's')
  else
    write('HDEL', lock.key, token)
    write('HSET', lock.key, 's', summary(lock))
  end
end

-- ---- tokens --------------------------------------------------------------------

local function each_target(targets)
  return string.gmatch(targets, '(%S+) (%a) (%d+ %d+)')
end

local function wants_of(targets)
  local wants = {}
  for name, mode, permits, capacity in string.gmatch(targets, '(%S+) (%a) (%d+) (%d+)') do
    wants[#wants + 1] = {name = name, mode = mode, permits = tonumber(permits), capacity = tonumber(capacity)}
  end
  return wants
end

-- The record of a token, or nil. `state` is '' when it holds or is spent.
local function read_record(key)
  local text = redis.call('GET', key)
  if not text then return nil end
  local state, since, parked, owner, targets = string.match(text, '^([QOA]?)(%d+):?(%S*) (%S*) (.*)$')
  if not since then foreign() end
  return {state = state, since = since, parked = parked, owner = owner, targets = targets}
end

-- owner, fence, ms left, ms held, permits
local function describe(base, holder, now)
  local record = read_record(base .. 'lock:t:' .. holder.token)
  return {record and record.owner or '', holder.fence, ms_left(holder.end_us, now),
    record and math.floor((now - tonumber(record.since)) / 1000) or 0, holder.permits}
end

-- One of those who hold the lock.
local function any_holder(lock, now)
  if lock.holders then return lock.holders[1] end
  local some = redis.call('HRANDFIELD', lock.key, FIELDS_BESIDE_HOLDERS + 1, 'WITHVALUES')
  for i = 1, #some, 2 do
    if #some[i] > 1 then return {token = some[i], end_us = parse_entry(some[i + 1], now) or now} end
  end
end

-- LockService. A name's hash alone says who holds it: a lease runs while the
-- token's entry there ends in the future, whatever other keys say. A token's
-- record says what it was given and what it gave back, so that a token is
-- granted at most once while its record is kept.
--
-- Keys, after the base; names, owners and tokens come percent-encoded:
--   lock:n:<name>   hash    f        the last fence given
--                           s        "<mode> <capacity> <used> <soonest>", only while there are holders:
--                                    mode E, S or P; permits in use; no lease ends before `soonest`
--                           <token>  a holder each: "<end> <fence> <permits>" (no token is as short as f, s)
--   lock:t:<token>  string  "<since> <owner> <target>...", a target "<name> <mode> <permits> <capacity>",
--                           its mode in small letters once released; no target: the tombstone of an
--                           unseen token
--   lock:r          string  the highest fence CheckFence has seen
-- Instants are microseconds, written by %d: Redis' Lua makes a 64-bit integer of
-- them, exact below 2^53 like %.0f and cheaper. Holders whose lease is over stay in
-- the hash until someone is stopped by them: so `used` may be too high, but only
-- while `soonest` is past. docs/locks.md says how large each key is and when it
-- ends.

local TOKEN_RETAIN_MS = 600000
local FENCE_RETAIN_MS = 86400000
local HOLDERS_MAX = 4096
local FIELDS_BESIDE_HOLDERS = 2
local MODE = {E = 'EXCLUSIVE', S = 'SHARED', P = 'PERMIT'}

-- How much one List looks at before its page ends: keys, holders.
local LIST_STEP = 10
local LIST_WORK = 2000

local function foreign()
  fail('FAILED_PRECONDITION', 'the store holds foreign data under this name')
end

local function ms_left(end_us, now)
  return math.floor((end_us - now) / 1000)
end

local function read_lock(key, token)
  local v = redis.call('HMGET', key, 'f', 's', token)
  local lock = {key = key, fence = tonumber(v[1] or 0) or foreign(), used = 0, entry = v[3]}
  if v[2] then
    local mode, capacity, used, soonest = string.match(v[2], '^([ESP]) (%d+) (%d+) (%d+)$')
    if not mode then foreign() end
    lock.mode, lock.capacity, lock.used, lock.soonest = mode, tonumber(capacity), tonumber(used), tonumber(soonest)
  end
  return lock
end

-- end, fence, permits of a holder; nil when there is none or its lease is over.
local function parse_entry(entry, now)
  if not entry then return nil end
  local end_us, fence, permits = string.match(entry, '^(%d+) (%d+) (%d+)$')
  end_us = tonumber(end_us) or foreign()
  if end_us <= now then return nil end
  return end_us, tonumber(fence), tonumber(permits)
end

-- Reads every holder: the lock is from now on as if those whose lease is over
-- were gone. `settle` makes it so.
local function look(lock, now)
  local all = lock.mode and redis.call('HGETALL', lock.key) or {}
  lock.holders, lock.over = {}, {}
  lock.used, lock.soonest = 0, math.huge
  for i = 1, #all, 2 do
    if #all[i] > 1 then
      local end_us, fence, permits = parse_entry(all[i + 1], now)
      if end_us then
        lock.holders[#lock.holders + 1] = {token = all[i], end_us = end_us, fence = fence, permits = permits}
        lock.used = lock.used + permits
        lock.soonest = math.min(lock.soonest, end_us)
      else
        lock.over[#lock.over + 1] = all[i]
      end
    end
  end
  if lock.used == 0 then lock.mode = nil end
end

local function summary(lock)
  return string.format('%s %d %d %d', lock.mode, lock.capacity, lock.used, lock.soonest)
end

local function settle(lock)
  local gone = lock.over
  if not gone then return end
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

local function grant(lock, wanted, token, end_us, now)
  local fence = math.max(lock.fence + 1, now)
  lock.soonest = lock.mode and math.min(lock.soonest, end_us) or end_us
  lock.mode, lock.capacity, lock.used = wanted.mode, wanted.capacity, lock.used + wanted.permits
  write('HSET', lock.key, 'f', int(fence), 's', summary(lock),
    token, string.format('%d %d %d', end_us, fence, wanted.permits))
  return fence
end

-- The record of a token, or nil.
local function read_record(key)
  local text = redis.call('GET', key)
  if not text then return nil end
  local since, owner, targets = string.match(text, '^(%d+) (%S*) (.*)$')
  if not since then foreign() end
  return {since = since, owner = owner, targets = targets}
end

local function each_target(targets)
  return string.gmatch(targets, '(%S+) (%a) (%d+ %d+)')
end

-- owner, fence, ms left, ms held, permits
local function describe(base, holder, now)
  local record = read_record(base .. 'lock:t:' .. holder.token)
  return {record and record.owner or '', holder.fence, ms_left(holder.end_us, now),
    record and math.floor((now - tonumber(record.since)) / 1000) or 0, holder.permits}
end

local function describe_all(base, lock, now, reply)
  table.sort(lock.holders, function(a, b) return a.fence < b.fence end)
  for _, holder in ipairs(lock.holders) do reply[#reply + 1] = describe(base, holder, now) end
  return reply
end

-- One of those who hold the lock.
local function any_holder(lock, now)
  if lock.holders then return lock.holders[1] end
  local some = redis.call('HRANDFIELD', lock.key, FIELDS_BESIDE_HOLDERS + 1, 'WITHVALUES')
  for i = 1, #some, 2 do
    if #some[i] > 1 then return {token = some[i], end_us = parse_entry(some[i + 1], now)} end
  end
end

-- What the token was given, if it still holds all of it.
local function acquired_again(base, token, record, targets, now)
  local reply, soonest = {'ACQUIRED', 1, 0}, math.huge
  for name in each_target(record.targets) do
    local end_us, fence = parse_entry(read_lock(base .. 'lock:n:' .. name, token).entry, now)
    if not end_us then return {'TOKEN_SPENT'} end
    reply[#reply + 1] = fence
    soonest = math.min(soonest, end_us)
  end
  if #reply == 3 then return {'TOKEN_SPENT'} end
  if record.targets ~= targets then fail('ALREADY_EXISTS', 'token: used for other targets') end
  reply[3] = ms_left(soonest, now)
  return reply
end

-- args: token, owner, lease_ms, then for each target: name, mode, permits, capacity
-- -> {'ACQUIRED', 1 when again, lease_ms, fence...}
--    {'BUSY', the target's place from 0, its holder's owner, ms left}
--    {'TOKEN_SPENT'}
define('lock_acquire', {}, function(base, args, now)
  local token, lease_ms = args[1], tonumber(args[3])
  local targets = table.concat(args, ' ', 4)
  local token_key = base .. 'lock:t:' .. token
  local record = read_record(token_key)
  if record then return acquired_again(base, token, record, targets, now) end

  local locks, wanted, barred = {}, {}, nil
  for i = 4, #args, 4 do
    local lock = read_lock(base .. 'lock:n:' .. args[i], token)
    local want = {mode = args[i + 1], permits = tonumber(args[i + 2]), capacity = tonumber(args[i + 3])}
    local place = #locks
    -- With its record lost, a token that holds is still not granted a second time.
    if parse_entry(lock.entry, now) then return {'TOKEN_SPENT'} end
    if is_barred(lock, want) and lock.soonest <= now then look(lock, now) end
    if is_barred(lock, want) then
      if lock.mode == 'P' and want.mode == 'P' and lock.capacity ~= want.capacity then
        fail('FAILED_PRECONDITION', string.format('targets[%d].capacity: another one is in use', place))
      end
      barred = barred or place + 1
    elseif lock.used >= HOLDERS_MAX and redis.call('HLEN', lock.key) >= HOLDERS_MAX + FIELDS_BESIDE_HOLDERS then
      look(lock, now)
      if #lock.holders >= HOLDERS_MAX then
        fail('RESOURCE_EXHAUSTED', string.format('targets[%d]: has %d holders', place, HOLDERS_MAX))
      end
    end
    locks[place + 1], wanted[place + 1] = lock, want
  end

  local theirs = barred and describe(base, any_holder(locks[barred], now), now)
  for _, lock in ipairs(locks) do settle(lock) end
  if barred then return {'BUSY', barred - 1, theirs[1], theirs[3]} end
  local reply, end_us = {'ACQUIRED', 0, lease_ms}, now + lease_ms * 1000
  for i, lock in ipairs(locks) do
    reply[#reply + 1] = grant(lock, wanted[i], token, end_us, now)
    write('PEXPIRE', lock.key, int(lease_ms + FENCE_RETAIN_MS))
  end
  write('SET', token_key, int(now) .. ' ' .. args[2] .. ' ' .. targets, 'PX', int(lease_ms + TOKEN_RETAIN_MS))
  return reply
end)

-- args: token, lease_ms, names (none = all that the token holds)
-- -> {'RENEWED', lease_ms} {'LOST', 0}
define('lock_renew', {'allow-oom'}, function(base, args, now)
  local token, lease_ms = args[1], tonumber(args[2])
  local token_key = base .. 'lock:t:' .. token
  local record = read_record(token_key)
  local names, locks, soonest = {unpack(args, 3)}, {}, math.huge
  if record and #names == 0 then
    for name, mode in each_target(record.targets) do
      if MODE[mode] then names[#names + 1] = name end
    end
  end
  for i, name in ipairs(names) do
    local lock = read_lock(base .. 'lock:n:' .. name, token)
    lock.end_us, lock.my_fence, lock.permits = parse_entry(lock.entry, now)
    if not lock.end_us then return {'LOST', 0} end
    locks[i] = lock
  end
  if not record or #locks == 0 then return {'LOST', 0} end

  for _, lock in ipairs(locks) do
    local end_us = math.max(lock.end_us, now + lease_ms * 1000)
    if lock.used == lock.permits then lock.soonest = end_us end
    write('HSET', lock.key, 's', summary(lock),
      token, string.format('%d %d %d', end_us, lock.my_fence, lock.permits))
    write('PEXPIRE', lock.key, int(lease_ms + FENCE_RETAIN_MS))
    soonest = math.min(soonest, end_us)
  end
  write('PEXPIRE', token_key, int(lease_ms + TOKEN_RETAIN_MS), 'GT')
  return {'RENEWED', ms_left(soonest, now)}
end)

-- args: token, names (none = all)
-- -> {'RELEASED' or 'NOT_HELD', 1 when again, then where they differ: name, outcome...}
define('lock_release', {'allow-oom'}, function(base, args, now)
  local token = args[1]
  local token_key = base .. 'lock:t:' .. token
  local record = read_record(token_key)
  local names, outcomes = {unpack(args, 2)}, {}
  local all, given_back, left = #names == 0, {}, false
  local targets = {}
  for name, mode, rest in each_target(record and record.targets or '') do
    local asked = all
    if all then
      names[#names + 1] = name
    else
      for _, one in ipairs(names) do asked = asked or one == name end
    end
    if asked and MODE[mode] then
      local lock = read_lock(base .. 'lock:n:' .. name, token)
      local _, _, permits = parse_entry(lock.entry, now)
      if permits then
        lock.permits = permits
        given_back[#given_back + 1] = lock
        mode = string.lower(mode)
      end
    end
    if MODE[mode] then left = true elseif asked then outcomes[name] = 'RELEASED' end
    targets[#targets + 1] = name .. ' ' .. mode .. ' ' .. rest
  end

  for _, lock in ipairs(given_back) do
    lock.used = lock.used - lock.permits
    if lock.used == 0 then
      write('HDEL', lock.key, token, 's')
    else
      write('HDEL', lock.key, token)
      write('HSET', lock.key, 's', summary(lock))
    end
  end
  if not record then
    write('SET', token_key, '0  ', 'PX', TOKEN_RETAIN_MS)
  elseif #given_back > 0 then
    local text = table.concat(targets, ' ')
    if left then
      write('SET', token_key, record.since .. ' ' .. record.owner .. ' ' .. text, 'KEEPTTL')
    else
      write('SET', token_key, '0  ' .. text, 'PX', TOKEN_RETAIN_MS)
    end
  end

  local n, reply = 0, {'RELEASED', 0}
  for _, name in ipairs(names) do
    local outcome = outcomes[name] or 'NOT_HELD'
    if outcome == 'RELEASED' then n = n + 1 end
    reply[#reply + 1] = name
    reply[#reply + 1] = outcome
  end
  if n < #names or n == 0 then reply[1] = 'NOT_HELD' end
  if n > 0 and #given_back == 0 then reply[2] = 1 end
  if n == #names or n == 0 then return {reply[1], reply[2]} end
  return reply
end)

-- args: name
-- -> {'OK', mode or '', capacity, last fence, waiters, {owner, fence, ms left, ms held, permits}...}
define('lock_inspect', {'no-writes'}, function(base, args, now)
  local lock = read_lock(base .. 'lock:n:' .. args[1], '')
  look(lock, now)
  return describe_all(base, lock, now,
    {'OK', MODE[lock.mode] or '', lock.mode and lock.capacity or 0, lock.fence, 0})
end)

-- args: name -> {'OK', {owner, fence, ms left, ms held, permits} of each removed...}
define('lock_force_release', {'allow-oom'}, function(base, args, now)
  local lock = read_lock(base .. 'lock:n:' .. args[1], '')
  look(lock, now)
  local reply = describe_all(base, lock, now, {'OK'})
  for _, holder in ipairs(lock.holders) do lock.over[#lock.over + 1] = holder.token end
  if #lock.over > 0 then write('HDEL', lock.key, 's', unpack(lock.over)) end
  return reply
end)

-- group, name, mode, holders, longest ms left; nil when nobody holds it.
local function list_item(key, now)
  local lock = read_lock(key, '')
  look(lock, now)
  if not lock.mode then return nil, #lock.over end
  local longest = 0
  for _, holder in ipairs(lock.holders) do longest = math.max(longest, holder.end_us) end
  local group, name = string.match(key, '^ls:{[^/]*/([^}]*)}:lock:n:(.*)$')
  return {group, name, MODE[lock.mode], #lock.holders, ms_left(longest, now)}, #lock.holders + #lock.over
end

-- SCAN by small steps. A step that does not fit the page begins the next one; one
-- that alone is larger than a page is given in parts, and the cursor then carries
-- the digests of what was given: "<SCAN's cursor>.<digest>...".
-- args: prefix, page size, cursor -> {'OK', next cursor or '', item...}
define('lock_list', {'no-writes'}, function(base, args, now)
  local pattern = string.match(base, '^ls:{[^/]*/') .. '*}:lock:n:' .. args[1] .. '*'
  local size = tonumber(args[2])
  local cursor, given = string.match(args[3], '^(%d+)(.*)$')
  local reply, work = {'OK', ''}, 0
  repeat
    local step, items, digests = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', LIST_STEP, 'TYPE', 'hash'), {}, {}
    for _, key in ipairs(step[2]) do
      local digest = '.' .. string.sub(redis.sha1hex(key), 1, 12)
      if not string.find(given, digest, 1, true) then
        local item, looked_at = list_item(key, now)
        items[#items + 1], digests[#digests + 1] = item, item and digest
        work = work + looked_at
      end
    end
    local room = size - (#reply - 2)
    if #items > room then
      if room == size then
        for i = 1, size do reply[#reply + 1] = items[i] end
        given = given .. table.concat(digests, '', 1, size)
      end
      reply[2] = cursor .. given
      return reply
    end
    for _, item in ipairs(items) do reply[#reply + 1] = item end
    cursor, given = step[1], ''
    work = work + LIST_STEP
  until cursor == '0' or #reply - 2 == size or work >= LIST_WORK
  if cursor ~= '0' then reply[2] = cursor end
  return reply
end)

-- args: fence -> {'OK' or 'STALE', the highest seen}
define('lock_check_fence', {}, function(base, args)
  local fence, key = tonumber(args[1]), base .. 'lock:r'
  local high = tonumber(redis.call('GET', key) or 0) or foreign()
  if fence < high then return {'STALE', high} end
  if fence > high then write('SET', key, int(fence)) end
  return {'OK', fence}
end)

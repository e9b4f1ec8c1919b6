-- LockService: each function reads what it needs, checks all of it, writes, and offers freed locks to waiters. Keys:
-- lock_names.lua; waiting: lock_queue.lua; Inspect, List, ForceRelease: lock_views.lua.

-- Returns the first answer again, if the token still holds everything that it was granted.
local function acquired_again(base, token, record, targets, now)
  local reply, soonest = {'ACQUIRED', 0}, math.huge
  for name in each_target(record.targets) do
    local end_us, fence = lease_of(read_lock(base, name), token, now)
    if not end_us then return {'TOKEN_SPENT'} end
    reply[#reply + 1] = fence
    soonest = math.min(soonest, end_us)
  end
  if #reply == 2 then return {'TOKEN_SPENT'} end
  if record.targets ~= targets then fail('ALREADY_EXISTS', 'token: used for other targets', 'id_reused') end
  if record.parked ~= '' then -- from now on a caller knows of the grant
    write_record(base .. 'lock:t:' .. token, 'H', record.since, record.kept, ' ' .. record.owner .. ' ' .. targets, 'KEEPTTL')
  end
  reply[2] = ms_left(soonest, now)
  return reply
end

local function me_of(base, token, owner, lease_ms, wait_ms, copy, targets)
  return {token = token, key = base .. 'lock:t:' .. token, owner = owner, lease_ms = tonumber(lease_ms),
    wait_ms = tonumber(wait_ms), copy = copy, others = '', targets = targets, wants = wants_of(targets)}
end

-- Grants everything that `me` wants; the lease begins now.
local function grant(q, me)
  local reply, end_us = {}, q.now + me.lease_ms * 1000
  for _, want in ipairs(me.wants) do
    local line = open(q, want.name)
    if end_us < (line.lock.watched or line.lock.soonest or math.huge) then next_of(q, line) end
  end
  for _, want in ipairs(me.wants) do
    local lock = open(q, want.name).lock
    local fence = math.max(lock.fence + 1, q.now)
    remove_expired(lock)
    put_holder(lock, want, me.token, end_us, fence)
    reply[#reply + 1] = fence
  end
  write_record(me.key, 'H', q.now, end_us + TOKEN_RETAIN_MS * 1000, ' ' .. me.owner .. ' ' .. me.targets,
    'PX', int(me.lease_ms + TOKEN_RETAIN_MS))
  if me.others ~= '' then wake(q, {token = me.token, parked = me.others}) end
  write_and_notify(q)
  return reply
end

-- Takes the names that were offered to the token; nil if the offer has ended.
local function claim(q, me)
  for _, want in ipairs(me.wants) do
    local _, fence = lease_of(open(q, want.name).lock, me.token, q.now)
    if fence ~= 0 then return nil end
  end
  for _, want in ipairs(me.wants) do
    local lock = open(q, want.name).lock
    lock.watched, lock.used, lock.offers = lock.soonest, lock.used - want.permits, lock.offers - 1
    if lock.used == 0 then lock.mode = nil end
  end
  return grant(q, me)
end

-- Ends offers whose servers are gone, because no server can claim them. This reads all holders, so it runs only if they
-- are few.
local function void_offers(q, line)
  local lock = line.lock
  if lock.offers == 0 or lock.used > LOOK_MAX then return end
  read_holders(lock, q.now)
  local holders = lock.holders
  lock.holders = {}
  for _, holder in ipairs(holders) do
    local w = holder.fence == 0 and read_record(q.base .. 'lock:t:' .. holder.token)
    local heard = not w or w.state ~= 'O'
    for _, server in ipairs(w and servers_of(w) or {}) do heard = heard or is_subscribed(q, server) end
    if heard then
      lock.holders[#lock.holders + 1] = holder
    else
      lock.over[#lock.over + 1], lock.lapsed[#lock.lapsed + 1] = holder.token, holder.token
      lock.used, lock.offers = lock.used - holder.permits, lock.offers - 1
    end
  end
  if lock.used == 0 then lock.mode = nil end
end

-- Fails, but first removes expired leases, so that the next refused call need not read them again. That is not an
-- effect of the call.
local function refuse(q, code, message)
  for _, line in ipairs(q.lines) do line.due = line.lock.over ~= nil end
  promote(q)
  write_and_notify(q)
  dirty = false
  fail(code, message)
end

-- Returns a refusal for every reason other than waiting. Reads all data of the names before anything is written.
local function refusal(q, me)
  for i, want in ipairs(me.wants) do
    local line = open(q, want.name)
    local lock = line.lock
    local _, fence = lease_of(lock, me.token, q.now)
    -- If its record is lost, a token that holds is still not granted a second time.
    if fence and fence > 0 then return {'TOKEN_SPENT'} end
    drop_expired_if_affordable(q, lock)
    if is_barred(lock, want) then void_offers(q, line) end
    local anyone = next_of(q, line)
    local in_use = lock.mode == 'P' and lock.capacity
    if want.mode == 'P' and anyone and not in_use then
      local waiting = redis.call('HMGET', line.servers, 'c', 'p')
      in_use = tonumber(waiting[2] or 0) > 0 and tonumber(waiting[1])
    end
    if want.mode == 'P' and in_use and in_use ~= want.capacity then
      refuse(q, 'FAILED_PRECONDITION', string.format('targets[%d].capacity: another one is in use', i - 1))
    end
    -- If no lease has expired, all of them hold it.
    if not is_barred(lock, want) and is_full(lock) and not (lock.holders and #lock.holders < HOLDERS_MAX) then
      refuse(q, 'RESOURCE_EXHAUSTED', string.format('targets[%d]: has %d holders', i - 1, HOLDERS_MAX))
    end
  end
end

-- If only the queue prevents the grant: a waiter's turn may have come unnoticed, or its server may be gone.
local function promote_others(q, me)
  local any = false
  for _, want in ipairs(me.wants) do
    local line = open(q, want.name)
    if next_of(q, line) and not is_barred(line.lock, want) and not drop_dead(q, line) then line.due, any = true, true end
  end
  if any then promote(q) end
end

local function queued(q, me)
  local reply = {'QUEUED'}
  for i, want in ipairs(me.wants) do reply[i + 1] = watch_ms(q, open(q, want.name)) end
  return reply
end

-- Offers the names first, which may grant them to this waiter.
local function take_turn(q, me)
  for _, want in ipairs(me.wants) do due(q, want.name) end
  promote(q)
  return q.gone[me.token] and claim(q, me)
end

-- For a call that already waits: it gets its place (again), and perhaps its turn.
local function wait_again(q, me)
  enqueue(q, me, me.wait_ms + me.lease_ms + TOKEN_RETAIN_MS)
  local taken = take_turn(q, me)
  if taken then return taken end
  write_and_notify(q)
  return queued(q, me)
end

local function try_again(q, me)
  local taken = take_turn(q, me)
  if taken then return taken end
  local reply = {'BUSY', in_the_way(q, me.wants, 1)}
  write_and_notify(q)
  return reply
end

-- The last such answer of this FCALL, and its holder: nothing changes it in the same FCALL.
local busy_in, busy_key, busy_holder, busy_reply

-- The answer of a try for one name that another token holds, EXCLUSIVE; nil: another case, or the token is known.
local function busy_with(base, now, token, key, held)
  local layout, kind, _, _, _, end_us, fence = struct.unpack(HELD, held)
  if layout ~= LAYOUT or kind ~= EXCLUSIVE or fence == 0 or end_us <= now then return nil end
  local holder = string.sub(held, HELD_BYTES + 1)
  if holder == token or redis.call('GET', base .. 'lock:t:' .. token) then return nil end
  busy_in, busy_key, busy_holder = fcall, key, holder
  busy_reply = {'BUSY', 0, owner_of(base, holder), ms_left(end_us, now)}
  return busy_reply
end

-- Whether that is also the answer of this try.
local function is_busy_again(base, token, key)
  return busy_key == key and busy_in == fcall and busy_holder ~= token and not redis.call('GET', base .. 'lock:t:' .. token)
end

-- For a name without holder and waiters: the next fence, and the end of the key. Otherwise nil, and the key's value.
local function read_free(key, now)
  local text = redis.call('GET', key)
  if not text then return now, 0 end
  local layout, kind, has_queue, last, kept = struct.unpack(NAME, text)
  if layout ~= LAYOUT or kind ~= FREE or has_queue ~= 0 then return nil, text end
  return math.max(last + 1, now), kept
end

local function write_first(key, fence, kept, kind, end_us, permits, capacity, token, now)
  local least = end_us + FENCE_RETAIN_MS * 1000
  if kept < least then
    kept = least + FENCE_SLACK_MS * 1000
    redis.call('SET', key, struct.pack(HELD, LAYOUT, kind, 0, fence, kept, end_us, fence, permits, capacity) .. token,
      'PX', int(math.ceil((kept - now) / 1000)))
  else
    redis.call('SET', key, struct.pack(HELD, LAYOUT, kind, 0, fence, kept, end_us, fence, permits, capacity) .. token,
      'KEEPTTL')
  end
end

-- Returns false if the token was known. Otherwise it holds from now on.
local function write_new(base, now, token, owner, lease_ms, targets)
  local retain_ms = lease_ms + TOKEN_RETAIN_MS
  local before = redis.call('SET', base .. 'lock:t:' .. token,
    struct.pack(TOKEN, LAYOUT, HOLDS, now, now + retain_ms * 1000) .. ' ' .. owner .. ' ' .. targets,
    'NX', 'GET', 'PX', ms_text(retain_ms))
  dirty = dirty or not before
  return not before
end

-- The usual way into a queue, in six commands: an unknown token, and one name, EXCLUSIVE, that another token holds,
-- EXCLUSIVE, and for which others already wait. nil: another case, nothing was written.
local function join(base, now, token, owner, lease_ms, wait_ms, copy, name, held)
  local layout, kind, has_queue, _, kept, end_us, fence = struct.unpack(HELD, held)
  if layout ~= LAYOUT or kind ~= EXCLUSIVE or has_queue ~= 1 or fence == 0 or end_us <= now then return nil end
  local token_key = base .. 'lock:t:' .. token
  if kept < now + QUEUE_RETAIN_MS * 1000 or string.sub(held, HELD_BYTES + 1) == token or redis.call('GET', token_key) then
    return nil
  end
  local queue = base .. 'lock:w:' .. name
  local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
  if not last then return nil end
  local number, retain_ms = math.max(now, last + 1), wait_ms + lease_ms + TOKEN_RETAIN_MS
  local servers = base .. 'lock:s:' .. name
  if write('HSET', servers, '@' .. server_of(copy), '1') == 1 then write('PEXPIRE', servers, int((kept - now) / 1000)) end
  write('ZADD', queue, int(number), token)
  write_record(token_key, 'Q', number, now + retain_ms * 1000, copy .. ' ' .. owner .. ' ' .. name, 'PX', int(retain_ms))
  return {'QUEUED', math.ceil((end_us - now) / 1000)}
end

-- The usual Acquire, in three commands: one name, EXCLUSIVE, without holder and waiters, and an unknown token. nil:
-- another case, nothing was written.
local function take(base, now, token, owner, lease_ms, wait_ms, copy, name)
  local key = base .. 'lock:n:' .. name
  if wait_ms == '0' and is_busy_again(base, token, key) then return busy_reply end
  local fence, kept = read_free(key, now)
  if not fence then
    if #kept <= HELD_BYTES then return nil end
    if wait_ms == '0' then return busy_with(base, now, token, key, kept) end
    return join(base, now, token, owner, lease_ms, wait_ms, copy, name, kept)
  end
  lease_ms = lease_ms + 0
  if not write_new(base, now, token, owner, lease_ms, name) then return nil end
  write_first(key, fence, kept, EXCLUSIVE, now + lease_ms * 1000, 1, 0, token, now)
  return fence
end

-- The same for several names, or other modes.
local function take_all(base, now, token, owner, lease_ms, targets)
  local free, reply = {}, {}
  for name, mode, permits, capacity in each_target(targets) do
    local key = base .. 'lock:n:' .. name
    local fence, kept = read_free(key, now)
    if not fence then return nil end
    free[#free + 1] = {key, fence, kept, ONE_OF[mode], permits, capacity}
    reply[#free] = fence
  end
  lease_ms = lease_ms + 0
  if not write_new(base, now, token, owner, lease_ms, targets) then return nil end
  for _, one in ipairs(free) do
    write_first(one[1], one[2], one[3], one[4], now + lease_ms * 1000, one[5], one[6], token, now)
  end
  return reply
end

local function acquire(base, now, token, owner, lease_ms, wait_ms, copy, targets)
  local me = me_of(base, token, owner, lease_ms, wait_ms, copy, targets)
  local record = read_record(me.key)
  if record and not waits(record) then return acquired_again(base, me.token, record, me.targets, now) end
  if record and record.targets ~= me.targets then fail('ALREADY_EXISTS', 'token: used for other targets', 'id_reused') end
  local q = new_queue(base, now, me.token)
  if record then
    me.number, me.kept, me.others = record.since, record.kept, without_copy(record.parked, me.copy)
  end
  local claimed = record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local refused = refusal(q, me)
  if refused then return refused end
  if me.wait_ms > 0 then me.parked = with_copy(q, record and record.parked or '', me.copy) end
  if record and me.wait_ms > 0 then return wait_again(q, me) end
  if record and record.state == 'Q' then
    if redis.call('ZSCORE', open(q, me.wants[1].name).queue, me.token) then return try_again(q, me) end
    leave(q, me) -- its queue was removed as a whole: it may still be in the queues of its other names
  end

  promote_others(q, me)
  local barred = barred_at(q, me.wants, math.huge)
  if not barred then return grant(q, me) end
  local reply
  if me.wait_ms > 0 then
    enqueue(q, me, me.wait_ms + me.lease_ms + TOKEN_RETAIN_MS)
    reply = queued(q, me)
  else
    reply = {'BUSY', in_the_way(q, me.wants, barred)}
  end
  write_and_notify(q)
  return reply
end

-- In all of these copy is "<server>.<copy>.<lease_ms>" of a parked call.

-- -> {fence of each target}
--    {'ACQUIRED', ms left, fence...}: a repeat
--    {'QUEUED', for each target the ms until lock_promote is due (-1: never)}
--    {'BUSY', the place from 0 of a target that is held, its holder's owner, ms left}
--    {'TOKEN_SPENT'}
local function acquire_first(base, now, token, owner, lease_ms, wait_ms, copy, ...)
  local targets, taken = (...)
  if select('#', ...) == 1 and not string.find(targets, ' ', 1, true) then
    taken = take(base, now, token, owner, lease_ms, wait_ms, copy, targets)
  else
    targets = table.concat({...}, ',')
    taken = take_all(base, now, token, owner, lease_ms, targets)
  end
  return taken or acquire(base, now, token, owner, lease_ms, wait_ms, copy, targets)
end

define('lock_acquire', {}, acquire_first)

-- For a parked call that was woken: the same answers.
define('lock_claim', {'allow-oom'}, function(base, now, token, owner, lease_ms, wait_ms, copy, ...)
  return acquire(base, now, token, owner, lease_ms, wait_ms, copy, table.concat({...}, ','))
end)

-- Removes `w` from its queues and offers. Returns whether it had all its names. Call write_record and conclude after
-- it.
local function step_out(q, w)
  local fences, whole = {}, true
  for i, want in ipairs(w.wants) do
    local _, fence = lease_of(due_and_read(q, want.name).lock, w.token, q.now)
    fences[i], whole = fence, whole and fence
  end
  if w.state == 'Q' then leave(q, w) end
  for i, want in ipairs(w.wants) do
    local is_offer = fences[i] == 0
    if is_offer or fences[i] and w.state == 'H' then
      drop_holder(open(q, want.name).lock, w.token, want.permits, is_offer)
    end
  end
  return whole
end

-- Ends the waiting of a token: it will not be granted.
local function spend(q, w)
  step_out(q, w)
  write_spent(q.base .. 'lock:t:' .. w.token, q.now)
end

-- The wait is over; may_claim: it takes the names that were offered to it. -> as lock_acquire, with {'TIMED_OUT', ...}
-- in place of {'BUSY', ...}
local function end_wait(may_claim, base, now, token, owner, lease_ms, wait_ms, copy, ...)
  local me = me_of(base, token, owner, lease_ms, wait_ms, copy, table.concat({...}, ','))
  local record = read_record(me.key)
  if record and not waits(record) then return acquired_again(base, me.token, record, me.targets, now) end
  local q = new_queue(base, now, me.token)
  if record then me.others = without_copy(record.parked, me.copy) end
  local claimed = may_claim and record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local barred = 1
  for i = #me.wants, 1, -1 do
    local lock = open(q, me.wants[i].name).lock
    drop_expired(lock, now)
    if is_barred(lock, me.wants[i]) then barred = i end
  end
  local reply = {'TIMED_OUT', in_the_way(q, me.wants, barred)}
  if record then me.state, me.number = record.state, record.since end
  spend(q, me)
  -- Other copies of the call end too.
  wake(q, {token = me.token, parked = me.others})
  conclude(q)
  return reply
end

define('lock_withdraw', {'allow-oom'}, function(base, now, token, owner, lease_ms, wait_ms, copy, ...)
  return end_wait(true, base, now, token, owner, lease_ms, wait_ms, copy, ...)
end)

-- Revokes a grant to that copy whose caller was not told: the token keeps its number.
local function take_back(base, now, token, w, copy)
  local told, number = string.match(w.parked, '^(.*):(%d+)$')
  if told ~= copy then return {'OK', -1} end
  local q = new_queue(base, now, token)
  w.token, w.number, w.wants, w.parked = token, tonumber(number), wants_of(w.targets), ''
  if step_out(q, w) then
    write_life(q, w, 'A', TOKEN_RETAIN_MS)
  else
    write_spent(base .. 'lock:t:' .. token, now) -- a part of it has ended, or was taken away
  end
  conclude(q)
  return {'OK', -1}
end

-- A parked call has ended without an answer, because its caller's connection or the store was lost. The token is not
-- spent: a repeat finds its number. parked: "<token> <server>.<copy>" -> {'OK', -1}
local function abandon(base, now, parked)
  local token, copy = string.match(parked, '^(%S+) (%S+)$')
  local w = read_record(base .. 'lock:t:' .. token)
  if w and w.state == 'H' then return take_back(base, now, token, w, copy) end
  local left = waits(w) and without_copy(w.parked, copy)
  if not left or left == w.parked then return {'OK', -1} end
  local q = new_queue(base, now, token)
  w.token, w.number, w.wants, w.parked = token, w.since, wants_of(w.targets), left
  if left ~= '' then
    write_life(q, w, w.state)
  else
    step_out(q, w)
    write_life(q, w, 'A', TOKEN_RETAIN_MS)
    conclude(q)
  end
  return {'OK', -1}
end

define('lock_abandon', {'allow-oom'}, abandon)

-- A lease or offer of the name has ended -> {'OK', ms until again or -1}
define('lock_promote', {'allow-oom'}, function(base, now, name)
  local q = new_queue(base, now)
  if q.exhausted then return {'OK', 0} end
  local line = due(q, name)
  q.other_names = true
  if not has_waiters(q, line) then return {'OK', -1} end
  read_holders(line.lock, now)
  conclude(q)
  return {'OK', has_waiters(q, line) and watch_ms(q, line) or -1}
end)

-- The usual Renew, in two more commands: one name, whose only holder is the token, and keys that end late enough. nil:
-- another case, nothing was written.
local function extend(base, now, record, token, lease_ms, name, another)
  name = name or only_target(record)
  if not name or another then return nil end
  local key = base .. 'lock:n:' .. name
  local held = redis.call('GET', key)
  if not held or #held ~= HELD_BYTES + #token or string.sub(held, HELD_BYTES + 1) ~= token then return nil end
  local layout, kind, has_queue, last, kept, end_us, fence, permits, capacity = struct.unpack(HELD, held)
  if layout ~= LAYOUT or not ONE_HOLDER[kind] or fence == 0 or end_us <= now then return nil end
  end_us = math.max(end_us, now + lease_ms * 1000)
  local _, _, _, token_kept = struct.unpack(TOKEN, record)
  if kept < end_us + FENCE_RETAIN_MS * 1000 or token_kept < now + (lease_ms + TOKEN_RETAIN_MS) * 1000 then return nil end
  write('SET', key, struct.pack(HELD, LAYOUT, kind, has_queue, last, kept, end_us, fence, permits, capacity) .. token, 'KEEPTTL')
  return {'RENEWED', ms_left(end_us, now)}
end

-- No names: everything that the token holds.
-- -> {'RENEWED', lease_ms} {'LOST', 0}
local function renew(base, now, token, lease_ms, ...)
  lease_ms = tonumber(lease_ms)
  local token_key = base .. 'lock:t:' .. token
  local text = redis.call('GET', token_key)
  local done = text and #text > TOKEN_BYTES and extend(base, now, text, token, lease_ms, ...)
  if done then return done end
  local record = text and parse_record(text)
  local names, locks, soonest = {...}, {}, math.huge
  if record and #names == 0 then
    for name, _, _, _, released in each_target(record.targets) do
      if not released then names[#names + 1] = name end
    end
  end
  for i, name in ipairs(names) do
    local lock = read_lock(base, name)
    lock.end_us, lock.my_fence, lock.permits = lease_of(lock, token, now)
    if not lock.end_us or lock.my_fence == 0 then return {'LOST', 0} end
    locks[i] = lock
  end
  if not record or #locks == 0 then return {'LOST', 0} end

  for _, lock in ipairs(locks) do
    local end_us = math.max(lock.end_us, now + lease_ms * 1000)
    renew_holder(lock, token, end_us, lock.my_fence, lock.permits)
    write_lock(lock, now)
    soonest = math.min(soonest, end_us)
  end
  local kept = now + (lease_ms + TOKEN_RETAIN_MS) * 1000
  if record.kept < kept then
    write_record(token_key, 'H', record.since, kept + TOKEN_SLACK_MS * 1000, ' ' .. record.owner .. ' ' .. record.targets,
      'PX', int(lease_ms + TOKEN_RETAIN_MS + TOKEN_SLACK_MS))
  end
  return {'RENEWED', ms_left(soonest, now)}
end

define('lock_renew', {'allow-oom'}, renew)

-- Release of a token that waits: it will not be granted.
local function release_waiter(base, token, record, names, now)
  local q, w = new_queue(base, now, token), record
  w.token, w.number, w.wants = token, record.since, wants_of(record.targets)
  local meant = #names == 0
  for _, want in ipairs(w.wants) do
    for _, name in ipairs(names) do meant = meant or name == want.name end
  end
  if meant then
    spend(q, w)
    wake(q, w)
    conclude(q)
  end
  return {'NOT_HELD', 0}
end

-- Grants a name that its holder releases to the first waiter. This is the usual case: the waiter wants only this name,
-- EXCLUSIVE, and can be granted at once. false: another case, nothing was written. Other waiters look at the name at
-- end_us anyway.
local function hand_over(base, now, server, trace, name, key, fence, kept, end_us)
  local queue = base .. 'lock:w:' .. name
  local first = redis.call('ZRANGE', queue, '0', '1')
  local token = first[1]
  local text = token and redis.call('GET', base .. 'lock:t:' .. token)
  if not text or #text < TOKEN_BYTES then return false end
  local layout, state, number = struct.unpack('<BBd', text)
  local copy, words, only = string.match(text, '^(%S*) (%S* ([^ ,!]+))$', TOKEN_BYTES + 1)
  local lease_ms = only == name and lease_to_grant(server, copy)
  if layout ~= LAYOUT or state ~= QUEUED or not lease_ms then return false end
  local lease_end_us = now + lease_ms * 1000
  if kept < lease_end_us + FENCE_RETAIN_MS * 1000 or lease_end_us < end_us then return false end
  if tell_granted(base, server, token, copy, int(fence), trace) == 0 then
    dirty = false -- no server received it: nothing has changed
    return false
  end
  write('ZREM', queue, token)
  if not first[2] then write('DEL', base .. 'lock:s:' .. name) end
  write('SET', key, struct.pack(HELD, LAYOUT, EXCLUSIVE, first[2] and 1 or 0, fence, kept, lease_end_us, fence, 1, 0) .. token,
    'KEEPTTL')
  write_granted(base, now, token, copy, number, words, lease_ms)
  return true
end

-- The usual Release, in three commands, or nine with waiters: the token holds one name, EXCLUSIVE, and releases it.
-- `text` is its record. nil: another case, nothing was written.
local function give_back(base, now, token_key, token, text, server, trace, name, another)
  local layout, state, _, token_kept = struct.unpack(TOKEN, text)
  local only = only_target(text)
  if layout ~= LAYOUT or state ~= HOLDS or not only or another or (name or only) ~= only then return nil end
  local key = base .. 'lock:n:' .. only
  local held = redis.call('GET', key)
  if not held or #held ~= HELD_BYTES + #token or string.sub(held, HELD_BYTES + 1) ~= token then return nil end
  local kind, has_queue, last, kept, end_us
  layout, kind, has_queue, last, kept, end_us = struct.unpack(HELD, held)
  if layout ~= LAYOUT or kind ~= EXCLUSIVE or end_us <= now then return nil end
  if has_queue == 0 then
    write('SET', key, struct.pack(NAME, LAYOUT, FREE, 0, last, kept), 'KEEPTTL')
  elseif has_queue ~= 1 or not hand_over(base, now, server, trace, only, key, math.max(last + 1, now), kept, end_us) then
    return nil
  end
  write_given_back(token_key, text, token_kept, now)
  return 'RELEASED'
end

-- An unknown token holds nothing, but must not be granted later. If `leave_mark` is false, the caller must ensure that
-- with another call, and the reply is {'UNSEEN'}.
local function release(base, now, leave_mark, token, server, trace, ...)
  local token_key = base .. 'lock:t:' .. token
  local text = redis.call('GET', token_key)
  if not text and not leave_mark then return {'UNSEEN'} end
  local done = text and #text > TOKEN_BYTES and give_back(base, now, token_key, token, text, server, trace, ...)
  if done then return done end
  local record = text and parse_record(text)
  local names, outcomes = {...}, {}
  if waits(record) then return release_waiter(base, token, record, names, now) end
  local q = new_queue(base, now, token, server)
  q.trace = trace
  local all, dropped, left, given_back = #names == 0, {}, false, false
  local targets = {}
  for name, mode, permits, capacity, released in each_target(record and record.targets or '') do
    local asked = all
    released = released or record.state == 'X'
    if all then
      names[#names + 1] = name
    else
      for _, one in ipairs(names) do asked = asked or one == name end
    end
    if asked and not released then
      local lock = open(q, name).lock
      -- An expired lease is dropped, too: the token would have it again if the clock stepped back.
      local end_us, _, held = lease_of(lock, token, 0)
      if end_us and end_us > now then
        due_and_read(q, name)
        released, given_back = true, true
      elseif end_us then
        pcall(due, q, name)
      end
      if end_us then lock.permits, dropped[#dropped + 1] = held, lock end
    end
    if not released then left = true elseif asked then outcomes[name] = 'RELEASED' end
    targets[#targets + 1] = target_text(name, mode, permits, capacity, released)
  end

  for _, lock in ipairs(dropped) do drop_holder(lock, token, lock.permits) end
  if not record then
    write_spent(token_key, now)
  elseif given_back then
    if left then
      write_record(token_key, 'H', record.since, record.kept, ' ' .. record.owner .. ' ' .. table.concat(targets, ','),
        'KEEPTTL')
    else
      write_given_back(token_key, text, record.kept, now)
    end
  end
  conclude(q)

  local n, reply = 0, {'RELEASED', 0}
  for _, name in ipairs(names) do
    local outcome = outcomes[name] or 'NOT_HELD'
    if outcome == 'RELEASED' then n = n + 1 end
    reply[#reply + 1] = name
    reply[#reply + 1] = outcome
  end
  if n < #names or n == 0 then reply[1] = 'NOT_HELD' end
  if n > 0 and not given_back then reply[2] = 1 end
  if n == #names or n == 0 then return {reply[1], reply[2]} end
  return reply
end

-- Both: no names = all. server: the calling server; freed names are granted to its waiters at once. trace:
-- see tell_releaser.
-- -> {'RELEASED' or 'NOT_HELD', 1 for a repeat, then, if outcomes differ: name, outcome...}
--    {'RELEASED'}: one name, not a repeat
--    {'UNSEEN'}: unknown token; nothing was changed, and lock_release_unseen must follow
define('lock_release', {'allow-oom'}, function(base, now, token, server, trace, ...)
  return release(base, now, false, token, server, trace, ...)
end)

-- Not without memory, because it makes a key.
define('lock_release_unseen', {}, function(base, now, token, server, trace, ...)
  return release(base, now, true, token, server, trace, ...)
end)

-- Returns the highest fence that was seen. Fails for a fence that no lock can have issued: fences are times of the
-- clock, or one more than the last fence.
local function seen_before(base, fence, now)
  if fence > now + FENCE_AHEAD_US then
    fail('INVALID_ARGUMENT', "fence: over 24 hours ahead of the store's clock; no lock can have issued it")
  end
  return tonumber(redis.call('GET', base .. 'lock:r') or 0) or foreign()
end

-- -> {'OK' or 'STALE', the highest fence seen}
define('lock_check_fence', {}, function(base, now, presented)
  local fence = tonumber(presented)
  local high = seen_before(base, fence, now)
  if fence < high then return {'STALE', high} end
  if fence > high then write('SET', base .. 'lock:r', int(fence)) end
  return {'OK', fence}
end)

-- 0: none -> {'OK', the highest fence seen before}
define('lock_reset_fence', {}, function(base, now, presented)
  local fence, key = tonumber(presented), base .. 'lock:r'
  local high = seen_before(base, fence, now)
  if fence > 0 then write('SET', key, int(fence)) else write('DEL', key) end
  return {'OK', high}
end)

services.lock = {
  acquire = acquire_first, abandon = abandon, renew = renew, release = release, token_retain_ms = TOKEN_RETAIN_MS,

  -- Does not claim an offer.
  time_out = function(...)
    return end_wait(false, ...)
  end,

  -- Whether the token has ever been granted something.
  is_known = function(base, token)
    local record = read_record(base .. 'lock:t:' .. token)
    return record and not waits(record)
  end,

  -- Spends a waiting token: it will not be granted.
  withdraw = function(base, now, token)
    local record = read_record(base .. 'lock:t:' .. token)
    if waits(record) then release_waiter(base, token, record, {}, now) end
  end,
}

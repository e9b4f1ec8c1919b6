-- LockService: waiting. All waiters of a group have one order, and each name has a queue: a waiter has the same number
-- in the queue of each name that it wants.
--
--   Invariant: a waiter is granted when, at each of its names, it is compatible with the holders and with every waiter
--   before it, as if those waiters were holders. So no waiter overtakes one that it would bar, all names are granted at
--   once, and no two waiters wait for each other.
--
-- The life of a token that waits. QUEUED (Q) is in its queues, ABSENT (A) is not:
--
--                             +-------------- granted at once -------------+
--             is barred       |            its turn                 claim    v
--   (unseen) ------------> QUEUED (Q) ------------> OFFERED (O) ----------> HELD
--                           |      ^                    |                    |
--     its server is gone or |      | claim, Acquire     | 0.5 s unclaimed,   | abandoned, and no
--     silent, abandoned     v      | again              | abandoned          | caller was told
--                           ABSENT (A) <----------------+--------------------+
--                                         Q, O and A -- withdraw, Release --> SPENT
--
-- A waiter may have several parked copies, if its caller repeated the call. Each is a "<server>.<copy>" in its record;
-- the waiter is absent when the last copy is gone.
--
-- A Release grants at once to a waiter with one copy, parked by the server of the Release: that server is alive, and
-- gets the fences ("R <fences> <base><token> <base> lock_abandon <token> <copy>"). If it no longer parks the call,
-- lock_abandon revokes the grant. Other waiters get an offer.
--
-- An offer is an entry among the holders with fence 0, so it bars like a holder. The servers that park the waiter get a
-- message ("W <base><token>"), and one claims the offer; the lease begins then, and the other copies get another
-- message. A server without a subscription, or one that let an offer lapse, is skipped at once: its waiters become
-- absent and get a message, and a claim puts each back at its number. When all servers of a name are gone its queue is
-- removed as a whole: those records keep their Q, and a claim puts them back too. Every change of holders or queues
-- ends with `promote` and `write_and_notify`.
--
-- Redis has no timers. Each server that parks waiters of a name gets a message ("A <ms> <base> lock_promote <name>")
-- when the first lease or offer there ends, whenever that becomes sooner; lock_promote returns when to call again.
-- The death of a server is not reported. So a name that has room but waiters of several servers is looked at every
-- LOOK_MS: a waiter of a dead server may bar the others.

local LOOK_MAX = 128 -- holders that are always looked at
local LOOK_WORK = 3  -- for each name of a waiter that is looked at; one more for its record
local LOOK_MS = 300
local COPIES_MAX = 16
local WINDOW = 64    -- waiters of a name that can be overtaken
local FIRST_CHUNK, CHUNK = 2, 8 -- in most queues an EXCLUSIVE waiter follows the first
local QUEUE_RETAIN_MS = 2 * 86400000 -- longer than the longest wait

-- The parts of the queues that one function has read. `token`: its entries are read too. `server`: the calling server,
-- whose waiters can be granted at once. `trace`: see tell_releaser. exhausted: the FCALL has used up its work before;
-- work_left: some is left for another FCALL; other_names: also looks at the other names of waiters. A line of `lines`
-- is a name; due: its waiters may have their turn; added: only because a waiter of a due name wants it, too.
local function new_queue(base, now, token, server)
  return {base = base, now = now, token = token or '', server = server, lines = {}, by_name = {}, waiters = {},
    gone = {}, subscribed = {}, exhausted = worked(0) >= WORK_MAX, work = worked(0)}
end

-- Whether the holders leave room for more.
local function has_room(lock)
  return lock.mode ~= 'E' and not (lock.mode == 'P' and lock.used >= lock.capacity)
end

-- A name's queue, read from its head. `ahead` is the state of the name as if the waiters read so far held it: nothing
-- passes an EXCLUSIVE one.
local function open(q, name)
  local line = q.by_name[name]
  if not line then
    local lock = read_lock(q.base, name)
    line = {name = name, lock = lock, queue = lock.queue_key, servers = lock.servers_key, buffer = {}, at = 1,
      passed = 0, last = 0}
    line.had_room = has_room(line.lock)
    q.lines[#q.lines + 1], q.by_name[name] = line, line
  end
  return line
end

-- Returns the next waiter that was not passed yet: {token, number}, or nil. The name's record shows whether there is a
-- queue.
local function next_of(q, line)
  while true do
    local next = line.buffer[line.at]
    if next and not q.gone[next.token] then return next end
    if next then
      line.at = line.at + 1
    elseif line.at_end or not line.lock.waits then
      return nil
    else
      local n = line.passed > 0 and CHUNK or FIRST_CHUNK
      local found = redis.call('ZRANGE', line.queue, int(line.passed), int(line.passed + n - 1), 'WITHSCORES')
      -- A queue that is not empty will be read or written: foreign data fails now.
      if #found > 0 and not line.checked then line.checked = redis.call('HLEN', line.servers) end
      line.buffer, line.at, line.at_end = {}, 1, #found < 2 * n
      for i = 1, #found, 2 do line.buffer[#line.buffer + 1] = {token = found[i], number = tonumber(found[i + 1])} end
    end
  end
end

local function first_of(q, name)
  local line = open(q, name)
  return line, next_of(q, line)
end

-- Skipped if the FCALL has read much and this lock is large, too: as if no lease had expired. The next call reads it.
local function drop_expired_if_affordable(q, lock)
  if q.exhausted and lock.several and redis.call('HLEN', lock.several) > LOOK_MAX then return end
  drop_expired(lock, q.now)
end

-- Opens the queue for a change: anything that can fail fails now.
local function due(q, name)
  local line = first_of(q, name)
  line.due = true
  return line
end

-- The same, if nothing else reads the holders before the first write.
local function due_and_read(q, name)
  drop_expired_if_affordable(q, open(q, name).lock)
  return due(q, name)
end

local function ahead_of(line)
  local lock = line.lock
  line.ahead = line.ahead or {mode = lock.mode, capacity = lock.capacity, used = lock.used}
  return line.ahead
end

local function count(line, want)
  local ahead = ahead_of(line)
  if is_barred(ahead, want) then
    ahead.mode = 'E'
  else
    ahead.mode, ahead.capacity, ahead.used = want.mode, want.capacity, ahead.used + want.permits
  end
end

local function pass(line, number, want)
  line.at, line.passed, line.last = line.at + 1, line.passed + 1, number
  count(line, want)
  if line.passed >= WINDOW then line.ahead.mode = 'E' end
end

-- Returns the record of a queued waiter, or false.
local function waiter_of(q, token)
  local w = q.waiters[token]
  if w == nil then
    worked(1)
    local ok, record = pcall(read_record, q.base .. 'lock:t:' .. token)
    w = ok and record and record.state == 'Q' and record or false
    if w then
      w.token, w.number, w.wants, w.want = token, w.since, wants_of(w.targets), {}
      for _, want in ipairs(w.wants) do w.want[want.name] = want end
    end
    q.waiters[token] = w
  end
  return w
end

-- Removes the next entry, whose record has ended or was lost. Its entries in other queues are still there.
local function sweep(line, token)
  write('ZREM', line.queue, token)
  line.at, line.left = line.at + 1, true
end

local function advance(q, line, number)
  local ahead = ahead_of(line)
  while ahead.mode ~= 'E' do
    local next = next_of(q, line)
    if not next or next.number >= number then return end
    local w = waiter_of(q, next.token)
    local want = w and w.want[line.name]
    if want then pass(line, next.number, want) else sweep(line, next.token) end
  end
end

-- Returns the place of a name for which a waiter with that number must wait.
local function barred_at(q, wants, number)
  for i, want in ipairs(wants) do
    local line = open(q, want.name)
    drop_expired_if_affordable(q, line.lock)
    if line.lock.waits then advance(q, line, number) end
    if is_barred(line.ahead or line.lock, want) or is_full(line.lock) then return i end
  end
end

-- ---- copies of a call ------------------------------------------------------------

local function server_of(copy)
  return string.match(copy, '^[^.]*')
end

local function without_copy(parked, copy)
  local left = {}
  for one in string.gmatch(parked, '[^,]+') do
    if one ~= copy then left[#left + 1] = one end
  end
  return table.concat(left, ',')
end

-- Returns the servers that park the waiter, each once.
local function servers_of(w)
  local servers, seen = {}, {}
  for copy in string.gmatch(w.parked, '[^,]+') do
    local server = server_of(copy)
    if not seen[server] then servers[#servers + 1], seen[server] = server, true end
  end
  return servers
end

local function is_subscribed(q, server)
  if q.subscribed[server] == nil then
    q.subscribed[server] = redis.call('PUBSUB', 'NUMSUB', channel_of(server))[2] > 0
  end
  return q.subscribed[server]
end

-- Returns the copies plus one; copies of stopped servers make room for it.
local function with_copy(q, parked, copy)
  local all = {}
  for one in string.gmatch(without_copy(parked, copy), '[^,]+') do all[#all + 1] = one end
  for i = #all, 1, -1 do
    if #all >= COPIES_MAX and not is_subscribed(q, server_of(all[i])) then table.remove(all, i) end
  end
  if #all >= COPIES_MAX then
    fail('RESOURCE_EXHAUSTED', string.format('token: %d calls already wait with it', COPIES_MAX))
  end
  all[#all + 1] = copy
  return table.concat(all, ',')
end

-- ---- moves -----------------------------------------------------------------------

-- No retain_ms: the record's end does not change.
local function write_life(q, w, state, retain_ms)
  w.state = state
  local words = w.parked .. ' ' .. w.owner .. ' ' .. w.targets
  if retain_ms then
    w.kept = q.now + retain_ms * 1000
    write_record(q.base .. 'lock:t:' .. w.token, state, w.number, w.kept, words, 'PX', int(retain_ms))
  else
    write_record(q.base .. 'lock:t:' .. w.token, state, w.number, w.kept, words, 'KEEPTTL')
  end
end

local function publish(server, ...)
  return write('PUBLISH', channel_of(server), table.concat({...}, ' '))
end

-- Sends the server the trace of the call that ends the wait; nil or '' if it is not traced.
local function tell_releaser(base, server, token, trace)
  if trace and trace ~= '' then publish(server, 'T', trace, base .. token) end
end

-- Tells the server that the parked call holds; returns the number of servers that received it.
local function tell_granted(base, server, token, copy, fences, trace)
  tell_releaser(base, server, token, trace)
  return publish(server, 'R', fences, base .. token, base, 'lock_abandon', token, copy)
end

-- The token holds from now on, and its caller was not told yet. words: owner and targets.
local function write_granted(base, now, token, copy, number, words, lease_ms)
  local retain_ms = lease_ms + TOKEN_RETAIN_MS
  write_record(base .. 'lock:t:' .. token, 'H', now, now + retain_ms * 1000, copy .. ':' .. int(number) .. ' ' .. words,
    'PX', ms_text(retain_ms))
end

local function wake(q, w)
  for _, server in ipairs(servers_of(w)) do
    tell_releaser(q.base, server, w.token, q.trace)
    publish(server, 'W', q.base .. w.token)
  end
end

-- Names with foreign data are left alone.
local function leave(q, w)
  for _, want in ipairs(w.wants) do
    local ok, line = pcall(due, q, want.name)
    if ok then
      if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
      line.left = true
      if line.last >= w.number then
        line.passed, q.work_left = line.passed - 1, true
      end
    end
  end
  q.gone[w.token] = true
end

-- Puts the waiter into its queues, at its old number if it had one.
local function enqueue(q, w, retain_ms)
  local number = q.now
  for _, want in ipairs(w.wants) do
    local line = open(q, want.name)
    local last = redis.call('ZRANGE', line.queue, '-1', '-1', 'WITHSCORES')
    redis.call('HLEN', line.servers)
    number, line.is_new = math.max(number, (tonumber(last[2]) or 0) + 1), #last == 0
  end
  w.number = w.number or number
  for _, want in ipairs(w.wants) do
    local line = open(q, want.name)
    local is_new = write('ZADD', line.queue, int(w.number), w.token) == 1
    line.joined = write('HSET', line.servers, '@' .. server_of(w.copy), '1') == 1
    if is_new and want.mode == 'P' then
      write('HSET', line.servers, 'c', int(want.capacity))
      write('HINCRBY', line.servers, 'p', 1)
    end
    keep(line.lock, q.now + QUEUE_RETAIN_MS * 1000)
    if line.is_new or line.joined then line.lock.moved = true end
    line.lock.waits = true
    changed(line.lock)
    line.buffer, line.at, line.at_end, line.known = {}, 1, false, nil
  end
  -- Another copy may wait for longer.
  if w.others ~= '' then retain_ms = math.max(retain_ms, ms_left(w.kept, q.now)) end
  write_life(q, w, 'Q', retain_ms)
end

-- The servers that park waiters of the name, and whether each has claimed its last offer.
local function known(line)
  if not line.known then
    line.known, line.n_known = {}, 0
    local all = redis.pcall('HGETALL', line.servers) -- without waiters the key may be foreign
    for i = 1, #all, 2 do
      local server = string.match(all[i], '^@(.*)$')
      if server then line.known[server], line.n_known = all[i + 1], line.n_known + 1 end
    end
  end
  return line.known
end

-- Whether one of the waiter's servers would receive an offer and has claimed the last one.
local function is_there(q, line, w)
  if w.token == q.token then return true end
  for _, server in ipairs(servers_of(w)) do
    if known(line)[server] == '1' and is_subscribed(q, server) then return true end
  end
  return false
end

-- Removes all waiters at once if no server that parks any is left. Returns whether it did.
local function drop_dead(q, line)
  for server in pairs(known(line)) do
    if is_subscribed(q, server) then return false end
  end
  if redis.call('ZSCORE', line.queue, q.token) then return false end
  write('UNLINK', line.queue, line.servers)
  if line.passed > 0 then q.work_left = true end
  line.buffer, line.at, line.at_end, line.passed, line.last, line.ahead = {}, 1, true, 0, 0, nil
  return true
end

local function pass_over(q, line, w)
  if drop_dead(q, line) then return end
  write_life(q, w, 'A')
  leave(q, w)
  for _, server in ipairs(servers_of(w)) do
    if is_subscribed(q, server) then publish(server, 'W', q.base .. w.token) end
  end
end

-- Returns the lease of a waiter that gets a direct grant, without an offer, because the calling server parks its only
-- copy. Otherwise nil.
local function lease_to_grant(asks, parked)
  local server, lease_ms = string.match(parked, '^([^.,]*)%.[^.,]*%.(%d+)$')
  return server == asks and tonumber(lease_ms) or nil
end

-- Gives the waiter its turn: offers or grants the names to it.
local function give_turn(q, w)
  local lease_ms, fences = lease_to_grant(q.server, w.parked), {}
  local end_us = q.now + (lease_ms and lease_ms * 1000 or OFFER_US)
  for i, want in ipairs(w.wants) do
    local line = open(q, want.name)
    remove_expired(line.lock)
    count(line, want)
    local fence = lease_ms and math.max(line.lock.fence + 1, q.now) or 0
    put_holder(line.lock, want, w.token, end_us, fence)
    fences[i] = int(fence)
    if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
    line.left = true
    -- One more of the later waiters can be looked at.
    if not line.due and redis.call('ZCARD', line.queue) >= WINDOW then line.due = true end
  end
  q.gone[w.token] = true
  if lease_ms then
    write_granted(q.base, q.now, w.token, w.parked, w.number, w.owner .. ' ' .. w.targets, lease_ms)
    tell_granted(q.base, q.server, w.token, w.parked, table.concat(fences, ','), q.trace)
  else
    write_life(q, w, 'O')
    if w.token ~= q.token then wake(q, w) end
  end
end

-- Handles unclaimed offers: their servers get no more offers until they send something.
local function lapse(q, line)
  for _, token in ipairs(line.lock.lapsed) do
    local ok, w = pcall(read_record, q.base .. 'lock:t:' .. token)
    if ok and w and (w.state == 'O' or w.state == 'A') then
      for _, server in ipairs(servers_of(w)) do
        if known(line)[server] then
          write('HSET', line.servers, '@' .. server, 0)
          line.known[server] = '0'
        end
      end
      w.token, w.number = token, w.since
      if w.state == 'O' then write_life(q, w, 'A') end
    end
  end
  line.lock.lapsed = {}
end

-- Returns the changed line whose next waiter comes first. Lines of other requests with foreign data are skipped: an
-- error would come after a write.
local function first_due(q)
  local first, first_next
  for _, line in ipairs(q.lines) do
    if line.due and not pcall(drop_expired, line.lock, q.now) then line.due, line.is_foreign = false, true end
    if line.due then
      remove_expired(line.lock)
      if line.lock.lapsed then lapse(q, line) end
      local next = ahead_of(line).mode ~= 'E' and next_of(q, line)
      if next and (not first or next.number < first_next.number) then first, first_next = line, next end
    end
  end
  return first, first_next
end

-- Looks first at waiters before this one at its other names: their servers may be dead, or their turn may have come
-- unnoticed.
local function add_other_names(q, w)
  local any = false
  for _, want in ipairs(w.wants) do
    local ok, line, next = pcall(first_of, q, want.name)
    if ok and not line.due and not line.is_foreign and next and next.number < w.number then
      line.due, line.added, any = true, true, true
    end
  end
  return any
end

-- Names of the request are always looked at.
local function drop_other_names(q)
  q.other_names = false
  for _, line in ipairs(q.lines) do line.due = line.due and not line.added end
end

-- Offers the names of the changed lines to the waiters whose turn it is.
local function promote(q)
  q.free = q.free or worked(0) - q.work -- reading its own names, even large ones, limits only later calls
  while not q.work_left do
    if q.exhausted or worked(0) - q.free >= WORK_MAX then
      q.work_left = true
      return
    end
    local line, next = first_due(q)
    if not line then return end
    if q.other_names and worked(0) - q.free > WORK_MAX / 2 then drop_other_names(q) end
    local w = waiter_of(q, next.token)
    if not w or not w.want[line.name] then
      worked(LOOK_WORK)
      sweep(line, next.token)
    elseif not is_there(q, line, w) then
      worked(LOOK_WORK * #w.wants)
      pass_over(q, line, w)
    elseif not q.other_names or not add_other_names(q, w) then -- otherwise it comes again
      worked(LOOK_WORK * #w.wants)
      local ok, place = pcall(barred_at, q, w.wants, w.number)
      if not ok or place then -- a name with foreign data bars it too
        pass(line, next.number, w.want[line.name])
      else
        give_turn(q, w)
      end
    end
  end
end

-- Whether only earlier waiters bar a waiter, and some of those are at other servers.
local function waits_for_others(line)
  if not has_room(line.lock) then return false end
  known(line)
  return line.n_known > 1
end

-- Returns the ms until the name must be looked at: when its first lease or offer ends, or earlier; -1: never.
local function watch_ms(q, line)
  if q.work_left and line.due then return 0 end
  local lock = line.lock
  local ends = lock.mode and math.max(0, math.ceil((lock.soonest - q.now) / 1000))
  if waits_for_others(line) then return math.min(ends or LOOK_MS, LOOK_MS) end
  return ends or -1
end

local function has_waiters(q, line)
  return line.passed > 0 or next_of(q, line) ~= nil
end

-- Whether servers that park waiters of the name must look at it sooner than they know.
local function is_news(q, line)
  if line.lock.sooner or q.work_left and line.due then return true end
  return (line.joined or line.due and not line.had_room) and waits_for_others(line)
end

-- Every function that promoted or granted ends here: writes the new state of its names.
local function write_and_notify(q)
  for _, line in ipairs(q.lines) do
    local lock = line.lock
    remove_expired(lock)
    if lock.waits and (line.left or line.at_end) and not has_waiters(q, line) then
      write('DEL', line.servers)
      lock.waits = false
      changed(lock)
    elseif lock.waits and is_news(q, line) and has_waiters(q, line) then
      local in_ms = int(watch_ms(q, line))
      for server in pairs(known(line)) do
        if publish(server, 'A', in_ms, q.base, 'lock_promote', line.name) == 0 then
          write('HDEL', line.servers, '@' .. server)
        end
      end
    end
    write_lock(lock, q.now)
  end
end

local function conclude(q)
  promote(q)
  write_and_notify(q)
end

-- Describes a held name: its place from 0, and the owner and ms left of its holder or first waiter.
local function in_the_way(q, wants, place)
  local line = open(q, wants[place].name)
  local holder = line.lock.mode and any_holder(line.lock, q.now)
  local token = holder and holder.token or redis.call('ZRANGE', line.queue, '0', '0')[1]
  local owner = token and token ~= q.token and owner_of(q.base, token) or ''
  return place - 1, owner, holder and ms_left(holder.end_us, q.now) or 0
end

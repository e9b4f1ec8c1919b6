-- LockService, who waits. One order for all waiters of a group, kept as a queue a
-- name: a waiter stands with the same number in the queue of each name it wants.
--
--   Invariant: a waiter is granted when it is compatible, at each of its names, with
--   the holders and with every waiter that stands before it there, as if those held.
--   So nobody overtakes whom it would bar, all names come at once, and no two
--   waiters wait for each other.
--
-- The life of a token that waits. STANDING (Q) is in its queues, ABSENT (A) is not:
--
--             is barred                  its turn                 claim
--   (unseen) -----------> STANDING (Q) -----------> OFFERED (O) ----------> HELD
--                           |      ^                    |
--     its server is gone or |      | claim, Acquire     | 2 s unclaimed,
--     silent, abandoned     v      | again              | abandoned
--                           ABSENT (A) <----------------+
--                                         any of the three -- withdraw, Release --> SPENT
--
-- An offer is an entry among the holders with fence 0, so that it bars like one. The
-- server that parks the waiter is told ("W <base><token>") and claims it; the lease
-- begins then. A server that has no subscriber, or let an offer lapse, is passed over
-- at once: its waiters become absent and are told, and a claim puts each back at its
-- number. Whatever changes who holds or stands ends in `promote` and `tell`.
--
-- Redis has no timers: each server that parks waiters of a name is told ("A <ms>
-- <base> lock_promote <name>") when the first lease or offer there ends, whenever
-- that becomes sooner; lock_promote answers when to call again.

local LOOK_MAX = 128 -- waiters looked at by one promote; the rest in a call of its own
local WINDOW = 64    -- waiters of a name that can be overtaken
local CHUNK = 8
local QUEUE_RETAIN_MS = 2 * 86400000 -- longer than anyone may wait

-- What one function has read of the queues. `token`: whose entries are read too.
local function new_queue(base, now, token)
  return {base = base, now = now, token = token or '', lines = {}, by_name = {}, waiters = {}, gone = {},
    subscribed = {}, looked = 0}
end

-- A name's queue, read from its head. `ahead` is what the name would be if those
-- read already held: nothing passes an EXCLUSIVE one.
local function open(q, name)
  local line = q.by_name[name]
  if not line then
    line = {name = name, lock = read_lock(q.base .. 'lock:n:' .. name, q.token), queue = q.base .. 'lock:w:' .. name,
      servers = q.base .. 'lock:s:' .. name, buffer = {}, at = 1, passed = 0, last = 0}
    q.lines[#q.lines + 1], q.by_name[name] = line, line
  end
  return line
end

-- The next waiter that is not passed yet: {token, number}, or nil.
local function next_of(q, line)
  while true do
    local next = line.buffer[line.at]
    if next and not q.gone[next.token] then return next end
    if next then
      line.at = line.at + 1
    elseif line.at_end then
      return nil
    else
      local found = redis.call('ZRANGE', line.queue, line.passed, line.passed + CHUNK - 1, 'WITHSCORES')
      -- Where anyone stands, this is going to be read or written: foreign data fails now.
      if #found > 0 and not line.checked then line.checked = redis.call('HLEN', line.servers) end
      line.buffer, line.at, line.at_end = {}, 1, #found < 2 * CHUNK
      for i = 1, #found, 2 do line.buffer[#line.buffer + 1] = {token = found[i], number = tonumber(found[i + 1])} end
    end
  end
end

-- Opens the queue for a change: what could fail, fails now.
local function due(q, name)
  local line = open(q, name)
  next_of(q, line)
  line.due = true
  return line
end

-- The same where nothing else reads the holders before the first write.
local function due_and_read(q, name)
  look_if_over(open(q, name).lock, q.now)
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

-- The record of one that stands, or false.
local function waiter_of(q, token)
  local w = q.waiters[token]
  if w == nil then
    local ok, record = pcall(read_record, q.base .. 'lock:t:' .. token)
    w = ok and record and record.state == 'Q' and record or false
    if w then
      w.token, w.number, w.wants, w.want = token, tonumber(w.since), wants_of(w.targets), {}
      for _, want in ipairs(w.wants) do w.want[want.name] = want end
    end
    q.waiters[token] = w
  end
  return w
end

-- What nobody knows of, after a loss of data.
local function sweep(q, line, token)
  write('ZREM', line.queue, token)
  q.gone[token], line.left = true, true
end

local function advance(q, line, number)
  local ahead = ahead_of(line)
  while ahead.mode ~= 'E' do
    local next = next_of(q, line)
    if not next or next.number >= number then return end
    local w = waiter_of(q, next.token)
    local want = w and w.want[line.name]
    if want then pass(line, next.number, want) else sweep(q, line, next.token) end
  end
end

-- Which of its names a waiter with that number has to wait for.
local function barred_at(q, wants, number)
  for i, want in ipairs(wants) do
    local line = open(q, want.name)
    look_if_over(line.lock, q.now)
    advance(q, line, number)
    if is_barred(line.ahead, want) or is_full(line.lock) then return i end
  end
end

local function server_of(w)
  return string.match(w.parked, '^[^.]*')
end

local function write_life(q, w, state, ...)
  w.state = state
  write('SET', q.base .. 'lock:t:' .. w.token, string.format('%s%d:%s %s %s', state, w.number, w.parked, w.owner, w.targets),
    ...)
end

local function publish(server, ...)
  return write('PUBLISH', 'ls:wake:' .. server, table.concat({...}, ' '))
end

local function wake(q, w)
  publish(server_of(w), 'W', q.base .. w.token)
end

local function leave(q, w)
  for _, want in ipairs(w.wants) do
    local line = due(q, want.name)
    if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
    line.left = true
    if line.last >= w.number then
      line.passed, q.more = line.passed - 1, true
    end
  end
  q.gone[w.token] = true
end

-- Takes its place, or its old one again.
local function stand(q, w, retain_ms)
  local number = q.now
  for _, want in ipairs(w.wants) do
    local line = open(q, want.name)
    local last = redis.call('ZRANGE', line.queue, -1, -1, 'WITHSCORES')
    redis.call('HLEN', line.servers)
    number = math.max(number, (tonumber(last[2]) or 0) + 1)
  end
  w.number = w.number or number
  for _, want in ipairs(w.wants) do
    local line = open(q, want.name)
    local is_new = write('ZADD', line.queue, int(w.number), w.token) == 1
    write('HSET', line.servers, '@' .. server_of(w), 1)
    if is_new and want.mode == 'P' then
      write('HSET', line.servers, 'c', int(want.capacity))
      write('HINCRBY', line.servers, 'p', 1)
    end
    write('PEXPIRE', line.queue, QUEUE_RETAIN_MS)
    write('PEXPIRE', line.servers, QUEUE_RETAIN_MS)
    line.buffer, line.at, line.at_end = {}, 1, false
  end
  write_life(q, w, 'Q', 'PX', int(retain_ms))
end

-- Whether its server would hear of an offer and has claimed the last one.
local function is_there(q, line, w)
  if w.token == q.token then return true end
  local server = server_of(w)
  if not line.known then
    line.known = {}
    local all = redis.call('HGETALL', line.servers)
    for i = 1, #all, 2 do line.known[all[i]] = all[i + 1] end
  end
  if q.subscribed[server] == nil then
    q.subscribed[server] = redis.call('PUBSUB', 'NUMSUB', 'ls:wake:' .. server)[2] > 0
  end
  return q.subscribed[server] and line.known['@' .. server] == '1'
end

local function pass_over(q, w)
  write_life(q, w, 'A', 'KEEPTTL')
  leave(q, w)
  if q.subscribed[server_of(w)] then wake(q, w) end
end

local function offer(q, w)
  for _, want in ipairs(w.wants) do
    local line = open(q, want.name)
    settle(line.lock)
    count(line, want)
    local entry = put_holder(line.lock, want, w.token, q.now + OFFER_US, 0)
    if w.token == q.token then line.lock.entry = entry end
    write('PEXPIRE', line.lock.key, FENCE_RETAIN_MS)
    if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
    line.left = true
    -- One more of those behind can be looked at.
    if not line.due and redis.call('ZCARD', line.queue) >= WINDOW then line.due = true end
  end
  write_life(q, w, 'O', 'KEEPTTL')
  q.gone[w.token] = true
  if w.token ~= q.token then wake(q, w) end
end

-- Offers that nobody claimed: their servers are not asked again until they are heard.
local function lapse(q, line)
  for _, token in ipairs(line.lock.lapsed) do
    local ok, w = pcall(read_record, q.base .. 'lock:t:' .. token)
    if ok and w and (w.state == 'O' or w.state == 'A') then
      local server = '@' .. server_of(w)
      if redis.call('HEXISTS', line.servers, server) == 1 then write('HSET', line.servers, server, 0) end
      w.token, w.number = token, tonumber(w.since)
      if w.state == 'O' then write_life(q, w, 'A', 'KEEPTTL') end
    end
  end
  line.lock.lapsed = {}
end

-- Of the lines that may have changed, the one whose next waiter is the first.
local function first_due(q)
  local first, first_next
  for _, line in ipairs(q.lines) do
    if line.due then
      look_if_over(line.lock, q.now)
      settle(line.lock)
      if line.lock.lapsed then lapse(q, line) end
      local next = ahead_of(line).mode ~= 'E' and next_of(q, line)
      if next and (not first or next.number < first_next.number) then first, first_next = line, next end
    end
  end
  return first, first_next
end

-- Offers the names of the due lines to those whose turn it is.
local function promote(q)
  while not q.more do
    local line, next = first_due(q)
    if not line then return end
    q.looked = q.looked + 1
    if q.looked > LOOK_MAX then
      q.more = true
      return
    end
    local w = waiter_of(q, next.token)
    if not w or not w.want[line.name] then
      sweep(q, line, next.token)
    elseif not is_there(q, line, w) then
      pass_over(q, w)
    elseif barred_at(q, w.wants, w.number) then
      pass(line, next.number, w.want[line.name])
    else
      offer(q, w)
    end
  end
end

-- ms until the first lease or offer of a name ends; -1: none.
local function watch_ms(q, line)
  if q.more and line.due then return 0 end
  return line.lock.mode and math.max(0, math.ceil((line.lock.soonest - q.now) / 1000)) or -1
end

local function anyone_stands(q, line)
  return line.passed > 0 or next_of(q, line) ~= nil
end

-- Every function that promoted or granted ends here.
local function tell(q)
  for _, line in ipairs(q.lines) do
    settle(line.lock)
    if line.left and not anyone_stands(q, line) then
      write('DEL', line.servers)
    elseif (line.lock.sooner or q.more and line.due) and anyone_stands(q, line) then
      for _, server in ipairs(redis.call('HKEYS', line.servers)) do
        if string.sub(server, 1, 1) == '@' and
          publish(string.sub(server, 2), 'A', int(watch_ms(q, line)), q.base, 'lock_promote', line.name) == 0 then
          write('HDEL', line.servers, server)
        end
      end
    end
  end
end

-- Its place from 0, and one who has or awaits the name: its owner and ms left.
local function in_the_way(q, wants, place)
  local line = open(q, wants[place].name)
  if line.lock.mode then
    local theirs = describe(q.base, any_holder(line.lock, q.now), q.now)
    return place - 1, theirs[1], theirs[3]
  end
  local first = redis.call('ZRANGE', line.queue, 0, 0)[1]
  local record = first and first ~= q.token and read_record(q.base .. 'lock:t:' .. first)
  return place - 1, record and record.owner or '', 0
end

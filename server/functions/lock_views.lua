-- LockService: Inspect, List, ForceRelease.

-- The number of keys and holders that one List reads before its page ends. It ends within a step of the scan, but not
-- within a lock, so the last lock may add HOLDERS_MAX.
local LIST_STEP = 10
local LIST_WORK = 500
local QUEUE_SHOWN = 100

-- -> {'OK', mode or '', capacity, last fence, waiters, token, entry of each holder...}; lock_describe reads the entries
define('lock_inspect', {'no-writes'}, function(base, now, name)
  local lock = read_lock(base, name)
  local reply = {'OK', MODE[lock.mode] or '', lock.capacity or 0, lock.fence, 0}
  read_holders(lock, now, reply)
  reply[5] = #lock.holders + redis.call('ZCARD', base .. 'lock:w:' .. name)
  return reply
end)

-- Returns owner, ms waited, ms until it gives up; nil: its record is lost, or it no longer waits.
local function describe_waiter(base, token, now)
  local record = record_of(base, token)
  if not waits(record) then return nil end
  local lease_ms = tonumber(string.match(record.parked, '^[^.,]*%.[^.,]*%.(%d+)')) or 0 -- the record is kept for both
  return {record.owner, math.max(ms_left(now, record.since), 0),
    math.max(ms_left(record.kept, now) - lease_ms - TOKEN_RETAIN_MS, 0)}
end

-- The waiters that have an offer, then the head of the queue -> {'OK', describe_waiter...}
define('lock_waiting', {'no-writes'}, function(base, now, name)
  local lock, reply = read_lock(base, name), {'OK'}
  local function show(token)
    if #reply <= QUEUE_SHOWN then reply[#reply + 1] = describe_waiter(base, token, now) end
  end
  if lock.offers > 0 then
    read_holders(lock, now)
    for _, holder in ipairs(lock.holders) do
      if holder.fence == 0 then show(holder.token) end
    end
  end
  for _, token in ipairs(redis.call('ZRANGE', base .. 'lock:w:' .. name, '0', int(QUEUE_SHOWN - 1))) do show(token) end
  return reply
end)

-- -> {'OK', {owner, fence, ms left, ms held (0 if the clock was set back), permits} of each whose lease has not
--    expired...}
define('lock_describe', {'no-writes'}, function(base, now, ...)
  local reply, args = {'OK'}, {...}
  for i = 1, #args, 2 do
    local end_us, fence, permits = valid_lease(args[i + 1], now)
    if end_us then
      local record = record_of(base, args[i])
      reply[#reply + 1] = {record and record.owner or '', fence, ms_left(end_us, now),
        record and math.max(ms_left(now, record.since), 0) or 0, permits}
    end
  end
  return reply
end)

-- -> {'OK', token, entry of each removed...}, for lock_describe
define('lock_force_release', {'allow-oom'}, function(base, now, name)
  local q, reply = new_queue(base, now), {'OK'}
  read_holders(due(q, name).lock, now, reply)
  conclude(q)
  if #reply > 1 then -- wakes the calls that watch for it (services/lock_admin.c)
    write('PUBLISH', channel_of(EVERY_SERVER), 'W ' .. string.match(base, '^ls:{[^/]*/') .. 'forced}:forced')
  end
  return reply
end)

-- Returns group, name, mode, holders, longest ms left, the owner of that holder, waiters; nil: no holder, or foreign.
-- Then the number of entries read.
local function list_item(key, now)
  local base, group, name = string.match(key, '^(ls:{[^/]*/([^}]*)}:)lock:n:(.*)$')
  local ok, lock = has_group(base), nil
  if ok then ok, lock = pcall(read_lock, base, name) end
  if not ok or not lock.mode then return nil, 0 end
  read_holders(lock, now)
  local n, last = 0, nil
  for _, holder in ipairs(lock.holders) do
    if holder.fence > 0 then
      n = n + 1
      if not last or holder.end_us > last.end_us then last = holder end
    end
  end
  local looked_at = #lock.holders + #lock.over + 1
  if n == 0 then return nil, looked_at end
  local parked = redis.pcall('ZCARD', base .. 'lock:w:' .. name)
  return {group, name, MODE[lock.mode], n, ms_left(last.end_us, now), owner_of(base, last.token),
    #lock.holders - n + (tonumber(parked) or 0)}, looked_at
end

-- SCAN in small steps. A step that does not fit the page begins the next one. If it is the first of a page, it is
-- split, and the cursor then has digests of the keys that are done: "<SCAN's cursor>.<digest>...".
-- page_cursor: "0" at first. node: the node that returned it; listed: slots that are done, "0-99,100-100"
-- -> {'OK', next cursor or '', this node, its slots, item...}
define('lock_list', {'no-writes', OF_PART}, function(base, now, prefix, page_size, page_cursor, node, listed)
  local pattern = string.match(base, '^ls:{[^/]*/') .. '*}:lock:n:' .. prefix .. '*'
  local size = tonumber(page_size)
  local resumed, is_listed = resume(page_cursor, node, listed)
  local cursor, given = string.match(resumed or '0', '^(%d+)(.*)$')
  local reply, work = {'OK', '', this_node(), served_slots()}, 0
  repeat
    local step, items = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', LIST_STEP), {}
    local room, whole, done = size - (#reply - 4), true, given
    for _, key in ipairs(step[2]) do
      local digest = '.' .. string.sub(redis.sha1hex(key), 1, 12)
      if not string.find(given, digest, 1, true) then
        whole = whole and work < LIST_WORK and #items <= room
        if not whole then break end
        local item, looked_at = nil, 0
        if not is_listed(key) then item, looked_at = list_item(key, now) end
        items[#items + 1], work = item, work + looked_at
        if #items <= room then done = done .. digest end
      end
    end
    if not whole or #items > room then
      if room == size then
        for i = 1, math.min(room, #items) do reply[#reply + 1] = items[i] end
        given = done
      end
      reply[2] = cursor .. given
      return reply
    end
    for _, item in ipairs(items) do reply[#reply + 1] = item end
    cursor, given = step[1], ''
    work = work + LIST_STEP
  until cursor == '0' or #reply - 4 == size or work >= LIST_WORK
  if cursor ~= '0' then reply[2] = cursor end
  return reply
end)

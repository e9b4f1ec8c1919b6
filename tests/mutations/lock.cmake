# What keeps LockService's promises.

# Acquire
lua_mutation(L4 test_lock_acquire [[
  if record and not waits(record) then return acquired_again(base, me.token, record, me.targets, now) end
  if record and record.targets]] [[
  if record and record.targets]])
lua_mutation(L1 test_lock_acquire
  [[write_record(me.key, 'H', q.now, end_us + TOKEN_RETAIN_MS * 1000, ' ' .. me.owner .. ' ' .. me.targets,
    'PX', int(me.lease_ms + TOKEN_RETAIN_MS))]] "")
lua_mutation(L4 test_lock_acquire [[if not write_new(base, now, token, owner, lease_ms, name) then return nil end]]
  [[write_new(base, now, token, owner, lease_ms, name)]])
lua_mutation(L4 test_lock_acquire [[if not write_new(base, now, token, owner, lease_ms, targets) then return nil end]]
  [[write_new(base, now, token, owner, lease_ms, targets)]])
lua_mutation(L3 test_lock_acquire [[    if not fence then return nil end
]] [[    if not fence then fence, kept = now, 0 end
]])
lua_mutation(L49 test_lock_batches [[busy_key == key and busy_in]] [[busy_in]])
lua_mutation(L49 test_lock_batches [[busy_in == fcall and busy_holder]] [[busy_holder]])
lua_mutation(L49 test_lock_batches [[busy_holder ~= token and not redis.call('GET', base .. 'lock:t:' .. token)]] [[busy_holder ~= token]])
lua_mutation(L49 test_lock_batches [[busy_holder ~= token and not]] [[not]])
lua_mutation(L4 test_lock_acquire "key = base .. 'lock:t:' .. token, owner" "key = base .. 'lock:t:', owner")
lua_mutation(L5 test_lock_acquire [[if record.targets ~= targets then fail]] [[if false then fail]])
lua_mutation(L6 test_lock_acquire [[if not end_us then return {'TOKEN_SPENT'} end]] "")
lua_mutation(L7 test_lock_acquire [[if #reply == 2 then return {'TOKEN_SPENT'} end]] "")
lua_mutation(L6 test_lock_acquire [[holder == token or redis.call('GET', base .. 'lock:t:' .. token)]] [[holder == token]])
lua_mutation(L8 test_lock_acquire [[if holder == token or]] [[if]])
lua_mutation(L8 test_lock_acquire [[if fence and fence > 0 then return {'TOKEN_SPENT'} end]] "")
lua_mutation(L3 test_lock_acquire
  [[if is_barred(line.ahead or line.lock, want) or is_full(line.lock) then return i end]]
  [[if i == 1 and is_barred(line.ahead or line.lock, want) then return i end]])
lua_mutation(L9 test_lock_acquire [[if end_us <= now then return nil end]] [[if true then return nil end]])
lua_mutation(L9 test_lock_acquire [[if end_us <= now then return nil end]] "")
lua_mutation(L9 test_lock_acquire [[if end_us <= now then]] [[if end_us < now then]])
lua_mutation(L9 test_lock_acquire [[kind ~= EXCLUSIVE or fence == 0 or end_us <= now then]]
  [[kind ~= EXCLUSIVE or fence == 0 then]])
lua_mutation(L10 test_lock_acquire [[if lock.soonest <= now or lock.offers > 0 and lock.soonest > now + OFFER_US then look(lock, now) end]] "")
lua_mutation(L48 test_lock_acquire [[if layout ~= LAYOUT or #text < NAME_BYTES then foreign() end]] "")
lua_mutation(L48 test_lock_acquire [[if layout ~= LAYOUT or not STATES[state] or not targets then foreign() end]] "")
lua_mutation(L48 test_lock_acquire [[if layout ~= LAYOUT or kind ~= FREE or stands]] [[if stands]])
lua_mutation(L48 test_lock_wait [[SEVERAL_HOLDERS[kind] or foreign()]] [[SEVERAL_HOLDERS[kind] or 'S']])
lua_mutation(L56 test_lock_bounds:where_holders* [[if lock.one then redis.call('HLEN', lock.several_key) end]] "")

# Modes
lua_mutation(L11 test_lock_modes [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode ~= lock.mode]])
lua_mutation(L11 test_lock_modes
  [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode == 'E' or lock.mode == 'E']])
lua_mutation(L12 test_lock_modes [[lock.used + wanted.permits > lock.capacity]] [[lock.used >= lock.capacity]])
lua_mutation(L13 test_lock_modes [[local in_use = lock.mode == 'P' and lock.capacity]] [[local in_use]])
lua_mutation(L12 test_lock_modes [[lock.used, lock.holders = lock.used - permits, nil]] "")
lua_mutation(L12 test_lock_modes [[
    write('HDEL', lock.several, token)
  end
  changed(lock)]] [[
    write('HDEL', lock.several, token)
  end]])
lua_mutation(L10 test_lock_modes [[lock.soonest = math.min(lock.soonest, end_us)]] [[lock.soonest = end_us]])
lua_mutation(L10 test_lock_modes [[soonest = math.min(soonest, end_us)]] "")
lua_mutation(L10 test_lock_modes
  [[if lock.used == permits then lock.soonest = end_us end]] [[lock.soonest = end_us]])
lua_mutation(L10 test_lock_modes [[elseif #gone > 0 then write('HDEL', lock.several, unpack(gone)) end]] [[end]])
lua_mutation(L10 test_lock_modes [[unpack(gone)) end
  changed(lock)]] [[unpack(gone)) end]])
lua_mutation(L14 test_lock_modes [[if not is_barred(lock, want) and is_full(lock) and not]] [[if false and not]])

# Renew, Release
lua_mutation(L16 test_lock_renew_release [[
    if not lock.end_us or lock.my_fence == 0 then return {'LOST', 0} end
    locks[i] = lock]] [[
    if lock.end_us then locks[#locks + 1] = lock end]])
lua_mutation(L15 test_lock_renew_release [[math.max(lock.end_us, now + lease_ms * 1000)]] [[now + lease_ms * 1000]])
lua_mutation(L18 test_lock_renew_release [[lock.permits = lease_of(lock, token, now)]]
  [[lock.permits = lease_of(lock, lock.one and lock.one[1], now)]])
lua_mutation(L18 test_lock_renew_release [[held = lease_of(lock, token, now)]]
  [[held = lease_of(lock, lock.one and lock.one[1], now)]])
lua_mutation(L18 test_lock_renew_release [[
      if held then
]] [[
      if lock.mode then
        held = held or 1
]])
lua_mutation(L18 test_lock_renew_release [[if not held or #held ~= HELD_BYTES + #token or string.sub(held, HELD_BYTES + 1) ~= token then]]
  [[if not held then]])
lua_mutation(L18 test_lock_renew_release [[kind ~= EXCLUSIVE or end_us <= now then]]
  [[kind ~= EXCLUSIVE then]])
lua_mutation(L18 test_lock_renew_release [[not ONE_HOLDER[kind] or fence == 0 or end_us <= now then]]
  [[not ONE_HOLDER[kind] or fence == 0 then]])
lua_mutation(L18 test_lock_renew_release [[ or another or (name or only) ~= only then]] [[ or another then]])
lua_mutation(L19 test_lock_renew_release [[ or another or (name or only) ~= only then]] [[ or (name or only) ~= only then]])
lua_mutation(L16 test_lock_renew_release [[if not name or another then return nil end]] [[if not name then return nil end]])
lua_mutation(L15 test_lock_renew_release [[end_us = math.max(end_us, now + lease_ms * 1000)]] [[end_us = now + lease_ms * 1000]])
lua_mutation(L7 test_lock_renew_release [[write_spent(token_key, now)]] "")
lua_mutation(L19 test_lock_renew_release [[
        released = true
]] "\n")
lua_mutation(L19 test_lock_renew_release [[released = released or record.state == 'X']] "")
lua_mutation(L19 test_lock_renew_release [[if n > 0 and #given_back == 0 then reply[2] = 1 end]] "")
lua_mutation(L27 test_lock_renew_release [[define('lock_renew', {'allow-oom'}]] [[define('lock_renew', {}]])
lua_mutation(L27 test_lock_renew_release [[define('lock_release', {'allow-oom'}]] [[define('lock_release', {}]])
lua_mutation(L27 test_lock_renew_release
  [[define('lock_force_release', {'allow-oom'}]] [[define('lock_force_release', {}]])
lua_mutation(L27 test_lock_renew_release
  [[define('lock_acquire', {}, function]] [[define('lock_acquire', {'allow-oom'}, function]])
lua_mutation(L26 test_lock_renew_release [[local TOKEN_RETAIN_MS = 600000]] [[local TOKEN_RETAIN_MS = 60000]])
lua_mutation(L26 test_lock_renew_release [[local FENCE_RETAIN_MS = 86400000]] [[local FENCE_RETAIN_MS = 0]])
lua_mutation(L26 test_lock_renew_release [[keep(lock, end_us + FENCE_RETAIN_MS * 1000)]] "")
lua_mutation(L26 test_lock_renew_release [[kept < end_us + FENCE_RETAIN_MS * 1000 or ]] "")
lua_mutation(L26 test_lock_renew_release [[ or token_kept < now + (lease_ms + TOKEN_RETAIN_MS) * 1000 then]] [[ then]])
lua_mutation(L26 test_lock_renew_release [[if record.kept < kept then]] [[if false then]])
lua_mutation(L26 test_lock_renew_release [[if record.kept < kept then]] [[if true then]])
lua_mutation(L26 test_lock_renew_release [[if kept > now + 2 * TOKEN_RETAIN_MS * 1000 then]] [[if false then]])
lua_mutation(L26 test_lock_acquire [[keep(lock, end_us + FENCE_RETAIN_MS * 1000)]] "")
lua_mutation(L26 test_lock_acquire [[if kept < least then]] [[if false then]])
lua_mutation(L26 test_lock_acquire [[if lock.several then write('PEXPIRE', lock.several, ms) end]] "")
lua_mutation(L26 test_lock_acquire [[text, 'KEEPTTL')]] [[text)]])
lua_mutation(L26 test_lock_renew_release [[write('SETRANGE', key, '1', 'X')]] [[write('SET', key, '\2X' .. string.sub(text, 3))]])

# Fences
lua_mutation(L20 test_lock_fence [[math.max(last + 1, now)]] [[now]])
lua_mutation(L20 test_lock_fence [[math.max(last + 1, now)]] [[last + 1]])
lua_mutation(L20 test_lock_fence [[math.max(lock.fence + 1, q.now)]] [[q.now]])
lua_mutation(L20 test_lock_fence [[math.max(lock.fence + 1, q.now)]] [[lock.fence + 1]])
lua_mutation(L22 test_lock_fence [[if fence < high then return {'STALE', high} end]] "")
lua_mutation(L22 test_lock_fence [[if fence < high then]] [[if fence <= high then]])
lua_mutation(L22 test_lock_fence [[if fence > high then write('SET', key, int(fence)) end]] "")
lua_mutation(L22 test_lock_fence [[write('SET', key, int(fence))]] [[write('SET', key, int(fence), 'PX', 1000000)]])
lua_mutation(L48 test_lock_fence
  [[tonumber(redis.call('GET', key) or 0) or foreign()]] [[tonumber(redis.call('GET', key) or 0) or 0]])

# Inspect, List, ForceRelease
lua_mutation(L25 test_lock_admin
  [[taken[#taken + 1], taken[#taken + 2] = token, entry
      over[#over + 1] = token]]
  [[taken[#taken + 1], taken[#taken + 2] = token, entry]])
lua_mutation(L24 test_lock_admin [[string.match(base, '^ls:{[^/]*/')]] [['ls:{']])
lua_mutation(L24 test_lock_admin [['*}:lock:n:' .. prefix .. '*']] [['*}:lock:n:*']])
lua_mutation(L24 test_lock_admin [[ok, lock = pcall(read_lock, base, name)]]
  [[ok, lock = true, read_lock(base, name)]])
lua_mutation(L24 test_lock_admin [[local room, whole, done = size - (#reply - 4), true, given]]
  [[local room, whole, done = 1000000, true, given]])
lua_mutation(L24 test_lock_admin [[given = done]] "")
lua_mutation(L24 test_lock_admin [[or work >= LIST_WORK]] "")
lua_mutation(L24 test_lock_admin
  [[if n == 0 then return nil, looked_at end]]
  [[if n == 0 then return {'g', 'x', 'SHARED', 0, 5}, 1 end]])

# Waiting: the queue
lua_mutation(L30 test_lock_queue_model
  [[if not next or next.number >= number then return end]] [[if true then return end]])
lua_mutation(L30 test_lock_queue_model [[
    ahead.mode = 'E'
  else]] [[
  else]])
lua_mutation(L30 test_lock_queue_model [[line.at, line.passed, line.last = line.at + 1, line.passed + 1, number
  count(line, want)]] [[line.at, line.passed, line.last = line.at + 1, line.passed + 1, number
  ahead_of(line)]])
lua_mutation(L30 test_lock_wait [[kind ~= FREE or stands ~= 0 then]] [[kind ~= FREE then]])
lua_mutation(L31 test_lock_wait [[if stands == 0 then]] [[if stands >= 0 then]])
lua_mutation(L31 test_lock_wait [[line.lock.waits = true]] "")
lua_mutation(L31 test_lock_wait [[
  conclude(q)

  local n, reply]] [[

  local n, reply]])
lua_mutation(L31 test_lock_wait [[
  look(line.lock, now)
  conclude(q)]] "\n")
lua_mutation(L33 test_lock_wait
  [[return {'OK', anyone_stands(q, line) and watch_ms(q, line) or -1}]] [[return {'OK', -1}]])
lua_mutation(L33 test_lock_wait_ends
  [[return {'OK', anyone_stands(q, line) and watch_ms(q, line) or -1}]] [[return {'OK', watch_ms(q, line)}]])
lua_mutation(L33 test_lock_wait
  [[local ends = lock.mode and]] [[local ends = false and]])
lua_mutation(L31 test_lock_wait_ends [[
  conclude(q)
  return reply
end)

-- What was granted to that copy]] [[
  return reply
end)

-- What was granted to that copy]])
lua_mutation(L31 test_lock_wait [[look(due(q, name).lock, now, reply)
  conclude(q)]] [[look(due(q, name).lock, now, reply)
  tell(q)]])
lua_mutation(L33 test_lock_wait [[if end_us < watched then lock.sooner = true end]] "")
lua_mutation(L33 test_lock_wait
  [[for server in pairs(known(line)) do
        if publish]]
  [[for server in pairs({[next(known(line))] = 1}) do
        if publish]])
lua_mutation(L32 test_lock_wait [[
      q.more = true
      return]] [[
      return]])
lua_mutation(L32 test_lock_wait [[worked(0) - q.free >= WORK_MAX]] [[false]])
lua_mutation(L45 test_lock_wait [[number, line.is_new = math.max(number, (tonumber(last[2]) or 0) + 1), #last == 0]]
  [[line.is_new = #last == 0]])
lua_mutation(L43 test_lock_wait [[write('DEL', line.servers)]] "")
lua_mutation(L43 test_lock_wait [[write('PEXPIRE', lock.queue_key, ms)]] "")
lua_mutation(L43 test_lock_wait [[write('PEXPIRE', lock.servers_key, ms)]] "")
lua_mutation(L43 test_lock_hand_over [[if line.is_new or line.joined then]] [[if line.is_new then]])
lua_mutation(L43 test_lock_hand_over [[if line.is_new or line.joined then]] [[if line.joined then]])
lua_mutation(L43 test_lock_hand_over [[== 1 then write('PEXPIRE', servers, int((kept - now) / 1000)) end]] [[then local _ = kept end]])
lua_mutation(L43 test_lock_hand_over [[if kept < now + QUEUE_RETAIN_MS * 1000 or]] [[if]])
lua_mutation(L43 test_lock_wait [[keep(line.lock, q.now + QUEUE_RETAIN_MS * 1000)]] "")
lua_mutation(L43 test_lock_wait [[local QUEUE_RETAIN_MS = 2 * 86400000]] [[local QUEUE_RETAIN_MS = 86400]])
lua_mutation(L43 test_lock_wait
  [[stand(q, me, me.wait_ms + me.lease_ms + TOKEN_RETAIN_MS)]] [[stand(q, me, TOKEN_RETAIN_MS)]])
lua_mutation(L41 test_lock_wait [[in_use = tonumber(waiting[2] or 0) > 0 and tonumber(waiting[1])]] "")
lua_mutation(L41 test_lock_wait [[
      if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
      line.left = true
      if line.last]] [[
      write('ZREM', line.queue, w.token)
      line.left = true
      if line.last]])

# Waiting: offers
lua_mutation(L34 test_lock_wait [[local claimed = record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local refused]] [[local refused]])
lua_mutation(L34 test_lock_wait
  [[lease_ms and lease_ms * 1000 or OFFER_US]] [[lease_ms and lease_ms * 1000 or 900000000]])
lua_mutation(L45 test_lock_wait [[if fence == 0 and end_us > now + OFFER_US then return nil end]] "")
lua_mutation(L34 test_lock_wait [[if not lock.end_us or lock.my_fence == 0 then]] [[if not lock.end_us then]])
lua_mutation(L34 test_lock_wait
  [[if taken and fence ~= 0 then]] [[if taken then]])
lua_mutation(L34 test_lock_wait [[not ONE_HOLDER[kind] or fence == 0 or end_us]] [[not ONE_HOLDER[kind] or end_us]])
lua_mutation(L34 test_lock_wait_ends [[if fence ~= 0 then return nil end]] "")
lua_mutation(L35 test_lock_wait_ends [[line.known[server] = '0']] "")
lua_mutation(L35 test_lock_wait_ends
  [[if is_subscribed(q, server) then publish(server, 'W', q.base .. w.token) end]] "")
lua_mutation(L35 test_lock_wait_ends [[redis.call('PUBSUB', 'NUMSUB', channel_of(server))[2] > 0]] [[true]])
lua_mutation(L36 test_lock_wait_ends [[me.number, me.kept, me.others = record.since, record.kept, without_copy]]
  [[me.kept, me.others = record.kept, without_copy]])
lua_mutation(L31 test_lock_wait [[if w.token ~= q.token then wake(q, w) end]] "")

# Waiting: withdrawal
lua_mutation(L37 test_lock_wait_ends [[if w.state == 'Q' then leave(q, w) end]] "")
lua_mutation(L37 test_lock_wait_ends [[local claimed = record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local barred = 1]] [[local barred = 1]])
lua_mutation(L37 test_lock_wait_ends
  [[write_spent(q.base .. 'lock:t:' .. w.token, q.now)]]
  [[write('DEL', q.base .. 'lock:t:' .. w.token)]])
lua_mutation(L39 test_lock_wait_ends [[
    write_spent(token_key, now)
  elseif]] [[
  elseif]])
lua_mutation(L40 test_lock_wait_ends [[
  wake(q, {token = me.token, parked = me.others})
  conclude(q)]] [[
  conclude(q)]])
lua_mutation(L39 test_lock_wait_ends [[
    spend(q, w)
    wake(q, w)]] [[
    spend(q, w)]])
lua_mutation(L38 test_lock_wait_ends [[if is_offer or fences[i] and]] [[if fences[i] and]])
lua_mutation(L38 test_lock_wait_ends [[write_life(q, w, 'A', TOKEN_RETAIN_MS)]]
  [[write('DEL', base .. 'lock:t:' .. token)]])

# Waiting: turns that are granted at once
lua_mutation(L57 test_lock_hand_over [[return server == asks and tonumber(lease_ms) or nil]] [[return nil]])
lua_mutation(L57 test_lock_hand_over [[return server == asks and tonumber(lease_ms) or nil]] [[return asks and tonumber(lease_ms)]])
lua_mutation(L57 test_lock_hand_over [[kept < lease_end_us + FENCE_RETAIN_MS * 1000 or lease_end_us]] [[lease_end_us]])
lua_mutation(L57 test_lock_hand_over [[or lease_end_us < end_us then return false end]] [[then return false end]])
lua_mutation(L57 test_lock_hand_over [[    dirty = false -- nobody]] [[    do end -- nobody]])
lua_mutation(L57 test_lock_hand_over [[int(fence)) == 0 then]] [[int(fence)) < 0 then]])
lua_mutation(L57 test_lock_hand_over [[local lease_ms = only == name and]] [[local lease_ms =]])
lua_mutation(L57 test_lock_hand_over [[if not first[2] then write('DEL', base .. 'lock:s:' .. name) end]] "")
lua_mutation(L57 test_lock_hand_over [[first[2] and 1 or 0]] [[0]])
lua_mutation(L57 test_lock_hand_over [[only, key, math.max(last + 1, now), kept]] [[only, key, now, kept]])
lua_mutation(L57 test_lock_hand_over [[math.max(line.lock.fence + 1, q.now)]] [[q.now]])
lua_mutation(L57 test_lock_hand_over [[lock.watched = lock.watched or lock.soonest]] "")
c_mutation(L57 server/services/lock.c test_lock_hand_over [[.server = p->server);]] [[.server = "");]])
lua_mutation(L58 test_lock_hand_over [[if w and w.state == 'H' then return take_back(base, now, token, w, copy) end]] "")
lua_mutation(L58 test_lock_hand_over [[if told ~= copy then return {'OK', -1} end]] [[if not told then return {'OK', -1} end]])
lua_mutation(L58 test_lock_hand_over [[if record.parked ~= '' then -- from]] [[if false then -- from]])
lua_mutation(L58 test_lock_hand_over [[if step_out(q, w) then]] [[if step_out(q, w) or true then]])
lua_mutation(L58 test_lock_hand_over [[tonumber(number), wants_of]] [[now, wants_of]])
lua_mutation(L58 test_lock_hand_over [[token, copy, number, words, lease_ms)]] [[token, copy, now, words, lease_ms)]])
lua_mutation(L58 test_lock_hand_over [[if is_offer or fences[i] and w.state == 'H' then]] [[if is_offer then]])

# Waiting: the usual way into a queue
lua_mutation(L59 test_lock_hand_over [[math.max(now, last + 1), wait_ms]] [[now, wait_ms]])
lua_mutation(L59 test_lock_hand_over [[== token or redis.call('GET', token_key) then]] [[== token then]])
lua_mutation(L59 test_lock_hand_over [[if not last then return nil end]] "")
lua_mutation(L59 test_lock_hand_over [[write('HSET', servers, '@' .. server_of(copy), '1')]] [[redis.call('HLEN', servers)]])

# Waiting: nobody sleeps on
lua_mutation(L50 test_lock_wait_ends [[return math.min(ends or LOOK_MS, LOOK_MS)]] [[return ends or -1]])
lua_mutation(L50 test_lock_wait_ends [[(line.joined or line.due and not line.had_room) and]] [[line.joined and]])
lua_mutation(L50 test_lock_wait_ends [[(line.joined or line.due and not line.had_room) and]]
  [[line.due and not line.had_room and]])
lua_mutation(L50 test_lock_wait_ends [[return line.n_known > 1]] [[return true]])
lua_mutation(L50 test_lock_wait_ends [[elseif not q.deep or not widen(q, w) then]] [[else]])
lua_mutation(L50 test_lock_wait_ends [[local OFFER_US = 500000]] [[local OFFER_US = 2000000]])

# Waiting: copies of a call
lua_mutation(L51 test_lock_wait_ends [[for _, server in ipairs(servers_of(w)) do publish(server, 'W', q.base .. w.token) end]]
  [[publish(servers_of(w)[1], 'W', q.base .. w.token)]])
lua_mutation(L51 test_lock_wait_ends [[
  if me.others ~= '' then wake(q, {token = me.token, parked = me.others}) end
  tell(q)]] [[
  tell(q)]])
lua_mutation(L51 test_lock_wait_ends [[if left ~= '' then
    write_life(q, w, w.state)
  else]] [[if true then]])
lua_mutation(L51 test_lock_wait_ends [[if one ~= copy then left]] [[if server_of(one) ~= server_of(copy) then left]])
lua_mutation(L51 test_lock_wait_ends [[if not left or left == w.parked then return {'OK', -1} end]]
  [[if not left or left == w.parked then left = '' end]])
lua_mutation(L51 test_lock_wait_ends
  [[if w.others ~= '' then retain_ms = math.max(retain_ms, ms_left(w.kept, q.now)) end]] "")
lua_mutation(L51 test_lock_wait_ends [[if #all >= COPIES_MAX then
    fail]] [[if false then
    fail]])
lua_mutation(L51 test_lock_wait_ends [[if #all >= COPIES_MAX and not is_subscribed(q, server_of(all[i])) then]] [[if false then]])

# Waiting: what nobody holds or can claim
lua_mutation(L53 test_lock_wait_ends [[if drop_dead(q, line) then return end]] "")
lua_mutation(L53 test_lock_wait_ends [[if is_barred(lock, want) then void_offers(q, line) end]] "")
lua_mutation(L53 test_lock_wait_ends [[heard = heard or is_subscribed(q, server)]] [[heard = false]])
lua_mutation(L53 test_lock_wait_ends [[leave(q, me) -- its]] [[local _ = me -- its]])
lua_mutation(L45 test_lock_wait_ends [[or lock.offers > 0 and lock.soonest > now + OFFER_US then]] [[then]])
lua_mutation(L44 test_lock_wait [[define('lock_withdraw', {'allow-oom'}]] [[define('lock_withdraw', {}]])
lua_mutation(L44 test_lock_wait [[define('lock_abandon', {'allow-oom'}]] [[define('lock_abandon', {}]])
lua_mutation(L44 test_lock_wait [[define('lock_claim', {'allow-oom'}]] [[define('lock_claim', {}]])
lua_mutation(L44 test_lock_wait [[define('lock_promote', {'allow-oom'}]] [[define('lock_promote', {}]])
lua_mutation(L48 test_lock_wait [[
  local line = first_of(q, name)]] [[
  local line = open(q, name)]])
lua_mutation(L42 test_lock_wait [[local next = ahead_of(line).mode ~= 'E' and next_of(q, line)]]
  [[ahead_of(line) local next = next_of(q, line)]])
lua_mutation(L21 test_lock_acquire [[math.max(lock.fence + 1, q.now)]] [[q.now]])
lua_mutation(L49 test_lock_acquire [[  dirty = false
  local ok, reply = pcall(handler, base,]] [[  local ok, reply = pcall(handler, base,]])

# C: what reaches the functions
c_mutation(L18 server/services/lock.c test_lock_renew_release
  [[args_lock_renew(p, .token = lease->token,]] [[args_lock_renew(p, .token = request->leases[0]->token,]])
c_mutation(L28 server/services/plan.c test_lock_acquire [[        lks_rpc_random_id(p->id);]]
  [[        memset(p->id, 'x', sizeof p->id - 1);]])
c_mutation(L28 server/services/answer.c test_lock_acquire [[return group[0] != '\0' ? group : only;]] [[return group;]])
c_mutation(L29 server/services/plan.c test_lock_acquire
  [[text ? plan_encode(p->arena, text) : NULL]] [[text]])
c_mutation(L29 server/services/lock.c test_lock_acquire
  [[const char *name = plan_encode(p->arena, target->name);]] [[const char *name = target->name;]])
c_mutation(L11 server/services/lock.c test_lock_modes [[return memory_printf_in(p->arena, "%s S 1 0", name);]] [[return name;]])
c_mutation(L12 server/services/lock.c test_lock_modes [[target->permits ? target->permits : 1]] [[1]])
c_mutation(L33 server/services/lock.c test_lock_wait [[    for (size_t i = 0; i < request->n_targets; i++)
        answer_alarm(]] [[    for (size_t i = 0; i < 1; i++)
        answer_alarm(]])
c_mutation(L38 server/services/lock.c test_lock_wait_ends [[    plan_undo(p, fn_lock_abandon.name,]] [[    (void)(p, fn_lock_abandon.name,]])
c_mutation(L38 server/services/lock.c test_lock_wait_ends
  [[plan_path(p, "%s.%s.%lld", p->server, plan_id(p), (long long)request->lease_ms);]]
  [[plan_path(p, "%s..%lld", p->server, (long long)request->lease_ms);]])

# C: what the caller gets
c_mutation(L1 server/services/lock.c test_lock_acquire [[response->fences[i]->name = request->targets[i]->name;]]
  [[response->fences[i]->name = request->targets[0]->name;]])
c_mutation(L2 server/services/lock.c test_lock_acquire [[response->outcome == LKS_ACQUIRE_OUTCOME_BUSY || ]] "")
c_mutation(L2 server/services/lock.c test_lock_acquire
  [[holder->name = request->targets[place]->name;]] [[holder->name = request->targets[0]->name;]])
c_mutation(L2 server/services/lock.c test_lock_acquire [[holder->lease_ms = answer_int(a, reply, 3);]] "")
c_mutation(L4 server/services/lock.c test_lock_acquire [[    response->replayed = !is_new;]] "")
c_mutation(L17 server/services/lock.c test_lock_renew_release
  [[answer_enum(a, a->replies[i], 0, &lockstock__v1__renew_outcome]]
  [[answer_enum(a, a->replies[0], 0, &lockstock__v1__renew_outcome]])
c_mutation(L17 server/services/lock.c test_lock_renew_release [[result->group = answer_group(]] [[answer_group(]])
c_mutation(L19 server/services/lock.c test_lock_renew_release [[n > 1 && answer_int(a, reply, 1) != 0]] [[false]])
c_mutation(L19 server/services/lock.c test_lock_renew_release
  [[answer_enum(a, reply, 3 + 2 * i, outcome)]] [[answer_enum(a, reply, 0, outcome)]])
c_mutation(L22 server/services/lock_admin.c test_lock_fence
  [[outcome__descriptor);
    response->high_water = (uint64_t)answer_int(a, a->replies[0], 1);]] [[outcome__descriptor);]])
c_mutation(L23 server/services/lock_admin.c test_lock_admin
  [[response->last_fence = (uint64_t)answer_int(a, reply, 3);]] "")
lua_mutation(L23 test_lock_admin [[math.max(ms_left(now, record.since), 0)]] [[ms_left(now, record.since)]])
lua_mutation(L25 test_lock_admin [[pcall(read_record, base .. 'lock:t:' .. token)
  return ok and record or nil]] [[true, read_record(base .. 'lock:t:' .. token)
  return ok and record or nil]])
c_mutation(L23 server/services/lock_admin.c test_lock_admin [[holders[at]->held_ms = answer_int(a, row, 3);]] "")
c_mutation(L25 server/services/lock_admin.c test_lock_admin
  [[response->removed = new_holders(a, &response->n_removed);]] [[response->removed = new_holders(a, &(size_t){0});]])
c_mutation(L23 server/services/lock_admin.c test_lock_modes [[qsort(holders, *n, sizeof *holders, by_fence);]] "")
c_mutation(L37 server/services/lock.c test_lock_wait_ends [[ || response->outcome == LKS_ACQUIRE_OUTCOME_TIMED_OUT]] "")

# C: who waits in a server
c_mutation(L33 server/calls/alarms.c test_alarms [[        set(a, in_ms_from_now(again_ms));]] [[        (void)again_ms;]])
c_mutation(L33 server/calls/alarms.c test_alarms
  [[if (a->when.place > 0 && a->when.at_ns <= at_ns)]] [[if (a->when.place > 0)]])
c_mutation(L33 server/calls/alarms.c test_alarms [[a->again = a->asking;]] [[a->again = false;]])
c_mutation(L52 server/services/rounds.c test_dispatch [[(r->has_waited || r->error.applied == LKS_APPLIED_MAYBE)]] [[r->has_waited]])
c_mutation(L52 server/services/rounds.c test_dispatch [[(r->has_waited || r->error.applied == LKS_APPLIED_MAYBE)]]
  [[r->error.applied == LKS_APPLIED_MAYBE]])
c_mutation(L52 server/services/rounds.c test_dispatch [[(r->has_waited || r->error.applied == LKS_APPLIED_MAYBE)]] [[true]])
c_mutation(L54 server/calls/alarms.c test_alarms:*at_the_limit [[(!counts && all->n_lasting >= LASTING_MAX)]] [[(all->n_lasting >= LASTING_MAX)]])
c_mutation(L54 server/calls/alarms.c test_alarms:*at_the_limit [[(!counts && all->n_lasting >= LASTING_MAX)]] [[false]])
c_mutation(L54 server/calls/alarms.c test_alarms [[    if (a->watchers > 0 || a->lasting)
        return;]] [[    return;]])
c_mutation(L54 server/calls/alarms.c test_alarms [[        w->alarm->watchers--;]] [[        ;]])
c_mutation(L54 server/calls/alarms.c test_alarms:of_many* [[all->n_asked < ASKED_MAX && ]] "")
c_mutation(L54 server/calls/waiters.c test_waiters [[    heap_clear(&all->deadlines.heap, &w->deadline);
    alarms_unwatch(all->alarms, w->watches);]] [[    heap_clear(&all->deadlines.heap, &w->deadline);]])
c_mutation(L55 server/calls/loss.c test_loss [[    waiters_missed(w->loss->waiters);]] [[    ;]])
c_mutation(L55 server/calls/loss.c test_loss [[    if (!known)
        return;]] "")
c_mutation(L55 server/calls/loss.c test_loss [[    lks_rpc_random_id(w->offered);]] "")
c_mutation(L55 server/server.c test_waiting:*emptied* [[        loss_begin(s->loss);]] [[        ;]])
c_mutation(L36 server/calls/waiters.c test_waiters [[tell_all(all, SERVICE_WOKEN);]] "")

# Bad input
c_mutation(L46 server/services/lock.c test_lock_input
  [[plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);]] [[plan_check_range(p, "wait_ms", request->wait_ms, 0, INT64_MAX);]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_text(p, field, token, SERVICE_TOKEN_BYTES_MIN, SERVICE_TOKEN_BYTES_MAX);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[if ((unsigned char)*c <= ' ' || *c == 0x7f)]] [[if (*c == 0x7f)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[if ((unsigned char)*c <= ' ' || *c == 0x7f)]] [[if ((unsigned char)*c <= ' ')]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_range(p, field, lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[if (n > SERVICE_TARGETS_MAX)
        plan_invalid(p, "%s: at most]] [[if (false)
        plan_invalid(p, "%s: at most]])
c_mutation(L47 server/services/lock.c test_lock_input [[plan_check_name(p, plan_path(p, "%s[%zu]", list, i), names[i]);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_invalid(p, "%s[%zu]: the same name twice", list, i);]] [[;]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_name(p, plan_path(p, "targets[%zu].name", i), target->name);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_range(p, plan_path(p, "targets[%zu].capacity", i), target->capacity, 1, SERVICE_QUANTITY_MAX);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_range(p, plan_path(p, "targets[%zu].permits", i), target->permits, 0, target->capacity);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[else if (target->permits != 0 || target->capacity != 0)]] [[else if (target->permits != 0)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[else if (target->permits != 0 || target->capacity != 0)]] [[else if (target->capacity != 0)]])
c_mutation(L47 server/services/lock.c test_lock_input [[if (n < 1 || n > SERVICE_TARGETS_MAX)]] [[if (n < 1)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[if (n < 1 || n > SERVICE_TARGETS_MAX)]] [[if (n > SERVICE_TARGETS_MAX)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_invalid(p, "targets[%zu].name: the same name twice", i);]] [[;]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_text(p, "owner", request->owner, 0, SERVICE_NAME_BYTES_MAX);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[if (token[0] != '\0')
        check_token(p, "token", token);]] "")
c_mutation(L47 server/services/lock.c test_lock_input [[check_lease(p, "lease_ms", request->lease_ms);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[if (request->n_leases < 1 || request->n_leases > LEASES_MAX)]] [[if (request->n_leases < 1)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[if (request->n_leases < 1 || request->n_leases > LEASES_MAX)]] [[if (request->n_leases > LEASES_MAX)]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_check_name_or_empty(p, plan_path(p, "leases[%zu].group", i), lease->group);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[check_names(p, plan_path(p, "leases[%zu].names", i), lease->n_names, lease->names);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[plan_invalid(p, "leases[%zu].group: must be set unless names is exactly one", i);]] [[;]])
c_mutation(L47 server/services/lock.c test_lock_input
  [[check_token(p, plan_path(p, "leases[%zu].token", i), lease->token);]] "")
c_mutation(L47 server/services/lock.c test_lock_input
  [[check_lease(p, plan_path(p, "leases[%zu].lease_ms", i), lease->lease_ms);]] "")
c_mutation(L47 server/services/lock.c test_lock_input [[check_names(p, "names", request->n_names, request->names);]] "")
c_mutation(L47 server/services/lock.c test_lock_input [[check_token(p, "token", request->token);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input [[plan_check_name(p, "name", name);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input [[plan_check_name_or_empty(p, "group", group);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input
  [[plan_check_name_or_empty(p, "prefix", request->prefix);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input
  [[plan_check_range(p, "page_size", request->page_size, 0, PAGE_MAX);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input
  [[plan_invalid(p, "page_token: not one that List gave");]] [[;]])
c_mutation(L47 server/services/lock_admin.c test_lock_input [[digits == 0 || errno != 0]] [[digits == 0]])
c_mutation(L47 server/services/lock_admin.c test_lock_input [[ && strlen(token) <= PAGE_TOKEN_BYTES_MAX]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input [[plan_check_name(p, "resource", resource);]] "")
c_mutation(L47 server/services/lock_admin.c test_lock_input
  [[fence < min || fence > (uint64_t)SERVICE_QUANTITY_MAX]] [[fence < min]])
c_mutation(L47 server/services/lock_admin.c test_lock_input
  [[fence < min || fence > (uint64_t)SERVICE_QUANTITY_MAX]] [[fence > (uint64_t)SERVICE_QUANTITY_MAX]])

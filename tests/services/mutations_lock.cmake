# The lines of server/functions that keep LockService's promises; see
# docs/contract-coverage.md.

# Acquire
mutation("the same token again is the same grant" test_lock_acquire
  [[
  if record and record.state == '' then return acquired_again(base, me.token, record, me.targets, now) end
  if record and record.targets]] [[
  if record and record.targets]])
mutation("a grant is recorded under its token" test_lock_acquire
  [[write('SET', me.key, int(q.now) .. ' ' .. me.owner .. ' ' .. me.targets, 'PX', int(me.lease_ms + TOKEN_RETAIN_MS))]] "")
mutation("tokens are told apart" test_lock_acquire "key = base .. 'lock:t:' .. args[1]" "key = base .. 'lock:t:'")
mutation("the same token for other targets: ALREADY_EXISTS" test_lock_acquire [[if record.targets ~= targets then fail]] [[if false then fail]])
mutation("a lost or released token is spent" test_lock_acquire [[if not end_us then return {'TOKEN_SPENT'} end]] "")
mutation("a tombstone is spent" test_lock_acquire [[if #reply == 3 then return {'TOKEN_SPENT'} end]] "")
mutation("never a second grant beside a lost record" test_lock_acquire
  [[if fence and fence > 0 then return {'TOKEN_SPENT'} end]] "")
mutation("all or nothing" test_lock_acquire [[if is_barred(line.ahead, want) or is_full(line.lock) then return i end]] [[if i == 1 and is_barred(line.ahead, want) then return i end]])
mutation("no second grant before the lease ends" test_lock_acquire [[if end_us <= now then return nil end]] [[if true then return nil end]])
mutation("a lease ends" test_lock_acquire [[if end_us <= now then return nil end]] "")
mutation("a lease ends at its end" test_lock_acquire [[if end_us <= now then]] [[if end_us < now then]])
mutation("whose lease is over does not stand in the way" test_lock_acquire
  [[if lock.mode and lock.soonest <= now then look(lock, now) end]] "")
mutation("foreign data is left alone" test_lock_acquire [[if not mode then foreign() end]] "")
mutation("foreign data is left alone" test_lock_acquire [[if not since then foreign() end]] "")
mutation("foreign data is left alone" test_lock_acquire [[tonumber(v[1] or 0) or foreign()]] [[tonumber(v[1] or 0) or 0]])

# Modes
mutation("EXCLUSIVE excludes all" test_lock_modes [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode ~= lock.mode]])
mutation("the modes exclude each other" test_lock_modes [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode == 'E' or lock.mode == 'E']])
mutation("permits are counted" test_lock_modes [[lock.used + wanted.permits > lock.capacity]] [[lock.used >= lock.capacity]])
mutation("a capacity is fixed while anyone holds" test_lock_modes [[local in_use = lock.mode == 'P' and lock.capacity]] [[local in_use]])
mutation("a release gives its permits back" test_lock_modes [[lock.used, lock.holders = lock.used - permits, nil]] "")
mutation("... also among other holders" test_lock_modes [[
    write('HDEL', lock.key, token)
    write('HSET', lock.key, 's', summary(lock))]] [[
    write('HDEL', lock.key, token)]])
mutation("the first end of several leases is known" test_lock_modes [[lock.mode and math.min(lock.soonest, end_us) or end_us]] [[end_us]])
mutation("... after some have ended" test_lock_modes [[lock.soonest = math.min(lock.soonest, end_us)]] "")
mutation("... and after a renewal" test_lock_modes [[if lock.used == lock.permits then lock.soonest = end_us end]] [[lock.soonest = end_us]])
mutation("whose lease is over is removed" test_lock_modes [[if #gone > 0 then write('HDEL', lock.key, unpack(gone)) end]] "")
mutation("holders are read once" test_lock_modes [[if lock.mode then write('HSET', lock.key, 's', summary(lock)) end]] "")
mutation("a name has a bounded number of holders" test_lock_modes [[if #lock.holders >= HOLDERS_MAX then]] [[if false then]])
mutation("holders are shown in the order of their fences" test_lock_modes [[table.sort(lock.holders, function(a, b) return a.fence < b.fence end)]] "")

# Renew, Release
mutation("LOST, and none is renewed" test_lock_renew_release [[
    if not lock.end_us or lock.my_fence == 0 then return {'LOST', 0} end
    locks[i] = lock]] [[
    if lock.end_us then locks[#locks + 1] = lock end]])
mutation("a renewal never shortens" test_lock_renew_release [[math.max(lock.end_us, now + lease_ms * 1000)]] [[now + lease_ms * 1000]])
mutation("only the token renews" test_lock_renew_release [[
    local lock = read_lock(base .. 'lock:n:' .. name, token)
    lock.end_us]] [[
    local lock = read_lock(base .. 'lock:n:' .. name, redis.call('HKEYS', base .. 'lock:n:' .. name)[3] or '')
    lock.end_us]])
mutation("only the token releases" test_lock_renew_release [[
      local lock = open(q, name).lock
      local _]] [[
      local lock = read_lock(base .. 'lock:n:' .. name, redis.call('HKEYS', base .. 'lock:n:' .. name)[3] or '')
      local _]])
mutation("a lease that is over cannot be released" test_lock_renew_release [[
      if permits then
]] [[
      if lock.entry then
        permits = permits or 1
]])
mutation("a tombstone for an unseen token" test_lock_renew_release [[write('SET', token_key, '0  ', 'PX', TOKEN_RETAIN_MS)]] "")
mutation("a release is recorded" test_lock_renew_release [[mode = string.lower(mode)]] "")
mutation("a repeated release says so" test_lock_renew_release [[if n > 0 and #given_back == 0 then reply[2] = 1 end]] "")
mutation("Renew works without memory" test_lock_renew_release [[define('lock_renew', {'allow-oom'}]] [[define('lock_renew', {}]])
mutation("Release works without memory" test_lock_renew_release [[define('lock_release', {'allow-oom'}]] [[define('lock_release', {}]])
mutation("ForceRelease works without memory" test_lock_renew_release [[define('lock_force_release', {'allow-oom'}]] [[define('lock_force_release', {}]])
mutation("Acquire does not" test_lock_renew_release [[define('lock_acquire', {}, acquire)]] [[define('lock_acquire', {'allow-oom'}, acquire)]])
mutation("tokens are kept 10 minutes" test_lock_renew_release [[local TOKEN_RETAIN_MS = 600000]] [[local TOKEN_RETAIN_MS = 60000]])
mutation("fences are kept 24 hours" test_lock_renew_release [[local FENCE_RETAIN_MS = 86400000]] [[local FENCE_RETAIN_MS = 0]])
mutation("a renewed name is kept" test_lock_renew_release [[
    write('PEXPIRE', lock.key, int(lease_ms + FENCE_RETAIN_MS))
    soonest]] [[
    soonest]])
mutation("a renewed token is kept" test_lock_renew_release [[write('PEXPIRE', token_key, int(lease_ms + TOKEN_RETAIN_MS), 'GT')]] "")
mutation("... as long as its longest lease" test_lock_renew_release [[int(lease_ms + TOKEN_RETAIN_MS), 'GT')]] [[int(lease_ms + TOKEN_RETAIN_MS))]])
mutation("every key of a lock ends" test_lock_acquire [[
    write('PEXPIRE', lock.key, int(me.lease_ms + FENCE_RETAIN_MS))
]] "\n")
mutation("every key of a lock ends" test_lock_acquire [[text, 'KEEPTTL')]] [[text)]])

# Fences
mutation("fences grow while the clock steps back" test_lock_fence [[math.max(lock.fence + 1, q.now)]] [[q.now]])
mutation("fences grow after a lost key" test_lock_fence [[math.max(lock.fence + 1, q.now)]] [[lock.fence + 1]])
mutation("the register refuses what is lower" test_lock_fence [[if fence < high then return {'STALE', high} end]] "")
mutation("the register takes what is equal" test_lock_fence [[if fence < high then]] [[if fence <= high then]])
mutation("the register remembers" test_lock_fence [[if fence > high then write('SET', key, int(fence)) end]] "")
mutation("the register stays" test_lock_fence [[write('SET', key, int(fence))]] [[write('SET', key, int(fence), 'PX', 1000000)]])
mutation("foreign data is left alone" test_lock_fence [[tonumber(redis.call('GET', key) or 0) or foreign()]] [[tonumber(redis.call('GET', key) or 0) or 0]])

# Inspect, List, ForceRelease
mutation("ForceRelease removes" test_lock_admin [[lock.over[#lock.over + 1], lock.used = holder.token, lock.used - holder.permits]] [[lock.used = lock.used - holder.permits]])
mutation("a listing keeps to its namespace" test_lock_admin [[string.match(base, '^ls:{[^/]*/')]] [['ls:{']])
mutation("a listing keeps to its prefix" test_lock_admin [['*}:lock:n:' .. args[1] .. '*']] [['*}:lock:n:*']])
mutation("a listing is not stopped by foreign data" test_lock_admin [[, 'TYPE', 'hash']] "")
mutation("a page is not larger than asked" test_lock_admin [[local room = size - (#reply - 2)]] [[local room = 1000000]])
mutation("a step larger than a page loses nothing" test_lock_admin [[given = given .. table.concat(digests, '', 1, size)]] "")
mutation("a page does a bounded amount of work" test_lock_admin [[or work >= LIST_WORK]] "")
mutation("whose lease is over is not listed" test_lock_admin [[if #lock.holders == 0 then return nil, offers + #lock.over end]] [[if #lock.holders == 0 then return {'g', 'x', 'SHARED', 0, 5}, 1 end]])

# Waiting: the queue
mutation("nobody overtakes" test_lock_queue_model [[if not next or next.number >= number then return end]] [[if true then return end]])
mutation("who is barred bars those behind" test_lock_queue_model [[
    ahead.mode = 'E'
  else]] [[
  else]])
mutation("who waits for another name counts as a holder" test_lock_queue_model [[line.at, line.passed, line.last = line.at + 1, line.passed + 1, number
  count(line, want)]] [[line.at, line.passed, line.last = line.at + 1, line.passed + 1, number
  ahead_of(line)]])
mutation("a release hands over" test_lock_wait [[
  conclude(q)

  local n, reply]] [[

  local n, reply]])
mutation("the end of a lease hands over: the timer" test_lock_wait [[
  look(line.lock, now)
  conclude(q)]] "\n")
mutation("the timer goes on while anyone waits" test_lock_wait [[return {'OK', anyone_stands(q, line) and watch_ms(q, line) or -1}]] [[return {'OK', -1}]])
mutation("the timer ends when nobody waits" test_lock_wait [[return {'OK', anyone_stands(q, line) and watch_ms(q, line) or -1}]] [[return {'OK', watch_ms(q, line)}]])
mutation("a waiter knows when to look" test_lock_wait [[return line.lock.mode and math.max(0, math.ceil]] [[return false and math.max(0, math.ceil]])
mutation("a withdrawal lets those behind go" test_lock_wait [[
  conclude(q)
  return reply
end)

-- The caller's]] [[
  return reply
end)

-- The caller's]])
mutation("ForceRelease hands over" test_lock_wait [[if lock.used == 0 then lock.mode = nil end
  conclude(q)]] [[if lock.used == 0 then lock.mode = nil end
  tell(q)]])
mutation("whoever waits is told of an end that is sooner" test_lock_wait [[if end_us < watched then lock.sooner = true end]] "")
mutation("... of all servers" test_lock_wait [[for _, server in ipairs(redis.call('HKEYS', line.servers)) do]] [[for _, server in ipairs({redis.call('HKEYS', line.servers)[1]}) do]])
mutation("a promotion is continued" test_lock_wait [[
      q.more = true
      return]] [[
      return]])
mutation("a promotion is bounded" test_lock_wait [[if q.looked > LOOK_MAX then]] [[if false then]])
mutation("the order outlives a clock that steps back" test_lock_wait [[w.number = math.max(w.number, (tonumber(last[2]) or 0) + 1)]] "")
mutation("the queue's keys go with the last waiter" test_lock_wait [[write('DEL', line.servers)]] "")
mutation("the queue's keys end" test_lock_wait [[write('PEXPIRE', line.queue, QUEUE_RETAIN_MS)]] "")
mutation("the queue's keys end" test_lock_wait [[write('PEXPIRE', line.servers, QUEUE_RETAIN_MS)]] "")
mutation("... not before the longest wait" test_lock_wait [[local QUEUE_RETAIN_MS = 2 * 86400000]] [[local QUEUE_RETAIN_MS = 86400]])
mutation("a waiter's record outlives its wait" test_lock_wait [[stand(q, me, me.wait_ms + me.lease_ms + TOKEN_RETAIN_MS)]] [[stand(q, me, TOKEN_RETAIN_MS)]])
mutation("a capacity is fixed while anyone waits" test_lock_wait [[in_use = tonumber(waiting[2] or 0) > 0 and tonumber(waiting[1])]] "")
mutation("... and no longer" test_lock_wait [[
    if write('ZREM', line.queue, w.token) == 1 and want.mode == 'P' then write('HINCRBY', line.servers, 'p', -1) end
    line.left = true
    if line.last]] [[
    write('ZREM', line.queue, w.token)
    line.left = true
    if line.last]])

# Waiting: offers
mutation("the claim takes the offer" test_lock_wait [[local claimed = record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local refused]] [[local refused]])
mutation("the lease begins at the claim: an offer is short" test_lock_wait [[line.lock, want, w.token, q.now + OFFER_US, 0)]] [[line.lock, want, w.token, q.now + 900000000, 0)]])
mutation("an offer ends also when the clock steps back" test_lock_wait [[if fence == '0' and end_us > now + OFFER_US then return nil end]] "")
mutation("an offer is not a lock: Renew" test_lock_wait [[if not lock.end_us or lock.my_fence == 0 then]] [[if not lock.end_us then]])
mutation("an offer is not a lock: Inspect" test_lock_wait [[if holder.fence > 0 then holders[#holders + 1] = holder else offers = offers + 1 end]] [[holders[#holders + 1] = holder]])
mutation("a claim is not for others" test_lock_wait [[if fence ~= 0 then return nil end]] "")
mutation("a silent server is passed over" test_lock_wait [[== 1 then write('HSET', line.servers, server, 0) end]] [[== 2 then write('HSET', line.servers, server, 0) end]])
mutation("... and told" test_lock_wait [[if q.subscribed[server_of(w)] then wake(q, w) end]] "")
mutation("a server that is gone is passed over" test_lock_wait [[redis.call('PUBSUB', 'NUMSUB', 'ls:wake:' .. server)[2] > 0]] [[true]])
mutation("who was passed over keeps its number" test_lock_wait [[me.number = record and tonumber(record.since)]] "")
mutation("an offer is told" test_lock_wait [[if w.token ~= q.token then wake(q, w) end]] "")

# Waiting: withdrawal
mutation("the withdrawal takes it out" test_lock_wait [[if w.state == 'Q' then leave(q, w) end]] "")
mutation("the withdrawal decides" test_lock_wait [[local claimed = record and record.state == 'O' and claim(q, me)
  if claimed then return claimed end
  local barred = 1]] [[local barred = 1]])
mutation("the tombstone of a withdrawal" test_lock_wait [[write('SET', q.base .. 'lock:t:' .. w.token, '0  ', 'PX', TOKEN_RETAIN_MS)]] [[write('DEL', q.base .. 'lock:t:' .. w.token)]])
mutation("the tombstone of an unseen token" test_lock_wait [[
    write('SET', token_key, '0  ', 'PX', TOKEN_RETAIN_MS)
  elseif]] [[
  elseif]])
mutation("the other copy of the call ends" test_lock_wait [[if record and record.parked ~= me.parked then wake]] [[if false then wake]])
mutation("a released waiter's call ends" test_lock_wait [[
    spend(q, w)
    wake(q, w)]] [[
    spend(q, w)]])
mutation("an abandoned offer is given back" test_lock_wait [[if fence == 0 then drop_holder(lock, w.token, want.permits) end]] "")
mutation("only who parks a waiter abandons it" test_lock_wait [[if record and record.state ~= '' and record.parked == me.parked then]] [[if record and record.state ~= '' then]])
mutation("who is abandoned keeps its number" test_lock_wait [[write_life(q, me, 'A', 'PX', TOKEN_RETAIN_MS)]] [[write('DEL', me.key)]])
mutation("withdrawal works without memory" test_lock_wait [[define('lock_withdraw', {'allow-oom'}]] [[define('lock_withdraw', {}]])
mutation("abandoning works without memory" test_lock_wait [[define('lock_abandon', {'allow-oom'}]] [[define('lock_abandon', {}]])
mutation("a claim works without memory" test_lock_wait [[define('lock_claim', {'allow-oom'}]] [[define('lock_claim', {}]])
mutation("promotion works without memory" test_lock_wait [[define('lock_promote', {'allow-oom'}]] [[define('lock_promote', {}]])
mutation("foreign data is left alone" test_lock_wait [[
  local line = open(q, name)
  next_of(q, line)]] [[
  local line = open(q, name)]])

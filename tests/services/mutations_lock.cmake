# The lines of server/functions that keep LockService's promises; see
# docs/contract-coverage.md.

# Acquire
mutation("the same token again is the same grant" test_lock_acquire
  [[if record then return acquired_again(base, token, record, targets, now) end]] "")
mutation("a grant is recorded under its token" test_lock_acquire
  [[write('SET', token_key, int(now) .. ' ' .. args[2] .. ' ' .. targets, 'PX', int(lease_ms + TOKEN_RETAIN_MS))]] "")
mutation("tokens are told apart" test_lock_acquire [[base .. 'lock:t:' .. token]] [[base .. 'lock:t:']])
mutation("the same token for other targets: ALREADY_EXISTS" test_lock_acquire [[if record.targets ~= targets then fail]] [[if false then fail]])
mutation("a lost or released token is spent" test_lock_acquire [[if not end_us then return {'TOKEN_SPENT'} end]] "")
mutation("a tombstone is spent" test_lock_acquire [[if #reply == 3 then return {'TOKEN_SPENT'} end]] "")
mutation("never a second grant beside a lost record" test_lock_acquire
  [[if parse_entry(lock.entry, now) then return {'TOKEN_SPENT'} end]] "")
mutation("all or nothing" test_lock_acquire [[barred = barred or place + 1]] [[barred = place == 0 and 1 or nil]])
mutation("no second grant before the lease ends" test_lock_acquire [[if end_us <= now then return nil end]] [[if true then return nil end]])
mutation("a lease ends" test_lock_acquire [[if end_us <= now then return nil end]] "")
mutation("a lease ends at its end" test_lock_acquire [[if end_us <= now then]] [[if end_us < now then]])
mutation("whose lease is over does not stand in the way" test_lock_acquire
  [[if is_barred(lock, want) and lock.soonest <= now then look(lock, now) end]] "")
mutation("foreign data is left alone" test_lock_acquire [[if not mode then foreign() end]] "")
mutation("foreign data is left alone" test_lock_acquire [[if not since then foreign() end]] "")
mutation("foreign data is left alone" test_lock_acquire [[tonumber(v[1] or 0) or foreign()]] [[tonumber(v[1] or 0) or 0]])

# Modes
mutation("EXCLUSIVE excludes all" test_lock_modes [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode ~= lock.mode]])
mutation("the modes exclude each other" test_lock_modes [[if wanted.mode == 'E' or wanted.mode ~= lock.mode]] [[if wanted.mode == 'E' or lock.mode == 'E']])
mutation("permits are counted" test_lock_modes [[lock.used + wanted.permits > lock.capacity]] [[lock.used >= lock.capacity]])
mutation("a capacity is fixed while anyone holds" test_lock_modes [[if lock.mode == 'P' and want.mode == 'P' and lock.capacity]] [[if false and lock.capacity]])
mutation("a release gives its permits back" test_lock_modes [[lock.used = lock.used - lock.permits]] "")
mutation("... also among other holders" test_lock_modes [[
      write('HSET', lock.key, 's', summary(lock))
    end
  end
  if not record]] [[
    end
  end
  if not record]])
mutation("the first end of several leases is known" test_lock_modes [[lock.mode and math.min(lock.soonest, end_us) or end_us]] [[end_us]])
mutation("... after some have ended" test_lock_modes [[lock.soonest = math.min(lock.soonest, end_us)]] "")
mutation("... and after a renewal" test_lock_modes [[if lock.used == lock.permits then lock.soonest = end_us end]] [[lock.soonest = end_us]])
mutation("whose lease is over is removed" test_lock_modes [[if #gone > 0 then write('HDEL', lock.key, unpack(gone)) end]] "")
mutation("holders are read once" test_lock_modes [[if lock.mode then write('HSET', lock.key, 's', summary(lock)) end]] "")
mutation("a name has a bounded number of holders" test_lock_modes [[if #lock.holders >= HOLDERS_MAX then]] [[if false then]])
mutation("holders are shown in the order of their fences" test_lock_modes [[table.sort(lock.holders, function(a, b) return a.fence < b.fence end)]] "")

# Renew, Release
mutation("LOST, and none is renewed" test_lock_renew_release [[
    if not lock.end_us then return {'LOST', 0} end
    locks[i] = lock]] [[
    if lock.end_us then locks[#locks + 1] = lock end]])
mutation("a renewal never shortens" test_lock_renew_release [[math.max(lock.end_us, now + lease_ms * 1000)]] [[now + lease_ms * 1000]])
mutation("only the token renews" test_lock_renew_release [[
    local lock = read_lock(base .. 'lock:n:' .. name, token)
    lock.end_us]] [[
    local lock = read_lock(base .. 'lock:n:' .. name, redis.call('HKEYS', base .. 'lock:n:' .. name)[3] or '')
    lock.end_us]])
mutation("only the token releases" test_lock_renew_release [[
      local lock = read_lock(base .. 'lock:n:' .. name, token)
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
mutation("Acquire does not" test_lock_renew_release [[define('lock_acquire', {}]] [[define('lock_acquire', {'allow-oom'}]])
mutation("tokens are kept 10 minutes" test_lock_renew_release [[local TOKEN_RETAIN_MS = 600000]] [[local TOKEN_RETAIN_MS = 60000]])
mutation("fences are kept 24 hours" test_lock_renew_release [[local FENCE_RETAIN_MS = 86400000]] [[local FENCE_RETAIN_MS = 0]])
mutation("a renewed name is kept" test_lock_renew_release [[
    write('PEXPIRE', lock.key, int(lease_ms + FENCE_RETAIN_MS))
    soonest]] [[
    soonest]])
mutation("a renewed token is kept" test_lock_renew_release [[write('PEXPIRE', token_key, int(lease_ms + TOKEN_RETAIN_MS), 'GT')]] "")
mutation("... as long as its longest lease" test_lock_renew_release [[int(lease_ms + TOKEN_RETAIN_MS), 'GT')]] [[int(lease_ms + TOKEN_RETAIN_MS))]])
mutation("every key of a lock ends" test_lock_acquire [[
    write('PEXPIRE', lock.key, int(lease_ms + FENCE_RETAIN_MS))
  end]] [[
  end]])
mutation("every key of a lock ends" test_lock_acquire [[text, 'KEEPTTL')]] [[text)]])

# Fences
mutation("fences grow while the clock steps back" test_lock_fence [[math.max(lock.fence + 1, now)]] [[now]])
mutation("fences grow after a lost key" test_lock_fence [[math.max(lock.fence + 1, now)]] [[lock.fence + 1]])
mutation("the register refuses what is lower" test_lock_fence [[if fence < high then return {'STALE', high} end]] "")
mutation("the register takes what is equal" test_lock_fence [[if fence < high then]] [[if fence <= high then]])
mutation("the register remembers" test_lock_fence [[if fence > high then write('SET', key, int(fence)) end]] "")
mutation("the register stays" test_lock_fence [[write('SET', key, int(fence))]] [[write('SET', key, int(fence), 'PX', 1000000)]])
mutation("foreign data is left alone" test_lock_fence [[tonumber(redis.call('GET', key) or 0) or foreign()]] [[tonumber(redis.call('GET', key) or 0) or 0]])

# Inspect, List, ForceRelease
mutation("ForceRelease removes" test_lock_admin [[if #lock.over > 0 then write('HDEL', lock.key]] [[if false then write('HDEL', lock.key]])
mutation("a listing keeps to its namespace" test_lock_admin [[string.match(base, '^ls:{[^/]*/')]] [['ls:{']])
mutation("a listing keeps to its prefix" test_lock_admin [['*}:lock:n:' .. args[1] .. '*']] [['*}:lock:n:*']])
mutation("a listing is not stopped by foreign data" test_lock_admin [[, 'TYPE', 'hash']] "")
mutation("a page is not larger than asked" test_lock_admin [[local room = size - (#reply - 2)]] [[local room = 1000000]])
mutation("a step larger than a page loses nothing" test_lock_admin [[given = given .. table.concat(digests, '', 1, size)]] "")
mutation("a page does a bounded amount of work" test_lock_admin [[or work >= LIST_WORK]] "")
mutation("whose lease is over is not listed" test_lock_admin [[if not lock.mode then return nil, #lock.over end]] [[if not lock.mode then return {'g', 'x', 'SHARED', 0, 5}, 1 end]])

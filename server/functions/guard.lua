-- GuardService: one function takes an attempt, limits, stock and locks, or none of them. The parts are those of the
-- other services, with their keys and their rules.
--
--   Invariant: nothing is written before every part has accepted the call. The record, the limits and the stock are
--   changed in memory (the states of define_pass). The locks are written at once, so they come last; the states are
--   written when the locks are granted, and dropped when the call waits or is refused.
--
-- A waiting call holds nothing. It is in a lock's queue like an Acquire, but gets an offer and never a direct grant,
-- because the other parts may refuse it by then. If another attempt runs, the call waits in the record's idem:w, and is
-- in no queue.
--
-- The token of an Enter identifies it: it is the token of the attempt and of the locks.
--
-- Locks in the lock store: the server asks here whether the rest is free (way L), then for the locks there, then for
-- the rest here (way T). Several copies of the call may do so at once. guard:<token>, beside the record or in the group
-- of the rest, has their stage:
--   L  a look found the rest free, so one of them may hold the locks, or be in their queue
--   E  the first T has entered
--   X  a T, a look after L, or a Leave has refused it permanently: a copy that sees that releases the locks

local function stage_key(base, record, token) return (record ~= '' and record or base) .. 'guard:' .. token end
-- Kept after the lease for as long as the token of a lock.
local function stage_ms(ms) return int(ms + services.lock.token_retain_ms) end
local function set_stage(key, stage, ms) write('SET', key, stage, 'PX', stage_ms(ms)) end

-- What define_pass does after the last sub-call. `s` may be nil or false.
local function write_changes(part, s)
  if s and s.touched then part.close(s) end
end

-- A copy that waits for a shorter time does not shorten the life of the stage.
local function look_was_free(e)
  local ms = e.lease_ms + e.wait_ms
  if e.stage == 'L' then
    write('PEXPIRE', e.stage_key, stage_ms(ms), 'GT')
  else
    set_stage(e.stage_key, 'L', ms)
  end
end

-- Uses the first part of an Enter to recognize a repeat. nil: the request is new.
local function is_repeat(e)
  if e.record ~= '' then return nil end -- the attempt recognizes it
  if e.stage_key then return e.stage == 'E' end
  if e.targets ~= '' then return services.lock.is_known(e.base, e.token) end
  return e.stock ~= '' and services.stock.is_known(e.order, e.order_id)
end

-- Keys of several slots may be on different nodes.
local function check_groups(base, ...)
  if this_node() == '' then return end
  local slot = string.match(base, '^[^}]*}')
  for _, other in ipairs({...}) do
    if other ~= '' and string.match(other, '^[^}]*}') ~= slot then
      fail('INVALID_ARGUMENT', 'group: in a cluster all parts must be in one group')
    end
  end
end

-- Returns the answer that prevents an attempt; nil: it runs, in memory.
local function begin_attempt(e)
  local once, now = services.idempotency, clock()
  local s = once.begins.open(e.record)
  e.attempt = s
  local reply = once.stored_answer(once.record_in(s), e.token, e.fingerprint, now)
  if not reply and e.over then
    return e.wait_ms == '0' and {'IN_PROGRESS', s.record and s.record.attempt or 0, 0} or nil
  elseif not reply and e.takes_rest and e.stage == 'E' then
    return {'TOKEN_SPENT'} -- the attempt has ended
  elseif not reply then
    once.execute(s, now, e.token, e.fingerprint, e.lease_ms + 0, e.retain_ms + 0)
  elseif reply[1] == 'EXECUTE' then
    e.again, e.left_ms = true, once.lease_left_ms(s.record, now)
  else
    return reply
  end
end

-- Returns the reply of rate_check; nil: one of the rules refuses.
local function check_limits(e)
  local limits = services.ratelimit
  e.limits = limits.checks.open(e.rates)
  local rules = limits.check(e.limits, false, e.cost, 'A', e.request_id, unpack(e.pairs, 1, 2 * e.n_rules))
  for i = 1, limits.result * e.n_rules, limits.result do
    if rules[i] ~= 'ALLOWED' then
      limits.checks.close(e.limits) -- a refused try may cause a ban
      return nil, {'LIMITED', unpack(rules)}
    end
  end
  e.again = e.again or #rules > limits.result * e.n_rules
  return rules
end

-- Returns what is available of each line after the order; nil: the order is refused.
local function take_stock(e)
  local reply = services.stock.order(e.order, e.again, e.hold_ms, e.order_id, e.buyer, unpack(e.pairs, 2 * e.n_rules + 1))
  if type(reply) == 'number' then return {reply} end
  if type(reply[1]) == 'number' then return reply end
  if reply[1] == 'AGAIN' then
    e.hold_ms = reply[2]
    return {unpack(reply, 3)}
  end
  if reply[1] == 'BUCKETED' or reply[1] == 'CLAIM' then
    fail('FAILED_PRECONDITION', 'stock.group: is in buckets, which are separate groups; use StockService')
  end
  if reply[1] ~= 'MORE' then return nil, {'OUT_OF_STOCK', unpack(reply)} end
  services.stock.close(e.order)
  return nil, reply
end

-- Returns the fences; nil: the locks are not granted.
local function take_locks(e)
  local ask, targets = e.over and services.lock.time_out or services.lock.acquire, {e.targets}
  if string.find(e.targets, ',', 1, true) then
    targets = {}
    for target in string.gmatch(e.targets, '[^,]+') do targets[#targets + 1] = target end
  end
  local reply = ask(e.base, clock(), e.token, e.owner, e.lease_ms, e.wait_ms, e.copy, unpack(targets))
  if type(reply) == 'number' then return {reply} end
  if type(reply[1]) == 'number' then return reply end
  if reply[1] ~= 'ACQUIRED' then return nil, reply end
  e.left_ms = math.min(e.left_ms or reply[2], reply[2])
  return {unpack(reply, 3)}
end

-- Another attempt runs: the call leaves the queue of its locks, keeps its number there, and waits for the end of that
-- attempt.
local function wait_for_attempt(e, reply)
  redis.call('SCARD', e.record .. 'idem:w') -- foreign data ends the call here, while nothing is changed
  if e.targets ~= '' then services.lock.abandon(e.base, clock(), e.token .. ' ' .. e.copy) end
  services.idempotency.wait_here(e.record, {e.waiter}, e.once_wait_ms + 0)
  return {'WAIT', reply[2], reply[3]}
end

-- A call that was woken and is refused stops waiting.
local function refuse(e, reply)
  if (e.woken or e.over) and e.targets ~= '' then services.lock.withdraw(e.base, clock(), e.token) end
  return reply
end

-- Adds the elements of a list to another.
local function add_all(to, list)
  local n = #to
  for i = 1, #list do to[n + i] = list[i] end
end

local NONE = {}

-- Nothing is written before the locks are granted; after that no part can refuse the call.
local function take(e)
  local fences, rules, lines, refused = NONE, NONE, NONE, nil
  if e.stock ~= '' then e.order = services.stock.open(e.stock) end
  if e.record ~= '' then refused = begin_attempt(e) else e.again = is_repeat(e) end
  if refused then
    local may_hold = e.stage == 'X' or e.stage == 'L' and not e.woken -- a waiting call holds nothing
    local waits = refused[1] == 'IN_PROGRESS' and e.once_wait_ms ~= '0' and not e.over and not may_hold
    return waits and wait_for_attempt(e, refused) or refuse(e, refused)
  end
  if e.stage == 'X' then return {'TOKEN_SPENT'} end
  if e.n_rules > 0 and not (e.again or e.over) then rules, refused = check_limits(e) end
  if refused then return refuse(e, refused) end
  if e.stock ~= '' and (e.again or not e.over) then lines, refused = take_stock(e) end
  if refused then return refused[1] == 'MORE' and refused or refuse(e, refused) end
  if e.looks then
    if e.stage ~= 'E' then look_was_free(e) end
    return {'FREE'}
  end
  if e.targets ~= '' then fences, refused = take_locks(e) end
  if refused then return refused end

  write_changes(services.stock, e.order)
  write_changes(services.ratelimit.checks, e.limits)
  local attempt = e.attempt
  write_changes(services.idempotency.begins, attempt)
  if e.takes_rest and e.stage ~= 'E' then set_stage(e.stage_key, 'E', e.lease_ms + 0) end
  local record = attempt and attempt.record
  local reply = {'ENTERED', e.again and 1 or 0, record and record.attempt or 0, record and record.fence or 0,
    e.left_ms or e.lease_ms, e.hold_ms, unpack(fences)}
  add_all(reply, lines)
  add_all(reply, rules)
  return reply
end

local GOES_ON = {FREE = true, ENTERED = true, MORE = true, WAIT = true}

-- L and T: returns the refusal, after 'RELEASE' if the caller must release the locks.
local function take_part(e)
  e.stage_key = stage_key(e.base, e.record, e.token)
  e.stage = redis.call('GET', e.stage_key)
  local ok, reply = pcall(take, e)
  if ok and GOES_ON[reply[1]] then return reply end
  local has_entered, no_locks = e.stage == 'E', e.looks and not e.stage
  if has_entered or no_locks or not ok and dirty then
    if not ok then error(reply, 0) end
    if has_entered and e.takes_rest and reply[1] ~= 'REPLAY' then return {'TOKEN_SPENT'} end
    return reply
  end
  if not ok then reply = reply_of_error(reply) end
  if e.stage ~= 'X' then set_stage(e.stage_key, 'X', e.lease_ms + e.wait_ms) end
  return {'RELEASE', unpack(reply)}
end

-- way: '' = a new call; W: a parked call that was woken; O: a call whose wait is over, which takes nothing, because its
-- caller may be giving up. For a call whose locks are in the lock store, L, LW and LO: looks, and takes nothing; T: its
-- locks are taken, and this call takes the rest.
-- record, rates, stock: the bases of their parts, '' = the call lacks the part; the base of the locks is the
-- function's, and targets is '' without locks. wait_ms: for the locks. waiter: "<server> <key>", the entry in idem:w
-- that wakes the call. copy: "<server>.<copy>.", a form that never gets a direct grant. request_id: only for a call of
-- limits alone. hold_ms 0: Deduct. name, text: for each rule its key and the rule; then for each line sku and quantity.
-- -> {'ENTERED', 1 if replayed, attempt, its fence, ms left of the lease, ms left of the hold, then for each target its
--     fence, for each line what is available, and, unless it is replayed, the reply of rate_check}
--    {'REPLAY', attempt, result}, {'IN_PROGRESS', attempt, ms left}, {'MISMATCH'}
--    {'LIMITED', the reply of rate_check}
--    {'OUT_OF_STOCK', the reply of stock_deduct or stock_reserve}
--    {'BUSY' or 'TIMED_OUT', place from 0 of a target that is held, its holder's owner, ms left}, {'TOKEN_SPENT'}
--    {'QUEUED', for each target the ms until lock_promote is due}: parked in the queue of the locks
--    {'WAIT', attempt, ms left of its lease}: parked until another attempt ends
--    {'MORE'}: call again
--    {'FREE'}: the rest is free (L, LW and LO)
--    {'RELEASE', the refusal...}: the caller releases the locks, or leaves their queue (L, LW, LO and T)
define('guard_enter', {}, function(base, now, way, token, owner, lease_ms, once_wait_ms, wait_ms, copy, waiter, record,
  fingerprint, retain_ms, targets, rates, cost, request_id, stock, order_id, buyer, hold_ms, n_rules, ...)
  check_groups(base, record, rates, stock)
  local event, part = string.sub(way, -1), string.sub(way, 1, 1)
  local e = {base = base, woken = event == 'W', over = event == 'O', looks = part == 'L', takes_rest = part == 'T',
    token = token, owner = owner, lease_ms = lease_ms, once_wait_ms = once_wait_ms, wait_ms = wait_ms, copy = copy,
    waiter = waiter, record = record, fingerprint = fingerprint, retain_ms = retain_ms, targets = targets, rates = rates,
    cost = cost, request_id = request_id, stock = stock, order_id = order_id, buyer = buyer, hold_ms = hold_ms,
    n_rules = n_rules + 0, pairs = {...}}
  return (e.looks or e.takes_rest) and take_part(e) or take(e)
end)

-- Confirms the order of Enter, or cancels it: permanently after a final failure. An attempt that was taken over leaves
-- that to its successor.
local function end_order(s, state, id)
  if state == 'C' then return services.stock.confirm(s, id, '0')[1] end
  if state == 'F' then return services.stock.cancel(s, true, id, '')[1] end
  return services.stock.release_hold(s, id)[1]
end

local function leave(leave_mark, base, now, token, server, trace, locks, apart, record, state, detail, result, stock,
  order_id)
  check_groups(base, record, stock)
  local attempt = record ~= '' and services.idempotency.attempt_with(record, token)
  local stage_at = apart == '1' and stage_key(base, record, token)
  local stage = stage_at and redis.call('GET', stage_at)
  if stage_at and not stage and not leave_mark then return {'UNSEEN'} end
  local ours = record == '' or attempt and (attempt.state == 'R' or attempt.state == state)
  local s = stock ~= '' and ours and services.stock.open(stock)
  local order = s and end_order(s, state, order_id) or ''
  if state == 'C' and order ~= '' and order ~= 'CONFIRMED' then
    write_changes(services.stock, s)
    return {'HOLD_ENDED', order}
  end

  local released = locks == '1' and services.lock.release(base, now, leave_mark, token, server, trace) or ''
  if type(released) == 'table' then released = released[1] end
  if released == 'UNSEEN' then return {'UNSEEN'} end
  if stage_at and stage ~= 'E' then set_stage(stage_at, 'X', 0) end
  write_changes(services.stock, s)
  local ended = record ~= '' and services.idempotency.finish(record, ours and attempt, state, detail, result) or {'', 0}
  return {'LEFT', ended[1], ended[2], released, order}
end

-- locks: whether Enter took locks; apart: they are in the lock store, and are released after this. record, stock: as in
-- guard_enter. state, detail, result: as idempotency_complete and idempotency_fail store them: C, F or T.
-- -> {'LEFT', 'STORED', 'SUPERSEDED' or '', 1 if stored before, the first element of lock_release's reply, or '', the
--     outcome of stock_confirm (C), of stock_cancel (F), or the state (T), or ''}
--    {'HOLD_ENDED', the outcome of stock_confirm}: nothing was changed, but an expired hold has ended
--    {'UNSEEN'}: unknown token; nothing was changed, and guard_leave_unseen must follow
define('guard_leave', {'allow-oom'}, function(base, now, token, server, trace, locks, apart, record, state, detail,
  result, stock, order_id)
  return leave(false, base, now, token, server, trace, locks, apart, record, state, detail, result, stock, order_id)
end)

-- Refused when memory is full, because it makes a key.
define('guard_leave_unseen', {}, function(base, now, token, server, trace, locks, apart, record, state, detail, result,
  stock, order_id)
  return leave(true, base, now, token, server, trace, locks, apart, record, state, detail, result, stock, order_id)
end)

-- Extends all parts or none. hold_ms is not 0 if stock is set.
-- -> {'RENEWED', ''} {'LOST', 'ONCE', 'LOCKS' or 'STOCK'}
define('guard_renew', {'allow-oom'}, function(base, now, token, lease_ms, locks, apart, record, stock, order_id, hold_ms)
  check_groups(base, record, stock)
  local attempt = record ~= '' and services.idempotency.attempt_with(record, token)
  if record ~= '' and not (attempt and attempt.state == 'R') then return {'LOST', 'ONCE'} end
  local s = stock ~= '' and services.stock.open(stock)
  if s and services.stock.extend_hold(s, order_id, hold_ms)[1] ~= 'EXTENDED' then
    write_changes(services.stock, s)
    return {'LOST', 'STOCK'}
  end
  if locks == '1' and services.lock.renew(base, now, token, lease_ms)[1] ~= 'RENEWED' then return {'LOST', 'LOCKS'} end
  if attempt then services.idempotency.extend(attempt, now, tonumber(lease_ms)) end
  if apart == '1' then write('PEXPIRE', stage_key(base, record, token), stage_ms(lease_ms), 'GT') end
  write_changes(services.stock, s)
  return {'RENEWED', ''}
end)

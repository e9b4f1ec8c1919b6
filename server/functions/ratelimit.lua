-- RateLimitService. The Checks of an FCALL share the data of a group: each key is read once, checked and charged in
-- memory call by call, and written once.

local RESULT = 6 -- number of elements in a rule's result
local FORGOTTEN = 500 -- chunks of a log that Reset removes at most; the others expire unused

-- ---- one rule ----------------------------------------------------------------------

-- The tries in the current window of the clock, and the last ban: {name, end, tries, end of the window, end of the ban,
-- its length}.
local function open_penalty(rule, key, now)
  local p = record_of(key, rule.tries, now)
  if p and now < p[4] then return p end
  local window = window_start(now, rule.period) + rule.period
  return {rule.tries, 0, 0, window, p and p[5] or 0, p and p[6] or 0}
end

-- An escalation is remembered until the key had no ban for as long as the last ban, and at least for a period.
local function memory_end(p, rule)
  return p[5] + math.max(p[6], rule.period)
end

local function start_ban(p, rule, now)
  local longer = now < memory_end(p, rule) and p[6] * rule.factor or 0
  p[6] = math.min(math.max(longer, rule.ban), rule.max_ban)
  p[5], p[3] = now + p[6], 0
end

-- The effect of a rule on the check, before anything is charged. refuses: false, 'DENIED' or 'BANNED'.
local function evaluate_rule(rule, key, cost, now)
  local algorithm = rule.algorithm
  local record, converted = algorithm.open(rule, record_of(key, rule.counter, now), now, key)
  local at = algorithm.passes_at(record, rule, cost, now, key)
  local j = {rule = rule, key = key, record = record, converted = converted, passes_at = at,
    refuses = (not at or at > now) and 'DENIED', penalty = false}
  if rule.after > 0 then
    local p = open_penalty(rule, key, now)
    j.penalty = p
    if now < p[5] then j.refuses = 'BANNED' elseif p[3] >= rule.after then j.refuses = 'DENIED' end
  end
  return j
end

local function count_try(j, now)
  local p, rule = j.penalty, j.rule
  p[3] = p[3] + 1
  if p[3] > rule.after then
    start_ban(p, rule, now)
    j.refuses = 'BANNED'
  end
  p[2] = math.max(p[3] > 0 and p[4] or 0, p[6] > 0 and memory_end(p, rule) or 0)
  put_record(j.key, p)
end

-- The earliest time at which the same check passes; nil = never.
local function retry_at(j)
  local at, p = j.passes_at, j.penalty
  if not at or not p then return at end
  if j.refuses == 'BANNED' then at = math.max(at, p[5]) end
  if at < p[4] and p[3] >= j.rule.after then at = p[4] end
  return at
end

-- Returns outcome, limit, remaining, and the ms until the check may pass, the counter is as if unused, and the ban is
-- over.
local function result_of_rule(j, now)
  if not j then return 'ALLOWED', MAX_INTEGER, MAX_INTEGER, 0, 0, 0 end
  local rule, record, outcome, retry, banned = j.rule, j.record, 'ALLOWED', 0, 0
  local remaining = rule.algorithm.remaining(record, rule, now, j.key)
  if j.refuses then
    local at = retry_at(j)
    retry = at and ms_until(at, now) or -1
    if j.refuses == 'BANNED' then banned = ms_until(j.penalty[5], now) end
    if not rule.shadow then outcome = j.refuses end
  end
  return outcome, rule.limit, remaining > 0 and remaining or 0, retry,
    ms_until(rule.algorithm.as_new_at(record, now), now), banned
end

-- ---- a check with a request_id -----------------------------------------------------

-- Returns the record of a request, {'check', end, signature, refunded, answer, charges, cost}; nil: there is none.
local function load_request(key, now)
  local text = redis.call('GET', key)
  if not text then return nil end
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' or record[1] ~= 'check' then foreign() end
  return now < record[2] and record or nil
end

-- Two checks with the same signature are the same check, even if a policy's numbers change between them.
local function signature_of(cost, mode, args)
  local parts = {cost, mode}
  for i = 1, #args, 2 do
    parts[#parts + 1] = args[i]
    parts[#parts + 1] = rule_of(args[i + 1]).who
  end
  return redis.sha1hex(table.concat(parts, ' '))
end

-- Returns the first answer to the same request, or nil.
local function first_answer(s, key, signature, now)
  s.requests = s.requests or {}
  if s.requests[key] == nil then s.requests[key] = load_request(key, now) or false end
  local first = s.requests[key]
  if not first then return nil end
  if first[3] ~= signature then fail('ALREADY_EXISTS', 'request_id: used for another check', 'id_reused') end
  local reply = {unpack(first[5])}
  reply[#reply + 1] = 1
  return reply
end

-- Returns the data that Refund needs to return a rule's charge.
local function charge_of(j, now)
  local rule = j.rule
  return {j.key.id, rule.counter, rule.letter, rule.limit, rule.period, rule.burst or 0,
    rule.algorithm.receipt(j.record, now)}
end

-- Remembers the request while it may be repeated and its charges count; not if nothing was allowed or charged.
local function remember(s, key, again_ms, signature, reply, judged, all_pass, go, cost, now)
  local charges, keep, any = {}, again_ms * 1000, false
  for _, j in ipairs(judged) do
    any = any or j
    if j and go and not j.refuses then
      charges[#charges + 1] = charge_of(j, now)
      keep = math.max(keep, j.rule.algorithm.as_new_at(j.record, now) - now)
    end
  end
  if not any or not all_pass and #charges == 0 then return end
  s.requests[key] = {'check', now + keep, signature, 0, reply, charges, cost}
  s.lives = s.lives or {}
  s.lives[key] = keep
  touch(s)
end

-- ---- Check -------------------------------------------------------------------------

local function key_of(s, id, now)
  local keys = s.keys
  if not keys then
    local key = load_key(s.base, id, now)
    s.keys = {key}
    return key
  end
  for i = 1, #keys do
    if keys[i].id == id then return keys[i] end
  end
  local key = load_key(s.base, id, now)
  keys[#keys + 1] = key
  return key
end

local function counts_try(j, go)
  return j.penalty and j.refuses ~= 'BANNED' and (go or j.refuses)
end

local function too_many_counters()
  fail('RESOURCE_EXHAUSTED', string.format('key: has more than %d counters', COUNTERS_MAX))
end

-- Fails if a key would have too many counters.
local function check_size(key, judged, go)
  local n = #key
  for _, j in ipairs(judged) do
    if j and j.key == key then
      if go and not j.refuses and not find_record(key, j.rule.counter) then n = n + 1 end
      if counts_try(j, go) and not find_record(key, j.rule.tries) then n = n + 1 end
    end
  end
  if n > COUNTERS_MAX then too_many_counters() end
end

-- Charges the rules that pass, and counts the tries. go: rules that pass are charged.
local function charge(s, judged, go, cost, now)
  for _, j in ipairs(judged) do
    if j and #j.key + 2 * #judged > COUNTERS_MAX then check_size(j.key, judged, go) end
  end
  for _, j in ipairs(judged) do
    if j then
      local rule, key, passes = j.rule, j.key, go and not j.refuses
      if passes then rule.algorithm.charge(j.record, rule, cost, now, key) end
      if passes or j.converted then put_record(key, j.record) end
      if counts_try(j, go) then count_try(j, now) end
      if key.changed then touch(s) end
    end
  end
end

local function check_rules(s, peek, now, cost, mode, id, again_ms, signature, args)
  local judged, all_pass = {}, true
  for i = 1, #args, 2 do
    local rule, j = rule_of(args[i + 1]), false
    if rule.unknown then fail('NOT_FOUND', string.format('rules[%d].policy: no such policy', (i - 1) / 2)) end
    if not rule.unlimited then
      j = evaluate_rule(rule, key_of(s, args[i], now), cost, now)
      if j.refuses and not rule.shadow then all_pass = false end
    end
    judged[#judged + 1] = j
  end

  local go, reply = all_pass or mode == 'I', {}
  if not peek then charge(s, judged, go, cost, now) end
  for i, j in ipairs(judged) do
    local n = RESULT * (i - 1)
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6] = result_of_rule(j, now)
  end
  if id then remember(s, id, again_ms, signature, reply, judged, all_pass, go, cost, now) end
  return reply
end

-- The same for one rule without penalty and request_id, the usual Check, in half the time.
local function check_rule(key, peek, now, cost, rule)
  local algorithm = rule.algorithm
  local record, converted = algorithm.open(rule, record_of(key, rule.counter, now), now, key)
  local at = algorithm.passes_at(record, rule, cost, now, key)
  local passes = at and at <= now
  if not peek and (passes or converted) then
    if #key >= COUNTERS_MAX and not find_record(key, rule.counter) then too_many_counters() end
    if passes then algorithm.charge(record, rule, cost, now, key) end
    put_record(key, record)
  end
  local remaining = algorithm.remaining(record, rule, now, key)
  return {(passes or rule.shadow) and 'ALLOWED' or 'DENIED', rule.limit, remaining > 0 and remaining or 0,
    passes and 0 or at and ms_until(at, now) or -1, ms_until(algorithm.as_new_at(record, now), now), 0}
end

-- Returns the rule of such a Check; nil: another kind of Check.
local function only_rule(request_id, text, more)
  if request_id ~= '' or more then return nil end
  local rule = rule_of(text)
  return rule.after == 0 and rule or nil
end

local function check(s, peek, units, mode, request_id, ...)
  local now, cost, id, text, more = clock(), units + 0, ...
  local rule = only_rule(request_id, text, more)
  if rule then
    local key = key_of(s, id, now)
    local reply = check_rule(key, peek, now, cost, rule)
    if key.changed then touch(s) end
    return reply
  end
  if request_id == '' then return check_rules(s, peek, now, cost, mode, nil, nil, nil, {...}) end
  local request, again_ms = string.match(request_id, '^(%S+) (%d+)$')
  local request_key, signature = s.base .. 'rate:q:' .. request, signature_of(units, mode, {...})
  return first_answer(s, request_key, signature, now)
    or check_rules(s, peek, now, cost, mode, request_key, again_ms, signature, {...})
end

local function save_logs(key, now)
  for counter, log in pairs(key.logs) do
    local record = find_record(key, counter)
    if record then save_log(log, record, now) end
  end
end

-- Writes logs first, because their first write detects foreign data.
local function save_keys(keys, now)
  for i = 1, #keys do
    if keys[i].changed and keys[i].logs then save_logs(keys[i], now) end
  end
  for i = 1, #keys do
    if keys[i].changed then save_key(keys[i], now) end
  end
end

local CHECKS = {
  open = function(base)
    return {base = base, keys = false, touched = false, at = 0}
  end,

  close = function(s)
    if s.keys then save_keys(s.keys, clock()) end
    for key, keep in pairs(s.lives or {}) do
      write('SET', key, cmsgpack.pack(s.requests[key]), 'PX', life_ms(keep))
    end
  end,
}

-- The usual charge of a SLIDING_LOG that is the key's only counter: nothing has expired, and the entry does not begin a
-- chunk. Does the same as `charge`, save_log and save_key. nil: another case, nothing was written.
local function append_alone(key, rule, cost, now)
  local r, period = key[1], rule.period
  if key[2] or not r or r[1] ~= rule.counter or r[2] - r[3] ~= period or r[6] <= now - period then return nil end
  local units, number, last = r[5] % UNITS, r[4], r[3] > now and r[3] or now
  local place, left = number % CHUNK, rule.limit - units - cost
  if left < 0 or place == 0 or window_start(last, period) > r[3] then return nil end
  local chunk = log_name(key, rule.counter) .. (number - place) / CHUNK
  if write('APPEND', chunk, struct.pack(ENTRY, last, cost)) ~= SUM_BYTES + (place + 1) * ENTRY_BYTES then
    write('UNLINK', chunk) -- the chunk was lost
  end
  r[2], r[3], r[4], r[5] = last + period, last, number + 1, r[5] + UNITS + cost
  write('SET', key.name, pack_record(r), 'PX', life_ms(r[2] - now))
  return {'ALLOWED', rule.limit, left, 0, ms_until(r[2], now), 0}
end

-- A Check that is the only one of its group: for one rule, as check_rule.
local function check_alone(base, _, units, mode, request_id, id, text, more)
  local rule, now = only_rule(request_id, text, more), clock()
  if not rule then return nil end
  local key = load_key(base, id, now)
  local reply = rule.letter == 'L' and append_alone(key, rule, units + 0, now)
  if reply then return reply end
  reply = check_rule(key, false, now, units + 0, rule)
  if key.logs and key.changed then save_logs(key, now) end -- as save_keys, without its list
  if key.changed then save_key(key, now) end
  return reply
end

-- mode: A (all or nothing) or I (each rule by itself); request_id: '' or "<id> <ms>", if the caller may repeat it for
-- that time. rule: as parse_rule reads it.
-- -> the values of `result_of_rule` for each rule; then 1 if it was replayed
define_pass('rate_check', {}, function(s, cost, mode, request_id, ...)
  return check(s, false, cost, mode, request_id, ...)
end, CHECKS, check_alone)

-- The same without request_id; charges and counts nothing.
define_pass('rate_peek', {'no-writes'}, function(s, cost, mode, request_id, ...)
  return check(s, true, cost, mode, request_id, ...)
end, CHECKS)

services.ratelimit = {checks = CHECKS, check = check, result = RESULT}

-- ---- Refund, Reset -----------------------------------------------------------------

-- -> {outcome}
define('rate_refund', {'allow-oom'}, function(base, now, request_id)
  local request_key, s = base .. 'rate:q:' .. request_id, {base = base, keys = {}}
  local request = load_request(request_key, now)
  if not request then return {'UNKNOWN'} end
  if request[4] == 1 then return {'ALREADY_REFUNDED'} end

  local cost = request[7]
  for _, charged in ipairs(request[6]) do
    local rule = {counter = charged[2], limit = charged[4], period = charged[5], burst = charged[6]}
    local key, algorithm = key_of(s, charged[1], now), ALGORITHMS[charged[3]]
    local old = record_of(key, rule.counter, now)
    if old then
      local record, converted = algorithm.open(rule, old, now, key)
      if not converted and algorithm.refund(record, rule, charged[7], cost, now, key) then put_record(key, record) end
    end
  end
  save_keys(s.keys, now)
  request[4] = 1
  write('SET', request_key, cmsgpack.pack(request), 'KEEPTTL')
  return {'REFUNDED'}
end)

-- -> {'OK'}
define('rate_reset', {'allow-oom'}, function(base, now, key)
  local kept, names = load_key(base, key, now), {}
  for _, record in ipairs(kept) do
    local counter = record[1]
    if string.find(counter, '^L,') or string.find(counter, ',L$') then
      local oldest, next = log_state(record)
      for c = chunk_of(oldest), math.min(chunk_of(next - 1), chunk_of(oldest) + FORGOTTEN - 1) do
        names[#names + 1] = log_name(kept, counter) .. c
      end
    end
  end
  write('UNLINK', kept.name, unpack(names))
  return {'OK'}
end)

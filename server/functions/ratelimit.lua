-- RateLimitService, its functions: each reads all it needs, decides, then writes.

local WORST = {ALLOWED = 1, DENIED = 2, BANNED = 3}

local function ms_until(instant, now)
  return int(math.max(math.ceil((instant - now) / 1000), 0))
end

-- ---- one rule ----------------------------------------------------------------------

-- Tries in the present window of the clock, and the last ban.
local function open_penalty(rule, k, now)
  local old = record_of(k, rule.counter .. '!', 'P', 6)
  local p = {tries = 0, window = window_start(now, rule.period) + rule.period, ban_end = 0, ban = 0}
  if old then
    p.ban_end, p.ban = old[5], old[6]
    if now < old[4] then p.tries, p.window = old[3], old[4] end
  end
  return p
end

-- An escalation is remembered until the key was free of bans for as long as the last
-- one, and at least for a period.
local function memory_end(p, rule)
  return p.ban_end + math.max(p.ban, rule.period)
end

local function start_ban(p, rule, now)
  local longer = now < memory_end(p, rule) and p.ban * rule.factor or 0
  p.ban = math.min(math.max(longer, rule.ban), rule.max_ban)
  p.ban_end, p.tries = now + p.ban, 0
end

-- What a rule says to the check, before anything is charged.
local function judge(rule, k, cost, now, peek)
  local j = {rule = rule, k = k}
  local record = record_of(k, rule.counter, rule.letter, rule.algorithm.numbers)
  j.counter = rule.algorithm.open(rule, record, now, cost)
  j.passes_at = rule.algorithm.passes_at(j.counter, rule, cost, now)
  j.passes = j.passes_at ~= nil and j.passes_at <= now
  if rule.after > 0 then
    j.penalty = open_penalty(rule, k, now)
    j.banned = now < j.penalty.ban_end
    j.too_many = not j.banned and j.penalty.tries >= rule.after
  end
  j.refuses = j.banned or j.too_many or not j.passes
  return j
end

local function count_try(j, now)
  local p, rule = j.penalty, j.rule
  p.tries = p.tries + 1
  if j.too_many then
    start_ban(p, rule, now)
    j.banned = true
  end
  local finish = math.max(p.tries > 0 and p.window or 0, p.ban > 0 and memory_end(p, rule) or 0)
  put_record(j.k, rule.counter .. '!', {'P', finish, p.tries, p.window, p.ban_end, p.ban})
end

local function charge(j, cost, now)
  local rule = j.rule
  local charged = rule.algorithm.charge(j.counter, rule, cost, now)
  put_record(j.k, rule.counter, rule.algorithm.record(j.counter, rule))
  return {rule.key, rule.counter, rule.letter, rule.limit, rule.period, rule.burst or 0, charged}
end

-- The first instant at which the same check passes; nil = never.
local function retry_at(j, now)
  local at, p = j.passes_at, j.penalty
  if not at or not p then return at end
  if j.banned then at = math.max(at, p.ban_end) end
  if at < p.window and p.tries >= j.rule.after then at = p.window end
  return at
end

-- outcome, limit, remaining, and ms until it may pass, is as new, is free of its ban
local function tell(rule, now)
  if rule.unlimited then return 'ALLOWED', int(MAX_INTEGER), int(MAX_INTEGER), '0', '0', '0' end
  local j, outcome, retry = rule.judged, 'ALLOWED', '0'
  if j.refuses then
    outcome = j.banned and 'BANNED' or 'DENIED'
    local at = retry_at(j, now)
    retry = at and ms_until(at, now) or '-1'
  end
  local algorithm = rule.algorithm
  return rule.shadow and 'ALLOWED' or outcome, int(rule.limit), int(math.max(algorithm.remaining(j.counter, rule, now), 0)),
    retry, ms_until(algorithm.as_new_at(j.counter, rule, now), now),
    j.banned and ms_until(j.penalty.ban_end, now) or '0'
end

-- ---- Check -------------------------------------------------------------------------

-- The record of a request, {'check', end, signature, refunded, answer, charges, cost}; nil
-- when there is none.
local function load_request(key, now)
  local text = redis.call('GET', key)
  if not text then return nil end
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' or record[1] ~= 'check' then foreign() end
  return now < record[2] and record or nil
end

local function read_rules(base, args)
  local rules = {}
  for i = 1, #args, 4 do
    if args[i + 2] == '' then fail('NOT_FOUND', string.format('rules[%d].policy: no such policy', #rules)) end
    rules[#rules + 1] = parse_rule(base, args[i], args[i + 1], args[i + 2], args[i + 3])
  end
  return rules
end

-- What makes two checks the same one: a policy's numbers may change meanwhile.
local function signature_of(cost, mode, args)
  local parts = {cost, mode}
  for i = 1, #args, 4 do
    parts[#parts + 1] = args[i]
    parts[#parts + 1] = args[i + 1] ~= '' and '@' .. args[i + 1] or args[i + 2]
  end
  return redis.sha1hex(table.concat(parts, ' '))
end

local function check(base, now, peek, units, mode, request_id, ...)
  local cost, independent, args = tonumber(units), mode == 'I', {...}
  local request, again_ms = string.match(request_id, '^(%S+) (%d+)$')
  local request_key = request and base .. 'rate:q:' .. request
  local signature = request and signature_of(units, mode, args)
  if signature then
    local first = load_request(request_key, now)
    if first and first[3] ~= signature then fail('ALREADY_EXISTS', 'request_id: used for another check') end
    if first then
      first[5][2] = '1'
      return first[5]
    end
  end

  local rules, keys, judged, all_pass = read_rules(base, args), {}, {}, true
  for _, rule in ipairs(rules) do
    if not rule.unlimited then
      keys[rule.key] = keys[rule.key] or load_key(base, rule.key)
      rule.judged = judge(rule, keys[rule.key], cost, now)
      judged[#judged + 1] = rule.judged
      if rule.judged.refuses and not rule.shadow then all_pass = false end
    end
  end

  -- Remembered for as long as it may be repeated, and as what it charged counts.
  local charges, keep = {}, (tonumber(again_ms) or 0) * 1000
  for _, j in ipairs(judged) do
    if not peek then
      if not j.refuses and (independent or all_pass) then
        charges[#charges + 1] = charge(j, cost, now)
        keep = math.max(keep, j.rule.algorithm.as_new_at(j.counter, j.rule, now) - now)
      elseif j.counter.converted then
        put_record(j.k, j.rule.counter, j.rule.algorithm.record(j.counter, j.rule))
      end
      if j.penalty and not j.banned and (independent or all_pass or j.refuses) then count_try(j, now) end
    end
  end

  local reply, worst = {'', '0'}, 'ALLOWED'
  for i, rule in ipairs(rules) do
    local n = 3 + 6 * (i - 1)
    reply[n], reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = tell(rule, now)
    if WORST[reply[n]] > WORST[worst] then worst = reply[n] end
  end
  reply[1] = worst

  if peek then return reply end
  for _, k in pairs(keys) do check_size(k, now) end
  for _, k in pairs(keys) do save_key(k, now) end
  for _, j in ipairs(judged) do
    if j.rule.algorithm.save then j.rule.algorithm.save(j.counter, j.rule, now) end
  end
  if signature and #judged > 0 and (worst == 'ALLOWED' or #charges > 0) then
    local record = {'check', now + keep, signature, 0, reply, charges, cost}
    write('SET', request_key, cmsgpack.pack(record), 'PX', life_ms(keep))
  end
  return reply
end

-- mode: A (all or nothing) or I (each by itself); request_id: '' or "<id> <ms>", where the caller may repeat it for so
-- long. Of a rule, policy: '' or its name; spec: what it says (see parse_rule) or '' when there is no such policy.
-- -> {outcome, '1' when replayed, then of each rule what `tell` gives}
define('rate_check', {}, function(base, now, cost, mode, request_id, ...)
  return check(base, now, false, cost, mode, request_id, ...)
end)

-- The same, and nothing is charged or counted.
define('rate_peek', {'no-writes'}, function(base, now, cost, mode, request_id, ...)
  return check(base, now, true, cost, mode, request_id, ...)
end)

-- ---- Refund, Reset -----------------------------------------------------------------

-- -> {outcome}
define('rate_refund', {'allow-oom'}, function(base, now, request_id)
  local request_key, keys, saves = base .. 'rate:q:' .. request_id, {}, {}
  local request = load_request(request_key, now)
  if not request then return {'UNKNOWN'} end
  if request[4] == 1 then return {'ALREADY_REFUNDED'} end

  local cost = request[7]
  for _, charged in ipairs(request[6]) do
    local key, counter, letter = charged[1], charged[2], charged[3]
    local rule = {key = key, counter = counter, limit = charged[4], period = charged[5], burst = charged[6],
      log = base .. 'rate:l:' .. key .. ':' .. counter .. ':'}
    local algorithm = ALGORITHMS[letter]
    keys[key] = keys[key] or load_key(base, key)
    local record = standing(record_of(keys[key], counter, letter, algorithm.numbers), now)
    if record then
      local c = algorithm.open(rule, record, now, cost)
      if not c.converted and algorithm.refund(c, rule, charged[7], cost, now) then
        put_record(keys[key], counter, algorithm.record(c, rule))
        if algorithm.save then saves[#saves + 1] = function() algorithm.save(c, rule, now) end end
      end
    end
  end
  for _, k in pairs(keys) do save_key(k, now) end
  for _, save in ipairs(saves) do save() end
  request[4] = 1
  write('SET', request_key, cmsgpack.pack(request), 'KEEPTTL')
  return {'REFUNDED'}
end)

-- -> {'OK'}
define('rate_reset', {'allow-oom'}, function(base, now, key)
  local k, names = load_key(base, key), {}
  for counter, record in pairs(k.records) do
    if record[1] == 'L' then
      record = record_of(k, counter, 'L', ALGORITHMS.L.numbers)
      each_log({log = base .. 'rate:l:' .. key .. ':' .. counter .. ':'}, record[5], function(log)
        names[#names + 1] = log
      end)
    end
  end
  write('UNLINK', k.name, unpack(names))
  return {'OK'}
end)

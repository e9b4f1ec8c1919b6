-- RateLimitService: keys. The counters of a key are one packed string, read, written and removed in one command. It
-- expires with the last counter that is still needed.
--
-- Keys, after the base; keys, names and ids come percent-encoded:
--   rate:k:<key>                  string  the records of its counters: the length of the counter's name (2 bytes), the
--                                         name, `end` and four numbers (doubles, little-endian). <counter>! has the
--                                         tries and bans of a rule with a penalty, see ratelimit.lua; the others:
--                                         ratelimit_algorithms.lua
--   rate:l:<key>:<counter>:<n>    string  a chunk of a SLIDING_LOG, see ratelimit_algorithms.lua
--   rate:q:<request_id>           string  the answer and the charges of a Check with a request_id
-- <counter> is the rule, "F,5,1000", or "@<policy>,F". docs/ratelimit.md has their sizes and ends.

local COUNTERS_MAX = 128 -- of a key, including penalties
local RULES_KNOWN = 1000

local RECORD = '<Hc0ddddd'

-- ---- rules -------------------------------------------------------------------------

-- "F,5,1000", then ",<burst>" and ",<after>,<ban_ms>,<factor>,<max_ban_ms>" if the rule has them; "U": unlimited. A
-- policy begins with "@<its name> " and, if it is a shadow, "!"; nothing after that: there is no such policy.
local function parse_rule(text)
  local name, shadow, spec = string.match(text, '^@(%S+) (!?)(.*)$')
  local who = name and '@' .. name or text -- identifies the rule
  spec = spec or text
  if spec == '' or spec == 'U' then return {who = who, unknown = spec == '', unlimited = spec == 'U'} end
  local letter, limit, period, burst, after, ban, factor, max_ban =
    string.match(spec, '^(%u),(%d+),(%d+),?(%d*),?(%d*),?(%d*),?(%d*),?(%d*)$')
  local counter = name and '@' .. name .. ',' .. letter or spec
  return {who = who, counter = counter, tries = counter .. '!', letter = letter, algorithm = ALGORITHMS[letter],
    limit = tonumber(limit), period = tonumber(period) * 1000, burst = tonumber(burst), after = tonumber(after) or 0,
    ban = 1000 * (tonumber(ban) or 0), factor = tonumber(factor), max_ban = 1000 * (tonumber(max_ban) or 0),
    shadow = shadow == '!'}
end

-- Most Checks use few rules, so the latest ones are kept parsed.
local rules, n_rules = {}, 0

local function rule_of(text)
  local rule = rules[text]
  if not rule then
    if n_rules == RULES_KNOWN then rules, n_rules = {}, 0 end
    rule = parse_rule(text)
    rules[text], n_rules = rule, n_rules + 1
  end
  return rule
end

-- ---- a key -------------------------------------------------------------------------

-- A key is the array of its records {name, end, ...} that are still needed, changed in place; few keys have several.
-- key.finish: the latest end when it was read; key.logs: see log_of.
local function load_key(base, id, now)
  local name = base .. 'rate:k:' .. id
  local text = redis.call('GET', name)
  if not text then return {base = base, id = id, name = name, finish = 0, changed = false} end
  local record = {struct.unpack(RECORD, text, 1)} -- the 7th value: where the next record begins
  local finish = record[2]
  local key, at, len = {base = base, id = id, name = name, finish = finish, changed = false,
    finish > now and record or nil}, record[7], #text
  while at <= len do
    record = {struct.unpack(RECORD, text, at)}
    at = record[7]
    if record[2] > now then key[#key + 1] = record end
    if record[2] > key.finish then key.finish = record[2] end
  end
  return key
end

local function find_record(key, counter)
  for i = 1, #key do
    if key[i][1] == counter then return key[i], i end
  end
end

-- Returns nil if there is no record, or it is no longer needed.
local function record_of(key, counter, now)
  local record = find_record(key, counter)
  return record and record[2] > now and record or nil
end

local function put_record(key, record)
  local _, i = find_record(key, record[1])
  key[i or #key + 1], key.changed = record, true
end

local function pack_record(r)
  return struct.pack(RECORD, #r[1], r[1], r[2], r[3], r[4], r[5], r[6])
end

-- Writes a changed key, without records that are no longer needed.
local function save_key(key, now)
  local parts, finish = {}, now
  for i = 1, #key do
    local ends = key[i][2]
    if ends > now then parts[#parts + 1] = pack_record(key[i]) end
    if ends > finish then finish = ends end
  end
  local text = parts[2] and table.concat(parts) or parts[1]
  if not text then
    write('UNLINK', key.name)
  elseif finish == key.finish then
    write('SET', key.name, text, 'KEEPTTL')
  else
    write('SET', key.name, text, 'PX', life_ms(finish - now))
  end
end

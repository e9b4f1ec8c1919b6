-- RateLimitService, what is kept. A key's counters are one hash, so that they are read
-- in one command and forgotten in one; it ends with the last of them that matters.
--
-- Keys, after the base; keys, names and ids come percent-encoded:
--   rate:k:<key>                  hash    <counter>    an algorithm's record (MessagePack)
--                                         <counter>!   the tries and bans of a rule with a penalty:
--                                                      {'P', end, tries, end of their window, end of
--                                                      the ban, its length}
--   rate:l:<key>:<counter>:<bit>  zset    of a SLIDING_LOG, see ratelimit_algorithms.lua
--   rate:q:<request_id>           string  what a Check with a request_id was answered and charged
-- <counter> is what the rule says, "F,5,1000", or "@<policy>,F". docs/ratelimit.md says
-- how large each is and when it ends.

local COUNTERS_MAX = 128 -- of a key, penalties counted

local function foreign()
  fail('FAILED_PRECONDITION', 'the store holds foreign data under this name')
end

-- "F,5,1000", then ",<burst>" and ",<after>,<ban_ms>,<factor>,<max_ban_ms>" where the rule has them;
-- "U" of an unlimited policy.
local function parse_rule(base, key, name, spec, shadow)
  if spec == 'U' then return {unlimited = true} end
  local letter, limit, period, burst, after, ban, factor, max_ban =
    string.match(spec, '^(%u),(%d+),(%d+),?(%d*),?(%d*),?(%d*),?(%d*),?(%d*)$')
  local counter = name == '' and spec or '@' .. name .. ',' .. letter
  return {key = key, counter = counter, letter = letter, algorithm = ALGORITHMS[letter], limit = tonumber(limit),
    period = tonumber(period) * 1000, burst = tonumber(burst), after = tonumber(after) or 0,
    ban = 1000 * (tonumber(ban) or 0), factor = tonumber(factor), max_ban = 1000 * (tonumber(max_ban) or 0),
    shadow = shadow == '1', log = base .. 'rate:l:' .. key .. ':' .. counter .. ':'}
end

local function load_key(base, key)
  local k = {name = base .. 'rate:k:' .. key, records = {}, changed = {}, finish = 0}
  local all = redis.call('HGETALL', k.name)
  for i = 1, #all, 2 do
    local ok, record = pcall(cmsgpack.unpack, all[i + 1])
    if not ok or type(record) ~= 'table' or type(record[2]) ~= 'number' then foreign() end
    k.records[all[i]] = record
    k.finish = math.max(k.finish, record[2])
  end
  return k
end

-- The record of a counter, made as `letter` says, of so many elements; nil when there is none.
local function record_of(k, counter, letter, numbers)
  local record = k.records[counter]
  if not record then return nil end
  if record[1] ~= letter or #record ~= numbers then foreign() end
  for i = 2, numbers do
    if type(record[i]) ~= 'number' then foreign() end
  end
  return record
end

local function put_record(k, counter, record)
  k.records[counter] = record
  k.changed[#k.changed + 1] = counter
end

-- Ends the call when a key would have too many counters.
local function check_size(k, now)
  local n = 0
  for _, record in pairs(k.records) do
    if record[2] > now then n = n + 1 end
  end
  if n > COUNTERS_MAX then
    fail('RESOURCE_EXHAUSTED', string.format('key: has more than %d counters', COUNTERS_MAX))
  end
end

-- Writes what has changed, and removes what does not matter any more.
local function save_key(k, now)
  if #k.changed == 0 then return end
  local fields, over, finish = {}, {}, now
  for _, counter in ipairs(k.changed) do
    fields[#fields + 1] = counter
    fields[#fields + 1] = cmsgpack.pack(k.records[counter])
  end
  write('HSET', k.name, unpack(fields))
  for counter, record in pairs(k.records) do
    if record[2] <= now then over[#over + 1] = counter end
    finish = math.max(finish, record[2])
  end
  if #over > 0 then write('HDEL', k.name, unpack(over)) end
  if finish ~= k.finish then write('PEXPIRE', k.name, life_ms(finish - now)) end
end

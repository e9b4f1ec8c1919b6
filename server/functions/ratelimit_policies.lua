-- RateLimitService: policies, limits by name. All policies of a namespace have one base. No version is used twice.
--
-- Keys, after the base:
--   rate:p   hash    name -> {'policy', version, kind, algorithm, limit, period_ms, burst,
--                    after, ban_ms, factor, max_ban_ms} (MessagePack)
--                    kind: 1 = shadow, 2 = unlimited, which counts nothing
--   rate:n   zset    names, all with score 0, so that pages are in order
--   rate:v   string  the highest version of recently deleted policies
--   rate:c   string  the version of all policies, which grows with each change

local POLICY_FIELDS = 11

local function parse_policy(text)
  if not text then return nil end
  local ok, policy = pcall(cmsgpack.unpack, text)
  if not ok or type(policy) ~= 'table' or policy[1] ~= 'policy' or #policy ~= POLICY_FIELDS then foreign() end
  return policy
end

-- A version is the time, or higher. A version's mark is needed while the clock may be behind it, and is kept for
-- another day.
local function mark_version(key, version, now)
  write('SET', key, int(version), 'PX', int(ms_until(version, now) + DAY_MS))
end

-- The highest version of a deleted policy that may still be ahead of the clock.
local function deleted_policy_version(base)
  return tonumber(redis.call('GET', base .. 'rate:v') or '0') or foreign()
end

-- '0': no policy has changed for a day.
local function policies_version(base)
  local version = redis.call('GET', base .. 'rate:c') or '0'
  return tonumber(version) and version or foreign()
end

-- Not a counter, so that no version that a server knows is used again after FLUSHALL.
local function next_policies_version(base, now)
  return math.max(now, tonumber(policies_version(base)) + 1)
end

-- name, version, kind, algorithm, limit, period_ms, burst, after, ban_ms, factor, max_ban_ms
local function view_policy(name, policy)
  local view = {name, int(policy[2]), int(policy[3]), policy[4]}
  for i = 5, POLICY_FIELDS do view[i] = int(policy[i]) end
  return view
end

-- Adds the views of the first names to a reply.
local function add_policies(reply, base, names, size)
  local found = names[1] and redis.call('HMGET', base .. 'rate:p', unpack(names)) or {}
  for i = 1, math.min(size, #names) do
    local policy = parse_policy(found[i])
    if policy then reply[#reply + 1] = view_policy(names[i], policy) end
  end
  return reply
end

-- expected_version 0: any -> {'OK', view}
define('rate_put_policy', {}, function(base, now, name, expected_version, kind, algorithm, limit, period_ms, burst,
  after, ban_ms, factor, max_ban_ms)
  local policies, names = base .. 'rate:p', base .. 'rate:n'
  local old = parse_policy(redis.call('HGET', policies, name))
  local numbers = {limit, period_ms, burst, after, ban_ms, factor, max_ban_ms}
  local version
  redis.call('ZCARD', names) -- foreign data ends the call here, while nothing is changed
  check_version(tonumber(expected_version), old and old[2] or 0)
  if old then version = old[2] + 1 else version = math.max(now, deleted_policy_version(base) + 1) end
  local all = next_policies_version(base, now)
  local policy = {'policy', version, tonumber(kind), algorithm}
  for i = 5, POLICY_FIELDS do policy[i] = tonumber(numbers[i - 4]) end
  write('HSET', policies, name, cmsgpack.pack(policy))
  write('ZADD', names, 0, name)
  mark_version(base .. 'rate:c', all, now)
  return {'OK', view_policy(name, policy)}
end)

-- -> {'OK', view of each, or {}...}
define('rate_get_policies', {'no-writes'}, function(base, now, ...)
  local reply, found = {'OK'}, redis.call('HMGET', base .. 'rate:p', ...)
  for i, name in ipairs({...}) do
    local policy = parse_policy(found[i])
    reply[i + 1] = policy and view_policy(name, policy) or {}
  end
  return reply
end)

-- after: the last name of the page before, '' = none
-- -> {'OK', '1' when more follow, view...}
define('rate_list_policies', {'no-writes'}, function(base, now, after, page_size)
  local from, size = after == '' and '-' or '(' .. after, tonumber(page_size)
  local names = redis.call('ZRANGEBYLEX', base .. 'rate:n', from, '+', 'LIMIT', 0, size + 1)
  return add_policies({'OK', names[size + 1] and '1' or '0'}, base, names, size)
end)

-- known: the version of all policies that the server knows, or ''; after: the last name of the page before, '' = none
-- -> {'OK', version} if it is unchanged; otherwise {'OK', version, the page's last name or '' if no more follow,
--    view...} of the policies whose name begins with the domain and a slash
define('rate_domain_policies', {'no-writes'}, function(base, now, domain, known, after, page_size)
  local version, size = policies_version(base), tonumber(page_size)
  if known == version then return {'OK', version} end
  local from = after == '' and '[' .. domain .. '/' or '(' .. after
  local behind = '(' .. domain .. '0' -- '0' is the character after the slash
  local names = redis.call('ZRANGEBYLEX', base .. 'rate:n', from, behind, 'LIMIT', 0, size + 1)
  return add_policies({'OK', version, names[size + 1] and names[size] or ''}, base, names, size)
end)

-- expected_version 0: any -> {'OK'}
define('rate_delete_policy', {}, function(base, now, name, expected_version)
  local policies, names = base .. 'rate:p', base .. 'rate:n'
  local old = parse_policy(redis.call('HGET', policies, name)) or fail('NOT_FOUND', 'name: no such policy')
  redis.call('ZCARD', names)
  check_version(tonumber(expected_version), old[2])
  local version = math.max(old[2], deleted_policy_version(base))
  local all = next_policies_version(base, now)
  write('HDEL', policies, name)
  write('ZREM', names, name)
  mark_version(base .. 'rate:c', all, now)
  mark_version(base .. 'rate:v', version, now)
  return {'OK'}
end)

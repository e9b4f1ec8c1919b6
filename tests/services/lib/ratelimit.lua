-- RateLimitService, in the group "g". The store's clock changes only by advance(ms) and advance_us(us); it
-- begins where a second, minute, hour and day begin. Rules are texts: "bob FIXED 5/1000" is the key bob, the limit 5
-- and the period 1,000 ms; more words: "burst=10", "after=7", "ban=2000", "factor=2", "max=8000". Algorithms FIXED,
-- LOG, WINDOW, BUCKET. "bob @name" goes by a policy. Rules are separated by ';'.
--
--   check "bob FIXED 2/1000" "ALLOWED: ALLOWED 2 1 0 1000 0"   of each rule: outcome, limit, remaining, ms until it may
--                                                              pass, until it is as new, until a ban is over
--   check("bob FIXED 2/1000", 3) "DENIED:..."                  a cost of 3; or {request_id = "r"}
--   peek "bob FIXED 2/1000"   refund "r" "REFUNDED"   reset "bob" "OK"
--   put_policy("api", "FIXED 5/1000", {shadow = true})

local EPOCH = 1767225600000000 -- 2026-01-01T00:00:00Z
local LIFE, LONG_LIFE = "return math.ceil(span / 1000)", "return int(math.ceil(span / 1000) + 3600000)"
local advanced

-- Redis expires keys by its own clock, which runs while the script's is stopped; so keys get an hour more.
function setup()
  harness.alter(LIFE, LONG_LIFE)
  redis("SET ls:test:clock_still_us " .. EPOCH)
  advanced = 0
end
-- Keys written from now on end when they should, by the real clock.
function let_keys_end() harness.alter(LIFE, LIFE) end
-- Logs in chunks of three entries, so that short cases have several chunks.
function shorten_chunks() harness.alter(LIFE .. "\nend", LONG_LIFE .. "\nend\nCHUNK, LOOK = 3, 2") end

function now_us() return EPOCH + advanced end
-- Whole milliseconds also move the server's clock.
function advance_us(us)
  local ms = us < 0 and -(-us // 1000) or us // 1000
  harness.advance_ms(ms)
  redis("INCRBY ls:test:clock_offset_us " .. us - ms * 1000)
  advanced = advanced + us
end
function advance(ms) advance_us(ms * 1000) end

local ALGORITHMS = {FIXED = "FIXED_WINDOW", LOG = "SLIDING_LOG", WINDOW = "SLIDING_WINDOW", BUCKET = "TOKEN_BUCKET"}
local WORDS = {after = "after", ban = "ban_ms", factor = "factor", max = "max_ban_ms"}
function limit_of(text)
  local algorithm, limit, period, rest = text:match("^(%u+) (%-?%d+)/(%-?%d+)(.*)$")
  local of = {algorithm = ALGORITHMS[algorithm], limit = math.tointeger(limit), period_ms = math.tointeger(period)}
  for name, value in rest:gmatch("(%l+)=(%-?%d+)") do
    if name == "burst" then
      of.burst = math.tointeger(value)
    else
      of.penalty = of.penalty or {}
      of.penalty[WORDS[name]] = math.tointeger(value)
    end
  end
  return of
end
function rules_of(text)
  local rules = {}
  for rule in text:gmatch("[^;]+") do
    local key, rest = rule:match("^(.-) (.*)$")
    rules[#rules + 1] = rest:sub(1, 1) == "@" and {key = key, policy = rest:sub(2)} or {key = key, limit = limit_of(rest)}
  end
  return rules
end

lines["RateLimit.Check"] = function(r)
  local text = r.outcome .. (r.replayed and " replayed" or "")
  for _, rule in ipairs(r.rules) do
    text = ("%s: %s %d %d %d %d %d"):format(text, rule.outcome, rule.limit, rule.remaining, rule.retry_after_ms,
      rule.reset_after_ms, rule.banned_ms)
  end
  return text
end

function check_request(rules, more)
  if type(more) == "number" then more = {cost = more} end
  return with({group = "g", rules = rules_of(rules)}, more)
end
function check(rules, more) return RateLimit.Check(check_request(rules, more)) end
function check_id(rules, cost, id) return check(rules, {cost = cost, request_id = id}) end
function peek(rules, cost) return check(rules, {cost = cost, peek = true}) end
function refund(id, group) return RateLimit.Refund{group = group or "g", request_id = id} end
function reset(key, group) return RateLimit.Reset{group = group or "g", key = key} end
function put_policy(name, limit, more)
  return RateLimit.PutPolicy(with({name = name, limit = limit and limit_of(limit)}, more))
end
function put_unlimited(name) return RateLimit.PutPolicy{name = name, unlimited = true} {policy = any}.policy end
function get_policy(name) return RateLimit.GetPolicy{name = name} end
function delete_policy(name, version) return RateLimit.DeletePolicy{name = name, expected_version = version} end

function key(text) return "ls:{default/g}:rate:" .. text end
function ttl(text) return redis_number("PTTL", key(text)) end
function many(n, rule, said)
  for _ = 1, n do check(rule)(said) end
end
-- The remaining units of a rule.
function left(rules) return peek(rules, 1).rules[1].remaining end

-- Penalties: tries, lengths of bans, and that a ban never shortens a wait.
-- promise R8
require "ratelimit"

local function banned(rule, ms, cost) check(rule, cost) "BANNED:..." {rules = {{banned_ms = ms}}} end

-- promise R16: allowed tries count; ALL_OR_NOTHING: tries on the rules that deny
function case.allowed_tries_count_too()
  local rule = "bob FIXED 9/1000 after=3 ban=100"
  many(3, rule, "ALLOWED:...")
  check(rule) "BANNED: BANNED 9 6 100 1000 100" -- and is not charged
end

-- promise R17: tries during a ban neither count nor prolong it; a ban never shortens a wait
function case.banned_tries_neither_count_nor_lengthen()
  local rule = "bob FIXED 1/1000 after=2 ban=1500"
  check(rule); check(rule); banned(rule, 1500); remember()
  for _ = 1, 9 do banned(rule, 1500) end
  unchanged()
  advance(1499); banned(rule, 1); advance(1); check(rule) "ALLOWED:..."; check(rule) "DENIED:..."
  banned(rule, 1500)
end

-- promise R15
-- Tries are counted in windows of the clock, for every algorithm.
function case.tries_of_another_window_do_not_count()
  each({"FIXED", "LOG", "WINDOW", "BUCKET"}, function(algorithm)
    local rule = "bob " .. algorithm .. " 1/1000 after=2 ban=100"
    check(rule); check(rule); advance(1000)
    for _ = 1, 2 do eq(check(rule).outcome == "BANNED", false) end
    banned(rule, 100)
  end)
end

-- promise R17
-- When units come back before the tries' window ends, the next try would begin a ban: the answer's wait ends after it.
function case.a_wait_leads_past_the_next_ban()
  local rule = "bob BUCKET 10/1000 burst=1 after=2 ban=100"
  check(rule) "ALLOWED: ALLOWED 10 0 0 100 0"; check(rule) "DENIED: DENIED 10 0 1000 100 0"
  advance(1000); check(rule) "ALLOWED:..."
end

-- An allowed try, then a ban of each length.
local function bans(rule, ...)
  for _, ms in ipairs{...} do
    check(rule) "ALLOWED:..."
    banned(rule, ms); advance(ms)
  end
end

-- promise R18: factor, max_ban_ms; escalation ends with time
function case.each_further_ban_is_longer()
  bans("bob FIXED 1/100 after=1 ban=100 factor=2 max=700", 100, 200, 400, 700, 700)
end

-- promise R18
-- After as long without a ban as the last one was, or a period, the next is a first one.
function case.escalation_is_forgotten()
  each({
    {"bob FIXED 1/100 after=1 ban=300 factor=3", 300 + 299, 900 + 900},
    {"bob FIXED 1/1000 after=1 ban=300 factor=3", 1000, 900 + 1000},
  }, function(row)
    local rule, not_yet, forgotten = table.unpack(row)
    check(rule); banned(rule, 300); advance(not_yet); check(rule)
    banned(rule, 900); advance(forgotten); check(rule); banned(rule, 300)
  end)
  -- Even while earlier tries still count.
  local slower = "eve FIXED 100/10000 after=1 ban=1000 factor=3"
  harness.reset(); setup(); check(slower); banned(slower, 1000)
  advance(10500); check(slower); advance(4500); banned(slower, 1000)
end

-- promise R16
function case.tries_count_on_the_rules_that_deny()
  local rules = "bob FIXED 1/1000 after=2 ban=500;bob LOG 9/1000 after=2 ban=500"
  check(rules) "ALLOWED:..."; check(rules) "DENIED:..."
  many(2, rules, "BANNED:...")
  -- One try of the second rule so far; this is its second.
  check "bob LOG 9/1000 after=2 ban=500" "ALLOWED:..."; check "bob LOG 9/1000 after=2 ban=500" "BANNED:..."
end

-- promise R33
function case.a_ban_is_kept_until_it_is_forgotten()
  local rule = "bob FIXED 1/100 after=1 ban=9000 factor=2"
  check(rule); check(rule) "BANNED:..."
  eq(ttl "k:bob", within(3610000, 3618000)) -- see setup
  advance(8999); banned(rule, 1)
end

-- promise R18
-- The numbers of a policy change during a ban: the ban stays, and the next uses the new numbers.
function case.a_policy_may_change_under_a_ban()
  put_policy("api", "FIXED 1/1000 after=1 ban=500 factor=10"); check "bob @api"; banned("bob @api", 500)
  put_policy("api", "FIXED 1/1000 after=1 ban=50 factor=10 max=60"); banned("bob @api", 500); advance(1000)
  check "bob @api" "ALLOWED:..."
  banned("bob @api", 60); put_policy("api", "FIXED 1/1000"); check "bob @api" "DENIED:..."
end

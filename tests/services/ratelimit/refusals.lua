-- DENIED and BANNED from a server's memory: only where the store would answer the same, at most 20 ms old, never
-- after the check may pass, and not after a change through this server.
-- promise R44: DENIED and BANNED from memory: to Checks of one rule and one unit, at most 20 ms old, never when it
-- may pass; ended by Refund and Reset through this server
require "ratelimit"

local KNOWN, ASK = 20, 10 -- ms

local clock = setup
function setup()
  clock(); harness.options{remembers_refusals = true}; harness.server "A"
end

-- The answer comes from the store, or from memory.
local function asks(rules, said, more) eq(commands_of("fcall", function() check(rules, more)(said) end), 1) end
local function knows(rules, said, more) eq(commands_of("fcall", function() check(rules, more)(said) end), 0) end
local function use_up(rule, n) many(n, rule, "ALLOWED:...") end

function case.denial_is_repeated_without_the_store()
  each({
    {"bob FIXED 2/1000", "DENIED: DENIED 2 0 1000 1000 0", "DENIED: DENIED 2 0 995 995 0"},
    {"bob LOG 2/1000", "DENIED: DENIED 2 0 1000 1000 0", "DENIED: DENIED 2 0 995 995 0"},
    {"bob WINDOW 2/1000", "DENIED: DENIED 2 0 1500 2000 0", "DENIED: DENIED 2 0 1495 1995 0"},
    {"bob BUCKET 2/1000", "DENIED: DENIED 2 0 500 1000 0", "DENIED: DENIED 2 0 495 995 0"},
  }, function(row)
    local rule, now, later = table.unpack(row)
    use_up(rule, 2); asks(rule, now); knows(rule, now); advance(5)
    knows(rule, later); harness.server_ends "A"
    asks(rule, later) -- of the store too
  end)
end

local RULE = "bob FIXED 1/1000"
local function denied(ms) return ("DENIED: DENIED 1 0 %d %d 0"):format(ms, ms) end

function case.refusal_is_cached_for_20_ms_and_refreshed_once_after_10_ms()
  use_up(RULE, 1); asks(RULE, denied(1000)); advance(ASK - 1); knows(RULE, denied(991))
  advance(1); asks(RULE, denied(990)); knows(RULE, denied(990)); advance(KNOWN); asks(RULE, denied(970))
end

-- A call that asks again and fails does not lengthen the memory.
function case.it_is_not_known_for_longer_when_asking_fails()
  local text = "local remaining = algorithm.remaining(record, rule, now, key)"
  use_up(RULE, 1); asks(RULE, denied(1000)); advance(ASK); harness.alter(text, "error('x') " .. text)
  check(RULE) "INTERNAL..."
  knows(RULE, denied(990)); advance(KNOWN - ASK - 1); knows(RULE, denied(981)); advance(1)
  check(RULE) "INTERNAL..."
end

-- Durations are rounded up: the store decides about the last millisecond.
function case.it_is_not_known_when_it_may_pass()
  use_up(RULE, 1); advance(995); asks(RULE, denied(5)); advance(3)
  knows(RULE, denied(2)); advance(1); asks(RULE, denied(1)); asks(RULE, denied(1))
  advance(1); asks(RULE, "ALLOWED: ALLOWED 1 0 0 1000 0")
end

function case.different_request_asks_the_store()
  local allowed = "ALLOWED: ALLOWED 1 0 0 1000 0"
  use_up(RULE, 1); asks(RULE, denied(1000)); asks("eve FIXED 1/1000", allowed)
  asks("bob FIXED 2/1000", "ALLOWED: ALLOWED 2 1 0 1000 0"); asks(RULE, allowed, {group = "h"})
  harness.namespace "other"; asks(RULE, allowed); harness.namespace "default"
  -- A peek, a possible repeat, several rules, or several units.
  asks(RULE, denied(1000), {peek = true, cost = 1}); asks(RULE, denied(1000), {cost = 1, request_id = "r"})
  asks("bob FIXED 1/1000;bob FIXED 3/1000", "DENIED: DENIED 1 0 1000 1000 0: ALLOWED 3 3 0 0 0")
  asks(RULE, "DENIED: DENIED 1 0 -1 1000 0", 2); asks(RULE, "DENIED: DENIED 1 0 -1 1000 0", 2)
  knows(RULE, denied(1000))
end

-- A denied try counts towards the ban; a banned one does not.
function case.of_a_rule_with_a_penalty_only_the_ban_is_remembered()
  local rule = "bob FIXED 1/1000 after=3 ban=2000"
  use_up(rule, 1); asks(rule, denied(1000)); asks(rule, denied(1000))
  asks(rule, "BANNED: BANNED 1 0 2000 1000 2000"); knows(rule, "BANNED: BANNED 1 0 2000 1000 2000"); advance(7)
  knows(rule, "BANNED: BANNED 1 0 1993 993 1993"); advance(1988); asks(rule, "BANNED: BANNED 1 1 5 0 5")
  advance(3); knows(rule, "BANNED: BANNED 1 1 2 0 2"); advance(1); asks(rule, "BANNED: BANNED 1 1 1 0 1")
  asks(rule, "BANNED: BANNED 1 1 1 0 1"); advance(1); asks(rule, "ALLOWED: ALLOWED 1 0 0 1000 0")
end

function case.a_policy_and_its_shadow()
  put_policy("api", "FIXED 1/1000"); use_up("bob @api", 1); asks("bob @api", denied(1000))
  knows("bob @api", denied(1000)); put_policy("api", "FIXED 1/1000", {shadow = true})
  check "bob @api" "ALLOWED: ALLOWED 1 0 1000 1000 0"
  asks("bob @api", "ALLOWED: ALLOWED 1 0 1000 1000 0"); put_policy("api", "FIXED 2/1000")
  check "bob @api" "ALLOWED: ALLOWED 2 0 0 1000 0"
  asks("bob @api", "DENIED: DENIED 2 0 1000 1000 0"); delete_policy "api" "OK"; check "bob @api" "NOT_FOUND..."
end

function case.refund_through_this_server_ends_the_denial_at_once()
  check_id(RULE, 1, "r") "ALLOWED:..."
  asks(RULE, denied(1000)); refund "r" "REFUNDED"
  asks(RULE, "ALLOWED: ALLOWED 1 0 0 1000 0"); asks(RULE, denied(1000)); reset "bob" "OK"
  asks(RULE, "ALLOWED: ALLOWED 1 0 0 1000 0")
end

-- Through another server, or after the store was emptied: within 20 ms, and the call that asks again ends it for all.
function case.refund_through_another_server_is_seen_within_20_ms()
  local rule = "bob FIXED 3/1000"
  use_up(rule, 3); asks(rule, "DENIED: DENIED 3 0 1000 1000 0"); harness.server "B"; reset "bob" "OK"
  harness.server "A"; knows(rule, "DENIED: DENIED 3 0 1000 1000 0"); advance(ASK)
  asks(rule, "ALLOWED: ALLOWED 3 2 0 990 0"); asks(rule, "ALLOWED: ALLOWED 3 1 0 990 0")

  use_up(rule, 1); asks(rule, "DENIED: DENIED 3 0 990 990 0"); redis("DEL", key "k:bob")
  knows(rule, "DENIED: DENIED 3 0 990 990 0"); advance(KNOWN); asks(rule, "ALLOWED: ALLOWED 3 2 0 970 0")
end

function case.the_switch()
  harness.options{}; harness.server "B"; use_up(RULE, 1); asks(RULE, denied(1000)); asks(RULE, denied(1000))
end

-- Foreign data changes nothing, functions that free memory work without memory, and an error after a write is MAYBE.
-- promise R39: an error after a write: INTERNAL, MAYBE; a reply of an unexpected form: INTERNAL
require "ratelimit"

local RULES = "a FIXED 5/1000 after=3 ban=9;a LOG 5/1000;a WINDOW 5/1000;b BUCKET 5/1000;b @api"

local tries = {
  check = function() return check(RULES) end,
  check_id = function() return check_id(RULES, 1, "r") end,
  costly_check = function() return check(RULES, 3) end,
  peek = function() return peek(RULES, 1) end,
  refund = function() return refund "r" end,
  reset = function() return reset "a" end,
  put = function() return put_policy("new", "FIXED 5/1000") end,
  put_over = function() return put_policy("api", "FIXED 5/1000") end,
  get = function() return get_policy "api" end,
  list = function() return RateLimit.ListPolicies{} end,
  delete = function() return delete_policy "api" end,
  check_at_new_server = function()
    harness.server_ends "harness"
    return check(RULES)
  end,
}

-- See refuses_foreign.
local G, P = "ls:{default/g}:rate:", "ls:{default/policies}:rate:"
local rows = {
  {"SET ? x", G .. "k:a", "check peek refund reset"},
  {"SET ? x", G .. "k:b", "check"},
  {"HSET ? x y", G .. "k:a", "check reset"},
  {"SET ? some-text-that-is-longer-than-the-record-of-a-counter-could-be", G .. "k:a", "check"},
  {"APPEND ? x", G .. "k:a", "check"},
  {"LPUSH ? x", G .. "l:a:L,5,1000:0", "check costly_check refund"},
  {"LPUSH ? x", G .. "q:r", "check_id refund"},
  {"SET ? x", G .. "q:r", "check_id"},
  {"SET ? \x91\x01", G .. "q:r", "refund"},
  {"SET ? x", P .. "p", "put get list delete check_at_new_server"},
  {"HSET ? api x", P .. "p", "put_over get check_at_new_server", in_place = true},
  {"HSET ? api \x92\xa6policy\x01", P .. "p", "get", in_place = true},
  {"SET ? x", P .. "n", "put delete list"},
  {"SET ? x", P .. "v", "put"},
  {"LPUSH ? x", P .. "v", "delete"},
  {"SET ? x", P .. "c", "put"},
  {"LPUSH ? x", P .. "c", "delete"},
}

-- promise R37: foreign data: FAILED_PRECONDITION, no change
function case.foreign_data_changes_nothing()
  refuses_foreign(rows, tries, function()
    put_policy("api", "FIXED 5/1000"); check_id(RULES, 1, "r") "ALLOWED:..."
  end)
end

-- promise R33
-- A lost chunk is not replaced by one that never ends.
function case.a_chunk_of_a_log_that_was_lost_is_not_left_in_part()
  check "a LOG 5/1000"; redis("DEL", key "l:a:L,5,1000:0"); check "a LOG 5/1000" "ALLOWED: ALLOWED 5 3 0 1000 0"
  redis("EXISTS", key "l:a:L,5,1000:0") "0"
  advance(999); check("a LOG 5/1000", 4) "DENIED: DENIED 5 3 1 1 0"
  advance(1); check("a LOG 5/1000", 5) "ALLOWED: ALLOWED 5 0 0 1000 0"
end

-- promise R2
-- A chunk that was passed over in part ends when all of it has expired.
function case.entries_of_an_expired_chunk_do_not_count()
  check("a LOG 9/1000", 1); advance(1); check("a LOG 9/1000", 2); advance(999)
  check("a LOG 9/1000", 3) "ALLOWED: ALLOWED 9 4 0 1000 0"
  advance(999); redis("DEL", key "l:a:L,9,1000:0"); check("a LOG 9/1000", 1) "ALLOWED: ALLOWED 9 5 0 1000 0"
end

-- promise R12
-- promise R38: Peek, Refund and Reset work without memory
-- tests/e2e/ratelimit.lua shows with a real server that a Check is refused then.
function case.when_memory_is_short()
  check_id("a FIXED 5/1000;a LOG 5/1000", 3, "r") "ALLOWED:..."
  redis "CONFIG SET maxmemory 1"; remember(); peek("a FIXED 5/1000", 1) "ALLOWED: ALLOWED 5 2 0 1000 0"
  unchanged(); refund "r" "REFUNDED"
  peek("a FIXED 5/1000;a LOG 5/1000", 1) {rules = {{}, {remaining = 5}}}; reset "a" "OK"
  redis "CONFIG SET maxmemory 0"
end

function case.an_error_after_a_write_is_maybe()
  harness.alter("write('SET', key, cmsgpack", "write('NOSUCH', key, cmsgpack")
  check_id(RULES, 1, "r") "NOT_FOUND..." -- the policy
  check_id("a FIXED 5/1000", 1, "r") "INTERNAL MAYBE..."
end

function case.a_reply_of_another_shape_is_an_error()
  local text = "local remaining = algorithm.remaining(record, rule, now, key)"
  harness.alter(text, "if true then return {'ALLOWED', '0', 'x'} end\n" .. text)
  check "a FIXED 5/1000" "INTERNAL..."
  harness.alter("local policy = parse_policy(found[i])", "local policy = nil reply[2] = 'x' if true then break end")
  get_policy "api" "INTERNAL..."; check "a @api" "INTERNAL..."
end

-- The ledger of a group in buckets: readers see one ledger, and continue in it.
require "stock"

local LEDGER_2, KEPT = bucket_key(2, "ledger"), bucket_key(2, "kept"):gsub("stock:", "")

local function sales(n)
  for i = 0, n - 1 do deduct(order_in(1 + i % N) .. " - a:1") end
end
local function sale(bucket) deduct(order_in(bucket) .. " - a:1") "DEDUCTED..." end
local function all() return ledger{limit = 1000}.entries end

-- promise SB19: one ledger, in order, without a gap, by any limit
-- The clock of bucket 2 is behind: its next entry may belong before entries of others.
function case.entry_is_delivered_when_no_earlier_one_can_follow()
  local text = "{'OK', oldest, time_ms(), after}"
  put_in "a 40"
  local before = all()
  local last = before[#before].id
  sale(1); harness.alter(text, "{'OK', oldest, time_ms() - (string.find(base, '/102}') and 60000 or 0), after}")
  eq(#read(last, {limit = 1000}).entries, 0)
  harness.alter(text, text); eq(#read(last, {limit = 1000}).entries, 1)
end

-- promise SB20: TRIMMED of the whole
function case.a_trimmed_ledger_is_reported()
  put_in "a 40"; sales(12)
  -- Ids that no bucket has given, and ids of no bucket.
  read "5-640" "TRIMMED"; read "5-700" "TRIMMED"
  local entries = all()
  local first, middle, last = entries[3].id, entries[10].id, entries[#entries].id
  trim(middle) "OK"
  local rest = read(middle, {limit = 1000}) {outcome = "OK"}
  eq(#rest.entries, #entries - 10); eq(rest.oldest_id, rest.entries[1].id)
  read(first) "TRIMMED"; read "0-0" "TRIMMED"
  read(last) ""; trim(last) "OK"; read(last) "" {outcome = "OK"}
end

-- The entries after a position, and the next position.
local function read_on(position, limit)
  local got = read(position, {limit = limit}) {entries = any}
  return got.entries, got.next_after
end
local function count_rest(position, limit)
  local n, entries = 0, nil
  repeat
    entries, position = read_on(position, limit)
    n = n + #entries
  until #entries == 0
  return n, position
end

-- promise SB23: a reader that follows `next_after` misses no entry, also of those written late, and gets TRIMMED if
--   any bucket lost entries that it had read; the value is also a valid place to trim to
function case.next_after_follows_the_delivered_entries()
  put_in "a 40"; sales(30)
  local entries = all()
  for _, limit in ipairs{1, 7, 1000} do
    local position, at, page = "", 0, nil
    repeat
      page, position = read_on(position, limit)
      for _, e in ipairs(page) do
        at = at + 1
        eq(e.id, entries[at].id)
      end
    until #page == 0
    eq(at, #entries)
  end
  for i, e in ipairs(entries) do eq((count_rest(e.id, 3)), #entries - i) end -- an entry's id is one, too
end

-- promise SB23
-- Buckets without new entries would wait.
function case.next_after_is_of_all_buckets_when_one_answers_a_reader_that_would_wait()
  put_in "a 40"
  local _, position = count_rest("", 1000)
  sale(3)
  position = read(position, {wait_ms = 1000}) {entries = {{}}}.next_after
  eq(#read_on(position, 10), 0)
  sale(4); eq(#read_on(position, 10), 1)
end

-- promise SB23
function case.next_after_is_a_place_to_trim_up_to()
  put_in "a 40"; sales(12)
  local entries = all()
  local nine, position = read_on("", 9)
  eq(#nine, 9); trim(position) "OK"
  eq(#all(), #entries - 9); read(entries[4].id) "TRIMMED"
  local one, start = read_on("", 1) -- from the remaining entries on nothing is missed
  eq(#one, 1); eq((count_rest(start, 2)) + 1, #entries - 9)
  local n, finish = count_rest(position, 2)
  eq(n, #entries - 9); trim(finish) "OK"; eq((count_rest(finish, 2)), 0)
  n, start = count_rest("", 2)
  eq(n, 0)
  sale(1); eq((count_rest(start, 2)), 1)
end

-- promise SB23
-- As after a failover: bucket 2 has lost what the reader has read, and the reader's last entry is of another bucket.
function case.loss_of_history_in_any_bucket_is_reported_to_its_reader()
  put_in "a 40"; redis("COPY", LEDGER_2, KEPT); sale(2); sale(1)
  local _, position = count_rest("", 100)
  read(position) {outcome = "OK"}; redis("RENAME", KEPT, LEDGER_2); read(position) "TRIMMED" {next_after = ""}
  sale(2) -- what comes then does not hide it
  read(position) "TRIMMED"
end

-- promise SB23
-- After the reader has read an entry of bucket 1, bucket 2 writes one with a lower id.
function case.entry_written_after_a_clock_step_is_not_missed()
  put_in "a 40"; redis("COPY", LEDGER_2, KEPT); sale(2)
  redis("EVAL", "local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]\n"
    .. "redis.call('SET', 'late', cjson.encode(last))\n"
    .. "return redis.call('RENAME', KEYS[2], KEYS[1])", "2", LEDGER_2, KEPT) "OK"
  sale(1)
  local _, position = count_rest("", 100)
  redis("EVAL", "local late = cjson.decode(redis.call('GET', 'late'))\n"
    .. "return redis.call('XADD', KEYS[1], late[1], late[2][1], late[2][2]) == late[1] and 'there'", "1", LEDGER_2) "there"
  local late, after = read_on(position, 10)
  eq(late, {{kind = "DEDUCTED"}}); eq(#read_on(after, 10), 0)
end

-- promise SB23
function case.a_position_of_another_group_is_trimmed()
  put_in "a 40"; put("a 1", {group = "h"}); read "1-1,2-2" "TRIMMED"; read "0-0,0-0,0-0,0-0,0-0,0-0" "TRIMMED"
  read("0-0,0-0", {group = "h"}) "TRIMMED"; trim("9-9,9999999999999-9", {group = "h"}) "OK"
  eq(#read("0-0", {group = "h"}).entries, 1)
  for _, bad in ipairs{"1-1,", ",1-1", "1-1,,1-1"} do read(bad) "INVALID_ARGUMENT NO after:..." end
end

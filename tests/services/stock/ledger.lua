-- The ledger: every change in order, and TRIMMED when a part is missing.
-- promise S3
require "stock"

local END = "9007199254740991-0"

-- The answer to a read after an id: the entries as text and the oldest id; or TRIMMED.
local function reads(after, entries, oldest) read(after)(entries) {outcome = "OK", oldest_id = oldest} end
local function trimmed(after, oldest) read(after) "TRIMMED" {entries = {}, oldest_id = oldest} end
local function all_ids()
  local ids = {}
  for i, e in ipairs(ledger().entries) do ids[i] = e.id end
  return ids
end

local function five_entries()
  put "a 10"; deduct "o1 - a:1"; adjust "a -2 adj"; deduct "o2 - a:3"; deduct "o3 - a:4"
  local ids = all_ids()
  eq(#ids, 5)
  return ids
end
local FIVE = "PUT a 10, DEDUCTED a 1 o1, ADJUSTED a -2 adj, DEDUCTED a 3 o2, DEDUCTED a 4 o3"

-- promise S24: ReadLedger: order, after, limit, oldest_id; TrimLedger
function case.reads_on_from_where_it_was()
  reads("", "", "")
  local ids = five_entries()
  reads("", FIVE, ids[1]); reads(ids[3], "DEDUCTED a 3 o2, DEDUCTED a 4 o3", ids[1]); reads(ids[5], "", ids[1])
  reads("0-0", FIVE, ids[1]); read(ids[1], {limit = 2}) {entries = {{id = ids[2]}, {id = ids[3]}}}; put "b 1"
  reads(ids[5], "PUT b 1", ids[1])
  ledger{group = "b"} ""
end

function case.entries_have_their_time()
  five_entries()
  local now = tonumber(redis("TIME"):match("%d+"))
  for _, e in ipairs(ledger().entries) do eq(e.at_ms, within((now - 600) * 1000, (now + 1) * 1000)) end
end

-- promise S24
function case.a_limit_is_a_hundred_unless_said()
  put "a 0"
  for i = 1, 120 do adjust("a 1 adj" .. i) end
  eq(#ledger().entries, 100); eq(#ledger{limit = 1000}.entries, 121)
end

-- promise S25: TRIMMED, exactly, on an emptied ledger too, and of an id that this ledger never gave
function case.entries_trimmed_unread_are_reported()
  local ids = five_entries()
  trim(ids[2]) "OK"
  trimmed("0-0", ids[3]); trimmed(ids[1], ids[3])
  -- Its reader has missed nothing.
  reads(ids[2], "ADJUSTED a -2 adj, DEDUCTED a 3 o2, DEDUCTED a 4 o3", ids[3])
  reads(ids[3], "DEDUCTED a 3 o2, DEDUCTED a 4 o3", ids[3])
  -- Nothing was read yet: reading begins at the oldest.
  reads("", "ADJUSTED a -2 adj, DEDUCTED a 3 o2, DEDUCTED a 4 o3", ids[3])
  -- A repeat, or an earlier id, changes nothing.
  remember()
  for _, id in ipairs{ids[2], ids[1], "1-0"} do trim(id) "OK" end
  unchanged()
end

-- promise B5: TrimLedger removes at most some 4,000 entries of the stream in a call, and the server continues
-- In steps of 4,000 entries; readers of the rest get TRIMMED from the first step on.
function case.a_long_ledger_is_trimmed_in_steps()
  put "a 1"
  eval("for i = 1, 50000 do redis.call('XADD', 'ls:{default/g}:stock:ledger', '9000000000000-' .. i - 1, '1',\n"
    .. "  'PUT\\0a\\0' .. i .. '\\0\\0') end")
  fcall("stock_trim_ledger", "ls:{default/g}:", "1", "9000000000000-49990000")
  eq(redis_number("XLEN", key "ledger"), 50001 - 4000 - 1)
  trimmed("9000000000000-49989000", "9000000000000-4000000")
  reads("9000000000000-49999000", "PUT a 50000", "9000000000000-4000000")
  ledger{limit = 1} {entries = {{id = "9000000000000-49991000"}}} -- the removed part is not reported
  eq(commands_of("fcall", function() trim "9000000000000-49990000" "OK" end), within(12, 13))
  eq(#ledger().entries, 10)
  -- Emptied in steps, and no item left: the ledger gets an end.
  delete "a" "OK"; trim(END) "OK"; eq(ttl "ledger", within(1, 30 * DAY))
end

function case.trims_up_to_an_id_that_no_entry_has()
  for _, at in ipairs{"10", "20", "30"} do
    eval("redis.call('XADD', 'ls:{default/g}:stock:ledger', ARGV[1] .. '-0', '1', 'PUT\\0a\\0' .. ARGV[1] .. '\\0\\0')", at)
  end
  trim "25-0" "OK"
  trimmed("19-7", "30-1000"); reads("20-1000", "PUT a 30", "30-1000")
end

-- ---- several entries packed in one of the stream ----

-- An error after the first step says that entries may be gone.
function case.a_trim_that_fails_in_a_later_step_is_maybe()
  put "a 10"
  local text = "local items = redis.call('ZCARD', base"
  harness.alter(text, "if redis.call('INCR', 'ls:test:steps') == 1 then return {'MORE'} end fail('INTERNAL', '') " .. text)
  trim(END) "INTERNAL MAYBE..."
end

-- An order of four lines between two of one line; the ids of all entries.
local function packed_entries()
  put "a 100"; deduct "o1 - a:1"
  for _, sku in ipairs{"b", "c", "d"} do put(sku .. " 100") end
  trim(all_ids()[5]) "OK"
  deduct "o2 - a:1"; deduct "o3 - a:1 b:2 c:3 d:4"; deduct "o4 - a:1"
  local ids = all_ids()
  eq(#ids, 6)
  return ids
end
local O3 = "DEDUCTED a 1 o3, DEDUCTED b 2 o3, DEDUCTED c 3 o3, DEDUCTED d 4 o3, "
local function seq_of(id) return tonumber(id:match("-(%d+)")) end
local function beside(id, by) return ("%s-%d"):format(id:match("%d+"), seq_of(id) + by) end

function case.entries_of_one_order_follow_one_another()
  local ids = packed_entries()
  eq(redis_number("XLEN", key "ledger"), 3)
  for i = 3, 5 do eq(seq_of(ids[i]), seq_of(ids[i - 1]) + 1) end
end

function case.reads_on_from_the_middle_of_an_order()
  local ids = packed_entries()
  local rest = {"DEDUCTED a 1 o3", "DEDUCTED b 2 o3", "DEDUCTED c 3 o3", "DEDUCTED d 4 o3", "DEDUCTED a 1 o4"}
  for from = 1, 6 do
    for limit = 1, 6 do
      local last = math.min(5, from + limit - 1)
      local got = read(ids[from], {limit = limit})(table.concat(rest, ", ", from, last)) {outcome = "OK"}
      for i, e in ipairs(got.entries) do eq(e.id, ids[from + i]) end
    end
  end
end

-- An entry of the stream that is to be forgotten in part stays.
function case.an_order_is_forgotten_whole()
  local ids = packed_entries()
  trim(ids[4]) "OK"
  trimmed("0-0", ids[2]); reads(ids[1], O3 .. "DEDUCTED a 1 o4", ids[2])
  reads(ids[3], "DEDUCTED c 3 o3, DEDUCTED d 4 o3, DEDUCTED a 1 o4", ids[2]); trim(ids[5]) "OK"
  -- A reader of a part of it has missed the rest, and a reader of all of it nothing.
  for _, i in ipairs{1, 2, 4} do trimmed(ids[i], ids[6]) end
  reads(ids[5], "DEDUCTED a 1 o4", ids[6])
end

-- Between two ids of the stream there are ids without entries.
function case.an_id_beside_those_of_an_order_was_never_given()
  local ids = packed_entries()
  trimmed(beside(ids[2], -1), ids[1]); trimmed(beside(ids[6], 1), ids[1])
end

-- More entries than one of the stream holds: 20 orders of 64 lines in one FCALL.
function case.an_entry_of_the_stream_holds_a_thousand()
  local base, args, at, n = "ls:{default/g}:", {}, "0-0", 0
  for _, sku in ipairs(skus(64)) do fcall("stock_put_item", base, "8", sku, "100", "0", "0", "0", "60000", "0", "0") end
  redis("DEL", key "ledger")
  for i = 0, 19 do
    local call = split("130 o" .. i .. " bob " .. table.concat(skus(64), " 1 ") .. " 1")
    table.move(call, 1, #call, #args + 1, args)
  end
  fcall("stock_deduct", base, table.unpack(args)); eq(redis("XLEN", key "ledger"), "2")
  repeat
    local got = read(at, {limit = 7}) {outcome = "OK"}
    for i, e in ipairs(got.entries) do
      eq(e.order_id .. " " .. e.sku, ("o%d s%d"):format(n // 64, n % 64))
      n, at = n + 1, e.id
    end
  until #got.entries == 0
  eq(n, 20 * 64)
end

-- promise S25
-- A reader of a lost or other ledger must not continue there: it would miss what was lost, and wait for what is there.
function case.unknown_entry_id_is_reported_as_trimmed()
  local ids = five_entries()
  trimmed(END, ids[1]); trimmed("1-0", ids[1]); reads("0-0", FIVE, ids[1]); trim(ids[4]) "OK"
  trimmed(END, ids[5]); reads(ids[4], "DEDUCTED a 4 o3", ids[5]); reads(ids[5], "", ids[5]); trim(ids[5]) "OK"
  trimmed(END, ""); reads(ids[5], "", "")
  -- The store was set back: the reader is ahead of it.
  redis("DEL", key "ledger"); put "a 30"; trimmed(ids[5], ledger().oldest_id)
end

-- promise S25
function case.an_emptied_ledger_still_knows()
  local ids = five_entries()
  trim(END) "OK"
  reads("", "", ""); reads(ids[5], "", ""); trimmed(ids[4], ""); trimmed("0-0", "")
  deduct "o1 - a:1" -- a repeat is no change
  reads(ids[5], "", ""); put "a 20"
  local oldest = ledger() "PUT a 12".oldest_id
  ledger() {entries = {{id = oldest}}}; trimmed(ids[4], oldest); reads(ids[5], "PUT a 12", oldest)
end

function case.trimming_nothing_makes_no_ledger()
  trim "1-0" "OK"; eq(harness.snapshot(), "")
end

-- promise S26: the ledger ends by TrimLedger only, or when it is empty and without items
function case.an_emptied_ledger_ends_where_no_items_are()
  local ids = five_entries()
  trim(ids[5]) "OK"; eq(ttl "ledger", -1)
  delete "a" "OK"; eq(ttl "ledger", -1); trim(END) "OK"
  keeps("ledger", 30 * DAY); trimmed(ids[5], "")
  -- Every reader has missed something.
  redis("PEXPIRE", key "ledger", "0"); trimmed(ids[5], ""); reads("", "", "")
  -- With an item the ledger stays.
  put "a 1"; delete "a" "OK"; trim(END) "OK"
  put "b 1"; eq(ttl "ledger", -1)
end

-- Waiting for the ledger: which servers get a message, what a woken reader gets, and the keys that remain in the store.
require "stock"
require "servers"

function setup() servers_reset() end

local READERS = key "r"
local WOKEN = "W ls:{default/g}:ledger"

-- Messages to servers since the last call: "S1:<message> ...".
local function messages()
  local list = harness.messages()
  for i, m in ipairs(list) do list[i] = m[1] .. ":" .. m[2] end
  return table.concat(list, " ")
end

-- A ReadLedger that may wait; its call is the last of `calls`.
local function wait(server, after, more)
  park(server, "", "", "Stock.ReadLedger", with({group = "g", after = after, wait_ms = WAIT}, more))
  return calls[#calls]
end
local function waits_at(server, after, more)
  local reader = wait(server, after, more)
  eq(is_waiting(reader), true)
  return reader
end
local function wake(reader, what, at_once)
  harness.event(reader.number, what or "WOKEN", at_once)
  return said_of(reader)
end

-- The id of the last entry; "" = none.
local function last_id()
  local entries = ledger{limit = 1000}.entries
  return #entries > 0 and entries[#entries].id or ""
end

-- ---- messages ----

-- promise SL1: wait_ms: answered by the next entry of the group, of any kind, through any server, the first one too
function case.new_entry_wakes_waiting_readers()
  put "a 10"
  local reader = waits_at("S1", last_id())
  eq(harness.alarms(reader.number), {}); messages() ""
  deduct "o1 - a:1"; messages()("S1:" .. WOKEN); wake(reader) "DEDUCTED a 1 o1" {oldest_id = ledger().entries[1].id}
  deduct "o2 - a:1"; messages() ""
end

-- A reserved and cancelled order; its entries.
local function two_entries(id)
  reserve(id .. " - 60000 a:1"); cancel(id)
  return ("RESERVED a 1 %s, CANCELLED a 1 %s"):format(id, id)
end

-- promise SB21: an entry of any bucket wakes a reader, also while it reads
-- An entry of any bucket, and a reader that has waited since before the group had buckets.
function case.an_entry_of_any_bucket_wakes()
  local early = waits_at("S2", "")
  put_in("a 10", 3) {item = any}; messages()("S2:" .. WOKEN); eq(wake(early).entries[1].kind, "PUT")
  for i = 1, 12 do
    local reader = waits_at("S1", last_id())
    messages() ""
    local entries = two_entries("o" .. i)
    messages()("S1:" .. WOKEN); wake(reader)(entries)
    reader = waits_at("S1", last_id())
    wake(reader) "WAITS" -- by somebody else's entry
    wake(reader, "DEADLINE") ""
  end
end

-- promise SB21
function case.a_reader_of_buckets_that_is_woken_while_it_asks()
  put_in("a 10", 3) {item = any}
  for i = 1, 12 do
    local reader = waits_at("S1", last_id())
    local entries = two_entries("o" .. i)
    wake(reader, "WOKEN", true)(entries)
  end
  local reader = waits_at("S1", last_id())
  wake(reader, "WOKEN", true) "WAITS" -- by somebody else's entry
  wake(reader, "DEADLINE", true) ""
end

-- promise SL1
function case.every_change_wakes()
  local function wakes(change, entry)
    local reader = waits_at("S1", last_id())
    change(); messages()("S1:" .. WOKEN); wake(reader)(entry)
  end
  wakes(function() put "a 10" end, "PUT a 10") -- of a group that is not there
  wakes(function() adjust "a -3 adj" end, "ADJUSTED a -3 adj"); wakes(function() delete "a" end, "DELETED a 7")
  trim "9007199254740991-0" "OK"
  wakes(function() put "b 1" end, "PUT b 1")
end

-- promise SL2: a server gets one message for all its readers, and none for readers that stopped waiting
function case.server_gets_one_message_for_all_its_readers()
  for _, sku in ipairs{"a", "b", "c"} do put(sku .. " 10") end
  local last, readers = last_id(), {}
  for i, server in ipairs{"S1", "S1", "S2", "S1"} do readers[i] = waits_at(server, last) end
  deduct "o1 - a:1 b:2 c:3"; messages()("S1:" .. WOKEN .. " S2:" .. WOKEN); redis("EXISTS", READERS) "0"
  deduct "o2 - a:1"; messages() ""
  for _, reader in ipairs(readers) do
    wake(reader) "DEDUCTED a 1 o1, DEDUCTED b 2 o1, DEDUCTED c 3 o1, DEDUCTED a 1 o2"
  end
end

-- promise SL1
function case.call_without_effect_wakes_no_reader()
  put "a 1"; put("a 1", {group = "b"}); deduct "o1 - a:1"
  local last = last_id()
  waits_at("S1", last); deduct "o1 - a:1" "DEDUCTED again a:0"; deduct "o2 - a:1" "SOLD_OUT a:0"
  deduct("o1 - a:1", {group = "b"}); harness.namespace "other"; put "a 1"; harness.namespace "default"
  trim(last) "OK"; messages() ""
end

-- ---- what a reader gets ----

-- promise SL6: a read with entries does not wait; a read without wait_ms writes nothing
function case.read_with_entries_does_not_wait()
  put "a 10"; deduct "o1 - a:1"
  local entries = ledger().entries
  remember(); said_of(wait("S1", "")) "PUT a 10, DEDUCTED a 1 o1"
  said_of(wait("S1", entries[1].id)) "DEDUCTED a 1 o1"
  -- Without wait_ms nothing is written, even when there is nothing to read.
  said_of(wait("S1", entries[2].id, {wait_ms = 0})) ""; unchanged()
end

-- promise SL7: TRIMMED at once, and when it happens while a reader waits
function case.trimmed_is_answered_at_once()
  put "a 10"
  local first = last_id()
  local reader = waits_at("S1", first)
  deduct "o1 - a:1"; trim(last_id()) "OK"
  -- The entries that it waited for were trimmed.
  wake(reader) "TRIMMED"
  remember(); said_of(wait("S1", first)) "TRIMMED"; unchanged()
end

-- promise SL4: a woken reader keeps its limit, and waits on when there is no entry for it
function case.a_woken_reader_keeps_its_limit()
  put "a 10"
  local reader = waits_at("S1", last_id(), {limit = 2})
  for i = 1, 3 do deduct(("o%d - a:%d"):format(i, i)) end
  wake(reader) "DEDUCTED a 1 o1, DEDUCTED a 2 o2"
end

-- promise SL4
function case.reader_woken_without_an_entry_keeps_waiting()
  put "a 10"
  local reader = waits_at("S1", last_id())
  for _ = 1, 3 do
    redis("DEL", READERS) -- as the entry that woke it did
    wake(reader) "WAITS"
  end
  deduct "o - a:1"; messages()("S1:" .. WOKEN); wake(reader) "DEDUCTED a 1 o"
end

-- promise SL5: wait_ms over: OK without entries, or with entries that came unnoticed
function case.at_its_deadline_it_is_answered()
  put "a 10"
  local last = last_id()
  local reader, late = waits_at("S1", last), waits_at("S1", last)
  remember(); wake(reader, "DEADLINE") "" {oldest_id = last}; unchanged()
  -- The message of the entry has not arrived yet.
  deduct "o1 - a:1"; wake(late, "DEADLINE") "DEDUCTED a 1 o1"
end

-- ---- what waiting leaves behind ----

-- promise SL8: the keys of waiting end with the longest wait
function case.a_registration_ends_with_the_longest_wait()
  waits_at("S1", ""); eq(ttl "r", within(WAIT - 20000, WAIT))
  waits_at("S1", "", {wait_ms = DAY}); keeps("r", DAY); waits_at("S2", "", {wait_ms = 1}); keeps("r", DAY)
end

-- promise SL9: an abandoned call ends, and costs one message
function case.an_abandoned_call_costs_one_message()
  put "a 10"
  local reader = waits_at("S1", last_id())
  remember(); wake(reader, "ABANDONED") "CANCELLED NO..."; unchanged()
  deduct "o1 - a:1"; messages()("S1:" .. WOKEN)
  deduct "o2 - a:1"; messages() ""
end

-- promise SL2
function case.a_server_that_is_gone_is_forgotten()
  put "a 10"
  local last = last_id()
  waits_at("S1", last)
  local reader = waits_at("S2", last)
  server_down "S1"; deduct "o1 - a:1" "DEDUCTED a:9"; messages()("S2:" .. WOKEN)
  redis("EXISTS", READERS) "0"; wake(reader) "DEDUCTED a 1 o1"
end

-- promise SL3: without readers an order looks once
-- Its entries are one entry of the stream.
function case.sale_without_readers_costs_one_extra_lookup()
  for _, sku in ipairs{"a", "b", "c"} do put(sku .. " 10") end
  redis "CONFIG RESETSTAT"; deduct "o1 - a:1 b:1 c:1"
  for command, n in pairs{xadd = 1, exists = 1, smembers = 0, publish = 0, del = 0} do eq(harness.commands(command), n) end
  deduct "o2 - a:1"; eq(harness.commands "exists", 2)
end

-- promise SL10: waiting and TrimLedger work without memory
function case.without_memory_it_waits_and_trims()
  put "a 10"; deduct "o1 - a:1"
  local last = last_id()
  redis "CONFIG SET maxmemory 1" -- a Deduct is refused
  local reader = waits_at("S1", last)
  trim(last) "OK"; ledger() ""
  redis "CONFIG SET maxmemory 0"; deduct "o2 - a:1"; wake(reader) "DEDUCTED a 1 o2"
end

-- promise SL11: foreign data under the readers' key: FAILED_PRECONDITION, no change
function case.foreign_readers_key_refuses_orders_and_waits()
  put "a 10"; redis("SET", READERS, "foreign"); remember(); deduct "o1 - a:1" (foreign)
  said_of(wait("S1", last_id())) (foreign); unchanged()
end

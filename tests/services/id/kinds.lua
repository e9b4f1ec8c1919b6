-- UUID_V7, SEQUENCE, and invalid requests.
require "id"

-- ---- UUID_V7 ----

-- promise D14
-- promise D15: ... and 62 bits of each are random
function case.uuids_increase_and_are_random()
  local n, last, seen, before = 10000, "", {}, os.time()
  eq(store_calls(function()
    for _ = 1, 3 do
      local response = next_ids("UUID_V7", "", n) {order_scope = "SERVER"}
      eq(#response.uuids, n)
      for _, text in ipairs(response.uuids) do
        local random = text:match("^%x+%-%x+%-7%x+%-([89ab]%x+%-%x+)$")
        if #text ~= 36 or text <= last or not random or seen[random] then error(text .. " after " .. last) end
        last, seen[random] = text, true
      end
    end
  end), 0)
  local at = tonumber(last:sub(1, 8) .. last:sub(10, 13), 16)
  eq(at, within(before * 1000, os.time() * 1000 + 1010)) -- 30,000 take 7.3 ms of ticks at least
end

-- ---- SEQUENCE ----

-- promise D16: SEQUENCE: 1, 2, 3, ... of a name in a namespace, GLOBAL with block 1
function case.a_sequence_counts()
  eq(next_of "s", 1); eq(next_of "s", 2)
  harness.server "B"
  next_ids("SEQUENCE", "s", 10000) {order_scope = "GLOBAL", ids = repeated(10000, function(i) return 2 + i end)}
  harness.server "harness"
  eq(next_of "s", 10003) -- in one order over all servers
  eq(next_of "t", 1)
  harness.namespace "other"; eq(next_of "s", 1)
  harness.namespace "default"; eq(next_of "s", 10004); redis "GET ls:{default/s}:id:s" "10004"
  redis "TTL ls:{default/s}:id:s" "-1"
end

-- promise D17: ends at 2^53-1: OUT_OF_RANGE, no number is taken
function case.a_sequence_ends()
  redis "SET ls:{default/s}:id:s 9007199254740981"; eq(next_ids("SEQUENCE", "s", 10).ids[10], 9007199254740991)
  next_ids("SEQUENCE", "s", 1) "OUT_OF_RANGE NO name: ..."
  redis "SET ls:{default/s}:id:s 9007199254740981"; next_ids("SEQUENCE", "s", 11) "OUT_OF_RANGE NO name: ..."
  eq(next_of "s", 9007199254740982) -- a refusal takes nothing
end

local function with_blocks() harness.options{sequence_block = 100} end
local function numbers(first, n) return repeated(n, function(i) return first + i - 1 end) end

-- promise D18: blocks: SERVER, increasing within a server, each number once, one store call for a block
function case.a_block_is_taken_ahead()
  with_blocks()
  eq(store_calls(function()
    next_ids("SEQUENCE", "s", 10) {order_scope = "SERVER", ids = numbers(1, 10)}
    for i = 11, 100 do eq(next_of "s", i) end
  end), 1)
  harness.server "B"; eq(next_of "s", 101); eq(next_of "t", 1)
  harness.namespace "other"; eq(next_of "s", 1)
  harness.namespace "default"; harness.server "harness"
  eq(next_of "s", 201) -- what B has not given, B may
  harness.server "B"; eq(next_of "s", 102)
  harness.server_ends "B"
  eq(next_of "s", 301) -- a restart leaves a gap
end

-- promise D18
function case.more_than_a_block()
  with_blocks(); eq(next_of "s", 1)
  next_ids("SEQUENCE", "s", 250) {ids = numbers(2, 250)} -- no call came between: it continues from its number
  eq(next_of "s", 252)
  harness.server "B"; eq(next_of "s", 351)
  harness.server "harness"
  next_ids("SEQUENCE", "s", 100) {ids = numbers(451, 100)} -- 99 are left
end

-- promise D18
function case.concurrent_calls_share_a_block()
  with_blocks()
  for i, one in ipairs(Id.Next.together(repeated(20, {kind = "SEQUENCE", name = "s"}))) do one{ids = {i}} end
  eq(next_of "s", 21) -- no block was lost
end

local function plan(count) return harness.plan("harness", "Id.Next", {kind = "SEQUENCE", name = "s", count = count}) end
local function begin(call)
  harness.begin(call)
  return answer("Id.Next", harness.answer(call)) {ids = any}.ids
end

-- promise D18
-- Both are planned while the block has enough; the first leaves too little.
function case.queued_calls_get_different_numbers()
  with_blocks(); eq(next_of "s", 1)
  local first, second = plan(60), plan(60)
  eq(begin(first)[60], 61); eq(begin(second)[1], 62)
  harness.server "B"; eq(next_of "s", 201)
end

local KEPT = 512 -- id_sequence.c: BLOCKS_MAX

function case.a_call_that_queues_may_find_its_block_gone()
  with_blocks(); eq(next_of "s", 1)
  local call = plan(0)
  for i = 1, KEPT do eq(next_of("n" .. i), 1) end
  eq(begin(call)[1], 101)
end

-- promise D19: at most 512 sequences are kept; the least recently used is dropped
function case.only_so_many_sequences_are_kept()
  with_blocks()
  for i = 0, KEPT - 1 do eq(next_of("n" .. i), 1) end
  eq(next_of "n0", 2); eq(next_of "one more", 1); eq(next_of "n0", 3)
  eq(next_of "n1", 101) -- was not asked for the longest: a gap
  eq(next_of "n511", 2)
end

-- ---- input ----

-- promise D20: bad input: INVALID_ARGUMENT, field named, no change
function case.bad_input_is_named()
  refuses(Id.Next, {count = 1}) {
    {"kind", kind = 0}, {"kind", kind = 4}, {"count", kind = "SNOWFLAKE", count = -1},
    {"count", kind = "SNOWFLAKE", count = 10001}, {"count", kind = "UUID_V7", count = 10001},
    {"count", kind = "UUID_V7", count = -2147483648}, {"count", kind = "SEQUENCE", name = "s", count = 10001},
    {"name", kind = "SEQUENCE"}, {"name", kind = "SEQUENCE", name = long(129)}, {"name", kind = "SNOWFLAKE", name = "s"},
    {"name", kind = "UUID_V7", name = "s"},
  }
  refuses(Id.Decode, {}) {{"id", id = 0}, {"id", id = -1}, {"id", id = math.mininteger}}; eq(next_of(long(128)), 1)
end

-- promise D12: foreign data: FAILED_PRECONDITION, no change
function case.foreign_sequence_is_not_changed()
  redis "SET ls:{default/s}:id:s text"; redis "RPUSH ls:{default/t}:id:s text"; remember()
  next_ids("SEQUENCE", "s", 1)(foreign); next_ids("SEQUENCE", "t", 1)(foreign); unchanged()
end

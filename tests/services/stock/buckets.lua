-- Groups in buckets: an item is kept in several groups, and is one item for callers.
require "stock"

local function each_bucket(f)
  for k = 0, N do f(k) end
end
local function gone(sku) each_bucket(function(k) in_bucket(sku, k) "none" end) end
local function sell(bucket, rest) return deduct(order_in(bucket) .. " " .. rest) end
local any_item = {item = any}

-- promise SB6: on_hand is exact at every moment
function case.an_item_is_spread_over_its_buckets()
  put_in "a 10" {item = {buckets = N}}; stock "a" "10 0 0"; in_bucket("a", 0) "2 0 8"
  for k = 1, N do in_bucket("a", k) "2 0 0" end
  redis("EXISTS", key "i:a") "0"
end

-- CRC16 of Redis Cluster, of the text in braces.
local function slot_of(text)
  local crc = 0
  for i = 1, #text do
    crc = crc ~ text:byte(i) << 8
    for _ = 1, 8 do crc = (crc & 0x8000 ~= 0 and crc << 1 ~ 0x1021 or crc << 1) & 0xffff end
  end
  return crc % 16384
end

-- promise SB22: buckets lie in slots far apart, whatever the group
function case.buckets_lie_in_slots_far_apart()
  for _, n in ipairs{2, 4, 8, 16, 32, 64} do
    local taken = {}
    for k = 1, n do
      local part = slot_of(("default/hot/%d/%d"):format(n, harness.bucket_name(k))) * n // 16384
      eq(taken[part], nil)
      taken[part] = true
    end
  end
end

-- promise SB1: an order is in the bucket that its id selects, and is found there again
function case.an_order_lives_in_its_bucket()
  put_in "a 40"
  local id = order_in(3)
  deduct(id .. " - a:2") "DEDUCTED a:8"; deduct(id .. " - a:2") "DEDUCTED again a:8"
  in_bucket("a", 3) "8 0 2"; stock "a" "38 0 2"
  order(id) "CONFIRMED  a:2:0"; deduct(id .. " - a:3") "ALREADY_EXISTS NO order_id:..."
end

-- promise SB27: a bucket that runs short gets units from the bucket that has most
function case.a_bucket_that_runs_short_pulls_from_the_richest()
  put_in "a 40"; sell(1, "- a:11") "DEDUCTED a:4"; sell(1, "- a:29") "DEDUCTED a:0"
  for k = 1, N do sell(k, "- a:1") "SOLD_OUT a:0" end
  stock "a" "0 0 40"
end

local function is_after(id, last)
  local at, seq = id:match("^(%d+)-(%d+)$")
  local last_at, last_seq = last:match("^(%d+)-(%d+)$")
  return tonumber(at) > tonumber(last_at) or at == last_at and tonumber(seq) > tonumber(last_seq)
end
-- The sum of the ledger: available, reserved, sold. Entries are read `limit` at a time, and their ids increase.
local function ledger_sum(sku, limit)
  local sum, after, last = {0, 0, 0}, "", "0-0"
  repeat
    local entries = read(after, {limit = limit}) {outcome = "OK"}.entries
    for _, e in ipairs(entries) do
      eq(is_after(e.id, last), true)
      last = e.id
      for i = 1, e.sku == sku and 3 or 0 do sum[i] = sum[i] + BY_KIND[e.kind][i] * e.quantity end
      after = e.id
    end
  until #entries == 0
  return table.concat(sum, " ")
end

-- promise SB5: both sides of a move are in the ledger
-- promise SB19
function case.its_ledgers_are_one_ledger()
  put_in "a 40"
  for i = 0, 29 do sell(1 + i % N, "- a:1") "DEDUCTED..." end
  for _, limit in ipairs{1000, 1, 7} do ledger_sum("a", limit) "10 0 30" end
end

-- ---- units on their way ----

local RECEIVE = "put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))"
local FORGET = "if units > 0 and id == tonumber(move_id) then"

-- Available units in all buckets and the pool, without those on their way.
local function in_buckets(sku)
  local sum = 0
  each_bucket(function(k) sum = sum + (tonumber(in_bucket(sku, k):match("^%d+")) or 0) end)
  return sum
end

-- promise SB3: units in transit are not lost: a repeat, or any call that needs them, finishes the move
-- promise SB5
function case.a_move_that_was_lost_is_finished_by_a_repeat()
  put_in "a 40"
  local id = order_in(1)
  losing(RECEIVE, function()
    deduct(id .. " - a:15") "INTERNAL NO..."; eq(in_buckets "a", 35); stock "a" "40 0 0"
  end)
  deduct(id .. " - a:15") "DEDUCTED a:0"; eq(in_buckets "a", 25)
  stock "a" "25 0 15"; ledger_sum("a", 100) "25 0 15"
end

-- promise SB3
-- promise SB5
function case.a_move_that_was_lost_is_finished_by_the_next_order()
  put_in "a 40"
  losing(RECEIVE, function() sell(1, "- a:15") "INTERNAL..." end)
  -- All units, so also those on their way to another bucket.
  sell(3, "- a:40") "DEDUCTED a:0"; stock "a" "0 0 40"; ledger_sum("a", 100) "0 0 40"
end

-- promise SB4: a move is added once
-- promise SB5
function case.a_move_that_came_is_added_once()
  put_in "a 40"
  local id = order_in(1)
  -- The order was made with units that were received; their source does not know.
  losing(FORGET, function() deduct(id .. " - a:15") "INTERNAL MAYBE..." end)
  deduct(id .. " - a:15") "DEDUCTED again a:0"; eq(in_buckets "a", 25)
  sell(2, "- a:25") "DEDUCTED a:0"; sell(1, "- a:1") "SOLD_OUT a:0"
  stock "a" "0 0 40"; ledger_sum("a", 100) "0 0 40"
end

-- promise SB3
-- promise SB5
-- promise SB24: units that a dead server left in transit are returned by the sweep of another
function case.a_move_that_was_lost_is_found_when_it_is_overdue()
  put_in "a%} 40"; overdue() "OK\n\n"
  losing(RECEIVE, function() sell(1, "- a%}:15") "INTERNAL..." end)
  ms(1000); overdue() "OK\n\n"
  ms(1001); eq(overdue():match("^OK\n\nls:{default/g/4/%d+}:\na%%}\n1\n%-?%d+\n(%d+)\n"), "5")
  sell(3, "- a%}:40") "DEDUCTED a%}:0"; overdue() "OK\n\n"
end

-- promise SB7: SOLD_OUT only when no bucket and no move has a unit
function case.sold_out_is_not_answered_while_a_unit_is_in_transit()
  put_in "a 10"
  losing(RECEIVE, function()
    sell(1, "- a:3") "INTERNAL..."; sell(2, "- a:9") "INTERNAL..."
  end)
  sell(4, "- a:10") "DEDUCTED a:0"; sell(4, "- a:1") "SOLD_OUT a:0"
end

-- promise SB5
-- Two servers look, and then both send: the second one gets the first one's move.
function case.a_move_under_way_is_shared()
  put_in("a 40", 2, {group = "d"})
  local id, d = order_in(1), {group = "d"}
  losing(RECEIVE, function()
    deduct(id .. " - a:22", d) "INTERNAL..."
    harness.alter("if units > 0 then\n          local n = #found", "if false then\n          local n = #found")
    deduct(id .. " - a:22", d) "DEDUCTED a:8"
  end)
  deduct(order_in(1) .. " - a:18", d) "DEDUCTED a:0"
end

-- promise SB7
-- Each time a server looks from bucket to bucket, a unit moves from one that it has not seen yet to one that it has
-- seen.
function case.sold_out_is_not_answered_when_a_unit_moves_during_the_scan()
  local text = "local reply = {'OK'}\n  for i, sku in ipairs({...}) do\n    local found"
  put_in "a 4"
  for _, k in ipairs{1, 2, 4} do sell(k, "- a:1") end
  in_bucket("a", 3) "1 0 0"
  redis "SET ls:test:look 1"
  harness.alter(text, [[
local look, from, to = redis.call('GET', 'ls:test:look'), nil, nil
if look == '1' and string.find(s.base, '/102}:', 1, true) then from, to = '101', '100' end
if look == '2' and string.find(s.base, '/100}:', 1, true) then from, to = '100', '0' end
if from then
  redis.call('INCR', 'ls:test:look')
  for bucket, units in pairs({[to] = 1, [from] = -1}) do
    local key = string.sub(s.base, 1, -6) .. bucket .. '}:stock:i:a'
    local i = {struct.unpack('<Bdddddddddd', redis.call('GET', key))}
    i[2], i[4] = i[2] + units, i[4] + 1
    if bucket == '0' then i[3] = i[3] - units end
    redis.call('SET', key, struct.pack('<Bdddddddddd', unpack(i, 1, 11)))
  end
end
]] .. text)
  sell(4, "- a:1") "DEDUCTED a:0"
  redis "GET ls:test:look" "3"
  sell(4, "- a:1") "SOLD_OUT a:0"
end

-- promise SB8: SOLD_OUT from memory ends when units return in any bucket
function case.cached_sold_out_ends_when_any_bucket_gets_units_back()
  harness.options{remembers_refusals = true}; harness.server "remembers"; put_in "a 4"
  local id = order_in(2)
  local function first(bucket) return deduct(order_in(bucket) .. " - a:1", {fresh = true}) end
  deduct(id .. " - a:4"); first(1) "SOLD_OUT a:0"
  eq(commands_of("fcall", function() first(3) "SOLD_OUT a:0" end), 0)
  eq(commands_of("fcall", function() sell(3, "- a:1") "SOLD_OUT a:0" end), 1) -- not fresh: only its bucket is asked
  take_back("r1 " .. id .. " a:1"); first(4) "DEDUCTED a:0"
end

-- ---- items ----

-- promise SB9: the number of buckets is permanent
function case.the_number_of_buckets_is_permanent()
  put_in "a 10"; remember(); put_in("a 10", 8) "FAILED_PRECONDITION NO buckets:..."
  put_in("b 10", 1) "FAILED_PRECONDITION NO buckets:..."; unchanged()
  put_in("b 10", 0) {item = {buckets = N}}; delete "a" "OK"; delete "b" "OK"
  put_in("a 10", 8) "FAILED_PRECONDITION NO buckets:..."
  put("a 10", {group = "whole"}) {item = {buckets = 0}}
  put_in("a 10", N, {group = "whole"}) "FAILED_PRECONDITION NO buckets:..."
  put_in("a 10", 1, {group = "whole"}) {item = {buckets = 0}}
end

-- promise SB10: buckets 0..64; in buckets per_buyer_limit 0..1000
function case.buckets_are_checked()
  local good = put_request("a", 1, {buckets = 2, per_buyer_limit = 1000})
  refuses(Stock.PutItem, good) {{"buckets", buckets = 65}, {"buckets", buckets = -1}, {"per_buyer_limit", per_buyer_limit = 1001}}
  Stock.PutItem(good)(any_item)
  refuses(Stock.PutItem, good) {{"per_buyer_limit", buckets = 0, per_buyer_limit = 1001}}
end

-- promise SB11: GetItem and versions are of the whole item
function case.several_lines_are_one_order()
  put_in "a 20"; put_in "b 20"
  local id = order_in(2)
  deduct(id .. " - a:17 b:9") "DEDUCTED a:0 b:0"; sell(3, "- a:4 b:1") "SOLD_OUT a:3"
  stock "a" "3 0 17"; stock "b" "11 0 9"
  sell(3, "- a:1 x:1") "UNKNOWN_SKU x:0"; take_back("r1 " .. id .. " a:17") "RETURNED..."; stock "a" "20 0 0"
end

-- promise SB14: Adjust takes from all buckets, once
function case.adjust_takes_from_all_buckets()
  put_in "a 20"; adjust "a -19 j1" "1 0 0"; adjust "a -19 j1" {replayed = true}
  adjust "a -2 j2" "FAILED_PRECONDITION NO delta:..."; stock "a" "1 0 0"
  adjust "x 1 j3" "NOT_FOUND..."; ledger_sum("a", 100) "1 0 0"
end

-- promise SB11
-- promise E13: Adjust with the version that was read changes nothing when another call was faster
function case.an_expected_version_is_of_the_whole_item()
  put_in "a 20"
  local before = version "a"
  sell(1, "- a:1")
  local now = eq(version "a", above(before))
  adjust("a 1 j1", {expected_version = before}) "ABORTED..."; adjust("a 1 j1", {expected_version = now})(any_item)
end

-- promise SB12: DeleteItem: not while anything is reserved in any bucket; ends everywhere, also when it was lost
function case.delete_needs_that_nothing_is_reserved_anywhere()
  put_in "a 20"
  local id = order_in(3)
  reserve(id .. " - 60000 a:2"); delete "a" "FAILED_PRECONDITION..."; stock "a" "18 2 0"
  cancel(id); delete "a" "OK"; stock "a" "NOT_FOUND..."
  sell(1, "- a:1") "UNKNOWN_SKU a:0"; delete "a" "NOT_FOUND..."
  gone "a"
end

-- promise SB12
-- The pool's item has ended, but buckets still have it.
function case.a_deleted_item_that_a_bucket_still_has_ends_there_too()
  put_in "a 20"
  losing("if not item or item[BORN] > tonumber(born) then return {'OK'} end", function()
    delete "a" "INTERNAL MAYBE..."; in_bucket("a", 1) "0 0 0"
  end)
  stock "a" "NOT_FOUND..."; delete "a" "NOT_FOUND..."
  gone "a"
end

-- promise SB13: a bucket that PutItem did not reach gets the item later
function case.a_bucket_without_the_item_gets_it()
  losing("local born, era, item = tonumber(made), tonumber(set), item_of(s, sku)", function()
    put_in "a 20" "INTERNAL MAYBE..."
  end)
  stock "a" "20 0 0"; sell(1, "- a:1") "DEDUCTED..."; stock "a" "19 0 1"
end

-- promise SB15: lists show one item
function case.lists_show_one_item()
  put_in "b 20"; put_in "a 10"; put("c 5", {group = "h"}); sell(2, "- a:1 b:1")
  local page = Stock.ListItems{group = "g", page_size = 1} {items = {{sku = "a", available = 9}}}
  Stock.ListItems{group = "g", page_token = page.next_page_token} {items = {{sku = "b", sold = 1}}}
  local seen, token = {}, ""
  repeat
    page = Stock.ListItems{page_size = 1, page_token = token} {items = any}
    for _, item in ipairs(page.items) do seen[#seen + 1] = ("%s/%s:%d"):format(item.group, item.sku, item.available) end
    token = page.next_page_token
  until token == ""
  table.sort(seen); eq(table.concat(seen, " "), "g/a:9 g/b:19 h/c:5")
  Stock.BatchGetItems{group = "g", skus = {"b", "x", "a"}} {items = {{sku = "b"}, {available = 9}}}
  put_in("b 3", 2, {group = "b"}); put("x 4", {group = "x"})
  Stock.BatchGetItems{skus = {"b", "x", "a"}} {items = {{available = 3}, {available = 4}}}
end

-- ---- refusals that a server caches ----

-- promise SB2: a server remembers how many buckets a group has, and a wrong memory does no harm
function case.a_server_that_remembers_wrongly_asks_the_group()
  put_in "a 8"; sell(1, "- a:1")
  -- The store was emptied, and the group was made again.
  redis "FLUSHALL"; put "a 5"; sell(1, "- a:1") "DEDUCTED a:4"
  redis "FLUSHALL"; put_in("a 8", 2); harness.server "other"; deduct "o - a:1"
  harness.server "harness"; deduct "o - a:1" "DEDUCTED again a:3"
end

-- promise SB1
-- promise SB2
function case.an_order_that_its_bucket_can_serve_is_one_call()
  put_in "a 400"; sell(1, "- a:1")
  eq(commands_of("fcall", function() sell(2, "- a:1") end), 1)
end

-- ---- limits a buyer ----

local function put_with_limit(on_hand, limit) put_in("a " .. on_hand, N, {per_buyer_limit = limit})(any_item) end

-- promise SB16: a buyer has one limit in all buckets
function case.a_buyer_has_one_limit_in_all_buckets()
  put_with_limit(400, 3)
  local first, second, third = order_in(1), order_in(2), order_in(3)
  deduct(first .. " bob a:2") "DEDUCTED a:98"; deduct(second .. " bob a:2") "BUYER_LIMIT a:..."
  deduct(first .. " bob a:2") "DEDUCTED again a:98"; deduct(second .. " bob a:1") "DEDUCTED a:99"
  deduct(third .. " bob a:1") "BUYER_LIMIT a:..."; deduct(third .. " eve a:3") "DEDUCTED a:97"
  sell(4, "- a:1") "INVALID_ARGUMENT NO buyer_id:..."; stock "a" {item = {per_buyer_limit = 3}}
end

-- promise SB17: returned units do not count; a claim without an order counts for 15 s
function case.returned_units_do_not_count_for_the_buyer_limit()
  put_with_limit(400, 2)
  local sold, held = order_in(1), order_in(2)
  deduct(sold .. " bob a:1") "DEDUCTED..."; reserve(held .. " bob 60000 a:1") "RESERVED..."
  sell(3, "bob a:1") "BUYER_LIMIT..."; take_back("r1 " .. sold) "RETURNED..."
  sell(4, "bob a:1") "DEDUCTED..."; sell(1, "bob a:1") "BUYER_LIMIT..."
  ms(60000); sell(1, "bob a:1") "DEDUCTED..."; sell(1, "bob a:1") "BUYER_LIMIT..."
end

local CLAIMED = "s.claimed_at = tonumber(claimed_at)"

-- promise SB17
-- A server dies between the claim and the order.
function case.a_claim_without_an_order_counts_for_a_while()
  put_with_limit(400, 1)
  local lost = order_in(1)
  losing(CLAIMED, function() deduct(lost .. " bob a:1") "INTERNAL..." end)
  sell(2, "bob a:1") "BUYER_LIMIT..."
  ms(14000); sell(2, "bob a:1") "BUYER_LIMIT..."
  ms(2000); sell(2, "bob a:1") "DEDUCTED..."; deduct(lost .. " bob a:1") "BUYER_LIMIT..."
end

-- promise SB18: a refused order leaves no claim, but for one that another copy of the call has made
function case.a_refused_order_leaves_no_claim()
  put_with_limit(4, 3); sell(1, "eve a:3") "DEDUCTED..."; sell(2, "bob a:2") "SOLD_OUT a:1"
  sell(3, "bob a:2") "SOLD_OUT a:1"; sell(3, "bob a:1") "DEDUCTED..."
end

-- promise SB18
function case.a_repeat_that_is_refused_leaves_the_claim_of_the_first()
  put_with_limit(4, 3); sell(1, "eve a:3") "DEDUCTED..."
  local id = order_in(2)
  losing(CLAIMED, function() deduct(id .. " bob a:2") "INTERNAL..." end)
  deduct(id .. " bob a:2") "SOLD_OUT a:1"; sell(3, "bob a:2") "BUYER_LIMIT..."
end

-- Only an item ends the key.
function case.a_late_move_of_an_item_that_is_gone_leaves_no_key()
  put_in "a 40"; delete "a" "OK"
  remember()
  for _, k in ipairs{0, N} do
    fcall("stock_receive", ("ls:{default/g/4/%d}:"):format(harness.bucket_name(k)), "6", "a", "1", tostring(k), "7", "3", "5")
  end
  unchanged()
end

-- ---- data lost by a failover ----

-- Saves the units of the item in a bucket or in the pool ...
local function keep(bucket)
  for _, of in ipairs{"i", "m"} do
    redis("COPY", bucket_key(bucket, of .. ":a"), "ls:kept:" .. of .. ":" .. bucket, "REPLACE")
  end
end
-- ... so that a failover can bring it back.
local function set_back(bucket)
  redis("DEL", bucket_key(bucket, "m:a"))
  for _, of in ipairs{"i", "m"} do
    redis("COPY", "ls:kept:" .. of .. ":" .. bucket, bucket_key(bucket, of .. ":a"), "REPLACE")
  end
end

-- promise SB25: a move that a failover lost does not block the item: it can be put, adjusted and deleted, and units of
--   an item that was created later are not asked for
function case.an_item_of_which_units_were_lost_on_their_way_can_be_deleted()
  put_in "a 40"; keep(2); sell(2, "- a:20") "DEDUCTED a:0"
  set_back(2); delete "a" "OK"; stock "a" "NOT_FOUND..."
end

-- promise SB25
-- The first bucket has forgotten that it gave units.
function case.an_item_of_which_too_much_was_sold_can_be_changed_and_deleted()
  each({
    function() put_in("a 44", 0)(any_item) end,
    function() adjust "a 1 j1" (any_item) end,
    function() delete "a" "OK"; gone "a" end,
  }, function(change)
    put_in "a 40"; keep(1); sell(2, "- a:16") "DEDUCTED a:0"
    set_back(1); ms(1000); sell(2, "- a:30") "DEDUCTED a:0"
    change()
  end)
end

local function make_again(on_hand)
  delete "a" "OK"
  ms(1000); put_in("a " .. on_hand)
end

-- promise SB25
-- The buckets have the later item.
function case.a_pool_that_was_set_back_to_a_deleted_item_answers_and_can_be_deleted()
  put_in "a 40"; keep(0); make_again(40); set_back(0)
  sell(2, "- a:16") "SOLD_OUT..."; delete "a" "OK"
  gone "a"
end

-- promise SB25
function case.units_of_an_item_that_was_recreated_are_not_requested()
  put_in "a 42"; keep(0); keep(2); make_again(42)
  set_back(0); set_back(2); sell(2, "- a:12") "DEDUCTED..."
end

-- promise SB26: expired holds, however many, do not block the item
function case.many_holds_that_have_expired_do_not_block_the_item()
  put_in "a 1200"
  for _ = 1, 210 do reserve(order_in(1) .. " - 60000 a:1") end
  ms(60001); harness.alter("local HOLDS_MAX, HOLD_LINES_MAX = 300, 600", "local HOLDS_MAX, HOLD_LINES_MAX = 1, 600")
  stock "a" "1200 0 0"
end

-- Deduct: all lines or none, once for each order.
require "stock"

-- promise S2: on_hand = available + reserved + sold
function case.deduct_sells_and_returns_the_rest()
  put "a 10"; put "b 5"; deduct "o1 bob a:2 b:5" "DEDUCTED a:8 b:0"; stock "a" "8 0 2"; stock "b" "0 0 5"
  order "o1" "CONFIRMED bob a:2:0 b:5:0" {order = {group = "g", order_id = "o1", hold_ms = 0}}
  ledger() "PUT a 10, PUT b 5, DEDUCTED a 2 o1, DEDUCTED b 5 o1"
end

-- promise S29: group empty only where one sku is named
function case.one_line_needs_no_group()
  put("a 10", {group = ""}); deduct("o1 - a:1", {group = ""}) "DEDUCTED a:9"
  -- The sku is the group.
  stock("a", {group = "a"}) "9 0 1"; order("o1", {group = "a"}) "CONFIRMED  a:1:0"
  deduct("o1 - a:1", {group = "a"}) "DEDUCTED again a:9"
end

-- promise S7: the same order_id gets the first answer, replayed
function case.a_repeat_is_the_first_answer()
  put "a 10"; put "b 10"; deduct "o1 bob a:2 b:1"; deduct "o2 bob a:8"
  remember(); deduct "o1 bob a:2 b:1" "DEDUCTED again a:8 b:9"
  -- The same lines in another order are the same order; the answer has the order of the request.
  deduct "o1 bob b:1 a:2" "DEDUCTED again b:9 a:8"; unchanged()
end

-- promise S4: all lines or none
-- promise S9: a refusal leaves no record
-- promise S52: GetOrder: state, hold_ms, lines with returned units; NOT_FOUND
function case.a_refusal_changes_nothing_and_may_change()
  put "a 3"; put "b 10"; remember(); deduct "o1 - b:1 a:4" "SOLD_OUT a:3"
  unchanged(); order "o1" "NOT_FOUND NO order_id:..."
  put "a 4"; deduct "o1 - b:1 a:4" "DEDUCTED b:9 a:0"
end

-- promise S16: state, opens_in_ms, closes_in_ms
function case.sells_only_in_its_window()
  window("a", 100000, 200000); remember(); deduct "o1 - a:1" "NOT_OPEN a:10"; unchanged()
  ms(100000); deduct "o1 - a:1" "DEDUCTED a:9"
  ms(100000); remember(); deduct "o2 - a:1" "CLOSED a:9"; unchanged()
  -- A later change of the item does not change the first answer.
  deduct "o1 - a:1" "DEDUCTED again a:9"
end

-- promise S1: available >= 0
-- promise S5: DEDUCTED, SOLD_OUT, BUYER_LIMIT, NOT_OPEN, CLOSED, UNKNOWN_SKU
-- promise S6: lines: of every line when DEDUCTED, else those in the way
function case.highest_priority_refusal_is_answered_with_its_lines()
  window("later", 100000); window("over", 0, 1); ms(1); put("few 10", {per_buyer_limit = 2})
  put "none 0"; put "ok 5"; deduct "o bob ok:1 none:1 few:3 over:1 later:1 x:1 y:1" "UNKNOWN_SKU x:0 y:0"
  deduct "o bob ok:1 none:1 few:3 over:1 later:1" "NOT_OPEN later:10"
  deduct "o bob ok:1 none:1 few:3 over:1" "CLOSED over:10"
  deduct "o bob ok:1 none:1 few:3" "BUYER_LIMIT few:10"; deduct "o bob ok:6 none:1 few:2" "SOLD_OUT ok:5 none:0"
  deduct "o bob ok:5 few:2" "DEDUCTED ok:0 few:8"
end

-- promise S10: buyer_id is required where an item has a limit
-- promise S11: per_buyer_limit; only orders made while it was set count
function case.a_buyer_gets_no_more_than_the_limit()
  put("a 100", {per_buyer_limit = 3}); deduct "o1 bob a:2" "DEDUCTED a:98"
  deduct "o2 bob a:2" "BUYER_LIMIT a:98"; deduct "o1 bob a:2" "DEDUCTED again a:98"
  deduct "o2 bob a:1" "DEDUCTED a:97"; deduct "o3 bob a:1" "BUYER_LIMIT a:97"; deduct "o3 eve a:3" "DEDUCTED a:94"
  remember(); deduct "o4 - a:1" "INVALID_ARGUMENT NO buyer_id:..."; unchanged()
  -- Another limit keeps the counts; no limit ends them.
  put("a 100", {per_buyer_limit = 4}); deduct "o5 bob a:1" "DEDUCTED a:93"; deduct "o6 bob a:1" "BUYER_LIMIT a:93"
  put "a 100"; deduct "o6 bob a:9" "DEDUCTED a:84"
  put("a 100", {per_buyer_limit = 1}); deduct "o7 bob a:1" "DEDUCTED a:83"; deduct "o8 bob a:1" "BUYER_LIMIT a:83"
end

-- promise S13: orders, adjustments remembered for order_retain_ms, the longest of the items'
function case.orders_are_remembered_as_long_as_the_longest_of_their_items()
  put("a 10", {order_retain_ms = 60000})
  put "b 10" -- 30 days
  deduct "o1 - a:1"; deduct "o2 - b:1 a:1"; deduct "o3 - a:1 b:1"; eq(ttl "o:o1", within(1, 60000))
  keeps("o:o2", 30 * DAY); keeps("o:o3", 30 * DAY)
  -- Afterwards the order is unknown and its id is free.
  redis("PEXPIRE", key "o:o1", "0"); order "o1" "NOT_FOUND NO order_id:..."
end

-- promise S27: numbers are exact to 2^53-1
function case.quantities_are_exact_up_to_the_largest()
  put "a 9007199254740991"; ledger() "PUT a 9007199254740991"; deduct "o1 - a:1" "DEDUCTED a:9007199254740990"
  deduct "o2 - a:9007199254740989" "DEDUCTED a:1"; deduct "o1 - a:1" "DEDUCTED again a:9007199254740990"
  stock "a" "1 0 9007199254740990"; order "o2" "CONFIRMED  a:9007199254740989:0"
  put("b 9007199254740991", {per_buyer_limit = MOST}); deduct "o3 bob b:9007199254740990" "DEDUCTED b:1"
  deduct "o4 bob b:2" "BUYER_LIMIT b:1"
end

-- promise S4
function case.sixty_four_lines()
  local told = table.concat(skus(64), ":2 ") .. ":2"
  for _, sku in ipairs(skus(64)) do put(sku .. " 3") end
  deduct("o1 - " .. ones(64))("DEDUCTED " .. told); deduct("o1 - " .. ones(64))("DEDUCTED again " .. told)
  change_item("s63", AVAILABLE, 0); remember(); deduct("o2 - " .. ones(64)) "SOLD_OUT s63:0"; unchanged()
end

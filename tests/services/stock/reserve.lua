-- Reserve: all lines or none, once for each order.
-- promise S2
-- promise S8
require "stock"

-- promise S34: Reserve: held, with the rest of its time; its record stays until the hold ends; the lasting alarm
--   remains
-- promise S52
function case.holds_and_tells_what_is_left()
  put "a 10"; put "b 5"; reserve "o1 bob 60000 a:2 b:5" "RESERVED a:8 b:0" {hold_ms = 60000}
  eq(alarm_ms(), 60000); stock "a" "8 2 0"; stock "b" "0 5 0"
  order "o1" "RESERVED bob a:2:0 b:5:0" {order = {hold_ms = within(1, 60000), group = "g", order_id = "o1"}}
  ledger() "PUT a 10, PUT b 5, RESERVED a 2 o1, RESERVED b 5 o1"
  -- Without its record the hold would be lost: the record stays until the hold ends.
  eq(ttl "o:o1", -1)
end

-- promise S35
function case.a_repeat_is_the_first_answer()
  put "a 10"; put "b 10"; reserve "o1 bob 60000 a:2 b:1"; reserve "o2 bob 60000 a:8"
  ms(20000); remember()
  local again = reserve "o1 bob 60000 b:1 a:2" "RESERVED again b:9 a:8" {hold_ms = within(1, 40000)}
  eq(alarm_ms(), again.hold_ms)
  -- It is not a longer hold.
  reserve "o1 bob 600000 a:2 b:1" "RESERVED again a:8 b:9" {hold_ms = within(1, 40000)}; unchanged()
  -- Whatever state the order has now.
  confirm "o1"; reserve "o1 bob 60000 a:2 b:1" "RESERVED again a:8 b:9" {hold_ms = 0}; eq(alarm_ms(), -1)
  take_back "r o1"; reserve "o1 bob 60000 a:2 b:1" "RESERVED again a:8 b:9"
  ms(40000); reserve "o2 bob 60000 a:8" "RESERVED again a:0" {hold_ms = 0}
  ring(); reserve "o2 bob 60000 a:8" "RESERVED again a:0"
end

-- promise S35
function case.an_order_id_means_one_order()
  for _, sku in ipairs{"a", "b", "c"} do put(sku .. " 10") end
  reserve "o1 bob 60000 a:2 b:1"; deduct "o2 bob a:2 b:1"; remember()
  for _, other in ipairs{"a:2", "a:3 b:1", "a:2 c:1", "a:2 b:1 c:1", "b:2 a:1"} do
    reserve("o1 bob 60000 " .. other) "ALREADY_EXISTS NO order_id:..."
  end
  reserve "o1 eve 60000 a:2 b:1" "ALREADY_EXISTS NO order_id:..."
  -- A Deduct and a Reserve are different orders.
  deduct "o1 bob a:2 b:1" "ALREADY_EXISTS NO order_id:..."
  reserve "o2 bob 60000 a:2 b:1" "ALREADY_EXISTS NO order_id:..."; unchanged()
end

function case.the_gravest_refusal_is_told_with_its_lines()
  window("later", 100000); window("over", 0, 1); ms(1); put("few 10", {per_buyer_limit = 2})
  put "none 0"; put "ok 5"; remember()
  for lines, said in pairs{
    ["ok:1 none:1 few:3 over:1 later:1 x:1 y:1"] = "UNKNOWN_SKU x:0 y:0",
    ["ok:1 none:1 few:3 over:1 later:1"] = "NOT_OPEN later:10",
    ["ok:1 none:1 few:3 over:1"] = "CLOSED over:10",
    ["ok:1 none:1 few:3"] = "BUYER_LIMIT few:10",
    ["ok:6 none:1 few:2"] = "SOLD_OUT ok:5 none:0",
  } do
    reserve("o bob 60000 " .. lines)(said) {hold_ms = 0}; eq(alarm_ms(), -1)
  end
  reserve "o - 60000 few:1" "INVALID_ARGUMENT NO buyer_id:..."; unchanged()
  reserve "o bob 60000 ok:5 few:2" "RESERVED ok:0 few:8"
end

-- promise S38
function case.what_is_held_counts_for_its_buyer()
  put("a 10", {per_buyer_limit = 3}); reserve "o1 bob 60000 a:2"; reserve "o2 bob 60000 a:2" "BUYER_LIMIT a:8"
  deduct "o2 bob a:2" "BUYER_LIMIT a:8"; reserve "o2 eve 60000 a:3" "RESERVED a:5"
  ms(60000)
  -- The hold has expired; a buyer without units has no entry in the hash.
  reserve "o3 bob 60000 a:3" "RESERVED a:7"; redis("HGETALL", key "b:a") "bob\n3\n"
end

function case.one_line_needs_no_group()
  put("a 10", {group = ""}); reserve("o1 - 60000 a:1", {group = ""}) "RESERVED a:9"
  stock("a", {group = "a"}) "9 1 0"; order("o1", {group = "a"}) "RESERVED  a:1:0"
end

function case.quantities_are_exact_up_to_the_largest()
  put "a 9007199254740991"; reserve "o1 - 60000 a:9007199254740990" "RESERVED a:1"
  stock "a" "1 9007199254740990 0"; confirm "o1" "CONFIRMED CONFIRMED  a:9007199254740990:0"
  take_back "r o1 a:9007199254740989" "RETURNED CONFIRMED  a:9007199254740990:9007199254740989"
  stock "a" "9007199254740990 0 1"
end

function case.the_largest_order()
  for _, sku in ipairs(skus(64)) do put(sku .. " 3", {per_buyer_limit = 2}) end
  eq(#reserve("o1 bob 60000 " .. ones(64)) "RESERVED ...".lines, 64); eq(#confirm "o1".order.lines, 64)
  stock "s63" "2 0 1"
  reserve("o2 bob 60000 " .. ones(64)); eq(#cancel "o2".order.lines, 64); stock "s63" "2 0 1"
  take_back "r o1"; stock "s0" "3 0 0"
end

-- Of three orders for the same stock that travel together the first two get it.
function case.calls_may_travel_together()
  put "a 5"; reserve "o0 - 100000 a:5"; ms(100000)
  local requests = {}
  for i, id in ipairs{"o1", "o2", "o3", "o1"} do
    requests[i] = with(reserve_request(id, "-", "60000", "a:2"), {fresh = true})
  end
  texts(Stock.Reserve.together(requests)) "RESERVED a:3, RESERVED a:1, SOLD_OUT a:1, RESERVED again a:3"
end

function case.orders_are_remembered_as_long_as_the_longest_of_their_items()
  put("a 10", {order_retain_ms = 60000}); put("b 10", {order_retain_ms = 120000}); reserve "o1 - 100000 a:1 b:1"
  reserve "o2 - 100000 b:1 a:1"; reserve "o3 - 100000 a:1"
  -- The settings of the time when they were made.
  put("b 10", {order_retain_ms = 240000}); confirm "o1"; cancel "o2"; ms(100000)
  ring(); eq(ttl "o:o1", within(60001, 120000)); eq(ttl "o:o2", within(60001, 120000))
  eq(ttl "o:o3", within(1, 60000))
  take_back "r o1 a:1"; eq(ttl "t:r", within(60001, 120000))
end

-- Reserve: all lines or none, once for each order.
-- promise S2
require "stock"

-- promise S34: Reserve: held, with the rest of its time; its record stays until the hold ends; the lasting alarm
--   remains
-- promise S52
function case.reserve_holds_and_returns_the_rest()
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

function case.orders_are_remembered_as_long_as_the_longest_of_their_items()
  put("a 10", {order_retain_ms = 60000}); put("b 10", {order_retain_ms = 120000}); reserve "o1 - 100000 a:1 b:1"
  reserve "o2 - 100000 b:1 a:1"; reserve "o3 - 100000 a:1"
  -- The settings of the time when they were made.
  put("b 10", {order_retain_ms = 240000}); confirm "o1"; cancel "o2"; ms(100000)
  ring(); eq(ttl "o:o1", within(60001, 120000)); eq(ttl "o:o2", within(60001, 120000))
  eq(ttl "o:o3", within(1, 60000))
  take_back "r o1 a:1"; eq(ttl "t:r", within(60001, 120000))
end

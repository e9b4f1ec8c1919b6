-- Return: whole or in parts, once for each return_id.
require "stock"

-- Order "o1" of bob: two of a, one of b.
local function sold()
  put("a 10", {per_buyer_limit = 3}); put "b 5"; deduct "o1 bob a:2 b:1"
end

-- promise S38
-- promise S48
function case.all_remaining_units_are_returned()
  sold()
  local before = version "a"
  take_back "r1 o1" "RETURNED RETURNED bob a:2:2 b:1:1"; stock "a" "10 0 0"
  stock "b" "5 0 0"; eq(version "a", above(before)); order "o1" "RETURNED bob a:2:2 b:1:1"
  ledger() "PUT a 10, PUT b 5, DEDUCTED a 2 o1, DEDUCTED b 1 o1, RETURNED a 2 r1, RETURNED b 1 r1"
  redis("EXISTS", key "b:a") "0"; deduct "o2 bob a:3" "DEDUCTED a:7"
  -- The answer shows the order as it was at the first call.
  deduct "o1 bob a:2 b:1" "DEDUCTED again a:8 b:4"
end

-- promise S48
function case.stock_comes_back_in_parts()
  sold(); redis("PEXPIRE", key "o:o1", "1000000"); take_back "r1 o1 a:1" "RETURNED CONFIRMED bob a:2:1 b:1:0"
  stock "a" "9 0 1"
  -- It is remembered from its last change on.
  keeps("o:o1", 30 * DAY); keeps("t:r1", 30 * DAY); deduct "o2 bob a:3" "BUYER_LIMIT a:9"
  deduct "o2 bob a:2" "DEDUCTED a:7"; take_back "r2 o1 b:1" "RETURNED CONFIRMED bob a:2:1 b:1:1"
  take_back "r3 o1" "RETURNED RETURNED bob a:2:2 b:1:1"; stock "a" "8 0 2"; stock "b" "5 0 0"
end

-- promise S49
function case.a_return_is_made_once()
  sold(); deduct "o2 - b:2"; take_back "r1 o1 a:1"; take_back "r2 o1"
  take_back "r3 o2 b:1"; remember(); take_back "r1 o1 a:1" "RETURNED again CONFIRMED bob a:2:1 b:1:0"
  take_back "r2 o1" "RETURNED again RETURNED bob a:2:2 b:1:1"
  for _, other in ipairs{"r1 o1 a:2", "r1 o1 b:1", "r1 o1 a:1 b:1", "r1 o1", "r3 o1 b:1"} do
    take_back(other) "ALREADY_EXISTS NO return_id:..."
  end
  unchanged()
  -- The same lines in another order are the same return.
  deduct "o3 eve a:2 b:1"; take_back "r4 o3 a:1 b:1"
  take_back "r4 o3 b:1 a:1" "RETURNED again CONFIRMED eve a:2:1 b:1:1"
end

-- promise S51
-- The order's returns are counted even when its item, or the buyers' counts, have ended.
function case.returned_units_belong_to_the_item_they_were_sold_from()
  sold(); delete "a"; take_back "r1 o1 a:1" "RETURNED CONFIRMED bob a:2:1 b:1:0"
  put("a 10", {per_buyer_limit = 3}); deduct "o2 bob a:3"
  local before = version "a"
  take_back "r2 o1 a:1 b:1" "RETURNED RETURNED bob a:2:2 b:1:1"; stock "a" "7 0 3"
  eq(version "a", before); stock "b" "5 0 0"; deduct "o3 bob a:1" "BUYER_LIMIT a:7"
  ledger() ("PUT a 10, PUT b 5, DEDUCTED a 2 o1, DEDUCTED b 1 o1, DELETED a 8, PUT a 10, DEDUCTED a 3 o2, "
    .. "RETURNED b 1 r2")
  -- Counts that began after the sale do not decrease.
  put "a 10"; put("a 10", {per_buyer_limit = 3}); deduct "o4 bob a:2"; take_back "r3 o2 a:3"
  stock "a" "8 0 2"; deduct "o5 bob a:2" "BUYER_LIMIT a:8"
end

-- promise S29
function case.one_line_names_its_group()
  put("a 10", {group = ""}); deduct("o1 - a:2", {group = ""})
  take_back("r1 o1 a:1", {group = ""}) "RETURNED CONFIRMED  a:2:1" {order = {group = "a", order_id = "o1"}}
  take_back("r2 o1", {group = ""}) "INVALID_ARGUMENT NO group:..."
end

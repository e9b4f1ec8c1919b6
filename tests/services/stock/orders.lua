-- Confirm, ExtendHold and Cancel.
-- promise S52
require "stock"

local function held(id, hold_ms) reserve(id .. " bob " .. hold_ms .. " a:2 b:1") "RESERVED a:8 b:4" end
local function two_items()
  put("a 10", {per_buyer_limit = 3}); put "b 5"
end

-- ---- Confirm ----

-- promise S43
function case.confirm_sells_held_units()
  two_items(); held("o1", 60000)
  local before = version "a"
  eq(ttl "o:o1", -1); confirm "o1" "CONFIRMED CONFIRMED bob a:2:0 b:1:0"
  stock "a" "8 0 2"; stock "b" "4 0 1"
  eq(version "a", above(before)); order "o1" "CONFIRMED bob a:2:0 b:1:0"; redis("EXISTS", key "x") "0"
  keeps("o:o1", 30 * DAY)
  ledger() "PUT a 10, PUT b 5, RESERVED a 2 o1, RESERVED b 1 o1, CONFIRMED a 2 o1, CONFIRMED b 1 o1"
  -- It stays sold after the end of the hold.
  ms(60000); stock "a" "8 0 2"; eq(ring(), -1); stock "a" "8 0 2"
  deduct "o2 bob a:2" "BUYER_LIMIT a:8"
end

-- promise S43
function case.confirm_needs_no_open_window()
  window("a", 0, 100000); reserve "o1 - 600000 a:1"; reserve "o2 - 150000 a:1"; ms(200000)
  confirm "o1" "CONFIRMED CONFIRMED  a:1:0"; reacquire "o2" "CONFIRMED CONFIRMED  a:1:0"; stock "a" "8 0 2"
end

-- promise S36
-- promise S44
function case.expired_order_reacquires_its_stock()
  each({false, true}, function(given_back)
    two_items(); held("o1", 100000); ms(100000)
    if given_back then ring() end
    reacquire "o1" "CONFIRMED CONFIRMED bob a:2:0 b:1:0"; stock "a" "8 0 2"; stock "b" "4 0 1"
    ledger() ("PUT a 10, PUT b 5, RESERVED a 2 o1, RESERVED b 1 o1, EXPIRED a 2 o1, EXPIRED b 1 o1, "
      .. "DEDUCTED a 2 o1, DEDUCTED b 1 o1")
    keeps("o:o1", 30 * DAY); confirm "o1" "CONFIRMED again CONFIRMED bob a:2:0 b:1:0"
    reserve "o1 bob 100000 a:2 b:1" "RESERVED again a:8 b:4"
    -- It counts for its buyer again, and can be returned.
    deduct "o2 bob a:2" "BUYER_LIMIT a:8"
    take_back "r1 o1"; deduct "o2 bob a:3" "DEDUCTED a:7"
  end)
end

-- promise S44
function case.an_expired_order_whose_stock_is_gone()
  two_items(); held("o1", 100000); ms(100000); deduct "o2 eve b:5"
  remember(); reacquire "o1" "SOLD_OUT EXPIRED bob a:2:0 b:1:0"; unchanged()
  -- A refusal is not remembered.
  adjust "b 1 more"
  -- The buyer has bought meanwhile.
  deduct "o3 bob a:2"; remember(); reacquire "o1" "EXPIRED EXPIRED bob a:2:0 b:1:0"; unchanged()
  take_back "r3 o3"; reacquire "o1" "CONFIRMED CONFIRMED bob a:2:0 b:1:0"
  -- Without the item, and with a later item of the same sku.
  reserve "o4 - 100000 b:1"; put "c 5"; reserve "o5 - 100000 c:5"; ms(100000)
  delete "c" "OK"; reacquire "o5" "SOLD_OUT EXPIRED  c:5:0"
  put "c 5"; reacquire "o5" "CONFIRMED CONFIRMED  c:5:0"; stock "c" "0 0 5"
  take_back "r5 o5 c:2"; stock "c" "2 0 3"
  -- A limit that was set later, and an order without buyer.
  put "d 5"; reserve "o6 - 100000 d:1"; put("d 5", {per_buyer_limit = 5}); ms(100000)
  reacquire "o6" "EXPIRED EXPIRED  d:1:0"
end

-- ---- ExtendHold ----

local function extends(text, outcome, hold_ms)
  extend(text)(outcome) {hold_ms = hold_ms or 0}; eq(alarm_ms(), hold_ms or -1)
end

-- promise S45
function case.a_hold_is_as_long_as_it_was_last_made()
  two_items(); held("o1", 600000); ms(590000); extends("o1 600000", "EXTENDED", 600000)
  ms(590000); stock "a" "8 2 0"
  ring(); stock "a" "8 2 0"
  -- Shorter, too.
  extends("o1 50000", "EXTENDED", 50000); order "o1" {order = {hold_ms = within(1, 50000)}}
  ms(50000); stock "a" "10 0 0"; order "o1" {order = {hold_ms = 0}}
end

-- ---- Cancel ----

-- promise S38
-- promise S46
function case.cancel_gives_back()
  two_items(); held("o1", 60000)
  local before = version "b"
  cancel "o1 no card" "CANCELLED CANCELLED bob a:2:0 b:1:0"; stock "a" "10 0 0"
  stock "b" "5 0 0"; eq(version "b", above(before))
  order "o1" "CANCELLED bob a:2:0 b:1:0"; redis("EXISTS", key "x", key "b:a") "0"
  keeps("o:o1", 30 * DAY)
  local entries = ledger() "PUT a 10, PUT b 5, RESERVED a 2 o1, RESERVED b 1 o1, CANCELLED a 2 o1, CANCELLED b 1 o1"
  eq(entries.entries[6].reason, "no card")
  -- Its buyer may buy again.
  deduct "o2 bob a:3" "DEDUCTED a:7"
  remember(); cancel "o1" "CANCELLED again CANCELLED bob a:2:0 b:1:0"
  reserve "o1 bob 60000 a:2 b:1" "RESERVED again a:8 b:4"; unchanged()
  ms(60000); stock "b" "5 0 0"
end

-- promise S44
-- promise S46
function case.an_expired_order_can_be_cancelled()
  each({false, true}, function(given_back)
    two_items(); held("o1", 100000); ms(100000)
    if given_back then ring() end
    cancel "o1 late" "CANCELLED CANCELLED bob a:2:0 b:1:0"
    cancel "o1 late" "CANCELLED again CANCELLED bob a:2:0 b:1:0"; stock "a" "10 0 0"
    reacquire "o1" "CANCELLED CANCELLED bob a:2:0 b:1:0"
    ledger() "PUT a 10, PUT b 5, RESERVED a 2 o1, RESERVED b 1 o1, EXPIRED a 2 o1, EXPIRED b 1 o1"
    redis("EXISTS", key "x") "0"
    keeps("o:o1", 30 * DAY)
  end)
end

-- promise S35
-- promise S47
function case.a_cancelled_order_that_comes_late_is_refused()
  two_items(); cancel "o1 gave up" "UNKNOWN_ORDER none"
  keeps("o:o1", 30 * DAY); remember(); cancel "o1 gave up" "UNKNOWN_ORDER again none"
  reserve "o1 bob 100000 a:1" "CANCELLED" {hold_ms = 0}; eq(alarm_ms(), -1)
  deduct "o1 bob a:1" "FAILED_PRECONDITION NO order_id:..."; order "o1" "CANCELLED "; unchanged()
end

-- SOLD_OUT from a server's memory: only where the store would answer the same, at most 20 ms old, only to orders
-- that were never sent, and not after a change through this server.
-- promise S54: SOLD_OUT from memory: to a fresh order of one line, of an item without a limit, at most 20 ms old;
-- asked again from 10 ms on by one call
require "stock"

local KNOWN, ASK = 20, 10 -- ms

function setup()
  harness.options{remembers_refusals = true}; harness.server "A"
end

-- A first try. The answer comes from the store, or from memory.
local function first(text, more) return deduct(text, with({fresh = true}, more)) end
local function first_reserve(text, more) return reserve(text, with({fresh = true}, more)) end
local function asks(try, text, said, more) eq(commands_of("fcall", function() try(text, more)(said) end), 1) end
local function knows(try, text, said, more) eq(commands_of("fcall", function() try(text, more)(said) end), 0) end

function case.sold_out_is_repeated_without_the_store()
  put "a 2"; asks(first, "o1 - a:3", "SOLD_OUT a:2"); knows(first, "o2 - a:3", "SOLD_OUT a:2")
  knows(first, "o3 bob a:4", "SOLD_OUT a:2"); knows(first_reserve, "o4 - 60000 a:3", "SOLD_OUT a:2")
  knows(first, "o2 - a:3", "SOLD_OUT a:2"); stock "a" "2 0 0"; ledger() "PUT a 2"
  local h = {group = "h"}
  put("a 0", h); asks(first_reserve, "o1 - 60000 a:1", "SOLD_OUT a:0", h)
  knows(first_reserve, "o2 - 60000 a:1", "SOLD_OUT a:0", h); knows(first, "o3 - a:1", "SOLD_OUT a:0", h)
end

function case.a_repeat_is_always_looked_up()
  put "a 2"; first "o1 - a:1" "DEDUCTED a:1"; first_reserve "o2 - 60000 a:1" "RESERVED a:0"
  first "o3 - a:1" "SOLD_OUT a:0"
  knows(first, "o4 - a:1", "SOLD_OUT a:0"); asks(deduct, "o1 - a:1", "DEDUCTED again a:1")
  asks(reserve, "o2 - 60000 a:1", "RESERVED again a:0"); asks(deduct, "o4 - a:1", "SOLD_OUT a:0")
end

function case.refusal_is_cached_for_20_ms_and_refreshed_once_after_10_ms()
  put "a 0"; asks(first, "o1 - a:1", "SOLD_OUT a:0"); ms(ASK - 1); knows(first, "o2 - a:1", "SOLD_OUT a:0")
  ms(1); asks(first, "o3 - a:1", "SOLD_OUT a:0"); knows(first, "o4 - a:1", "SOLD_OUT a:0"); ms(KNOWN)
  asks(first, "o5 - a:1", "SOLD_OUT a:0")
end

local function through_b(f)
  harness.server "B"; f(); harness.server "A"
end

-- While one call asks again, the others get the remembered answer until its 20 ms are over.
function case.one_call_asks_again_for_all()
  put "a 0"; first "o1 - a:1" "SOLD_OUT a:0"
  ms(ASK)
  through_b(function() adjust "a 1 back" "1 0 0" end) -- it is put back through another server
  first "o2 - a:2" "SOLD_OUT a:1"
  for _, id in ipairs{"o2", "o3", "o4"} do knows(first, id .. " - a:2", "SOLD_OUT a:1") end
  -- It was granted: nothing is remembered any more.
  ms(ASK); asks(first, "o5 - a:1", "DEDUCTED a:0"); asks(first, "o6 - a:2", "SOLD_OUT a:0")
end

function case.return_at_another_server_is_seen_after_20_ms()
  put "a 0"; first "o1 - a:1" "SOLD_OUT a:0"
  through_b(function()
    adjust "a 5 back" "5 0 0"
    asks(first, "o2 - a:1", "DEDUCTED a:4")
  end)
  knows(first, "o3 - a:1", "SOLD_OUT a:0"); ms(KNOWN); asks(first, "o3 - a:1", "DEDUCTED a:3")
end

-- promise S55: SOLD_OUT from memory ends with any call or alarm of this server that returns units, when it arrives and
--   when it is done
function case.return_at_this_server_is_seen_at_once()
  each({
    function() put "a 3" end,
    function() adjust "a 1 more" end,
    function() cancel "held" "CANCELLED CANCELLED  a:1:0" end,
    function() take_back "r sold" "RETURNED RETURNED  a:1:1" end,
  }, function(give_back)
    put "a 2"; deduct "sold - a:1" "DEDUCTED a:1"; reserve "held - 60000 a:1" "RESERVED a:0"
    first "o1 - a:1" "SOLD_OUT a:0"
    knows(first, "o2 - a:1", "SOLD_OUT a:0"); give_back(); first "o3 - a:1" "DEDUCTED..."
  end)
end

function case.an_item_that_is_deleted_is_unknown_at_once()
  put "a 0"; first "o1 - a:1" "SOLD_OUT a:0"; delete "a" "OK"; first "o2 - a:1" "UNKNOWN_SKU a:0"
end

-- ---- when it ends, seen by the plans alone ----

local function learn_sold_out() first "o - a:1" "SOLD_OUT a:0" end
local function plan(method, request) return harness.plan("A", method, request) end
-- Whether the plan of a first try asks the store.
local function would_ask()
  return (harness.planned(plan("Stock.Deduct", with(deduct_request("o", "-", "a:1"), {fresh = true})))) == 1
end

-- promise S55
-- A later call of its frame does not overtake the change; and a change without answer may have run.
function case.a_change_ends_it_when_it_is_planned_and_again_when_it_has_ended()
  put "a 0"; learn_sold_out(); eq(would_ask(), false)
  local change = plan("Stock.Adjust", {group = "g", sku = "a", delta = 1, adjustment_id = "id"})
  eq(would_ask(), true)
  learn_sold_out(); eq(would_ask(), false)
  losing("item[AVAILABLE] = item[AVAILABLE] + delta", function() harness.begin(change) end)
  answer("Stock.Adjust", harness.answer(change)) "INTERNAL..."; eq(would_ask(), true)
end

-- The call that asks again may take long.
function case.it_is_not_known_for_longer_while_a_call_asks()
  put "a 0"; learn_sold_out(); ms(ASK); eq(would_ask(), true)
  ms(KNOWN - ASK - 1); eq(would_ask(), false)
  ms(1); eq(would_ask(), true); eq(would_ask(), true)
end

-- promise S55
-- Calls of alarms too.
function case.store_calls_that_give_nothing_back_leave_it()
  put "a 0"
  local function ends(name, group, whether)
    learn_sold_out(); harness.store_call("Stock.Deduct", name, "ls:{default/" .. group .. "}:")
    if would_ask() ~= whether then error(name .. " of " .. group) end
    harness.server_ends "A"
  end
  for _, name in ipairs{"stock_deduct", "stock_reserve", "stock_confirm", "stock_extend_hold", "stock_get_items",
    "stock_await_ledger", "lock_expire"} do
    ends(name, "g", false)
  end
  ends("stock_expire", "h", false)
  for _, name in ipairs{"stock_expire", "stock_cancel", "stock_return", "stock_put_item", "stock_delete_item",
    "stock_adjust", "stock_something_new"} do
    ends(name, "g", true)
  end
  ends("stock_expire_listed", "", true)
end

-- ---- only where the store would say it too ----

function case.smaller_order_asks_the_store()
  put "a 3"; asks(first, "o1 - a:5", "SOLD_OUT a:3"); knows(first, "o2 - a:4", "SOLD_OUT a:3")
  asks(first, "o3 - a:2", "DEDUCTED a:1"); asks(first, "o4 - a:5", "SOLD_OUT a:1")
end

function case.order_of_several_lines_asks_the_store()
  put "a 0"; put "b 9"
  asks(first, "o1 - a:1 b:1", "SOLD_OUT a:0") -- and not kept
  asks(first, "o2 - a:1", "SOLD_OUT a:0"); asks(first, "o3 - a:1 x:1", "UNKNOWN_SKU x:0")
  asks(first, "o4 - a:1 b:1", "SOLD_OUT a:0"); knows(first, "o5 - a:1", "SOLD_OUT a:0")
end

-- A buyer is over the limit, for others the item is sold out.
function case.item_with_a_buyer_limit_asks_the_store()
  put("a 1", {per_buyer_limit = 1}); first "o1 bob a:1" "DEDUCTED a:0"
  asks(first, "o2 eve a:1", "SOLD_OUT a:0"); asks(first, "o3 eve a:1", "SOLD_OUT a:0")
  asks(first, "o4 bob a:1", "BUYER_LIMIT a:0"); first "o5 - a:1" "INVALID_ARGUMENT NO buyer_id:..."
end

function case.other_refusals_ask_the_store()
  window("later", 60000, 0, 0); asks(first, "o1 - x:1", "UNKNOWN_SKU x:0")
  asks(first, "o2 - x:1", "UNKNOWN_SKU x:0"); asks(first, "o3 - later:1", "NOT_OPEN later:0")
  asks(first, "o4 - later:1", "NOT_OPEN later:0"); put "x 1"; asks(first, "o5 - x:1", "DEDUCTED x:0")
end

function case.it_is_of_one_item_of_one_group_of_one_namespace()
  put "a 0"; put "b 1"; put("a 1", {group = "h"}); put("a 1", {group = ""})
  put("g 1", {group = "a"}); asks(first, "o1 - a:1", "SOLD_OUT a:0"); asks(first, "o2 - b:1", "DEDUCTED b:0")
  asks(first, "o2 - a:1", "DEDUCTED a:0", {group = "h"}); asks(first, "o2 - a:1", "DEDUCTED a:0", {group = ""})
  asks(first, "o3 - g:1", "DEDUCTED g:0", {group = "a"}); harness.namespace "other"
  asks(first, "o2 - a:1", "UNKNOWN_SKU a:0")
end

function case.a_group_that_is_not_named_is_the_same_group()
  put("a 0", {group = ""}); asks(first, "o1 - a:1", "SOLD_OUT a:0", {group = ""})
  knows(first, "o2 - a:1", "SOLD_OUT a:0", {group = "a"}); adjust("a 1 more", {group = "a"}) "1 0 0"
  asks(first, "o3 - a:1", "DEDUCTED a:0", {group = ""})
end

function case.a_bad_request_is_refused_as_ever()
  put "a 0"; first "o1 - a:1" "SOLD_OUT a:0"; first("x - a:1", {order_id = ""}) "INVALID_ARGUMENT NO order_id:..."
  first "o2 - a:0" "INVALID_ARGUMENT NO lines[0].quantity:..."; first "o2 -" "INVALID_ARGUMENT NO lines:..."
end

function case.without_the_setting_the_store_is_always_asked()
  harness.options{}; put "a 0"; asks(first, "o1 - a:1", "SOLD_OUT a:0"); asks(first, "o2 - a:1", "SOLD_OUT a:0")
  adjust "a 1 more" "1 0 0"
  asks(first, "o3 - a:1", "DEDUCTED a:0")
end

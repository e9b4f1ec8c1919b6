-- Expired holds: reads ignore them; writers, a server's lasting alarm or the sweep give them back.
require "stock"

-- An item with n expired holds of one unit each, and 10 more units.
local function many_holds(n)
  put("a " .. n + 10)
  for i = 0, n - 1 do reserve("o" .. i .. " - 600000 a:1") "RESERVED..." end
  harness.forget(); ms(600000)
end
local function held_orders() return redis_number("ZCARD", key "x") end

-- promise S36: the units of an expired hold are available to every read and write at once
-- promise S37: expiry: order EXPIRED, counts back, entries, once
function case.stock_is_back_the_moment_its_hold_ends()
  put "a 10"; reserve "o1 bob 600000 a:4"; ms(590000); stock "a" "6 4 0"; reserve "o2 - 60000 a:7" "SOLD_OUT a:6"
  ms(10000); remember(); stock "a" "10 0 0"; order "o1" "EXPIRED bob a:4:0"
  unchanged(); reserve "o2 - 60000 a:10" "RESERVED a:0"
  stock "a" "0 10 0"; order "o1" "EXPIRED bob a:4:0"
  ledger() "PUT a 10, RESERVED a 4 o1, EXPIRED a 4 o1, RESERVED a 10 o2"
end

function case.an_order_reported_as_expired_stays_so_when_the_clock_steps_back()
  put "a 10"
  for _, id in ipairs{"o1", "o2"} do reserve(id .. " - 60000 a:1") "RESERVED..." end
  ms(60000); confirm "o1" "EXPIRED..."; extend "o2 1000" "EXPIRED..."; ms(-60000)
  confirm "o1" "EXPIRED..."; extend "o2 1000" "EXPIRED..."; stock "a" "10 0 0"
  ledger() "PUT a 10, RESERVED a 1 o1, RESERVED a 1 o2, EXPIRED a 1 o1, EXPIRED a 1 o2"
end

-- ---- readers ----

local function items(list)
  local found = {}
  for i, item in ipairs(list) do found[i] = ("%s/%s %s v%d"):format(item.group, item.sku, item_text(item), item.version) end
  return table.concat(found, ", ")
end
local function batch(group) return items(Stock.BatchGetItems{group = group, skus = {"a", "b"}}.items) end

-- The items of a namespace have no order.
local function list(group)
  local found, token = {}, ""
  repeat
    local page = Stock.ListItems{group = group, page_token = token} {items = any}
    table.move(page.items, 1, #page.items, #found + 1, found)
    token = page.next_page_token
  until token == ""
  table.sort(found, function(x, y) return x.group .. "/" .. x.sku < y.group .. "/" .. y.sku end)
  return items(found)
end

-- The answers of all read methods.
local function all_readers()
  return table.concat({items{stock "a".item, stock("a", {group = "a"}).item}, batch "g", batch "", list "g", list ""}, "\n")
end

-- promise S36
-- promise E6: a hold that is over is back though the server that would give it back is dead
function case.readers_see_expired_holds_as_returned()
  put("a 10", {per_buyer_limit = 8}); put "b 10"; put("a 10", {group = ""}); put("b 10", {group = ""})
  deduct "s bob a:1"; reserve "o1 bob 100000 a:2 b:3"; reserve "o2 bob 100000 a:1"; reserve "o3 bob 600000 a:4"
  reserve("o4 - 100000 a:7", {group = ""}); reserve("o5 - 100000 b:5", {group = ""}); ms(100000); remember()
  stock "a" "5 4 1"
  local before = all_readers()
  unchanged(); eq(before, containing "g/b 10 0 0 v")
  eq(before, containing "a/a 10 0 0 v"); eq(ring(), within(400000, 500000))
  eq(ring "a", -1); eq(ring "b", -1); eq(all_readers(), before)
end

-- promise S36
-- promise S40: at most 300 holds, 600 lines a call, all of its sub-calls; the rest in further rounds, as exact
function case.thousands_of_holds_are_as_exact()
  each({
    function() stock "a" "1110 0 0" end,
    function() eq(batch "g", containing "g/a 1110 0 0 v") end,
    function() eq(list "g", containing "g/a 1110 0 0 v") end,
    function() eq(list "", containing "g/a 1110 0 0 v") end,
    function() reserve "new - 100000 a:1110" "RESERVED a:0" end,
    function() deduct "new - a:1110" "DEDUCTED a:0" end,
    function() put "a 1200" "1200 0 0" end,
    function() adjust "a -1110 adj" "0 0 0" end,
    function() delete "a" "OK" end,
    function() reacquire "o1099" "CONFIRMED CONFIRMED  a:1:0"; stock "a" "1109 0 1" end,
  }, function(call)
    many_holds(1100); call()
  end)
end

function case.some_hundred_holds_are_counted_and_not_written()
  many_holds(300); remember(); stock "a" "310 0 0"; eq(list "", containing "g/a 310 0 0 v"); unchanged()
end

-- promise S40
-- Readers that wait for either ledger get a message.
function case.a_list_gives_back_in_each_group()
  put "a 10"; put("a 10", {group = "h"}); reserve "o1 - 100000 a:1"; reserve("o1 - 100000 a:2", {group = "h"})
  redis "SADD ls:{default/g}:stock:r server"; redis "SADD ls:{default/h}:stock:r server"; ms(100000)
  fcall("stock_expire_listed", "ls:{default/-}:", "5", "", "0", "100", "", "")
  redis "EXISTS ls:{default/g}:stock:x ls:{default/h}:stock:x ls:{default/g}:stock:r ls:{default/h}:stock:r" "0"
  ledger{group = "h"} "PUT a 10, RESERVED a 2 o1, EXPIRED a 2 o1"
end

-- ---- writers ----

-- promise S40
function case.a_call_gives_back_some_hundred()
  many_holds(400); eq(ring(), 0); eq(held_orders(), 100)
  eq(ring(), -1); eq(held_orders(), 0); stock "a" "410 0 0"
end

-- promise S40
function case.lines_count_too()
  for _, sku in ipairs(skus(64)) do put(sku .. " 100") end
  for i = 1, 40 do reserve("o" .. i .. " - 100000 " .. ones(64)) end
  ms(100000)
  -- 600 lines, and the rest of the last hold; for calls that share an FCALL as well.
  eq(ring(), 0); eq(held_orders(), 30)
  fcall("stock_expire", "ls:{default/g}:", "0", "0", "0") "OK\n0\n\nOK\n0\n\nOK\n0\n\n"; eq(held_orders(), 20)
  stock "s63" "100 0 0"; eq(held_orders(), 10)
end

-- promise B4: reads of one FCALL count expired holds once
function case.a_frame_of_reads_counts_holds_once()
  local function together(n)
    for _, one in ipairs(Stock.GetItem.together(repeated(n, {sku = "a", group = "g"}))) do one "260 0 0" end
  end
  many_holds(250); redis "CONFIG RESETSTAT"; together(20); eq(harness.commands "zrangebyscore", 1)
  eq(harness.commands "get", within(250, 260))
  -- The next FCALL counts again.
  together(2); eq(harness.commands "zrangebyscore", 2)
end

-- promise S40
-- Calls that share an FCALL share what one call gives back.
function case.a_frame_of_calls_gives_back_some_hundred()
  many_holds(400); Stock.Reserve.together(repeated(3, reserve_request("new", "-", "60000", "a:1")))
  eq(held_orders(), 100)
end

-- promise S39: units that a refused call returned from expired holds do not count as its effect: NO
function case.a_refusal_that_gave_back_is_still_no_effect()
  local function over(id)
    reserve(id .. " bob 100000 a:4"); ms(100000)
  end
  put("a 10", {per_buyer_limit = 5}); over "o1"
  adjust("a 1 adj", {expected_version = 1}) "ABORTED NO expected_version:..."; eq(held_orders(), 0)
  stock "a" "10 0 0"
  over "o2"; reserve "o3 - 100000 a:1" "INVALID_ARGUMENT NO buyer_id:..."; eq(held_orders(), 0)
  over "o4"; delete "a" "OK"
end

-- An item without holds does not look at the holds of others.
function case.a_sale_gives_back_only_where_it_matters()
  put "a 10"; put "b 10"; reserve "o1 - 100000 a:4"; ms(100000)
  deduct "o2 - b:1"; eq(held_orders(), 1); deduct "o3 - b:1 a:10" "DEDUCTED b:8 a:0"; eq(held_orders(), 0)
end

-- promise S38: buyer counts fall on cancel, expiry and return, each its own
-- Held before there was a limit, or under another limit: the buyer counts do not decrease.
function case.only_its_own_count_falls()
  put "a 10"; reserve "o1 bob 100000 a:2"; put("a 10", {per_buyer_limit = 3}); reserve "o2 bob 100000 a:3"
  put "a 10"; put("a 10", {per_buyer_limit = 2}); deduct "o3 bob a:2"; ms(100000)
  ring(); stock "a" "8 0 2"; deduct "o4 bob a:1" "BUYER_LIMIT a:8"; deduct "o4 eve a:1" "DEDUCTED a:7"
end

-- promise S37
-- A hold without an order record holds nothing, and its id is free.
function case.a_lost_record_is_passed_by()
  put "a 10"; reserve "o1 - 100000 a:2"; reserve "o2 - 100000 a:3"; redis("DEL", key "o:o1", key "o:o2")
  deduct "o2 - a:5"; ms(100000); stock "a" "0 5 5"; eq(ring(), -1)
  stock "a" "0 5 5"; order "o2" "CONFIRMED  a:5:0"
end

-- ---- lasting alarms ----

-- promise S41: the lasting alarm returns when it is due next
function case.a_lasting_alarm_comes_when_the_next_hold_ends()
  hold_clock(); put "a 10"; eq(ring(), -1)
  reserve "o1 - 100000 a:1"; reserve "o2 - 900000 a:1"; reserve "o3 - 900001 a:1"; ms(100000); eq(ring(), 800000)
  order "o1" "EXPIRED  a:1:0"; eq(held_orders(), 2)
  -- Ends that are close together share a lasting alarm.
  ms(799990); eq(ring(), 50); ms(50); eq(ring(), -1)
end

-- promise S42: the sweep finds expired holds that no call returned, step by step; a killed server's holds end
function case.sweep_finds_expired_holds_that_no_call_returned()
  put "a 10"; put("a 10", {group = "h}"}); reserve "o1 - 100000 a:1"; reserve("o1 - 500000 a:1", {group = "h}"})
  -- Foreign data.
  redis "ZADD other:{x}:stock:x 1 o1"; redis "SET ls:{y}:stock:x 1"; ms(100000); overdue() "OK\n\n"
  ms(2000); overdue() "OK\n\nls:{default/g}:\n"
  harness.namespace "other"; put "a 10"; reserve "o1 - 500000 a:1"; ms(400000)
  eq(overdue():find("other/g", 1, true), nil); eq(overdue(), containing "ls:{default/h%7D}:\n")
  ring "g"; ring "h%7D"; overdue() "OK\n\n"
end

-- promise S42
-- One step looks at a bounded number of keys.
function case.the_search_goes_step_by_step()
  local cursor, steps, found = "0", 0, 0
  eval "for i = 1, 5000 do redis.call('SET', 'k' .. i, '') end"; put "a 10"; reserve "o1 - 100000 a:1"; ms(103000)
  repeat
    local got = overdue(cursor)
    if got:find("ls:{default/g}:", 1, true) then found = found + 1 end
    cursor = eq(got:match("^OK\n(%d*)\n"), any)
    steps = eq(steps + 1, within(1, 20))
  until cursor == ""
  eq(steps, within(3, 20)); eq(found, 1)
end

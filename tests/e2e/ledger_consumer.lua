-- examples/ledger: the consumer is killed at named points and at random, with two lockstockd selling, and every row
-- of its database equals the item.
require "stock"

local SKUS, ON_HAND = 8, 1000000
local database, group, socket

local function start_database()
  database = world.process{world.source .. "/examples/ledger/mariadb.sh", socket:match "^(.*)/sock$"}
  database:line "ready for connections"
end

function setup()
  if not exists(world.binary .. "/examples/ledger/ledger") then skip "needs libmariadb-dev" end
  if not os.execute 'PATH="$PATH:/usr/sbin"; command -v mariadbd mariadb-install-db >/dev/null' then
    skip "MariaDB is not installed (apt-get install mariadb-server)"
  end
  socket, group = world.dir() .. "/mariadb/sock", "shop 1"
  two_servers()
  start_database()
  math.randomseed(os.time())
end

-- Rows of columns with tabs between, or an error.
local function query(text)
  local client = world.process{"mariadb", "--no-defaults", "--socket", socket, "-u", "root", "-N", "-B", "-e", text}
  until_(function() return not client:runs() end)
  return client:output()
end

-- ---- the shop ----

local function put_goods()
  for i = 1, SKUS do put("goods-" .. i .. " " .. ON_HAND, {group = group, must_be_new = true}) end
end

local orders = 0
-- An order at random: deducted, or reserved and then confirmed, cancelled or left to expire. Some are returned.
local function make_order()
  orders = orders + 1
  local fate, first, lines = math.random(0, 7), math.random(0, SKUS - 1), ""
  for i = 0, math.random(0, 1) do lines = lines .. (" goods-%d:%d"):format(1 + (first + 3 * i) % SKUS, math.random(3)) end
  local g, id = {group = group}, "o" .. orders
  use(1 + orders % 2)
  if fate < 3 then deduct(id .. " -" .. lines, g) {} else reserve(id .. " - 100" .. lines, g) {} end
  if fate >= 3 and fate < 6 then confirm(id, g) {} end
  if fate == 6 then cancel(id, g) {} end
  if fate < 6 and math.random(4) == 1 then
    Stock.Return{group = group, order_id = id, lines = {lines_of(lines:match "%S+")[1]}} {}
  end
end
local function sell(n) for _ = 1, n do make_order() end end

-- ---- the consumer ----

-- halt: "<point>:<n>" where it stops, or nil
local function consumer(halt, ...)
  local program = halt and "/tests/e2e/ledger_halting" or "/examples/ledger/ledger"
  return world.process({world.binary .. program, servers[1]:url() .. "," .. servers[2]:url(), socket, group, "7"},
    {"LEDGER_HALT=" .. (halt or "")})
end
-- One that has come to the point for the n-th time, and waits there.
local function halted(point, n)
  local copy = consumer(point .. ":" .. n)
  copy:line("halted at " .. point)
  return copy
end
local function kill_at(...) halted(...):kill() end

local function all_items() return Stock.ListItems{group = group} {items = any}.items end
-- All consumers together bring the copy to where the items are.
local function expect_copied()
  until_(function() -- what buyers left to expire has expired
    local held = 0
    for _, item in ipairs(all_items()) do held = held + item.reserved end
    return held == 0
  end)
  local wanted = ""
  for _, i in ipairs(all_items()) do wanted = wanted .. ("%s\t%d\t%d\t%d\n"):format(i.sku, i.available, i.reserved, i.sold) end
  until_(function()
    return query(("SELECT id, num, reserved, sold FROM shop.goods WHERE ledger = '%s' ORDER BY id"):format(group)) == wanted
  end)
end
local function oldest() return read("", {group = group, limit = 1}).entries[1] end
-- A consumer that is not killed brings the copy up to date, and trims the entries that it has read.
local function expect_equal()
  local copy = consumer()
  copy:line "" -- it has begun
  expect_copied()
  until_(function() return not oldest() end)
  copy:kill()
end
local function expect_lost() eq(consumer():ended(3), containing "were trimmed before they were copied") end
local function trim_all() trim("9007199254740991-0", {group = group}) {} end

-- ---- cases ----

-- promise SL14: the consumer copies each entry once, killed wherever
function case.killed_at_each_point()
  put_goods()
  for _, point in ipairs{"begun", "read", "applied", "committed"} do
    for n = 1, 3 do sell(40); kill_at(point, n) end
  end
  expect_equal()
end

-- promise SL16: it trims exactly the committed entries
function case.uncommitted_entries_are_not_trimmed()
  put_goods()
  kill_at("applied", 1)
  local first = oldest()
  kill_at("committed", 1)
  eq(oldest().id, first.id)
  eq(first.kind, "PUT")
  expect_equal()
end

-- promise SL14
function case.killed_at_random_and_with_its_database()
  put_goods()
  for i = 1, count(15, 300) do
    local copy = consumer()
    for _ = 1, math.random(0, 40) do make_order() end
    copy:kill()
    if i % 5 == 0 then
      copy = consumer()
      sell(5)
      database:kill()
      copy:kill()
      start_database()
    end
  end
  expect_equal()
end

-- promise SL15: ... also when several run
-- One finds its entries copied, or even trimmed, by another one, and copies what is next.
function case.several_consumers_copy_once()
  put_goods()
  local steady = consumer()
  for _ = 1, count(2, 30) do
    local copy = consumer "committed:2"
    until_(function() make_order(); return copy:output():find "halted at committed" end)
    copy:kill()
    local other = consumer()
    sell(40); other:kill()
  end
  expect_copied()
  steady:kill()
  for _, point in ipairs{"begun", "read"} do
    sell(40)
    local copy = halted(point, 1)
    expect_equal()
    copy:signal "CONT"
    sell(40)
    expect_copied()
    copy:kill()
  end
end

function case.every_kind_is_copied()
  local sku = "Goods\xc3\xa9 "
  put_goods()
  local function put_sku(on_hand, other) Stock.PutItem{group = group, sku = other or sku, on_hand = on_hand} {} end
  put_sku(0); put_sku(10)
  Stock.Adjust{group = group, sku = sku, delta = -3} {}
  sell(40); expect_equal()
  put_sku(5); Stock.DeleteItem{group = group, sku = sku} {}; expect_equal()
  put_sku(5); put_sku(5, "goods\xc3\xa9"); expect_equal() -- another one, though a text column might not know
end

-- promise SL17: lost unread entries are reported, also before the first start
function case.entries_trimmed_before_reading_are_reported()
  put_goods(); trim_all(); expect_lost()
  group = "shop 2"
  put_goods(); expect_equal()
  sell(2); trim_all(); expect_lost()
end

-- promise SL18: groups that share the consumer's database are copied each by itself
function case.groups_share_a_database()
  for _, name in ipairs{"one", "two"} do group = name; put_goods(); sell(40); expect_equal() end
  group = "one"; sell(40); expect_equal()
end

-- promise SL19: a consumer restarts a lost ledger from the beginning only where its copy is empty
function case.lost_ledger_restarts_only_with_an_empty_copy()
  local function forget() redis("DEL", "ls:{default/shop%201}:stock:ledger") end
  put_goods()
  local copy = consumer()
  expect_copied()
  for _, item in ipairs(all_items()) do Stock.DeleteItem{group = group, sku = item.sku} {} end
  until_(function() return not oldest() end)
  copy:kill()
  forget()
  copy = consumer()
  put_goods(); expect_copied()
  copy:kill()
  forget(); expect_lost()
end

-- A sale of an item in eight buckets through two servers, of which one is killed repeatedly: the answers
-- to the callers, the item and the ledger agree.
require "stock"

local AT_A_TIME, buyers, sold, ways = 16, nil, nil, nil
local item -- and how the ids of its orders begin: on a cluster the cases share one store

function setup()
  two_servers({append_only = true})
  ways = {either()}
  call_options = {timeout_ms = 120000}
  sold = {}
end

local function way(i) use(ways[1 + i % 2]) end

-- All buyers order one unit, and server 1 or 2 is killed in turns, so many times; after(i, answer) may make more calls.
local function all_buy(kills, after)
  local killed = 0
  flow(buyers, AT_A_TIME, function(i) way(i); return start(Stock.Deduct, deduct_request(item .. i, "-", item .. ":1")) end,
    function(i, got)
      if got.outcome ~= "DEDUCTED" then says(got.outcome or tostring(got), "SOLD_OUT") end
      local again = sold[i]
      sold[i] = got.outcome == "DEDUCTED"
      if again ~= nil then eq({sold[i], got.replayed}, {again, again}) end
      if after then after(i) end
      if killed < kills and i * (kills + 1) >= buyers * (killed + 1) then
        killed = killed + 1
        servers[1 + killed % 2]:kill()
        servers[1 + killed % 2]:restart()
      end
    end)
end

local function number_sold()
  local n = 0
  for i = 1, buyers do n = n + (sold[i] and 1 or 0) end
  return n
end
local function expect_item(text) for i = 1, 2 do use(ways[i]); stock(item)(text) end end

-- The ledger adds up to the item, and names each buyer who got DEDUCTED once.
local function expect_ledger(available, units)
  local sum, sum_sold, named, after = 0, 0, {}, ""
  repeat
    local page = read(after, {limit = 1000})
    for _, e in ipairs(page.entries) do
      local by = BY_KIND[e.kind]
      sum, sum_sold = sum + by[1] * e.quantity, sum_sold + by[3] * e.quantity
      if e.kind == "DEDUCTED" then
        local i = math.tointeger(tonumber(e.order_id:sub(#item + 1)))
        eq({sold[i], named[i]}, {true})
        named[i] = true
      end
      after = e.id
    end
  until #page.entries == 0
  eq({sum, sum_sold}, {available, units})
end

-- promise SB7 Most units are in no bucket when the sale begins, so each has to be moved there, and the last ones
-- from wherever they are.
function case.many_buyers_get_a_hundred_units()
  item, buyers = "hot", count(1500, 10000)
  put("hot 50", {buckets = 8}); adjust "hot 50 more"
  all_buy(count(2, 6))
  eq(number_sold(), 100)
  expect_item "0 0 100"
  all_buy(0) -- each gets the same answer again
  expect_item "0 0 100"
  expect_ledger(0, 100)
end

-- As many units as buyers, half of them returned: in the end all others are sold, and servers were killed while
-- units were under way.
function case.nothing_is_lost_on_the_way()
  item, buyers = "warm", count(600, 6000)
  put("warm 0", {buckets = 8}); adjust("warm " .. buyers .. " more-warm")
  all_buy(count(4, 20), function(i)
    if sold[i] and i % 2 == 0 then way(i); take_back("r" .. i .. " warm" .. i) "RETURNED..." end
  end)
  eq(number_sold(), buyers)
  local half = buyers // 2
  expect_item(("%d 0 %d"):format(half, half))
  deduct("rest - warm:" .. half) "DEDUCTED warm:0" -- everything is still there, wherever it is: one order takes it all
  expect_item("0 0 " .. buyers)
end

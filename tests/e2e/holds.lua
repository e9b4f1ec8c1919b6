-- Holds end in time without any call: by the lasting alarm of the server that made them or, when that was killed, by
-- another server's search. ReadLedger, which these cases use, gives nothing back itself.
require "stock"

local NEVER, SOON = {"--allow-unsafe-store", "--sweep-ms", "86400000"}, {"--allow-unsafe-store", "--sweep-ms", "100"}

local function start_with(args) server{store = store:url(), args = args} end

function setup()
  store = world.redis{}
  start_with(NEVER)
end

-- The entries of the group, one after the other, each waited for.
local function expect_entries(group, expected)
  local after, got = "", {}
  for _ in expected:gmatch "[^,]+" do
    local page = Stock.ReadLedger{group = group, after = after, limit = 1, wait_ms = 30000}
    got[#got + 1] = tostring(page)
    after = page.entries[1].id
  end
  eq(table.concat(got, ", "), expected)
end

function case.a_server_gives_back_in_time()
  put "a 5"
  reserve "late - 2500 a:2" "RESERVED..."; reserve "soon - 300 a:2" "RESERVED..."
  expect_entries("g", "PUT a 5, RESERVED a 2 late, RESERVED a 2 soon, EXPIRED a 2 soon, EXPIRED a 2 late")
end

-- promise S42
function case.another_server_gives_back_for_one_that_was_killed()
  put "a 5"; put("a 5", {group = "h"})
  reserve "soon - 1500 a:2" "RESERVED..."; reserve "late - 4000 a:2" "RESERVED..."
  reserve("o - 1500 a:2", {group = "h"}) "RESERVED..."
  servers[1]:kill()
  start_with(SOON)
  expect_entries("g", "PUT a 5, RESERVED a 2 soon, RESERVED a 2 late, EXPIRED a 2 soon, EXPIRED a 2 late")
  expect_entries("h", "PUT a 5, RESERVED a 2 o, EXPIRED a 2 o")
end

-- promise SB24
-- As where a server dies after a bucket has sent units to another one.
function case.units_in_transit_arrive_without_an_order()
  local base, sum, last = "ls:{default/g/2/100}:", 0, nil
  put("a 30", {buckets = 2})
  local digest = redis "FUNCTION LIST LIBRARYNAME lockstock_*"[1][2]:match "lockstock_(.*)"
  local born = redis("EVAL", "return ({struct.unpack('<Bdddddddddd', redis.call('GET', KEYS[1]))})[11]", "1", base .. "stock:i:a")
  eq(redis("FCALL", "stock_send_" .. digest, "1", base, "5", "a", "1", "2", "2", tostring(born))[1], "SENT")
  servers[1]:kill()
  start_with(SOON)
  local after = ""
  until_(function()
    local page = read(after, {wait_ms = 30000})
    for _, e in ipairs(page.entries) do sum, last = sum + e.quantity, e end
    after = page.next_after
    return sum == 30 and last.kind == "TRANSFERRED" and last.quantity == 2
  end)
end

-- Two servers on a Redis Cluster of three primaries, each with a replica: groups on all nodes, while slots move and
-- primaries change. Every wait ends when its condition holds, or by ctest's limit.
require "cluster"
require "lock"
require "stock"

local GROUPS, PAGE, UNITS, MANY, BUYERS, WAIT = 24, 7, 100, 1000000, 24 * 420, 600000
local url, shift

-- The remaining nodes serve; a primary without slots stays one.
function setup()
  url = cluster()
  for _ = 1, 2 do server{store = url} end
  shift = 0
  call_options = {timeout_ms = 60000}
end

local function group_of(what, i) return {group = what .. "-" .. i} end
local function put_groups(what) for i = 1, GROUPS do put("a " .. UNITS, group_of(what, i)) end end

-- Each group is listed once or more, whatever `between(page)` moves between two pages.
local function expect_listed(what, between)
  local seen, n, token, pages = {}, 0, "", 0
  repeat
    use(1 + pages % 2)
    local page = Stock.ListItems{page_size = PAGE, page_token = token} {items = any}
    for _, item in ipairs(page.items) do
      if item.group:match("^" .. what .. "%-") and not seen[item.group] then seen[item.group], n = true, n + 1 end
    end
    token, pages = page.next_page_token, pages + 1
    if between then between(pages) end
  until token == ""
  eq(n, GROUPS)
  eq(pages, above(1))
end

local function hold(name, lease_ms)
  Lock.Acquire{group = name, token = token_of "H", lease_ms = lease_ms or WAIT, targets = {{name = name}}} "ACQUIRED"
end
local function wait_at_the_other(name)
  use(2)
  local call = start(Lock.Acquire, {group = name, token = token_of "W", lease_ms = WAIT, wait_ms = WAIT, targets = {{name = name}}})
  use(1); until_(function() return Lock.Inspect{group = name, name = name}.waiters == 1 end)
  return call
end

-- promise T22
function case.over_all_nodes_groups_and_locks_are_listed()
  put_groups "listed"
  for _, port in ipairs(primaries()) do eq(tonumber(ask_node(port, "DBSIZE"):match "%d+"), within(1, 2 * GROUPS)) end
  expect_listed "listed"
  for i = 1, GROUPS do hold("held-" .. i) end
  local n, token = 0, ""
  repeat
    local page = Lock.List{prefix = "held-", page_size = PAGE, page_token = token} {locks = any}
    n, token = n + #page.locks, page.next_page_token
  until token == ""
  eq(n, GROUPS)
end

-- On each node: a release on one server wakes the waiter on the other.
function case.over_all_nodes_waits_at_another_server_are_woken()
  local calls = {}
  for i = 1, GROUPS do
    hold("handed-" .. i)
    calls[i] = wait_at_the_other("handed-" .. i)
  end
  for i = 1, GROUPS do Lock.Release{group = "handed-" .. i, token = token_of "H"} "RELEASED" end
  for _, call in ipairs(calls) do call "ACQUIRED" end
end

-- ---- a sale ----

-- Every second group has enough units for all.
local function units_of(i) return i % 2 == 0 and MANY or UNITS end

-- Buyers in turn, each of one group, until so many have come and `trouble()`, called again and again once a tenth have,
-- returns true; the client sends an order that is not answered again, by its id.
local function sell(what, trouble)
  local sold, n, over = {}, 0, not trouble
  for i = 1, GROUPS do put("a " .. units_of(i), group_of(what, i)); sold[i] = 0 end
  local function one(k)
    local g = 1 + k % GROUPS
    use(1 + k % 2 + shift)
    return {g = g, k = k, call = start(Stock.Deduct, with(deduct_request("o" .. k, "-", "a:1"), group_of(what, g)))}
  end
  local open_orders = {}
  while n < BUYERS or not over or #open_orders > 0 do
    while (n < BUYERS or not over) and #open_orders < 16 do
      n = n + 1
      open_orders[#open_orders + 1] = one(n)
    end
    local first = table.remove(open_orders, 1)
    local got = first.call()
    if got.error.code == "UNAVAILABLE" or got.error.code == "DEADLINE_EXCEEDED" then
      open_orders[#open_orders + 1] = one(first.k)
    elseif got.outcome == "DEDUCTED" then
      sold[first.g] = sold[first.g] + 1
    else
      says(got.outcome or tostring(got), "SOLD_OUT")
    end
    if not over and n > BUYERS // 10 then over = trouble() end
    for _ = 1, n > BUYERS and 50 or 0 do world.pause() end -- each order is a key to be moved
  end
  local each = n // GROUPS
  for i = 1, GROUPS do
    local got = stock("a", group_of(what, i)).item.sold
    eq(got, sold[i])
    eq(got, within(math.min(each, units_of(i)), units_of(i)))
  end
end

-- A trouble of several steps, one after the other: each begins a process.
local function steps(list)
  local i, running = 0, nil
  return function()
    if running and running:runs() then return false end
    if running then running:ended(0) end
    i = i + 1
    running = list[i] and list[i]()
    return i > #list
  end
end

-- All slots are on each primary once, and then as they were.
function case.buyers_are_exact_while_slots_move()
  local p, list = primaries(), {}
  local function move(a, b, port) list[#list + 1] = function() return move_slots(a, b, port) end end
  for i = 1, 3 do move(0, 16383, p[i]) end
  move(0, 5460, p[1]); move(5461, 10922, p[2])
  sell("moving", steps(list))
end

-- Slots that were not listed yet move to a node that was listed already, and the other way round.
function case.groups_are_listed_while_slots_move()
  local p = primaries()
  put_groups "wandering"
  expect_listed("wandering", function(pages)
    if pages == 1 then move_slots(15000, 16383, p[1]):ended(0) end
    if pages == 3 then move_slots(5000, 5460, p[3]):ended(0) end
  end)
end

-- In order: a primary that is asked to hands over all that it answered.
function case.buyers_are_exact_while_each_primary_is_replaced()
  local list = {}
  for _, port in ipairs(primaries()) do list[#list + 1] = function() return begin_failover(port) end end
  sell("replaced", steps(list))
end

-- Changes that a replica confirmed are not lost with the primary. Primaries are killed in turn, and each becomes the
-- replica of its successor.
function case.with_wait_replicas_buyers_are_exact_while_each_primary_is_killed()
  local list = {}
  for _ = 1, 2 do server{store = url, args = {"--wait-replicas", "1"}} end
  shift = 2 -- the sale goes over these
  for _, port in ipairs(primaries()) do
    list[#list + 1] = function() kill_node(port); return begin_failover(port) end
    list[#list + 1] = function() start_node(port) end
  end
  sell("confirmed", steps(list))
end

-- The lease is over when its primary is gone, or soon after; the server asks the next one.
function case.waiter_is_granted_by_the_new_primary()
  put("a 1", {group = "orphaned"})
  local port = primary_with "ls:{default/orphaned}:stock:skus"
  hold("orphaned", 1000)
  local call = wait_at_the_other "orphaned"
  kill_node(port); failover(port)
  call "ACQUIRED"
end

-- A group's primary and its replica.
function case.a_dead_part_leaves_the_others_serving()
  local dead, kept = 0, {}
  put_groups "parted"
  local gone = primary_with "ls:{default/parted-1}:stock:skus"
  for i = 1, GROUPS do kept[i] = ask_node(gone, "EXISTS ls:{default/parted-" .. i .. "}:stock:skus"):match "^1" end
  kill_node(gone)
  local next_one = failover(gone)
  kill_node(next_one)
  call_options = {no_retry = true, timeout_ms = 5000}
  for i = 1, GROUPS do
    local got = stock("a", group_of("parted", i))
    if kept[i] then got "UNAVAILABLE NO..."; dead = dead + 1 else got(UNITS .. " 0 0") end
  end
  eq(dead, within(1, GROUPS - 1))
  servers[2]:line 'event=store-degraded reason="2 of 3 primaries serve'
  start_node(next_one); start_node(gone)
  for i = 1, GROUPS do until_(function() return stock("a", group_of("parted", i)).response end) end
end

-- ---- ids ----

local WORKERS = "ls:{meta}:id:workers"
local function snowflakes(s, n)
  use(s)
  call_options = {no_retry = true, timeout_ms = 5000}
  return Id.Next{kind = "SNOWFLAKE", count = n or 1}
end
local function snowflake(s) return until_(function() local got = snowflakes(s); return got.response and got.ids[1] end) end

-- promise T23
-- It may lack grants: what it grants begins behind all that can have been granted before.
function case.another_primary_grants_no_snowflakes_for_a_lease()
  local before = snowflake(1)
  failover(primary_with(WORKERS))
  until_(function() return snowflakes(2).error.message:match "^kind: " end)
  eq(last_error, {code = "UNAVAILABLE", applied = "NO"})
  eq(snowflake(2), above(before + (2000 << 22))) -- a range is at most 2 s ahead of its grant
end

-- promise T23
-- One server is granted more for longer than the lease of a worker, of which the replica hears nothing. Then that takes
-- over, and the other server asks while the first one still has a range.
function case.snowflakes_are_unique_when_a_failover_loses_grants()
  local first, seen, replica = snowflake(1), {}, nil
  local primary = primary_with(WORKERS)
  for line in ask_node(primary, "INFO replication"):gmatch "slave0:[^\n]*" do replica = line:match "port=(%d+)" end
  ask_node(replica, "CONFIG SET masterauth not-the-password")
  ask_node(primary, "CLIENT KILL TYPE replica")
  until_(function()
    local got = snowflakes(1)
    return got.response and (got.ids[1] - first) >> 22 >= 3500
  end)
  ask_node(replica, "CLUSTER FAILOVER TAKEOVER")
  local of_other = 0
  repeat
    for s = 1, 2 do
      local got = snowflakes(s, 100)
      for _, id in ipairs(got.response and got.ids or {}) do
        eq(seen[id], nil)
        seen[id] = true
      end
      of_other = of_other + (s == 2 and got.response and 1 or 0)
    end
  until of_other == count(300, 750)
  ask_node(replica, "CONFIG SET masterauth \"\"")
  all_agree()
end

-- One node has lost its data, and only the check of its mark shows the waiters there.
function case.waiter_is_granted_after_its_node_lost_its_data()
  put("a 1", {group = "flushed"})
  hold "flushed"
  local call = wait_at_the_other "flushed"
  ask_node(primary_with "ls:{default/flushed}:stock:skus", "FLUSHALL")
  call "ACQUIRED"
end

-- Two lockstockd whose locks are in one ensemble of ZooKeeper: waits at both, stopped servers, and
-- differences from Redis. Run by on_zookeeper.sh.
require "lock"

local WAIT = 600000

function setup()
  two_servers()
  call_options = {timeout_ms = WAIT}
end

local function waits(token, name, lease_ms)
  return start(Lock.Acquire, with(acquire_request(token, name), {wait_ms = WAIT, lease_ms = lease_ms}))
end

local function until_waiters(name, n)
  until_(function() return inspect(name).waiters == n end)
end

-- promise L60: lock store: waiters of all servers are granted in one order, and fences rise
function case.waiters_of_both_servers_are_granted_in_their_order()
  local calls, fence = {}, fence_of(acquire "T0 x" "ACQUIRED")
  for i = 1, 6 do
    use(1 + i % 2); calls[i] = waits("T" .. i, "x")
    until_waiters("x", i)
  end
  for i = 1, 6 do
    use(1 + i // 2 % 2); release("T" .. (i - 1)) "RELEASED"
    fence = eq(fence_of(calls[i]() "ACQUIRED"), above(fence))
    eq(tostring(inspect "x"), "EXCLUSIVE T" .. i)
  end
end

-- promise L61: lock store: a lease outlives the server that granted it
function case.a_lease_outlives_the_server_that_granted_it()
  use(1); acquire "T1 x" "ACQUIRED"
  acquire("T1 y", {group = "h", lease_ms = 1000}) "ACQUIRED"
  servers[1]:kill()
  use(2); acquire "T2 x" "BUSY x held by T1"
  start(Lock.Acquire, with(acquire_request("T3", "y"), {group = "h", wait_ms = WAIT}))() "ACQUIRED"
end

-- promise L62: lock store: who waits behind a server that is gone or frozen is granted
function case.waiter_behind_a_killed_server_is_granted()
  use(2); acquire "T0 x" "ACQUIRED"
  use(1); waits("T1", "x")
  use(2); until_waiters("x", 1)
  local other = waits("T2", "x")
  until_waiters("x", 2)
  servers[1]:kill()
  release "T0" "RELEASED"
  other() "ACQUIRED"
end

-- promise L62
function case.waiter_behind_a_frozen_server_is_granted()
  use(2); acquire "T0 x" "ACQUIRED"
  use(1); waits("T1", "x")
  use(2); until_waiters("x", 1)
  local other = waits("T2", "x")
  until_waiters("x", 2)
  servers[1]:signal "STOP"
  release "T0" "RELEASED"
  other() "ACQUIRED"
  servers[1]:signal "CONT"
end

-- promise L63: lock store: what one server has written, every other one knows
function case.write_of_one_server_is_visible_at_the_other()
  use(1); acquire "T1 a b:S" "ACQUIRED"
  use(2); acquire "T1 a b:S" "ACQUIRED again"
  acquire "T2 c b:S" "ACQUIRED"
  acquire "T3 a" "BUSY a held by T1"
  use(1); inspect "b" "SHARED T1 T2"
  renew "T1" "RENEWED"
  use(2); release "T1" "RELEASED"
  use(1); release "T1" "RELEASED again"
  renew "T1" "LOST"
  acquire "T4 pool:P2/3" "ACQUIRED"
  use(2); acquire "T5 pool:P2/3" "BUSY pool held by T4"
  acquire "T6 pool:P1/3" "ACQUIRED"
  force_release "pool" "T4 T6"
end

-- A lease is as long for its holder as it asked for, although the store keeps it a little longer.
function case.lease_slack_is_not_visible_to_the_holder()
  eq(acquire("T1 x", {lease_ms = 60000}).lease_ms, 60000)
  eq(acquire("T1 x", {lease_ms = 60000}).lease_ms <= 60000, true)
  eq(Lock.Renew{leases = {{group = "g", token = token_of "T1", lease_ms = 70000}}}.results[1].lease_ms <= 70000, true)
  eq(inspect("x").holders[1].lease_ms <= 70000, true)
end

-- promise L64: lock store: a ForceRelease wakes those who watch, at every server
function case.force_release_wakes_watches_at_every_server()
  use(1); acquire "T1 x" "ACQUIRED"
  local watch = start(Lock.WatchForceReleases, {wait_ms = WAIT})
  use(2); force_release "x" "T1"
  eq(watch().released, true)
end

-- promise L65: lock store: Enter takes locks there and the rest in Redis; who waits at another server is woken with all of it
function case.an_enter_takes_parts_in_both_stores()
  local function parts(token, more)
    return with({group = "g", token = token_of(token), locks = {targets = {{name = "x"}}}, once = {scope = "s", key = "k"},
      stock = {order_id = "o" .. token, lines = {{sku = "a", quantity = 1}}, hold_ms = 60000}}, more)
  end
  local function request(token, more) return with(parts(token, {owner = token, lease_ms = LEASE}), more) end
  Stock.PutItem{group = "g", sku = "a", on_hand = 1} "OK"
  use(1); Guard.Enter(request "T1") {outcome = "ENTERED"}
  acquire "T2 x" "BUSY x held by T1"
  use(2); local waiting = start(Guard.Enter, request("T3", {wait_ms = WAIT}))
  Guard.Enter(request "T4") {outcome = "IN_PROGRESS"}
  use(1); Guard.Renew(parts("T1", {lease_ms = LEASE})) {outcome = "RENEWED"}
  Guard.Leave(parts("T1", {kind = "RETRYABLE"})) {outcome = "LEFT", locks = "RELEASED", stock = "EXPIRED"}
  use(2); waiting() {outcome = "ENTERED"}
  acquire "T2 x" "BUSY x held by T3"
  Guard.Leave(parts("T3", {kind = "COMPLETE"})) {outcome = "LEFT", locks = "RELEASED", stock = "CONFIRMED"}
  Guard.Enter(request "T5") {outcome = "REPLAY"}; inspect "x" "FREE"
end

-- promise L67: lock store: GetStatus says whether it is ready
function case.get_status_has_the_lock_store()
  until_(function() return Admin.GetStatus{}.lock_store.ready end) -- it connects meanwhile
end

-- promise L66: lock store: List has each name once, whatever the size of a page
function case.a_list_has_each_name_once_whatever_the_page()
  for i = 1, 62 do -- 100 names in one group, which take more than one step of a scan
    local group = "g" .. (i > 50 and i % 5 or 7)
    Lock.Acquire(with(acquire_request("T" .. i, "n" .. i .. "a", "n" .. i .. "b"), {group = group}))
  end
  for _, page_size in ipairs{1, 7, 1000} do
    local seen, page, count = {}, nil, 0
    repeat
      page = Lock.List{page_size = page_size, page_token = page and page.next_page_token or ""}
      eq(#page.locks <= page_size, true)
      for _, lock in ipairs(page.locks) do
        local name = lock.group .. "/" .. lock.name
        eq(seen[name], nil)
        seen[name], count = true, count + 1
      end
    until page.next_page_token == ""
    eq(count, 124)
  end
end

function case.a_register_of_fences_is_kept()
  check_fence "disk 7" "OK 7"
  use(2); check_fence "disk 6" "STALE 7"
  reset_fence "disk 3" "7"
  use(1); check_fence "disk 4" "OK 4"
end

-- Calls that wait, on two servers and one Redis, while a server is killed or frozen and Redis is away or emptied:
-- waiters are granted as soon as nothing blocks them. No wait times out before ctest ends the test.
require "lock"

local WAIT = 600000

function setup()
  two_servers({append_only = true})
  call_options = {no_retry = true}
end

-- T1 waits at the first server for x, which T0 holds, and y; T2 at the second for y.
local function wait_for_both(lease_ms, wait_ms)
  use(2); acquire("T0 x", {lease_ms = lease_ms or WAIT}) "ACQUIRED"
  use(1); local first = start(Lock.Acquire, with(acquire_request("T1", "x", "y"), {wait_ms = wait_ms or WAIT}))
  until_(function() return redis("ZSCORE", key "w:y", token_of "T1") end)
  if wait_ms then return first end
  use(2); local other = start(Lock.Acquire, with(acquire_request("T2", "y"), {wait_ms = WAIT}))
  until_(function() return redis("ZSCORE", key "w:y", token_of "T2") end)
  return other
end

-- promise L50
function case.waiter_behind_a_killed_server_is_granted()
  local other = wait_for_both()
  servers[1]:kill()
  other "ACQUIRED"
end

-- promise L50
function case.waiter_behind_a_stopped_server_is_granted()
  local other = wait_for_both()
  servers[1]:stop()
  other "ACQUIRED"
end

-- promise L50
-- The frozen server parks the first waiter of both names, and only it looks when the lease ends.
function case.waiter_behind_a_frozen_server_is_granted()
  local other = wait_for_both(2000)
  servers[1]:signal "STOP"
  other "ACQUIRED"
  servers[1]:signal "CONT"
end

-- promise L52
-- Redis is away when the wait ends: the waiter is answered, and what it left in the queue of y goes when Redis is back.
function case.queue_entry_of_a_failed_withdrawal_does_not_block_others()
  local first = wait_for_both(nil, 2000)
  store:kill()
  eq(first().error.code ~= "OK", true)
  store:restart()
  use(2); until_(function() return tostring(acquire "T3 y") == "ACQUIRED" end)
end

-- promise L55: if Redis is emptied on a living connection, all waiters look again
function case.nobody_waits_on_when_redis_is_emptied()
  require "stock"
  require "idempotency"
  use(2); acquire "T0 x" "ACQUIRED"
  use(1); local waiter = start(Lock.Acquire, with(acquire_request("T1", "x"), {wait_ms = WAIT}))
  until_(function() return redis("ZSCORE", "ls:{default/g}:lock:w:x", token_of "T1") end)
  put "a 1"
  local reader = start(Stock.ReadLedger, {group = "g", after = ledger().entries[1].id, wait_ms = WAIT})
  begin "k T1" "EXECUTE 1"
  use(2); local attempt = start(Idempotency.Begin,
    {scope = "s", key = "k", attempt_token = token_of "T2", lease_ms = WAIT, wait_ms = WAIT})
  for _, name in ipairs{"{default/g}:stock:r", "{default/s/k}:idem:w"} do
    until_(function() return redis("EXISTS", "ls:" .. name) == 1 end)
  end
  redis "FLUSHALL"
  waiter "ACQUIRED"; reader "TRIMMED"; attempt "EXECUTE 1"
end

-- promise L25
function case.forced_release_wakes_watches_at_every_server()
  local watches = {}
  acquire("T1 a", {lease_ms = WAIT}) "ACQUIRED"
  for i = 1, 2 do
    use(i); watches[i] = start(Lock.WatchForceReleases, {wait_ms = WAIT})
    inspect "a" "EXCLUSIVE T1" -- so the server has the watch
  end
  local told = ran "publish"
  force_release "free" ""; eq(ran "publish", told); eq(watches[1].done() or watches[2].done(), false)
  force_release "a" "T1"
  for i = 1, 2 do watches[i]{released = true} end
  Lock.WatchForceReleases{wait_ms = 1} {released = false}
end

-- Common recipes written directly on Redis, and lockstock (docs/scenes.md). A schedule is a function of an adapter.
-- Its steps are those of several clients, in the order in which the recipe fails. Each case plays it with the recipe,
-- which must fail as the case says, and with lockstock, which must not.
--
-- Redis uses a clock that the script moves. Leases and windows are long, and end by `later`. Where the locks are in an
-- ensemble (tests/quorum), lockstockd has that clock too, its CLOCK_MONOTONIC with it, by which leases end there.
require "lock"
require "ratelimit"
require "stock"

local SHORT, LONG, HOUR = 60000, 36000000, 3600000 -- ms; LONG outlasts every schedule
local clock

function setup()
  clock = world.clock(world.dir())
  local env = {"SHIFTED_MONOTONIC=1", "ASAN_OPTIONS=" .. (os.getenv "ASAN_OPTIONS" or "") .. ":verify_asan_link_order=0",
    table.unpack(clock:env())}
  two_servers({env = clock:env()}, nil, 1, os.getenv "LOCKSTOCK_TEST_ENSEMBLE" and env)
end

local function later(ms)
  clock:move(ms * 1000)
  -- A lockstockd that has this clock takes its connections for silent: its stores may be not ready for a moment.
  if os.getenv "LOCKSTOCK_TEST_ENSEMBLE" then
    until_(function() return check "clock BUCKET 1000/1000".outcome == "ALLOWED" and inspect "clock".response end)
  end
end
local function now_ms()
  local time = redis "TIME"
  return tonumber(time[1]) * 1000 + tonumber(time[2]) // 1000
end

local function play(schedule, by_hand, wrong, lockstock, right)
  eq(schedule(by_hand), wrong)
  eq(schedule(lockstock), right)
end

-- ---- clients that die ----

-- Runs the commands of a client in a shell, which is killed at DIES.
local DIES = "echo dies here; kill -STOP $$"
local function dies(commands)
  local client = world.process{"sh", "-ec", table.concat(commands, "\n")}
  client:line "dies here"
  client:kill()
end
local function redis_cli(command) return ("redis-cli -e -s '%s/redis.sock' %s"):format(store:dir(), command) end
local function lockstock_cli(method, request)
  return ("'%s/cli/lockstock' --server %s %s --json '%s'"):format(world.binary, servers[1]:url(), method, request)
end

-- ---- locks ----
--
--   take(who, lease)   true: `who` believes that it holds the lock
--   look()             whether the lock is free
--   unlock(who)
--   wait(who)          begins to wait, and returns a function that waits on: true when `who` has the lock

local ours = {}
function ours.take(who, lease) return acquire(who .. " lock", {lease_ms = lease}).outcome == "ACQUIRED" end
function ours.look() return #inspect "lock".holders == 0 end
function ours.left_ms() return inspect "lock".holders[1].lease_ms end
function ours.unlock(who) release(who .. " lock") end
function ours.wait(who)
  local call = start(Lock.Acquire, with(acquire_request(who, "lock"), {wait_ms = LONG}), {timeout_ms = 240000})
  until_(function() return inspect "lock".waiters == 1 end)
  return function() return call().outcome == "ACQUIRED" end
end

local function set_nx_px(who, lease) return redis("SET", "lock", who, "NX", "PX", lease) == "OK" end
local function del() redis "DEL lock" end

-- All who believe that they hold the lock sell the same lamp: each reads the shelf before any of them writes.
local function sell(holders)
  local sold, seen = 0, {}
  redis "SET shelf 1"
  for i in ipairs(holders) do seen[i] = tonumber(redis "GET shelf") end
  for i in ipairs(holders) do
    if seen[i] > 0 then
      redis("SET", "shelf", seen[i] - 1)
      sold = sold + 1
    end
  end
  return {holders = table.concat(holders, " "), sold = sold}
end

-- promise L10
function case.setnx_without_expire_blocks_forever()
  local function schedule(lock)
    dies(lock.taking) -- A
    local left = lock.left_ms()
    later(2 * LONG)
    return {left_ms = left, b = lock.take("B", LONG)}
  end
  play(schedule, {
    taking = {redis_cli "SETNX lock A", DIES, redis_cli("PEXPIRE lock " .. SHORT)},
    left_ms = function() return redis "PTTL lock" end,
    take = function(who, lease) return redis("SETNX", "lock", who) == 1 and redis("PEXPIRE", "lock", lease) == 1 end,
  }, {left_ms = -1, b = false}, with(ours, {
    taking = {lockstock_cli("lock acquire", '{"group": "g", "targets": [{"name": "lock"}], "lease_ms": 60000}'), DIES},
  }), {left_ms = within(1, SHORT), b = true})
end

-- promise L9
-- The value is the end of the lease. GETSET writes before it looks: a late A writes its own end over that of B.
function case.getset_with_timestamps_has_two_holders()
  local function schedule(lock)
    local holders = {}
    local function take(who, lease) if lock.take(who, lease) then holders[#holders + 1] = who end end
    eq(lock.take("X", SHORT), true)
    later(2 * SHORT) -- X is dead
    for _ = 1, 2 do eq(lock.look(), true) end -- A and B; A freezes here
    take("B", LONG)
    take("A", SHORT)
    later(2 * SHORT)
    if lock.look() then take("C", LONG) end
    return sell(holders)
  end
  play(schedule, {
    look = function() return tonumber(redis "GET lock" or 0) <= now_ms() end,
    take = function(_, lease) return tonumber(redis("GETSET", "lock", now_ms() + lease) or 0) <= now_ms() end,
  }, {holders = "B C", sold = 2}, ours, {holders = "B", sold = 1})
end

-- promise L18
function case.del_without_a_look_frees_the_lock_of_another()
  local function schedule(lock)
    local holders = {}
    eq(lock.take("A", SHORT), true)
    later(2 * SHORT)
    for _, who in ipairs{"B", "C"} do
      if lock.take(who, LONG) then holders[#holders + 1] = who end
      lock.unlock "A" -- its lease was over long ago
    end
    return sell(holders)
  end
  play(schedule, {take = set_nx_px, unlock = del}, {holders = "B C", sold = 2}, ours, {holders = "B", sold = 1})
end

-- promise L30
-- B waits from the beginning. Each time the lock is free, another client comes before B's next poll.
function case.a_waiter_that_polls_is_overtaken()
  local function schedule(lock)
    local holder, overtaken, got = "A", 0, false
    eq(lock.take(holder, LONG), true)
    local b_has_it = lock.wait "B"
    for i = 1, 3 do
      lock.unlock(holder)
      holder = "C" .. i
      if lock.take(holder, LONG) then overtaken = overtaken + 1 end
      got = b_has_it()
      if got then break end
    end
    return {overtaken = overtaken, b = got}
  end
  local function poll() return set_nx_px("B", LONG) end
  play(schedule, {take = set_nx_px, unlock = del, wait = function() eq(poll(), false); return poll end},
    {overtaken = 3, b = false}, ours, {overtaken = 0, b = true})
end

-- promise L10
-- B sets the end with each try, so that a lock without an end gets one.
function case.a_waiter_that_sets_expire_keeps_a_dead_holder_alive()
  local function schedule(lock)
    eq(lock.take("A", SHORT), true) -- A dies
    local got = false
    for _ = 1, 20 do
      later(SHORT // 3)
      got = got or lock.take("B", SHORT)
    end
    return {b = got}
  end
  play(schedule, {
    take = function(who, lease)
      local got = redis("SETNX", "lock", who) == 1
      redis("PEXPIRE", "lock", lease)
      return got
    end,
  }, {b = false}, ours, {b = true})
end

-- promise L6
function case.a_count_kept_by_the_thread_outlives_the_lease()
  local function schedule(lock)
    local holders = {}
    eq(lock.take("A", SHORT), true)
    later(2 * SHORT)
    for _, who in ipairs{"B", "A"} do if lock.take(who, LONG) then holders[#holders + 1] = who end end
    return sell(holders)
  end
  local depth = {}
  play(schedule, {
    take = function(who, lease)
      if not depth[who] and not set_nx_px(who, lease) then return false end
      depth[who] = (depth[who] or 0) + 1
      return true
    end,
  }, {holders = "B A", sold = 2}, ours, {holders = "B", sold = 1})
end

-- ---- an order is paid once ----
--
--   begin(try)             nil: this try pays; else the answer that it gets
--   finish(try, receipt)   this try has paid

local once, fences = {}, {}
function once.begin(try)
  local got = Idempotency.Begin{scope = "pay", key = "order", attempt_token = token_of(try), lease_ms = SHORT}
  fences[try] = got.fence
  if got.outcome == "EXECUTE" then return nil end
  return got.outcome == "REPLAY" and got.result.body or got.outcome
end
function once.finish(try, receipt)
  Idempotency.Complete{scope = "pay", key = "order", fence = fences[try], code = 200, body = receipt} "STORED"
end

local look_then_mark = {
  begin = function() return redis "GET paid:order" and "DUPLICATE" or nil end,
  finish = function() redis "SET paid:order 1" end,
}
local mark_first = {
  begin = function() return redis "SETNX paid:order 1" == 0 and "DUPLICATE" or nil end,
  finish = function() end,
}

-- promise I1
function case.naive_double_click_pays_twice()
  local function schedule(guard)
    local payments, told = 0, {one = guard.begin "one", two = guard.begin "two"} -- both before either has paid
    for _, click in ipairs{"one", "two"} do
      if not told[click] then
        payments = payments + 1
        guard.finish(click, "receipt of " .. click)
      end
    end
    return {payments = payments, then_one = guard.begin "one", then_two = guard.begin "two"}
  end
  play(schedule, look_then_mark, {payments = 2, then_one = "DUPLICATE", then_two = "DUPLICATE"},
    once, {payments = 1, then_one = "receipt of one", then_two = "receipt of one"})
end

-- promise I2
function case.a_mark_without_a_result_answers_no_repeat()
  local function schedule(guard)
    eq(guard.begin "first", nil)
    guard.finish("first", "receipt") -- the reply to the buyer is lost, and the buyer asks again
    return {told = guard.begin "again"}
  end
  play(schedule, mark_first, {told = "DUPLICATE"}, once, {told = "receipt"})
end

-- promise I5
function case.a_worker_that_dies_after_its_mark_never_pays()
  local function schedule(guard)
    dies(guard.beginning)
    local payments, told = 0
    for try = 1, 3 do
      later(2 * SHORT)
      told = guard.begin("try" .. try)
      if not told then
        payments = payments + 1
        guard.finish("try" .. try, "receipt")
      end
    end
    return {payments = payments, told = told}
  end
  local request = '{"scope": "pay", "key": "order", "lease_ms": 60000}'
  play(schedule, with(mark_first, {beginning = {redis_cli "SETNX paid:order 1", DIES}}),
    {payments = 0, told = "DUPLICATE"},
    with(once, {beginning = {lockstock_cli("idempotency begin", request), DIES}}), {payments = 1, told = "receipt"})
end

-- promise I29
-- The session keeps the token of its form. Two presses of the button come at once.
function case.token_read_and_then_deleted_is_used_twice()
  local function schedule(form)
    local orders, token = 0, form.issue()
    eq(form.look(token) and form.look(token), true)
    for _, press in ipairs{"one", "two"} do if form.take(token, press) then orders = orders + 1 end end
    return {orders = orders}
  end
  play(schedule, {
    issue = function() redis "SET session:me token"; return "token" end,
    look = function(token) return redis "GET session:me" == token end,
    take = function() redis "DEL session:me"; return true end,
  }, {orders = 2}, {
    issue = function() return Idempotency.IssueTicket{scope = "s", subject = "me", ttl_ms = LONG}.ticket end,
    look = function() return true end,
    take = function(token, press)
      local request = {scope = "s", subject = "me", ticket = token, consumer_id = token_of(press)}
      return Idempotency.ConsumeTicket(request).outcome == "CONSUMED"
    end,
  }, {orders = 1})
end

-- ---- limits ----

-- promise R2
-- promise R3
-- promise R4
function case.a_counter_a_window_admits_twice_the_limit_at_its_edge()
  local LIMIT = 10
  local function schedule(try)
    local function burst()
      local admitted = 0
      for _ = 1, LIMIT do admitted = admitted + (try() and 1 or 0) end
      return admitted
    end
    later(HOUR - now_ms() % HOUR - 60000) -- a minute before the edge
    local begun, before = now_ms(), burst()
    later(120000)
    local after = burst()
    eq(now_ms() - begun, within(0, HOUR - 1))
    return {in_an_hour = before + after, before = before}
  end
  local function by_hand() return redis("INCR", "hits:" .. now_ms() // HOUR) <= LIMIT end
  for _, algorithm in ipairs{"LOG", "WINDOW", "BUCKET"} do
    local rule = ("bob %s %d/%d"):format(algorithm, LIMIT, HOUR)
    later(3 * HOUR)
    play(schedule, by_hand, {in_an_hour = 2 * LIMIT, before = LIMIT},
      function() return check(rule).outcome == "ALLOWED" end, {in_an_hour = LIMIT, before = LIMIT})
  end
end

-- ---- stock ----
--
--   look()             how many are left
--   buy(order, seen)   true: sold

local sale = {}
function sale.put(n) put("lamp " .. n) end
function sale.look() return stock "lamp".item.available end
function sale.buy(order_id) return deduct(order_id .. " - lamp:1").outcome == "DEDUCTED" end

local shelf = {}
function shelf.put(n) redis("SET", "shelf", n) end
function shelf.look() return tonumber(redis "GET shelf") end

-- promise S1
function case.a_flash_sale_by_read_and_write_sells_too_many()
  local function schedule(shop)
    local sold, seen = 0, {}
    shop.put(3)
    for buyer = 1, 10 do seen[buyer] = shop.look() end
    for buyer = 1, 10 do if shop.buy("o" .. buyer, seen[buyer]) then sold = sold + 1 end end
    return {sold = sold, left = shop.look()}
  end
  local function buy(_, seen) return seen > 0 and redis("SET", "shelf", seen - 1) == "OK" end
  play(schedule, with(shelf, {buy = buy}), {sold = 10, left = 2}, sale, {sold = 3, left = 0})
end

-- promise S7
function case.a_decr_whose_reply_is_lost_takes_twice()
  local function schedule(shop)
    shop.put(3)
    for _ = 1, 2 do eq(shop.buy "o1", true) end -- the first reply is lost
    return {left = shop.look()}
  end
  play(schedule, with(shelf, {buy = function() return redis "DECR shelf" >= 0 end}), {left = 1}, sale, {left = 2})
end

-- ---- the whole endpoint of a sale: a limit of two tries an hour, an order once, one lamp ----
--
--   steps              what a client does, one after the other; it may die between two of them
--   buy(order)         all of them: "sold", or why not

local LIMIT_RULE = {key = "ann", limit = {algorithm = "SLIDING_LOG", limit = 2, period_ms = HOUR}}
local counter = 0
local function a_new_token()
  counter = counter + 1
  return token_of("T" .. counter)
end

local four_commands = with(shelf, {steps = {"INCR tries", "SET order:o1 begun NX", "DECR shelf", "SET order:o1 sold"}})
four_commands.command = redis_cli
function four_commands.buy(order)
  if redis "INCR tries" > 2 then return "limited" end
  if redis("SET", "order:" .. order, "begun", "NX") ~= "OK" then return redis("GET", "order:" .. order) end
  if redis "DECR shelf" < 0 then
    redis "INCR shelf"; redis("DEL", "order:" .. order)
    return "sold out"
  end
  redis("SET", "order:" .. order, "sold")
  return "sold"
end

local one_call = {put = sale.put, look = sale.look}
local function entering(order)
  return {group = "g", token = a_new_token(), lease_ms = SHORT, once = {scope = "sale", key = order},
    limits = {rules = {LIMIT_RULE}}, stock = {order_id = order, hold_ms = SHORT, lines = {{sku = "lamp", quantity = 1}}}}
end
function one_call.buy(order)
  local request = entering(order)
  local entered = Guard.Enter(request)
  if entered.outcome == "REPLAY" then return entered.result.body end
  if entered.outcome ~= "ENTERED" then
    return ({LIMITED = "limited", OUT_OF_STOCK = "sold out", IN_PROGRESS = "begun"})[entered.outcome]
  end
  local parts = {group = "g", token = request.token, once = request.once, stock = request.stock}
  Guard.Leave(with(parts, {kind = "COMPLETE", body = "sold"})) "LEFT"
  return "sold"
end
one_call.steps = {'{"group": "g", "token": "token-of-a-client-that-dies", "lease_ms": 60000, '
  .. '"once": {"scope": "sale", "key": "o1"}, "limits": {"rules": [{"key": "ann", "limit": {"algorithm": '
  .. '"ALGORITHM_SLIDING_LOG", "limit": "2", "period_ms": "3600000"}}]}, "stock": {"order_id": "o1", "hold_ms": "60000", '
  .. '"lines": [{"sku": "lamp", "quantity": "1"}]}}'}
function one_call.command(request) return lockstock_cli("guard enter", request) end

-- promise GS25: a client that dies between Enter and Leave loses nothing: its lease and its hold end, and the next try
--   sells
function case.an_endpoint_of_four_commands_dies_between_them()
  local function schedule(shop)
    shop.put(1)
    local commands = {}
    for i = 1, shop.dies_after do commands[i] = shop.command(shop.steps[i]) end
    commands[#commands + 1] = DIES
    dies(commands)
    later(2 * SHORT)
    return {told = shop.buy "o1", left = shop.look()}
  end
  -- With the recipe the order stays begun forever, and after the third command the lamp is gone.
  eq(schedule(with(four_commands, {dies_after = 2})), {told = "begun", left = 1})
  redis "DEL tries order:o1 shelf"
  eq(schedule(with(four_commands, {dies_after = 3})), {told = "begun", left = 0})
  eq(schedule(with(one_call, {dies_after = 1})), {told = "sold", left = 0})
  eq(one_call.buy "o1", "sold") -- the click that comes late gets the same answer
end

-- promise GS1
function case.order_refused_by_stock_uses_up_the_limit()
  local function schedule(shop)
    shop.put(0)
    local told = shop.buy "o1" .. ", " .. shop.buy "o1"
    shop.put(1)
    return {told = told .. ", " .. shop.buy "o1"}
  end
  play(schedule, four_commands, {told = "sold out, sold out, limited"}, one_call, {told = "sold out, sold out, sold"})
end

-- Redis' memory is flat where everything that is created also ends: cycles of a load that uses all services, then days
-- pass, by a clock that the script moves, until all is gone that is to go. What may stay is written in the docs, and
-- nothing else does; the memory of Redis and of lockstockd stays where it was after the second cycle.
-- promise E7: each key has a TTL or an end that the docs name; after that it is gone, and Redis uses as much memory as
--   before
-- what it was
require "idempotency"
require "ratelimit"
require "lock"
require "stock"

local DAYS, BRIEF, LONG = 41, 20, 60000
local KEYS_SLACK, REDIS_SLACK, LUA_SLACK, SERVER_SLACK_KIB = 256, 65536, 262144, 4096

-- The part of a key after its base, up to <x>; the page whose table of keys has it; and how long it exists:
--   ENDS: it has a TTL from its first moment on. ENDED: by a call, or gets a TTL by one. ITEMS: as long as there are
--   items, in the shop that stays. STAYS: by contract; the load uses a fixed set. OTHERS: of Sentinel, or of buckets.
local kinds = {}
for page, text in pairs{
  store = "schema=STAYS libraries=STAYS mark=STAYS generation=OTHERS servers=ENDS pass:sweep=ENDS",
  locks = "lock:n=ENDS lock:h=ENDS lock:t=ENDS lock:w=ENDS lock:s=ENDS lock:r=STAYS",
  stock = "stock:i=ITEMS stock:b=ENDED stock:o=ENDED stock:x=ENDED stock:a=ENDS stock:t=ENDS stock:n=OTHERS stock:m=OTHERS "
    .. "stock:skus=ITEMS stock:v=ENDS",
  ledger = "stock:ledger=ITEMS stock:r=ENDS",
  idempotency = "idem:r=ENDS idem:w=ENDS idem:t=ENDS",
  ratelimit = "rate:k=ENDS rate:l=ENDS rate:q=ENDS rate:p=ENDED rate:n=ENDED rate:v=ENDS rate:c=ENDS",
  id = "id:workers=STAYS id:s=STAYS"} do
  for name, life in text:gmatch "(%S+)=(%S+)" do kinds[name] = {page = page, life = life} end
end

-- "ls:{default/a}:lock:n:door" -> "lock:n"
local function kind_of(key)
  local name = key:match "}:(.*)$"
  return name:match "^([^:]*:[^:]*):" or name
end

function case.the_docs_list_every_kind_of_key()
  local found = {}
  for _, page in ipairs{"store", "locks", "stock", "ledger", "idempotency", "ratelimit", "id"} do
    local among_keys = false
    for line in io.lines(world.source .. "/docs/" .. page .. ".md") do
      among_keys = line:find "^| key |" or among_keys and line:find "^|"
      local text = among_keys and line:match "^| `([^`<]+)"
      if text then
        local name = (text:match "}:(.*)$" or text):gsub(":$", "")
        if not kinds[name] then error("docs/" .. page .. ".md has the key " .. name .. ", which this script does not know") end
        found[page .. name] = true
      end
    end
  end
  for name, kind in pairs(kinds) do eq({name, found[kind.page .. name]}, {name, true}) end
end

-- ---- keys ----

local clock, seen, most

function setup() end -- in real time, which lib/ratelimit.lua does not have

-- Each key is of a kind that the docs know, and ends if that ends.
local function look_at_keys()
  local all = redis "KEYS *"
  for _, key in ipairs(all) do
    local kind = kinds[kind_of(key)] or error("a key of no kind in the docs: " .. key)
    if kind.life == "ENDS" and redis("PTTL", key) == -1 then error(key .. " has no end") end
    seen[kind_of(key)] = true
  end
  most = math.max(most, #all)
end

local looked
-- Once a cycle: the load has made a key of the kind, which may not exist for long.
local function look_for(name)
  if looked[name] then return end
  looked[name], seen[name] = true, nil
  until_(function() look_at_keys(); return seen[name] end)
end

-- What remains after all TTLs. A slow server may have written after the clock was moved: such a key expires the next
-- time.
local function keys_that_stay()
  local function over() return not redis "INFO keyspace":find "expires=[1-9]" end
  for _ = 1, 3 do
    clock:move(DAYS * 86400 * 1000000)
    local limit = world.now_ms() + 40000
    until_(function() return over() or world.now_ms() > limit end)
    if over() then break end
  end
  local all, bytes = redis "KEYS *", 0
  table.sort(all)
  for _, key in ipairs(all) do
    bytes = bytes + redis("MEMORY", "USAGE", key, "SAMPLES", "0")
    local kind = kinds[kind_of(key)]
    if kind.life ~= "STAYS" and not (kind.life == "ITEMS" and key:find("{default/shop}", 1, true)) then
      error(key .. " is still there")
    end
  end
  return {names = table.concat(all, " "), bytes = bytes}
end

-- ---- the load: each round uses names of its own, but for a shop, resources and sequences that stay ----

local function load_locks(r)
  local g = {group = "group-" .. r}
  local function take(token, names, more) return Lock.Acquire(with(with(acquire_request(token .. r, table.unpack(split(names))),
    {group = g.group, lease_ms = LONG}), more)) end
  local function wait(token, names) return start(Lock.Acquire, with(with(acquire_request(token .. r, table.unpack(split(names))),
    {group = g.group, lease_ms = LONG, wait_ms = LONG}), {})) end
  local function drop(token) Lock.Release{group = g.group, token = token_of(token .. r)} {} end
  local function until_waiters(n) until_(function() return Lock.Inspect{group = g.group, name = "door"}.waiters == n end) end
  use(1); take("F", "door window") "ACQUIRED"
  use(2); local cancelled, granted = wait("C", "door:P1/2 window:P1/2"), wait("G", "door:S window:S")
  use(1); until_waiters(2)
  look_for "lock:w"
  take("I", "door window", {wait_ms = BRIEF}) "TIMED_OUT..."
  cancelled.cancel()
  until_waiters(1)
  drop "F"
  granted "ACQUIRED"
  use(2); drop "G"
  use(1); take("P", "door:P1/2 window:P1/2") "ACQUIRED"
  Lock.Renew{leases = {{group = g.group, token = token_of("P" .. r), lease_ms = 2 * LONG}}} {}
  use(2); take("S", "door:P1/2 window:P1/2") "ACQUIRED"
  look_for "lock:h"
  take("B", "door window") "BUSY..."
  use(1); Lock.ForceRelease{group = g.group, name = "door"} {}
  drop "P"; drop "S"; drop "N"
  Lock.CheckFence{resource = "resource-" .. r % 4, fence = r + 1} {}
  -- The last one is left to run out, and one waits for that.
  take("O", "door window", {lease_ms = BRIEF}) "ACQUIRED"
  use(2); take("H", "door window", {wait_ms = LONG}) "ACQUIRED"
end

local function trade(group, r)
  local g = {group = group}
  local function order_of(what, hold) return ("%s-%d b%d %s limited:2 plain:2"):format(what, r, r, hold or ""):gsub("  ", " ") end
  local function id(what) return what .. "-" .. r end
  use(1); put("limited 1000000", with(g, {per_buyer_limit = 1000000})); put("plain 1000000", g)
  deduct(order_of "deducted", g) "DEDUCTED..."
  for _, what in ipairs{"confirmed", "cancelled", "returned", "extended"} do
    use(2); reserve(order_of(what, LONG), g) "RESERVED..."
    if what == "cancelled" then cancel(id(what), g) {} end
    use(1)
    if what == "confirmed" or what == "returned" then confirm(id(what), g) "CONFIRMED..." end
    if what == "returned" then Stock.Return{group = group, order_id = id(what)} "RETURNED..." end
  end
  use(2); cancel(id "buried", g) {}; reserve(order_of("buried", LONG), g) "CANCELLED..."
  look_for "stock:x"
  extend(id "extended" .. " " .. BRIEF, g) {}
  reserve(order_of("expired", BRIEF), g) "RESERVED..."
  local expired, last = 0, ""
  until_(function() -- two orders of two lines
    for _, e in ipairs(read(last, with(g, {wait_ms = LONG})).entries) do
      expired, last = expired + (e.kind == "EXPIRED" and 1 or 0), e.id
    end
    return expired == 4
  end)
  trim(last, g) {}
  local reader = start(Stock.ReadLedger, {group = group, after = last, wait_ms = LONG})
  look_for "stock:r"
  Stock.Adjust{group = group, sku = "plain", delta = 1} {}
  reader {}
end

local function load_stock(r)
  local g = {group = "shop-" .. r}
  trade(g.group, r)
  delete("limited", g) {}; delete("plain", g) {}
  local left = read("", g).entries
  trim(left[#left].id, g) {}
  trade("shop", r)
  put("limited 1000000", {group = "shop"}) -- without a limit for a moment: a buyer of long ago is not remembered
end

local function load_idempotency(r)
  local function k(what) return what .. "-" .. r end
  local function one(what, token, more) return begin(k(what) .. " " .. token .. r, with({lease_ms = LONG}, more)) end
  use(1); one("done", "T1") "EXECUTE 1"
  local first = fence()
  use(2); local waiting = start(Idempotency.Begin, {scope = "s", key = k "done", attempt_token = token_of("T2" .. r),
    lease_ms = LONG, wait_ms = LONG})
  look_for "idem:w"
  use(1); complete(k "done" .. " 200 body", {fence = first}) "STORED"
  waiting "REPLAY 1 200 body"
  one("failed", "T1") "EXECUTE 1"; use(2); fail_retryable(k "failed") {}
  use(1); one("failed", "T2") "EXECUTE 2"; use(2); fail_final(k "failed") {}
  use(1); one("over", "T1", {lease_ms = BRIEF}) "EXECUTE 1"
  use(2); one("over", "T2", {wait_ms = LONG}) "EXECUTE 2"
  use(1); one("over", "T6", {wait_ms = BRIEF}) "IN_PROGRESS 2"
  one("gone", "T1") "EXECUTE 1"; forget(k "gone") "OK"
  issue(LONG)
  local ticket = issue(LONG)
  use(2); consume(ticket) "CONSUMED"
end

local function load_rates(r)
  local gate, policy = {group = "gate-" .. r}, "policy-" .. r
  local rules = {}
  for i, algorithm in ipairs{"FIXED", "LOG", "WINDOW", "BUCKET"} do
    rules[i] = ("b%d %s 2/60000 after=2 ban=60000 factor=2 max=600000"):format(r, algorithm)
  end
  rules = table.concat(rules, ";")
  use(1); put_policy(policy, "BUCKET 10/1000") {}
  check(rules .. ";v" .. r .. " @" .. policy, with(gate, {request_id = "first-" .. r})) {}
  look_for "rate:p"
  use(2); refund("first-" .. r, gate.group) {}
  for i = 1, 5 do use(1 + i % 2); check(rules, with(gate, {request_id = i == 1 and "second-" .. r or nil})) {} end
  use(1); reset("v" .. r, gate.group) {}
  use(2); delete_policy(policy) {}
end

local function load_ids(r)
  use(1 + r % 2)
  for _, kind in ipairs{"SNOWFLAKE", "UUID_V7", "SEQUENCE"} do
    Id.Next{kind = kind, name = kind == "SEQUENCE" and "sequence-" .. r % 4 or nil} {}
  end
end

-- ---- cycles ----

local function figures()
  local info, m = redis "INFO memory", {kib = 0, fds = 0, threads = 0}
  local function number(name) return tonumber(info:match("\n" .. name .. ":(%d+)")) end
  m.redis = number "used_memory" - number "mem_clients_normal" -- without what connections have in flight
  m.lua = number "used_memory_vm_functions"
  for _, s in ipairs(servers) do
    local fds, kib, threads = world.measure(s:pid())
    m.fds, m.kib, m.threads = m.fds + fds, m.kib + kib, m.threads + threads
  end
  return m
end

-- promise E8: lockstockd's memory, descriptors and threads stay where they were
function case.memory_is_flat()
  clock, seen = world.clock(world.dir()), {}
  -- Expired keys are removed quickly; and there is no log of slow commands, which would grow first.
  two_servers({args = {"--hz", "500", "--slowlog-log-slower-than", "-1"}, env = clock:env()})
  local rounds, early, stay = count(15, 300), nil, nil
  for n = 1, count(4, 8) do
    looked, most = {}, 0
    for r = (n - 1) * rounds, n * rounds - 1 do
      for _, load in ipairs{load_locks, load_stock, load_idempotency, load_rates, load_ids} do load(r) end
    end
    look_at_keys()
    local left, limit = keys_that_stay(), world.now_ms() + 10000
    local now = figures()
    -- Redis gives memory back in its own time.
    while early and world.now_ms() < limit and (now.redis > early.redis + REDIS_SLACK or now.lua > early.lua + LUA_SLACK) do
      world.pause()
      now = figures()
    end
    print(("    cycle %d: %d keys, %d bytes stay; Redis %d bytes, its Lua %d, lockstockd %d KiB"):format(n, most, left.bytes,
      now.redis, now.lua, now.kib))
    if n == 2 then early, stay = now, left end
    if n > 2 then
      eq(left.names, stay.names)
      eq(left.bytes, within(0, stay.bytes + KEYS_SLACK)) -- numbers get longer
      eq(now.redis, within(0, early.redis + REDIS_SLACK))
      eq(now.lua, within(0, early.lua + LUA_SLACK))
      if not world.sanitized then eq(now.kib, within(0, early.kib + SERVER_SLACK_KIB)) end -- a cache of policies fills up
      eq({now.fds, now.threads}, {early.fds, early.threads})
    end
  end
  for name, kind in pairs(kinds) do
    if kind.life ~= "OTHERS" and not seen[name] then error("the load made no key of the kind " .. name) end
  end
  for _, s in ipairs(servers) do s:stop() end
end

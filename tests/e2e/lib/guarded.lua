-- Functions for scripts of guards, with a lockstockd and a host: a process with the shop of guarded_shop.h, whose effects
-- are lines of a file.
--
--   buy("Coded", order("o-1", "x")) "YES"     a call of a method for an order of item x
--   local first = hold("Buy", X)              one whose handler waits for the gate; let_end(first)
require "lock"

THREADS, LIMIT, SHORT = 2, 60000, 1500 -- of a host; of calls; SHORT_MS
AWAY = 3000 -- of calls that cannot succeed, so long that their refusal comes first

-- The host that most cases use, and a channel to it.
host, shop = nil, nil

local dir

function to_host(h, scheme, options)
  return world.channel(h.urls[scheme or "tcp"], with({timeout_ms = LIMIT}, options))
end

-- A host; SIGTERM ends it within a minute, SIGINT at once.
function start_host(threads)
  local process = world.process{world.binary .. "/tests/e2e/guarded_host", servers[1]:url(), dir .. "/effects", dir .. "/gate", threads}
  local h = {process = process, urls = {}}
  for scheme, url in process:line "tcp=":gmatch "(%S+)=(%S+)" do h.urls[scheme] = url end
  return h
end

function open_gate() write(dir .. "/gate", "") end

function setup()
  store = world.redis()
  server{store = store:url(), args = UNSAFE}
  dir = world.dir()
  host = start_host(THREADS)
  shop = to_host(host)
end

-- Each case ends with a check that the host exits with 0.
local run = run_case
function run_case(name)
  run(name)
  open_gate()
  if host.process:runs() then host.process:signal "TERM" end
  host.process:ended(0)
end

-- ---- calls ----

function order(id, items, more)
  return with({order_id = id, buyer_id = "ann", items = split(items or ""), doing = "BUY"}, more)
end
X, Y = order("o-1", "x"), order("o-1", "y") -- two requests with the id of one order
X2, Y2 = order("o-2", "x"), order("o-2", "y")
function doing(what, request, more) return with(with(request, {doing = what}), more) end

function begin(method, request, way, options)
  return (way or shop):start("Shop." .. method, request, with({timeout_ms = LIMIT, no_retry = true}, options))
end
function ended(call) return answer("Shop", call:wait()) end

-- Options of a call that must not wait until a lease ends.
function buy(method, request, timeout_ms)
  return ended(begin(method, request, nil, {timeout_ms = timeout_ms or LIMIT // 4}))
end

-- A call whose handler runs, and waits for the gate.
function hold(method, request, way)
  local call = begin(method, doing("WAIT", request), way)
  host.process:line("running " .. request.order_id)
  return call
end
function let_end(call)
  open_gate()
  return ended(call) "YES"
end

-- The number of effects of an order, or of all orders.
function n_effects(order_id)
  local n = 0
  for line in (exists(dir .. "/effects") and read_file(dir .. "/effects") or ""):gmatch "[^\n]+" do
    n = n + (line:match("^" .. (order_id or ""):gsub("%-", "%%-")) and 1 or 0)
  end
  return n
end

function item_lock(name) return Lock.Inspect{group = "items", name = "item:" .. name} end
function holders(name) return #item_lock(name).holders end

-- Within less time than a wait or a lease lasts.
local function soon(value, n)
  local limit = world.now_ms() + LIMIT // 2
  until_(function() return value() == n or world.now_ms() > limit end)
  eq(value(), n)
end
function until_waiters(n) soon(function() return item_lock "x".waiters end, n) end
function until_holders(n) soon(function() return holders "x" end, n) end

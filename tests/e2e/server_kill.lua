-- A flash sale while answers are lost, and while redis-server and lockstockd are killed again and again: buyers send
-- the same orders again, stock stays exact, and what was sold once stays sold.
require "stock"

function setup() call_options = {timeout_ms = 240000} end

local function order_start(i) return start(Stock.Deduct, deduct_request("o" .. i, "-", "lamp:1")) end

-- Buyers order one unit each of `units`; disturb(sold) runs after each answer. Then all orders are repeated over the
-- `direct` channel: each gets the same answer. Returns how many answers were replays.
local function sell(buyers, units, direct, disturb)
  local way, sold, n, replays = current_channel(), {}, 0, 0
  use(direct); put("lamp " .. units)
  use(way)
  flow(buyers, 64, order_start, function(i, got)
    if not got.response then return says(got.error.code, "UNAVAILABLE") end -- and asked again
    sold[i] = got.outcome == "DEDUCTED"
    if not sold[i] then says(got.outcome, "SOLD_OUT") end
    n, replays = n + (sold[i] and 1 or 0), replays + (got.replayed and 1 or 0)
    if disturb then disturb(n) end
  end)
  eq(n, units)
  use(direct)
  local function check()
    stock "lamp"(("0 0 %d"):format(units))
    flow(buyers, 64, order_start, function(i, got) got(sold[i] and "DEDUCTED again..." or "SOLD_OUT lamp:0") end)
  end
  check()
  return replays, check
end

-- `kills` kills spread over the part of the sale in which there is something to sell; `victims` are killed in turns.
local function sell_and_kill(buyers, units, kills, victims, env)
  local s = server({env = env}, {in_flight_max = 64}) -- few at a time: more commits, and a kill meets one more often
  local n, done = open(s:url()), 0
  local function kill_once(what)
    local redis_pid = until_(function() local pid = s:redis_pid(); return pid > 0 and pid end)
    if what == "redis" then return world.kill(redis_pid, "KILL") end
    s:kill()
    world.gone(redis_pid) -- nothing is left behind
    s:restart()
  end
  use(1)
  local _, check = sell(buyers, units, n, function(sold)
    if done < kills and sold * (kills + 1) >= units * (done + 1) then
      done = done + 1
      kill_once(victims[1 + done % #victims])
    end
  end)
  kill_once "lockstockd"
  check() -- from the disk alone
  s:stop()
end

-- promise T16
function case.redis_is_killed() sell_and_kill(count(2500, 12000), count(2000, 10000), count(5, 50), {"redis"}) end
function case.lockstockd_is_killed() sell_and_kill(count(2500, 12000), count(2000, 10000), count(4, 50), {"lockstockd"}) end
function case.both_are_killed() sell_and_kill(count(2000, 10000), 100, count(4, 40), {"redis", "lockstockd"}) end

-- A redis-server in front of the real one in PATH, for only that is to be slow: a sanitizer's runtime does not want
-- to be preloaded over.
function case.both_are_killed_with_a_slow_disk()
  local dir = world.dir()
  local calls, link, program = dir .. "/calls", dir .. "/slow.so", dir .. "/redis-server"
  os.execute(("ln -s '%s/tests/fault/libslow-fdatasync.so' %s"):format(world.binary, link)) -- LD_PRELOAD takes no space
  write(program, ("#!/bin/sh\nexport LD_PRELOAD='%s' SLOW_FDATASYNC_US=20000 SLOW_FDATASYNC_LOG='%s'\n"
    .. 'PATH=${PATH#*:}\nexec redis-server "$@"\n'):format(link, calls))
  os.execute("chmod 0700 " .. program)
  sell_and_kill(count(1500, 5000), count(1000, 4000), count(4, 30), {"redis", "lockstockd"},
    {"PATH=" .. dir .. ":" .. os.getenv "PATH"})
  eq(#read_file(calls), above(0))
end

-- promise S7
-- promise W17
-- The first answer to each order is lost: the client asks again and is told what became of the order.
function case.every_answer_is_lost_once()
  local s = server()
  local proxy = world.proxy(s:port(), "LOSE_FIRST_REPLIES")
  use(open(proxy:url()))
  eq(sell(count(100, 1000), 50, 1), 50)
  eq(proxy:hits(), above(count(99, 999)))
end

-- The functions for scripts of real servers. A call uses the channel that `use` selected last:
--
--   store, servers = two_servers()           one Redis, two lockstockd; use(1), use(2)
--   use(2); acquire "T1 a" "ACQUIRED"        the words of tests/services/lib
--   local w = start(Lock.Acquire, {...})     an asynchronous call; w() waits for its answer
--
-- world.server, world.redis and so on (tests/support/lua_world.c) start what a case needs, until its end. A
-- wait without a limit ends by ctest's.
harness = {}
require "test"

soak = os.getenv("LOCKSTOCK_SOAK")
function count(fast, full) return soak and full or fast end

-- Repeats f until it returns something that is neither nil nor false, which it returns.
function until_(f)
  while true do
    local got = f()
    if got then return got end
    world.pause()
  end
end

-- Ends the case, which counts as skipped.
function skip(why)
  print("skipped: " .. why)
  skipped = true
  error(skip, 0)
end

-- ---- channels and calls ----

local channels, current = {}, nil
call_options = nil -- of the calls from now on: {no_retry = true}, {timeout_ms = 60000}

function use(channel) current = channels[channel] or channel end
function current_channel() return current end
function open(urls, options)
  local channel = world.channel(type(urls) == "table" and table.concat(urls, ",") or urls, options)
  channels[#channels + 1] = channel
  return channel
end

function harness.call(method, request) return current:call(method, request, call_options) end

-- A call in flight: call() waits for its answer, call.done() says whether it has arrived.
function start(method, request, options)
  local call = current:start(method.name, request, options or call_options)
  return setmetatable({done = function() return call:done() end, cancel = function() call:cancel() end},
    {__call = function(_, expected)
      local got = answer(method.name, call:wait())
      return expected and got(expected) or got
    end})
end

-- Makes n calls, at most so many at a time, by `make(i)`, which returns a call; each answer goes to `take(i, answer)`.
-- An answer for which `take` returns true is asked for again.
function flow(n, at_a_time, make, take)
  local open_calls, next_one = {}, 1
  while next_one <= n or #open_calls > 0 do
    while next_one <= n and #open_calls < at_a_time do
      open_calls[#open_calls + 1] = {i = next_one, call = make(next_one)}
      next_one = next_one + 1
    end
    local first = table.remove(open_calls, 1)
    if take(first.i, first.call()) then open_calls[#open_calls + 1] = {i = first.i, call = make(first.i)} end
  end
end

-- ---- servers ----

UNSAFE = {"--allow-unsafe-store"}
servers = {}

-- lockstockd, and a channel to it, which is used from now on and is the next number of `use`.
function server(options, channel_options)
  local s = world.server(options)
  servers[#servers + 1] = s
  use(open(s:url(), channel_options))
  return s
end

-- One Redis and n servers on it, with a channel each; redis "GET key" asks that Redis.
function two_servers(redis_options, args, n, env)
  store = world.redis(redis_options or {})
  for _ = 1, n or 2 do server{store = store:url(), args = args or UNSAFE, env = env} end
  use(1)
end

-- Two channels to both servers. Each connects to its own server first, because the other one is frozen meanwhile.
function either()
  local both = {}
  for i = 1, 2 do
    local own, other = servers[i], servers[3 - i]
    other:signal "STOP"
    both[i] = open{own:url(), other:url()}
    both[i]:call("Id.Decode", {id = 1})
    other:signal "CONT"
  end
  return both[1], both[2]
end

-- redis "GET key": a number, a text, false for nil, a table for a list.
function redis(first, ...)
  if select("#", ...) == 0 then return store:ask(table.unpack(split(first))) end
  return store:ask(first, ...)
end
-- How often Redis ran a command, of functions too.
function ran(command) return tonumber(redis("INFO", "commandstats"):match("cmdstat_" .. command .. ":calls=(%d+)") or 0) end

-- ---- files ----

function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end
function read_file(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end
function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

-- One channel on a real server: ten thousand Acquires wait on it, and the Release that they wait for goes out past
-- them.
require "lock"

local WAIT = 600000

local function acquire_start(token, name, wait_ms)
  return start(Lock.Acquire, {group = name, token = token_of(token), lease_ms = WAIT, wait_ms = wait_ms, targets = {{name = name}}})
end
local function is_refused(call)
  return call().error.code == "RESOURCE_EXHAUSTED"
end
-- How many are granted. A slow machine refuses some, because they would queue for too long.
local function number_granted(calls)
  local n = 0
  for _, call in ipairs(calls) do
    if call.done() and not is_refused(call) then n = n + 1 end
  end
  return n
end

function case.a_release_goes_out_past_thousands_of_waits()
  local calls = {}
  server()
  acquire_start("H", "door", 0) "ACQUIRED"
  for i = 1, 10000 do calls[i] = acquire_start("W" .. i, "door", WAIT) end
  until_(function() -- a free lock is granted at once, whatever other calls wait for, unless it is refused
    local gate = acquire_start("G", "gate", WAIT)
    until_(gate.done)
    if not is_refused(gate) then return gate end
  end) "ACQUIRED"
  Lock.Release{group = "door", token = token_of "H"} "RELEASED"
  local granted = until_(function()
    for _, call in ipairs(calls) do if call.done() and not is_refused(call) then return call end end
  end)
  granted "ACQUIRED"
  eq(number_granted(calls), 1)
end

-- The server refuses it without the store, after it has read all calls that were sent before it. A slow machine
-- refuses it because calls queue for too long.
local function wait_until_read()
  local refused = Lock.Acquire{wait_ms = WAIT}.error
  if refused.code ~= "INVALID_ARGUMENT" then says(refused.reason, "too_many_calls") end
end

-- promise T10
-- While Redis stands still, all that the server may run is under way to it.
function case.the_store_takes_what_the_server_may_run()
  local calls, many = {}, "65536"
  local s = server{args = {"--in-flight", many, "--in-flight-per-connection", many, "--waiting", many,
    "--waiting-per-connection", many}}
  for i = 1, 64 do acquire_start("T1", "gate-" .. i, 0)() end -- then its answers are known to be small
  wait_until_read()
  world.kill(s:redis_pid(), "STOP")
  for i = 1, 20000 do calls[i] = acquire_start("D" .. i, "door-" .. i, WAIT) end
  wait_until_read()
  world.kill(s:redis_pid(), "CONT")
  for _, call in ipairs(calls) do
    local got = call()
    if got.error.code == "RESOURCE_EXHAUSTED" and got.error.message:find "calls to the store" then error(tostring(got)) end
  end
end

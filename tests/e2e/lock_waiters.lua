-- Many waiters of one lock over two servers: while they wait, some cancel, some are gone, and one server is killed.
-- Whoever is left is granted once, one at a time, and nothing is left of the queue.
require "lock"

local CLIENTS, EACH, WAIT = 15, count(20, 67), 240000
local clients, calls

local function until_waiters(n) until_(function() return inspect("hot").waiters == n end) end

-- T holds the lock, and all clients queue for it, half of them at each server first. A client is a channel.
function setup()
  two_servers()
  clients, calls = {}, {}
  call_options = {timeout_ms = 2 * WAIT}
  for i = 1, CLIENTS // 2 + 1 do
    clients[2 * i - 1], clients[2 * i] = either()
  end
  use(1); acquire "T hot" "ACQUIRED"
  for i = 1, CLIENTS do
    use(clients[i])
    for k = 1, EACH do
      local token = ("W%d-%d"):format(i, k)
      calls[#calls + 1] = {client = i, token = token,
        call = start(Lock.Acquire, with(acquire_request(token, "hot"), {wait_ms = WAIT}))}
    end
  end
  use(1); until_waiters(CLIENTS * EACH)
end

-- Releases the lock, and again for each that is granted, until no call is open. Returns how many were granted.
local function pass_on()
  local fence, granted, open_calls = 0, 0, {}
  for _, c in ipairs(calls) do if not c.gone then open_calls[#open_calls + 1] = c end end
  release "T" "RELEASED"
  while #open_calls > 0 do
    local done = {}
    for i = #open_calls, 1, -1 do
      if open_calls[i].call.done() then done[#done + 1] = table.remove(open_calls, i) end
    end
    local holders = 0
    for _, c in ipairs(done) do
      local got = c.call()
      if got.response then
        got "ACQUIRED"
        holders, granted = holders + 1, granted + 1
        eq(holders, 1)
        fence = eq(fence_of(got), above(fence))
        use(clients[c.client]); release(c.token) "RELEASED"
      else
        eq(c.cancelled, true)
        eq(got.error.code, "CANCELLED")
      end
    end
    world.pause()
  end
  use(1); until_waiters(0)
  for _, kind in ipairs{"w", "q", "s"} do eq(redis("KEYS", "ls:{default/g}:lock:" .. kind .. "*"), {}) end
  return granted
end

function case.each_remaining_waiter_is_granted_once()
  local expected = 0
  for i = #calls, 1, -1 do
    local c = calls[i]
    if c.client <= CLIENTS // 3 and i % 3 == 0 then
      c.call.cancel()
      c.cancelled = true
    elseif c.client > CLIENTS // 3 and c.client <= 2 * CLIENTS // 3 then
      c.gone = true
    else
      expected = expected + 1
    end
  end
  for i = CLIENTS // 3 + 1, 2 * CLIENTS // 3 do clients[i]:close() end
  servers[2]:kill()
  eq(pass_on(), expected)
end

-- promise W14
function case.a_server_that_stops_sends_its_waiters_to_another()
  servers[2]:stop()
  until_waiters(CLIENTS * EACH)
  eq(pass_on(), CLIENTS * EACH)
end

-- The servers of a script where calls wait: S1 to S4 subscribe, and park calls. Nothing happens except by the script's
-- lines. `waits` is the answer of a waiting call; on_parked(call) runs for each.
--
--   woken "S1 T2"   timed_out "S1 T2"   abandoned "S1 T2"   the answer after the event of that token's last call

WAIT = 80000000
waits = "WAITS"
calls = {}

function servers_reset()
  calls = {}
  server_up "S1"
  server_up "S2"
end

-- Messages that a server misses are lost; its calls stay parked.
function server_up(server) harness.listen(server, true) end
function server_down(server) harness.listen(server, false) end

-- Starts a call; find uses key and token.
function park(server, key, token, method, request)
  local call = {server = server, key = key, token = token, method = method,
    number = harness.plan(server, method, request)}
  harness.begin(call.number)
  calls[#calls + 1] = call
  return said_of(call)
end

function is_waiting(call) return harness.is_parked(call.number) end

function said_of(call)
  if not is_waiting(call) then return answer(call.method, harness.answer(call.number)) end
  if on_parked then on_parked(call) end
  local queued = answer(call.method, nil, {code = "OK", applied = "", message = ""})
  queued.text = waits
  return queued
end

-- All waiting calls of a server and a token.
function waiting_of(server, token)
  local list = {}
  for _, call in ipairs(calls) do
    if call.server == server and call.token == token and is_waiting(call) then list[#list + 1] = call end
  end
  return list
end

-- The last waiting call of a server and a token, else the last call.
function find(server, token)
  local list = waiting_of(server, token)
  if #list > 0 then return list[#list] end
  for i = #calls, 1, -1 do
    if calls[i].server == server and calls[i].token == token then return calls[i] end
  end
  error(server .. " parks no call of " .. token, 2)
end

-- Wakes the calls of all messages, until there are none; returns their answers. read() returns the messages as
-- "<server>:<name>"; name_of(call) is the name in the call's messages.
function wake_all(read, name_of)
  local answers, list = {}, read()
  while #list > 0 do
    for _, message in ipairs(list) do
      for _, call in ipairs(calls) do
        if call.server .. ":" .. name_of(call) == message and is_waiting(call) then
          harness.event(call.number, "WOKEN")
          local said = said_of(call)
          if not is_waiting(call) then answers[#answers + 1] = call.server .. " " .. call.token .. " " .. tostring(said) end
        end
      end
    end
    list = read()
  end
  return table.concat(answers, ", ")
end

local function event(what)
  return word(function(_, server, token)
    local call = find(server, token)
    harness.event(call.number, what)
    return said_of(call)
  end)
end
woken, timed_out, abandoned = event "WOKEN", event "DEADLINE", event "ABANDONED"

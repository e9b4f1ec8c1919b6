-- Calls that wait for locks, and the messages to their servers. The clock is stopped: the script decides when an
-- offer expires.
--
--   wait "S1 T2 a b:S" "QUEUED"          an Acquire at S1 that may wait
--   release_at "S1 T1 a" "RELEASED"      a Release by way of S1
--   messages() "S1:W T2 S1:A a"          messages since the last call: look at T2, an alarm of a, R = granted to T2
--   deliver_grant "S1 T2" "ACQUIRED"     gives T2 the message of the last grant to it
--   deliver() "T2 T3"                    wakes the calls of all messages, until there are none; who was granted
--   ring_alarms()                        makes the calls of alarms that are due

require "lock"
require "servers"

waits = "QUEUED"
local alarms, grants -- by server and name: when; by server and token: fences

function setup()
  alarms, grants = {}, {}
  servers_reset()
  hold_clock()
end

local function now_ms()
  return (redis_number "GET ls:test:clock_still_us" + (redis_number "GET ls:test:clock_offset_us" or 0)) // 1000
end

-- The earliest of several counts.
local function set_alarm(server, name, in_ms)
  local id = server .. " " .. name
  alarms[id] = math.min(alarms[id] or math.huge, now_ms() + in_ms)
end

function on_parked(call)
  for _, a in ipairs(harness.alarms(call.number)) do set_alarm(call.server, a.argument, a.in_ms) end
end

-- The function that an alarm of a name calls: ms until again, -1: never.
function promote(name)
  local reply = fcall("lock_promote", "ls:{default/g}:", "1", name)
  return tonumber(reply:match("^OK\n(%-?%d+)\n$") or error("lock_promote: " .. reply))
end

function ring_alarms()
  while true do
    local due, now = {}, now_ms()
    for id, at in pairs(alarms) do
      if at <= now then due[#due + 1] = id end
    end
    if #due == 0 then return end
    table.sort(due) -- the same order in each run of a seed
    local server, name = due[1]:match("^(%S+) (.*)$")
    alarms[due[1]] = nil
    local in_ms = promote(name)
    if in_ms >= 0 then set_alarm(server, name, in_ms) end
  end
end

wait = word(function(more, server, token, ...)
  redis "INCR ls:test:clock_still_us" -- no two come at once
  return park(server, "", token, "Lock.Acquire", with(with(acquire_request(token, ...), {wait_ms = WAIT}), more))
end)

release_at = word(function(_, server, ...)
  harness.server(server)
  local said = release(table.concat({...}, " "))
  harness.server "harness"
  return said
end)

-- Does something with all calls of a token that a server parks; the last answer.
local function by_all(server, token, happens)
  local said
  for _, call in ipairs(waiting_of(server, token)) do
    happens(call.number)
    said = said_of(call)
  end
  return said or said_of(find(server, token))
end
woken = word(function(_, server, token)
  return by_all(server, token, function(number) harness.event(number, "WOKEN") end)
end)
deliver_grant = word(function(_, server, token)
  local grant = grants[server .. " " .. token] or error(server .. " was told of no grant to " .. token)
  return by_all(server, token, function(number) harness.grant(number, grant.fences, grant.to) end)
end)

-- {server, "W" | "A" | "R", token or name} of each message.
local function read_messages()
  local list = {}
  for i, message in ipairs(harness.messages()) do
    local server, text = table.unpack(message) -- "all": ForceRelease sends a message to every server
    local kind, what = text:sub(1, 1)
    if kind == "A" then
      local in_ms, name = text:match("^A (%-?%d+) ls:{default/g}: lock_promote (.*)$")
      what = name
      set_alarm(server, name, tonumber(in_ms))
    elseif kind == "R" then
      local fences, token, to = text:match("^R (%S+) ls:{default/g}:(%S+) ls:{default/g}: lock_abandon (%S+ S[^.]+%.[^.]+%.%d+)$")
      eq(to:match("%S+"), token)
      what = token:match("^[^.]*")
      grants[server .. " " .. what] = {fences = fences, to = to}
    else
      what = text:match("^W ls:{default/g}:([^.]*)") or server == "all" and text:match("^W ls:{default/forced}:(forced)$")
    end
    list[i] = {server, kind, what or error("no message of ours: " .. text)}
  end
  return list
end

function messages()
  local list = read_messages()
  for i, m in ipairs(list) do list[i] = m[1] .. ":" .. m[2] .. " " .. m[3] end
  return table.concat(list, " ")
end

function deliver()
  local got, list = {}, read_messages()
  while #list > 0 do
    for _, m in ipairs(list) do
      local server, kind, token = table.unpack(m)
      if kind ~= "A" and is_waiting(find(server, token)) then
        local said = (kind == "R" and deliver_grant or woken)(server .. " " .. token)
        if tostring(said):sub(1, 8) == "ACQUIRED" then got[#got + 1] = token end
      end
    end
    list = read_messages()
  end
  return table.concat(got, " ")
end

-- The waiters of a name, in order; the number of queue keys.
function queue(name)
  local list = {}
  for token in redis("ZRANGE", key("w:" .. name), "0", "-1"):gmatch("[^\n]+") do list[#list + 1] = token:match("^[^.]*") end
  return table.concat(list, " ")
end
function queue_keys() return #keys_like "ls:{default/g}:lock:[ws]:*" end
function holders_kept(name) return redis_number("HLEN", key("h:" .. name)) end

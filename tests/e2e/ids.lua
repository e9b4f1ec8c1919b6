-- Ids from four lockstockd on one Redis, while servers are killed and restarted, Redis is killed and restarted,
-- loses its data once, and its clock is set back and forth: none comes twice, and those of one life of a server
-- increase.
local SERVERS, COUNT, HOUR_US = 4, 10000, 3600000000
local clock, lives

function setup()
  clock, lives = world.clock(world.dir()), {0, 0, 0, 0}
  two_servers({append_only = true, env = clock:env()}, {"--id-sequence-block", "100"}, SERVERS)
end

local function restart(i)
  servers[i]:kill()
  lives[i] = lives[i] + 1
  servers[i]:restart()
end
local function restart_redis() store:kill(); store:restart() end

local MAY_PASS = {UNAVAILABLE = true, DEADLINE_EXCEEDED = true, RESOURCE_EXHAUSTED = true}
local function ask(i, kind, n, options)
  use(i)
  return start(Id.Next, {kind = kind, name = kind == "SEQUENCE" and "orders" or nil, count = n}, options)
end
-- The ids of an answer; none when the call failed as it may while servers are restarted.
local function ids_of(got)
  if got.response then return got.ids end
  if not MAY_PASS[got.error.code] then error(tostring(got)) end
  return {}
end

-- The events during the run, one after the other.
local function event(n)
  if n == 0 then -- Redis loses the workers' leases and a server notices: it must request a new worker
    redis "DEL ls:{meta}:id:workers"
    restart(1)
    until_(function() return #ids_of(ask(1, "SNOWFLAKE", 1)()) > 0 end)
  elseif n == 1 then restart(1); clock:move(-HOUR_US)
  elseif n == 2 then restart(2); restart(3)
  elseif n == 3 then restart_redis()
  elseif n == 4 then clock:move(HOUR_US); restart(4)
  elseif n == 5 then clock:move(-5000000); restart(1); restart(4); restart_redis()
  else
    restart(1 + n % SERVERS)
    clock:move(n % 2 == 1 and -2000000 or 2000000)
  end
end

-- promise D21: unique over 4 servers, kills of servers and of Redis, lost data, a clock set back
function case.ids_are_unique()
  local wanted, events, done, next_event = count(400000, 4000000), count(7, 40), 0, 0
  local seen, numbers, calls, last = {}, {}, {}, {}
  clock:move(HOUR_US) -- whether Redis goes by the clock that the script moves
  eq(tonumber(redis "TIME"[1]), above(world.now_us() // 1000000 + 1800))
  clock:move(-HOUR_US)
  while done < wanted do
    for i = 1, SERVERS do
      local c = calls[i]
      if not c then
        calls[i] = {life = lives[i], kind = "SNOWFLAKE", call = ask(i, "SNOWFLAKE", COUNT)}
      elseif c.call.done() then
        local ids, of = ids_of(c.call()), c.kind == "SNOWFLAKE" and seen or numbers
        local before = c.kind == "SNOWFLAKE" and last[i] and last[i].life == c.life and last[i].id or 0
        for _, id in ipairs(ids) do
          if of[id] then error(c.kind .. ": " .. id .. " came twice") end
          of[id] = true
          if c.kind == "SNOWFLAKE" then before = id > before and id or error(id .. " after " .. before) end
        end
        if c.kind == "SNOWFLAKE" and #ids > 0 then
          done = done + #ids
          last[i] = c.life == lives[i] and {life = c.life, id = before} or nil
          calls[i] = {life = lives[i], kind = "SEQUENCE", call = ask(i, "SEQUENCE", 10)}
        else
          calls[i] = nil
        end
      end
    end
    if next_event < events and done >= wanted * (next_event + 1) // (events + 2) then
      event(next_event)
      next_event = next_event + 1
    end
    world.pause()
  end
  eq(next_event, events)
end

-- The granted range lasts a second; then there are no ids until Redis is back.
function case.without_a_store_ids_end()
  local once, last = {no_retry = true}, nil
  until_(function() last = ids_of(ask(1, "SNOWFLAKE", 1)())[1]; return last end)
  store:kill()
  until_(function() return not ask(1, "SNOWFLAKE", 1, once)().response end)
  eq(last_error.code, "UNAVAILABLE")
  ask(1, "UUID_V7", 1, once) {}
  store:restart()
  eq(until_(function() return ids_of(ask(1, "SNOWFLAKE", 1)())[1] end), above(last))
end

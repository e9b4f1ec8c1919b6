-- The queue against its rule: after each random call, the first waiter that is compatible with the holders and with all
-- waiters before it, as if they held, is granted, and nobody else. The model has one list, no queue for a name, no offers.
-- promise L36
-- promise L30: waiting: FIFO, nobody overtakes a waiter that it would block; all modes; all names at once; no
--   starvation
-- promise L31: the next waiters are promoted on release, withdrawal, expiry and ForceRelease
-- promise L43
-- promise L57
-- promise L51: copies of one waiting Acquire: all are informed and get the grant, a lost copy removes only itself;
--   at most 16
require "lock_queue"

local NAMES, TOKENS, TICK, CAPACITY, CALLS = 4, 60, 20, 3, 150
local tokens, now, last_number

-- A token is UNSEEN, QUEUED, ABSENT, HELD or SPENT; its targets are what it holds or waits for.
local function start()
  now, last_number = 0, 0
  tokens = repeated(TOKENS, function(i)
    return {alias = "T" .. i - 1, life = "UNSEEN", copies = {S1 = 0, S2 = 0}, targets = {}, number = 0, text = ""}
  end)
end

-- Whether no holder and no waiter before t blocks it.
local function is_free_for(t)
  for _, w in ipairs(t.targets) do
    local permits = 0
    for _, o in ipairs(tokens) do
      if o ~= t and (o.life == "HELD" or o.life == "QUEUED" and o.number < t.number) then
        for _, x in ipairs(o.targets) do
          if x.name == w.name and (o.life ~= "HELD" or x.held) then
            if x.mode ~= w.mode or w.mode == "E" then return false end
            permits = permits + x.permits
          end
        end
      end
    end
    if w.mode == "P" and permits + w.permits > CAPACITY then return false end
  end
  return true
end

local function take(t)
  t.life, t.copies, t.ends = "HELD", {S1 = 0, S2 = 0}, now + t.lease
  for _, w in ipairs(t.targets) do w.held = true end
end

local function holds_all(t)
  for _, w in ipairs(t.targets) do
    if not w.held then return false end
  end
  return true
end

local function settle()
  for _, t in ipairs(tokens) do
    if t.life == "HELD" and t.ends <= now then t.life = "SPENT" end
  end
  local again
  repeat
    again = false
    for _, t in ipairs(tokens) do
      if t.life == "QUEUED" and is_free_for(t) then
        take(t)
        again = true
      end
    end
  until not again
end

local function target_of(t, name)
  for _, w in ipairs(t.targets) do
    if w.name == name then return w end
  end
end

local function compare()
  for name = 0, NAMES - 1 do
    local standing, holding, found = {}, {}, {}
    for _, t in ipairs(tokens) do
      local w = target_of(t, name)
      if w and t.life == "QUEUED" then standing[#standing + 1] = t end
      if w and t.life == "HELD" and w.held then holding[#holding + 1] = t.alias end
    end
    table.sort(standing, function(a, b) return a.number < b.number end)
    for i, t in ipairs(standing) do standing[i] = t.alias end
    queue("n" .. name)(table.concat(standing, " "))
    for i, holder in ipairs(inspect("n" .. name).holders) do found[i] = holder.owner end
    table.sort(found); table.sort(holding); eq(table.concat(found, " "), table.concat(holding, " "))
  end
end

local function choose_targets(t)
  local first, words = pick(NAMES), {}
  t.targets = repeated(pick(2) == 1 and 1 or 1 + pick(3), function(i)
    local mode = pick_from{"E", "E", "S", "S", "P"}
    return {name = (first + i) % NAMES, mode = mode, permits = mode == "P" and 1 + pick(CAPACITY) or 1}
  end)
  for i, w in ipairs(t.targets) do
    words[i] = "n" .. w.name .. ({E = "", S = ":S", P = ":P" .. w.permits .. "/" .. CAPACITY})[w.mode]
  end
  t.text, t.lease = table.concat(words, " "), TICK // 2 + TICK * pick(4)
  last_number = last_number + 1
  t.number = last_number
end

local function wait_as(server, t)
  return wait(server .. " " .. t.alias .. " " .. t.text, {lease_ms = t.lease * 1000})
end
local function any_token() return pick_from(tokens) end
local function parking_server() return pick_from{"S1", "S2"} end
local function any_server() return pick_from{"S1", "S2", "S3"} end -- S3 parks none

local function do_acquire()
  local t, waits_for_it, server = any_token(), pick(4) > 0, parking_server()
  if t.life == "UNSEEN" then choose_targets(t) end
  if t.life == "ABSENT" and not waits_for_it then return end
  local free = is_free_for(t)
  local said = waits_for_it and wait_as(server, t) or acquire(t.alias .. " " .. t.text, {lease_ms = t.lease * 1000})
  if t.life == "SPENT" then
    said "TOKEN_SPENT"
  elseif t.life == "HELD" then
    said(holds_all(t) and "ACQUIRED again" or "TOKEN_SPENT")
  elseif free then
    said "ACQUIRED"; take(t)
  elseif waits_for_it then
    said "QUEUED"
    t.life = "QUEUED"
    t.copies[server] = t.copies[server] + 1
  else
    said "BUSY n..."
  end
end

local function do_release()
  local t = any_token()
  if t.life == "UNSEEN" then return end
  local one = t.life == "HELD" and #t.targets > 1 and pick(3) == 0 and pick_from(t.targets)
  local held = t.life == "HELD"
  if held and one then held = one.held elseif held then held = holds_all(t) end
  local said = release_at(any_server() .. " " .. t.alias .. (one and " n" .. one.name or ""))
  if held then
    said "RELEASED..."
  elseif t.life ~= "HELD" and t.life ~= "SPENT" then
    said "NOT_HELD"
  end
  if one then one.held = false else t.life = "SPENT" end
end

-- A server that parks a copy of a queued token.
local function server_of(t) return (t.copies.S1 == 0 or t.copies.S2 > 0 and pick(2) == 1) and "S2" or "S1" end

local function do_time_out()
  local t = any_token()
  if t.life ~= "QUEUED" then return end
  timed_out(server_of(t) .. " " .. t.alias) "TIMED_OUT n..."
  t.life = "SPENT"
end

-- It is queued as long as any copy is parked.
local function do_abandon()
  local t = any_token()
  if t.life ~= "QUEUED" then return end
  local server = server_of(t)
  abandoned(server .. " " .. t.alias) "CANCELLED..."
  t.copies[server] = t.copies[server] - 1
  if t.copies.S1 + t.copies.S2 == 0 then t.life = "ABSENT" end
end

-- A server loses its subscription for a moment: it checks all its parked calls.
local function do_interrupt()
  local server = parking_server()
  server_down(server); server_up(server)
  for _, t in ipairs(tokens) do
    if t.life == "QUEUED" and t.copies[server] > 0 then woken(server .. " " .. t.alias) "QUEUED" end
  end
end

-- A token that has lost one name of several still holds the others.
local function do_force_release()
  local name = pick(NAMES)
  force_release("n" .. name)
  for _, t in ipairs(tokens) do
    local w = t.life == "HELD" and target_of(t, name)
    if w then w.held = false end
  end
end

local function do_tick()
  now = now + TICK
  pass(TICK); ring_alarms()
end

function case.only_the_next_in_order_is_granted()
  rounds(40, 3000, function()
    start()
    for _ = 1, CALLS do
      choose{55, do_acquire, 20, do_release, 6, do_time_out, 6, do_abandon, 3, do_interrupt, 3, do_force_release, 7, do_tick}
      deliver(); settle(); compare()
    end
    for _, t in ipairs(tokens) do
      release(t.alias)
      t.life = "SPENT"
    end
    deliver(); compare(); eq(queue_keys(), 0)
  end)
end

-- ---- when servers fail ----

-- The real holders and waiters; no two holders exclude each other.
local function look_at_holders()
  for _, t in ipairs(tokens) do
    t.life = "UNSEEN"
    for _, w in ipairs(t.targets) do w.held = false end
  end
  for name = 0, NAMES - 1 do
    local permits, first = 0, nil
    for _, holder in ipairs(inspect("n" .. name).holders) do
      local t = tokens[tonumber(holder.owner:sub(2)) + 1]
      local w = target_of(t, name)
      t.life, w.held, permits = "HELD", true, permits + w.permits
      if first and (first.mode ~= w.mode or w.mode == "E") then
        error(("n%d is held by %s against another"):format(name, t.alias))
      end
      first = w
    end
    if first and first.mode == "P" then eq(permits, within(1, CAPACITY)) end
  end
end

-- A waiter that got no message, or too late, or whose server was away.
local function chaos_call()
  local t, server = any_token(), parking_server()
  local function come()
    t.server = server
    wait_as(server, t)
  end
  if #t.targets == 0 then
    choose_targets(t)
    return come()
  end
  choose{20, come, 25, function() release_at(any_server() .. " " .. t.alias) end,
    5, function() timed_out(t.server .. " " .. t.alias) end, 5, function() abandoned(t.server .. " " .. t.alias) end,
    5, function() server_down(server) end, 10, function() server_up(server) end, 10, deliver,
    5, messages, -- and no server acts on them
    10, function() pass(3) promote("n" .. pick(NAMES)) end, 5, function() pass(TICK) end}
end

-- Wakes all calls of a token; whether one still waits.
local function look_at_calls(t)
  local waits_on = false
  for _, server in ipairs{"S1", "S2"} do
    if #waiting_of(server, t.alias) > 0 and tostring(woken(server .. " " .. t.alias)) == "QUEUED" then waits_on = true end
  end
  return waits_on
end

-- The work of live servers: they check all parked calls, and the lease ends that they know.
local function heal()
  server_up "S1"; server_up "S2"; pass(3)
  for _, t in ipairs(tokens) do look_at_calls(t) end
  for name = 0, NAMES - 1 do
    while promote("n" .. name) == 0 do end
  end
  deliver()
end

function case.after_failures_no_waiter_is_stuck_and_holders_are_exclusive()
  rounds(60, 3000, function()
    start()
    for i = 1, CALLS do
      chaos_call()
      if i % 10 == 0 then look_at_holders() end
    end
    heal(); look_at_holders()
    for _, t in ipairs(tokens) do
      if look_at_calls(t) then t.life = "QUEUED" end
    end
    for _, t in ipairs(tokens) do
      if t.life == "QUEUED" and is_free_for(t) then error(t.alias .. " waits for " .. t.text .. ", which is free") end
    end
    for _, t in ipairs(tokens) do release(t.alias) end
    eq(queue_keys(), 0)
  end)
end

-- promise L56
function case.with_foreign_data_in_any_key_each_call_ends()
  rounds(30, 1500, function()
    start()
    for _ = 1, CALLS // 3 do chaos_call() end
    redis("SET", pick_from(keys_like "ls:{default/g}:lock:[hnsw]:*"), "foreign")
    for _ = 1, CALLS // 3 do
      local t = any_token()
      if #t.targets == 0 then choose_targets(t) end
      choose{3, function() wait_as(parking_server(), t) end, 3, function() release_at(any_server() .. " " .. t.alias) end,
        1, function() pass(TICK) end}
      for name = 0, NAMES - 1 do fcall("lock_promote", "ls:{default/g}:", "1", "n" .. name) end
    end
  end)
end

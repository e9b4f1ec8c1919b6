-- Random calls against a small model of the contract, which has no summaries, lazy removal or records: each answer, and
-- who holds what after it.
require "lock"

local NAMES, TOKENS, TICK = 4, 40, 8 -- so that no token is forgotten within a round
local names, tokens, now -- names[n] = {last_fence, holders in the order of their fences}; seconds

function setup() hold_clock() end

local function find(n, t)
  for i, held in ipairs(names[n]) do
    if held.token == t then return held, i end
  end
end
local function drop(n, t)
  local _, i = find(n, t)
  if i then table.remove(names[n], i) end
end

local function end_leases()
  for n = 0, NAMES - 1 do
    for i = #names[n], 1, -1 do
      if names[n][i].ends <= now then table.remove(names[n], i) end
    end
  end
end

-- Whether the holders of a name block the target, and whether because of another capacity.
local function bars(holders, wanted)
  local first, used = holders[1], 0
  if not first then return false end
  if wanted.mode == "E" or first.mode ~= wanted.mode then return true end
  if wanted.mode == "S" then return false end
  for _, held in ipairs(holders) do used = used + held.permits end
  local other = first.capacity ~= wanted.capacity
  return other or used + wanted.permits > wanted.capacity, other
end

local function text_of(targets)
  local words = {}
  for i, t in ipairs(targets) do
    words[i] = "n" .. t.name .. ({E = "", S = ":S", P = ":P" .. t.permits .. "/" .. t.capacity})[t.mode]
  end
  return table.concat(words, " ")
end

local function random_targets()
  local first = pick(NAMES)
  return repeated(1 + (pick(3) == 0 and pick(3) or 0), function(i)
    local mode = pick_from{"E", "S", "S", "P", "P", "P"}
    return {name = (first + i) % NAMES, mode = mode, permits = mode == "P" and 1 + pick(2) or 1,
      capacity = mode == "P" and (pick(8) == 0 and 4 or 3) or 0}
  end)
end

local function holds_all(t)
  for _, target_of in ipairs(tokens[t].targets) do
    if target_of.released or not find(target_of.name, t) then return false end
  end
  return #tokens[t].targets > 0
end

local function acquire_new(t, targets, lease, said)
  local busy, refused
  for i, wanted in ipairs(targets) do
    local barred, other = bars(names[wanted.name], wanted)
    refused = refused or other and i
    busy = busy or barred and i
  end
  if refused then
    said(("FAILED_PRECONDITION NO targets[%d].capacity:..."):format(refused - 1))
  elseif busy then
    said("BUSY n" .. targets[busy].name .. " held by T...")
    local theirs = find(targets[busy].name, tonumber(said.holder.owner:sub(2)))
    said{holder = {lease_ms = (theirs.ends - now) * 1000}}
  else
    said "ACQUIRED"
    tokens[t] = {seen = true, targets = targets}
    for i, wanted in ipairs(targets) do
      local name, given = names[wanted.name], said.fences[i].fence
      name.last_fence = eq(given, above(name.last_fence))
      name[#name + 1] = {token = t, ends = now + lease, permits = wanted.permits, fence = given, mode = wanted.mode,
        capacity = wanted.capacity}
    end
  end
end

local function do_acquire()
  local t = pick(TOKENS)
  local token = tokens[t]
  local lease = TICK // 2 + TICK * pick(4)
  local targets = #token.targets > 0 and pick(2) == 0 and token.targets or random_targets()
  local said = acquire("T" .. t .. " " .. text_of(targets), {lease_ms = lease * 1000})
  if not token.seen then
    acquire_new(t, targets, lease, said)
  elseif not holds_all(t) then
    said "TOKEN_SPENT"
  elseif text_of(targets) ~= text_of(token.targets) then
    said "ALREADY_EXISTS NO token: used for other targets"
  else
    said "ACQUIRED again"
    for i, target_of in ipairs(targets) do eq(said.fences[i].fence, find(target_of.name, t).fence) end
  end
end

-- Some names, or none for all of the token.
local function random_names(t)
  local first = #tokens[t].targets > 0 and pick(4) > 0 and tokens[t].targets[1].name or pick(NAMES)
  return repeated(pick(3) == 0 and 0 or 1 + pick(2), function(i) return (first + i - 1) % NAMES end)
end
local function called(t, chosen)
  local text = "T" .. t
  for _, n in ipairs(chosen) do text = text .. " n" .. n end
  return text
end

local function do_renew()
  local t = pick(TOKENS)
  local chosen, lease, soonest = random_names(t), TICK // 2 + TICK * pick(4), math.huge
  local said = renew(called(t, chosen), {lease_ms = lease * 1000})
  if #chosen == 0 then
    for _, target_of in ipairs(tokens[t].targets) do
      if not target_of.released then chosen[#chosen + 1] = target_of.name end
    end
  end
  local lost = #chosen == 0
  for _, n in ipairs(chosen) do lost = lost or not find(n, t) end
  if lost then
    said "LOST"
    return
  end
  for _, n in ipairs(chosen) do
    local held = find(n, t)
    held.ends = math.max(held.ends, now + lease)
    soonest = math.min(soonest, held.ends)
  end
  said "RENEWED" {results = {{lease_ms = (soonest - now) * 1000}}}
end

local function do_release()
  local t = pick(TOKENS)
  local token, chosen, released, at_once = tokens[t], random_names(t), 0, false
  local said = tostring(release(called(t, chosen)))
  if #chosen == 0 then
    for i, target_of in ipairs(token.targets) do chosen[i] = target_of.name end
  end
  for _, n in ipairs(chosen) do
    for _, target_of in ipairs(token.targets) do
      if target_of.name == n then
        if not target_of.released and find(n, t) then
          drop(n, t)
          target_of.released, at_once = true, true
        end
        if target_of.released then released = released + 1 end
      end
    end
  end
  said(#chosen > 0 and released == #chosen and "RELEASED..." or "NOT_HELD...")
  eq(said:find("again", 1, true) ~= nil, released > 0 and not at_once)
  eq(said:find("=", 1, true) ~= nil, released > 0 and released < #chosen)
  if not token.seen then tokens[t] = {seen = true, targets = {}} end
end

local function do_force_release()
  local n, owners = pick(NAMES), {}
  for i, held in ipairs(names[n]) do owners[i] = "T" .. held.token end
  force_release("n" .. n)(table.concat(owners, " "))
  names[n] = {last_fence = names[n].last_fence}
end

local function compare(n)
  local holders = {}
  for i, held in ipairs(names[n]) do
    holders[i] = {owner = "T" .. held.token, fence = held.fence, permits = held.permits,
      lease_ms = (held.ends - now) * 1000}
  end
  inspect("n" .. n) {holders = holders, last_fence = names[n].last_fence}
end

-- promise L18: only the token renews and releases
-- promise L6: TOKEN_SPENT: released, in part, lost, or released by force
-- promise L3: all or nothing
-- promise L4
-- promise L5: ... for other targets ALREADY_EXISTS
-- promise L9
-- promise L10
-- promise L11: EXCLUSIVE, SHARED, PERMIT beside each other
-- promise L12: permits of a capacity, 0 = 1, exact to 2^53-1
-- promise L13: capacity fixed while anyone holds: FAILED_PRECONDITION
-- promise L15: Renew moves the end, never shortens
-- promise L16: LOST: one name lost and none is renewed
-- promise L19: Release: RELEASED, replayed when repeated; NOT_HELD a name
-- promise L20
-- promise L23
-- promise L25
function case.locks_match_the_model()
  rounds(200, 5000, function()
    names, tokens, now = {}, {}, 0
    for n = 0, NAMES - 1 do names[n] = {last_fence = 0} end
    for t = 0, TOKENS - 1 do tokens[t] = {targets = {}} end
    for i = 1, 300 do
      choose{40, do_acquire, 20, do_renew, 20, do_release, 3, do_force_release,
        9, function() now = now + TICK pass(TICK) end, 8, function() compare(pick(NAMES)) end}
      end_leases()
      if i % 50 == 0 then harness.forget() end
    end
    for n = 0, NAMES - 1 do compare(n) end
  end)
end

-- Random Enters, Renews and Leaves with random parts and a driven clock, against a model: each answer, and after each
-- call what every part has become. So whatever a call takes without the rest of it shows at once.
require "guard"

local LIMIT, STOCK, TICK = 40, 30, 1000
local now, records, locks, orders, tokens, available, charged, n

local function attempt(k)
  local r = records[k]
  return r and r.state == "IN_PROGRESS" and r.ends > now and r
end
local function holder(l) return locks[l] and locks[l].ends > now and locks[l] end
local function expire()
  for _, o in pairs(orders) do
    if o.state == "RESERVED" and o.ends <= now then o.state, available = "EXPIRED", available + o.units end
  end
end

-- The answer and the effects of an Enter. Its token and its order are new.
local function model_enter(c)
  local r = c.k and records[c.k]
  if r and r.state == "COMPLETED" then return "REPLAY " .. r.attempt .. " 200 " .. r.body end
  if c.k and attempt(c.k) then return "IN_PROGRESS " .. r.attempt end
  if c.limited and charged + c.cost > LIMIT then return "LIMITED" end
  if c.order and c.units > available then return "OUT_OF_STOCK SOLD_OUT a:" .. available end
  if c.l and holder(c.l) then return "BUSY " .. c.l .. " held by " .. holder(c.l).token end
  local said = "ENTERED"
  if c.k then
    records[c.k] = {state = "IN_PROGRESS", token = c.token, ends = now + c.lease, attempt = r and r.attempt + 1 or 1}
    said = said .. " " .. records[c.k].attempt
  end
  if c.limited then charged = charged + c.cost end
  if c.order then
    available = available - c.units
    orders[c.order] = {state = c.hold and "RESERVED" or "CONFIRMED", units = c.units, ends = c.hold and now + c.hold}
    said = said .. " a:" .. available
  end
  if c.l then locks[c.l] = {token = c.token, ends = now + c.lease} end
  tokens[#tokens + 1] = c
  return said
end

local function parts(c)
  local text = c.token
  if c.k then text = text .. " once=" .. c.k end
  if c.order then text = text .. " order=" .. c.order .. (c.hold and " hold=" .. c.hold * 1000 or "") end
  return c.l and text .. " lock=" .. c.l or text
end

local function do_enter()
  n = n + 1
  local c = {token = "T" .. n, k = pick(2) > 0 and "k" .. pick(4), l = pick(2) > 0 and "l" .. pick(3), limited = pick(3) == 0,
    cost = 1 + pick(3), units = 1 + pick(4), lease = TICK * (1 + pick(5))}
  if pick(3) > 0 then c.order, c.hold = "o" .. n, pick(2) > 0 and TICK * (1 + pick(5)) end
  if not (c.k or c.l or c.order or c.limited) then return end
  local request = enter_request(table.unpack(split(parts(c))))
  request.lease_ms = c.lease * 1000
  if c.order then request.stock.lines = {{sku = "a", quantity = c.units}} end
  if c.limited then
    request.limits = {cost = c.cost, rules = {{key = "bob", limit = {algorithm = "TOKEN_BUCKET", limit = LIMIT, period_ms = 31000000000}}}}
  end
  Guard.Enter(request)(model_enter(c))
end

local function ours(c)
  local r = c.k and records[c.k]
  return not c.k or r and r.token == c.token and r.state == "IN_PROGRESS"
end
local function held(c) return c.l and holder(c.l) and holder(c.l).token == c.token end

local function do_renew()
  if #tokens == 0 then return end
  local c, lease = pick_from(tokens), TICK * (1 + pick(5))
  if not (c.k or c.l or c.hold) then return end
  local o, said = c.hold and orders[c.order], "RENEWED"
  if not ours(c) then said = "ATTEMPT_LOST"
  elseif o and o.state ~= "RESERVED" then said = "HOLD_ENDED"
  elseif c.l and not held(c) then said = "LOCK_LOST" end
  renew_guard(parts(c), {lease_ms = lease * 1000})(said)
  local rest_is_renewed = said == "LOCK_LOST" and harness.has_two_stores -- the locks are asked last there
  if said ~= "RENEWED" and not rest_is_renewed then return end
  if c.k then records[c.k].ends = math.max(records[c.k].ends, now + lease) end
  if held(c) then locks[c.l].ends = math.max(locks[c.l].ends, now + lease) end
  if o then o.ends = now + c.hold end
end

local function do_leave()
  if #tokens == 0 then return end
  local c, completes = pick_from(tokens), pick(2) == 0
  if not (c.k or c.l or c.hold) then return end
  local o, mine = c.hold and orders[c.order], ours(c)
  if completes and mine and o and o.state ~= "RESERVED" and o.state ~= "CONFIRMED" then
    complete(parts(c)) {outcome = "HOLD_ENDED", stock = o.state}
    return
  end
  for i, one in ipairs(tokens) do
    if one == c then table.remove(tokens, i) end
  end
  local said = (completes and complete or retry)(parts(c) .. " done") {outcome = mine and "LEFT" or "SUPERSEDED"}
  if c.l then said{locks = held(c) and "RELEASED" or "NOT_HELD"} end
  if held(c) then locks[c.l] = nil end
  if not mine then return end
  if c.k then
    local r = records[c.k]
    r.state, r.body = completes and "COMPLETED" or "FAILED_RETRYABLE", "done"
  end
  if o and completes then o.state = "CONFIRMED" end
  if o and o.state == "RESERVED" then o.state, available = "EXPIRED", available + o.units end
end

local function check_all()
  for i = 0, 3 do
    local r = records["k" .. i]
    record("k" .. i)(r and r.state .. " " .. r.attempt or "NONE")
  end
  for i = 0, 2 do
    local h = holder("l" .. i)
    inspect("l" .. i)(h and "EXCLUSIVE " .. h.token or "FREE")
  end
  stock "a" {item = {available = available}}
end

-- promise GS1
-- promise GS9
function case.random_calls()
  rounds(3, 40, function()
    now, records, locks, orders, tokens, available, charged, n = 0, {}, {}, {}, {}, STOCK, 0, 0
    put("a " .. STOCK)
    for step = 1, 300 do
      choose{55, do_enter, 12, do_renew, 30, do_leave, 8, function()
        local by = TICK // 2 + TICK * pick(3)
        now = now + by
        pass(by + 0.002) -- leases in the lock store are 1 ms longer
      end}
      expire()
      if step % 10 == 0 then check_all() end
    end
  end)
end

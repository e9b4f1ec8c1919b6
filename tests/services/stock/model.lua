-- Random requests against a model that was written from docs/stock.md: every answer; and after each request the items,
-- and the sum of the ledger.
require "stock"

-- Holds last, and the clock moves, so long that the time of the run does not matter.
local UNIT, RUN = 10000000, 3600000
local NAMES, BUYERS, ORDERS, ADJUSTMENTS, RETURNS = {"a", "b:b", "c"}, {"", "bob", "eve"}, 40, 20, 30

-- The third group is in buckets. Its lines are of one bucket, so only those of SOLD_OUT are compared; the order of two
-- entries of one millisecond in different buckets is unknown.
local GROUPS = {"g", "h{}:/", "s{}:/"}
local ENCODED = {"g", "h%7B%7D%3A%2F", "s%7B%7D%3A%2F"}
local SPLIT = 3

local groups, now

local function sku() return pick_from(NAMES) end
local function in_group(g, request) return with(request, {group = GROUPS[g]}) end

-- ---- the model: the state of a group ----

local function new_group()
  local m = {items = {}, orders = {}, adjustments = {}, returns = {}, lives = 0, read = "", sums = {}}
  for _, name in ipairs(NAMES) do m.items[name], m.sums[name] = {held = {}}, {0, 0, 0} end
  for i = 1, ORDERS do m.orders[i] = {how = "NONE", lines = {}, buyer = ""} end
  return m
end
local function next_life(m)
  m.lives = m.lives + 1
  return m.lives
end

-- The change of available, reserved, sold and the buyer's count by one unit.
local SELL, HOLD, CONFIRM = {-1, 0, 1, 1}, {-1, 1, 0, 1}, {0, -1, 1, 0}
local GIVE_BACK, TAKE_BACK = {1, -1, 0, -1}, {1, 0, -1, -1}

local function apply(m, o, line, quantity, by)
  local item = m.items[line.sku]
  if not item.exists or item.life ~= line.life then return end
  item.available = item.available + by[1] * quantity
  item.reserved = item.reserved + by[2] * quantity
  item.sold = item.sold + by[3] * quantity
  if item.limit > 0 and item.count == line.count then
    item.held[o.buyer] = (item.held[o.buyer] or 0) + by[4] * quantity
  end
  item.touched = true
end
local function apply_all(m, o, by)
  for _, line in ipairs(o.lines) do apply(m, o, line, line.quantity, by) end
end

local function text_of(o, state, nothing_returned)
  local lines = {}
  for i, line in ipairs(o.lines) do
    lines[i] = {sku = line.sku, quantity = line.quantity, returned = nothing_returned and 0 or line.returned}
  end
  return order_text{state = state or o.state, buyer_id = o.buyer, lines = lines}
end

local function same_lines(a, b)
  local matches = 0
  for _, x in ipairs(a) do
    for _, y in ipairs(b) do
      if x.sku == y.sku and x.quantity == y.quantity then matches = matches + 1 end
    end
  end
  return #a == #b and matches == #a
end

local function refusal_of(item, buyer, quantity)
  if not item.exists then return "UNKNOWN_SKU" end
  if item.window ~= "OPEN" then return item.window end
  if item.limit > 0 and (item.held[buyer] or 0) + quantity > item.limit then return "BUYER_LIMIT" end
  return item.available < quantity and "SOLD_OUT" or nil
end

-- Why a new order is refused, with the lines of the answer.
local function refusal(m, asked)
  for _, gravest in ipairs{"UNKNOWN_SKU", "NOT_OPEN", "CLOSED", "BUYER_LIMIT", "SOLD_OUT"} do
    local told = ""
    for _, line in ipairs(asked.lines) do
      local item = m.items[line.sku]
      if refusal_of(item, asked.buyer, line.quantity) == gravest then
        told = told .. " " .. line.sku .. ":" .. (item.exists and item.available or 0)
      end
    end
    if told ~= "" then return gravest, told end
  end
end

local function first_lines(o)
  local told = ""
  for _, line in ipairs(o.lines) do told = told .. " " .. line.sku .. ":" .. line.left end
  return told
end

local function make_order(m, id, asked)
  for _, line in ipairs(asked.lines) do
    local item = m.items[line.sku]
    line.life, line.count, line.returned = item.life, item.count, 0
    apply(m, asked, line, line.quantity, asked.how == "DEDUCT" and SELL or HOLD)
    line.left = item.available
  end
  asked.state = asked.how == "DEDUCT" and "CONFIRMED" or "RESERVED"
  m.orders[id] = asked
end

-- Why an expired order cannot get its stock again.
local function barred(m, o)
  local outcome
  for _, line in ipairs(o.lines) do
    local item = m.items[line.sku]
    if item.exists and item.limit > 0 and (o.buyer == "" or (item.held[o.buyer] or 0) + line.quantity > item.limit) then
      return "EXPIRED"
    end
    if not item.exists or item.available < line.quantity then outcome = "SOLD_OUT" end
  end
  return outcome
end

local function model_confirm(m, o, take_again)
  if o.how == "NONE" then return "UNKNOWN_ORDER none" end
  if o.state == "CANCELLED" then return "CANCELLED " .. text_of(o) end
  local again = o.state == "CONFIRMED" or o.state == "RETURNED"
  if o.state == "EXPIRED" then
    local outcome = not take_again and "EXPIRED" or barred(m, o)
    if outcome then return outcome .. " " .. text_of(o) end
    for _, line in ipairs(o.lines) do line.life, line.count = m.items[line.sku].life, m.items[line.sku].count end
    apply_all(m, o, SELL)
  elseif o.state == "RESERVED" then
    apply_all(m, o, CONFIRM)
  end
  if not again then o.state = "CONFIRMED" end
  return (again and "CONFIRMED again " or "CONFIRMED ") .. text_of(o, "CONFIRMED", true)
end

local function model_cancel(m, id)
  local o = m.orders[id]
  if o.how == "NONE" or o.how == "CANCELLED_FIRST" then
    m.orders[id] = {how = "CANCELLED_FIRST", state = "CANCELLED", lines = {}, buyer = ""}
    return (o.how == "NONE" and "UNKNOWN_ORDER" or "UNKNOWN_ORDER again") .. " none"
  end
  if o.state == "CONFIRMED" or o.state == "RETURNED" then return "ALREADY_CONFIRMED " .. text_of(o) end
  local again = o.state == "CANCELLED"
  if o.state == "RESERVED" then apply_all(m, o, GIVE_BACK) end
  o.state = "CANCELLED"
  return (again and "CANCELLED again " or "CANCELLED ") .. text_of(o)
end

local function model_take_back(m, o, lines)
  if o.how == "NONE" then return "UNKNOWN_ORDER none" end
  local back, sum, known, too_many = {}, 0, 0, o.state ~= "CONFIRMED"
  for i, line in ipairs(o.lines) do
    local left = line.quantity - line.returned
    back[i] = #lines == 0 and left or 0
    for _, asked in ipairs(lines) do
      if asked.sku == line.sku then
        back[i], known = asked.quantity, known + 1
        too_many = too_many or asked.quantity > left
      end
    end
    sum = sum + back[i]
  end
  if too_many or sum == 0 or known < #lines then return "TOO_MANY " .. text_of(o) end
  local whole = true
  for i, line in ipairs(o.lines) do
    if back[i] > 0 then apply(m, o, line, back[i], TAKE_BACK) end
    line.returned = line.returned + back[i]
    whole = whole and line.returned == line.quantity
  end
  if whole then o.state = "RETURNED" end
  return "RETURNED", text_of(o)
end

-- ---- the ledger ----

local function read_on(g)
  local m = groups[g]
  for _, e in ipairs(Stock.ReadLedger(in_group(g, {after = m.read, limit = 1000})) {outcome = "OK"}.entries) do
    local sums = m.sums[e.sku]
    if e.kind == "DELETED" and g == SPLIT then
      sums[1] = sums[1] - e.quantity
    elseif e.kind == "DELETED" then
      eq({e.quantity, 0}, {sums[1], sums[2]})
      m.sums[e.sku] = {0, 0, 0}
    else
      for i = 1, 3 do sums[i] = sums[i] + BY_KIND[e.kind][i] * e.quantity end
    end
    if e.kind == "EXPIRED" then m.orders[tonumber(e.order_id:sub(2))].in_ledger = true end
    m.read = e.id
  end
end

-- Units of expired holds that no writer has given back yet.
local function not_in_ledger(m, name)
  local sum = 0
  for _, o in ipairs(m.orders) do
    if o.state == "EXPIRED" and not o.in_ledger then
      for _, line in ipairs(o.lines) do sum = sum + (line.sku == name and line.quantity or 0) end
    end
  end
  return sum
end

-- ---- after each request ----

local function check_item(g, name)
  local m = groups[g]
  local item, sums = m.items[name], m.sums[name]
  local got = Stock.GetItem(in_group(g, {sku = name}))
  if not item.exists then
    got "NOT_FOUND NO sku:..."
    return
  end
  got(("%d %d %d"):format(item.available, item.reserved, item.sold))
  local version, over = got.item.version, not_in_ledger(m, name)
  local moved = g == SPLIT and version > item.version -- a refusal may have moved units
  if item.touched then eq(version, above(item.version)) elseif not moved then eq(version, item.version) end
  item.version, item.touched = version, false
  eq({sums[1] + over, sums[2] - over, sums[3]}, {item.available, item.reserved, item.sold})
end
local function check_group(g)
  read_on(g)
  for _, name in ipairs(NAMES) do check_item(g, name) end
end

-- ---- items ----

local function step_put(g)
  local m, name = groups[g], sku()
  local item, on_hand, limit = m.items[name], pick(25), pick(3) == 0 and 1 + pick(4) or 0
  local window = pick(6) == 0 and pick_from{"NOT_OPEN", "CLOSED"} or "OPEN"
  local done = Stock.PutItem(in_group(g, {sku = name, on_hand = on_hand, per_buyer_limit = limit,
    buckets = g == SPLIT and N or 0, opens_in_ms = window == "NOT_OPEN" and 1000000000000 or 0,
    closes_in_ms = window == "CLOSED" and 1 or 0}))
  if window == "CLOSED" then ms(1) end
  if item.exists and on_hand < item.reserved + item.sold then
    done "FAILED_PRECONDITION NO on_hand:..."
    return
  end
  done{item = any}
  if not item.exists then
    item = {exists = true, life = next_life(m), version = item.version or 0, reserved = 0, sold = 0, limit = 0, held = {}}
    m.items[name] = item
  end
  if limit == 0 or item.limit == 0 then item.held, item.count = {}, next_life(m) end
  item.available, item.limit, item.window, item.touched = on_hand - item.reserved - item.sold, limit, window, true
end

local function step_delete(g)
  local m, name = groups[g], sku()
  local item = m.items[name]
  local done = Stock.DeleteItem(in_group(g, {sku = name}))
  if not item.exists then
    done "NOT_FOUND NO sku:..."
  elseif item.reserved > 0 then
    done "FAILED_PRECONDITION NO sku:..."
  else
    done "OK"
    item.exists = false
    if g == SPLIT then
      read_on(g); eq({m.sums[name][1], m.sums[name][2]}, {0, 0})
      m.sums[name] = {0, 0, 0}
    end
  end
end

local function step_adjust(g)
  local m, a = groups[g], pick(ADJUSTMENTS)
  local first, asked = m.adjustments[a], {sku = sku(), delta = (pick(2) == 0 and -1 or 1) * (1 + pick(8))}
  if first and pick(2) == 0 then asked = first end
  local item = m.items[asked.sku]
  local got = Stock.Adjust(in_group(g, {sku = asked.sku, delta = asked.delta, adjustment_id = "a" .. a}))
  if first and first.sku == asked.sku and first.delta == asked.delta then
    got(g == SPLIT and {replayed = true} or first.told .. " again")
  elseif first then
    got "ALREADY_EXISTS NO adjustment_id:..."
  elseif not item.exists then
    got "NOT_FOUND NO sku:..."
  elseif item.available + asked.delta < 0 then
    got "FAILED_PRECONDITION NO delta:..."
  else
    got{replayed = false}
    item.available, item.touched = item.available + asked.delta, true
    m.adjustments[a] = {sku = asked.sku, delta = asked.delta,
      told = ("%d %d %d"):format(item.available, item.reserved, item.sold)}
  end
end

-- ---- orders ----

local function random_lines(most)
  local first = pick(#NAMES)
  return repeated(1 + pick(#NAMES), function(i) return {sku = NAMES[(first + i) % #NAMES + 1], quantity = 1 + pick(most)} end)
end
local function plain(lines)
  return repeated(#lines, function(i) return {sku = lines[i].sku, quantity = lines[i].quantity} end)
end
local function check_hold(hold_ms, o)
  eq(hold_ms, o.state == "RESERVED" and within(o.ends - now - RUN, o.ends - now) or 0)
end

local function needs_buyer(m, asked)
  for _, line in ipairs(asked.lines) do
    local item = m.items[line.sku]
    if item.exists and item.limit > 0 and asked.buyer == "" then return true end
  end
end

local function step_order(g)
  local m, id = groups[g], 1 + pick(ORDERS)
  local first, hold_ms = m.orders[id], (1 + pick(3)) * UNIT
  local asked = {how = pick(3) == 0 and "DEDUCT" or "RESERVE", buyer = pick_from(BUYERS), lines = random_lines(4),
    ends = now + hold_ms}
  if (first.how == "DEDUCT" or first.how == "RESERVE") and pick(2) == 0 then
    asked = {how = first.how, buyer = first.buyer, lines = plain(first.lines)}
  end
  local request = in_group(g, {order_id = "o" .. id, buyer_id = asked.buyer, lines = plain(asked.lines)})
  local got
  if asked.how == "DEDUCT" then got = Stock.Deduct(request) else got = Stock.Reserve(with(request, {hold_ms = hold_ms})) end
  if first.how == "CANCELLED_FIRST" then
    got(asked.how == "RESERVE" and "CANCELLED" or "FAILED_PRECONDITION NO order_id:...")
    return
  end
  if first.how ~= "NONE" and not (first.how == asked.how and first.buyer == asked.buyer
    and same_lines(first.lines, asked.lines)) then
    got "ALREADY_EXISTS NO order_id:..."
    return
  end
  if first.how == "NONE" and needs_buyer(m, asked) then
    got "INVALID_ARGUMENT NO buyer_id:..."
    return
  end
  local done, told = asked.how == "DEDUCT" and "DEDUCTED" or "RESERVED", nil
  if first.how ~= "NONE" then
    done, told = done .. " again", first_lines(first)
  else
    local refused, lines_told = refusal(m, asked)
    if refused then
      done, told = refused, lines_told
    else
      make_order(m, id, asked)
      told = first_lines(asked)
    end
  end
  got(g == SPLIT and done ~= "SOLD_OUT" and done:match("%S+") .. "..." or done .. told)
  if asked.how == "RESERVE" then check_hold(got.hold_ms, m.orders[id]) end
end

local function has_limit(m, o)
  for _, line in ipairs(o.lines) do
    if m.items[line.sku].exists and m.items[line.sku].limit > 0 then return true end
  end
end

local function step_confirm(g)
  local m, id = groups[g], 1 + pick(ORDERS)
  local take_again = pick(2) == 0 and not (g == SPLIT and has_limit(m, m.orders[id]))
  Stock.Confirm(in_group(g, {order_id = "o" .. id, reacquire_if_expired = take_again}))
    (model_confirm(m, m.orders[id], take_again))
end

local function step_cancel(g)
  local id = 1 + pick(ORDERS)
  Stock.Cancel(in_group(g, {order_id = "o" .. id}))(model_cancel(groups[g], id))
end

local function step_extend(g)
  local id, hold_ms = 1 + pick(ORDERS), (1 + pick(3)) * UNIT
  local o = groups[g].orders[id]
  if o.state == "RESERVED" then o.ends = now + hold_ms end
  local got = Stock.ExtendHold(in_group(g, {order_id = "o" .. id, hold_ms = hold_ms}))
  got(o.how == "NONE" and "UNKNOWN_ORDER" or ({RESERVED = "EXTENDED", RETURNED = "CONFIRMED"})[o.state] or o.state)
  check_hold(got.hold_ms, o)
end

local function step_return(g)
  local m, r, id, lines = groups[g], pick(RETURNS), 1 + pick(ORDERS), {}
  local first = m.returns[r]
  if pick(2) == 0 then lines = random_lines(2) end
  if first and g == SPLIT then id = first.order end -- in buckets a return_id is one of its order
  if first and pick(2) == 0 then id, lines = first.order, first.lines end
  local got = Stock.Return(in_group(g, {return_id = "r" .. r, order_id = "o" .. id, lines = plain(lines)}))
  if first and not (first.order == id and same_lines(first.lines, lines)) then
    got "ALREADY_EXISTS NO return_id:..."
  elseif first then
    got("RETURNED again " .. first.told)
  else
    local outcome, told = model_take_back(m, m.orders[id], lines)
    got(told and outcome .. " " .. told or outcome)
    if told then m.returns[r] = {order = id, lines = lines, told = told} end
  end
end

local function step_look(g)
  local id = 1 + pick(ORDERS)
  local o = groups[g].orders[id]
  local got = Stock.GetOrder(in_group(g, {order_id = "o" .. id}))
  if o.how == "NONE" then
    got "NOT_FOUND NO order_id:..."
  else
    got(text_of(o)); check_hold(got.order.hold_ms, o)
  end
end

-- ---- time ----

local function step_time()
  ms(UNIT)
  now = now + UNIT
  for g, m in ipairs(groups) do
    for _, o in ipairs(m.orders) do
      if o.state == "RESERVED" and o.ends <= now then
        apply_all(m, o, GIVE_BACK)
        o.state = "EXPIRED"
      end
    end
    check_group(g)
  end
end

local function step_lasting_alarm(g)
  local m, soonest = groups[g], nil
  if g == SPLIT then
    for k = 0, N do ring(("%s/%d/%d"):format(ENCODED[g], N, harness.bucket_name(k))) end
  end
  local in_ms = ring(ENCODED[g])
  for _, o in ipairs(m.orders) do
    if o.state == "RESERVED" then soonest = math.min(soonest or math.huge, o.ends) end
  end
  eq(in_ms, (not soonest or g == SPLIT) and -1 or within(soonest - now - RUN, soonest - now))
  read_on(g)
  for _, name in ipairs(NAMES) do eq(not_in_ledger(m, name), 0) end
end

-- All records end. In buckets an order counts towards a limit as long as it is remembered.
local function records_end()
  local split = groups[SPLIT]
  for name, item in pairs(split.items) do
    if item.exists and item.limit > 0 then
      Stock.PutItem(in_group(SPLIT, {sku = name, on_hand = item.available + item.reserved + item.sold})) {item = any}
      item.held, item.count, item.limit, item.window, item.touched = {}, next_life(split), 0, "OPEN", true
    end
  end
  for g, m in ipairs(groups) do
    step_lasting_alarm(g)
    for i, o in ipairs(m.orders) do
      if o.state ~= "RESERVED" then m.orders[i] = {how = "NONE", lines = {}, buyer = ""} end
    end
    m.adjustments, m.returns = {}, {}
  end
  eval("for _, k in ipairs(redis.call('KEYS', '*}:stock:[oat]:*')) do "
    .. "if redis.call('PTTL', k) > 0 then redis.call('DEL', k) end end")
end

-- promise S8: ... with other lines or another buyer ALREADY_EXISTS
-- promise S1
-- promise S2
-- promise S3
-- promise S5
-- promise S7
-- promise S11
-- promise S17
-- promise S22
-- promise SB6
-- promise S35: Reserve again: the first answer with the rest of the hold; CANCELLED after a Cancel
-- promise S36
-- promise S37
-- promise S38
-- promise S41
-- promise S43: Confirm: CONFIRMED, again the first answer; EXPIRED, CANCELLED, UNKNOWN_ORDER
-- promise S44: reacquire_if_expired: sold again if it is there and the limit allows; SOLD_OUT, EXPIRED
-- promise S45: ExtendHold: EXTENDED from now, also shorter; otherwise the state of the order
-- promise S46: Cancel: CANCELLED, ALREADY_CONFIRMED; an expired order too; the ledger has the reason
-- promise S47: Cancel of an unknown order: a late Reserve, Deduct or Confirm is refused for 30 days
-- promise S48: Return: whole or in parts, RETURNED when all is back
-- promise S49: a return_id means one return
-- promise S50: TOO_MANY changes nothing
-- promise S51: returned units belong to the item that they were sold from
-- promise S52
function case.random_requests_do_as_the_model()
  rounds(8, 100, function() -- of 1,000 requests
    now, groups = 0, {new_group(), new_group(), new_group()}
    -- The group is in buckets from the beginning.
    Stock.PutItem(in_group(SPLIT, {sku = "a", buckets = N})) {item = any}
    Stock.DeleteItem(in_group(SPLIT, {sku = "a"})) "OK"
    for i = 1, 1000 do
      local g = 1 + pick(#GROUPS)
      local function on(step) return function() step(g) end end
      choose{3, on(step_put), 4, on(step_adjust), 1, on(step_delete), 11, on(step_order), 5, on(step_confirm),
        3, on(step_cancel), 2, on(step_extend), 5, on(step_return), 2, on(step_look), 2, step_time, 2, on(step_lasting_alarm)}
      check_group(g)
      if i % 400 == 0 then records_end() end
      harness.forget()
    end
  end)
end

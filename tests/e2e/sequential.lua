-- Checks that concurrent calls are answered as in a sequence. Callers sell, hold, confirm, cancel, return, adjust and read
-- a few items through two servers of one store. The test records each call: its request, begin, end and answer. Then it
-- searches for an order of all calls in which a sequential model gives each of them the same answer, number by number. The
-- ledger gives the order of the calls that changed something, the effects; every other call must fit between two of them
-- while it was under way. LOCKSTOCK_SEED=n varies the run.
-- promise S56: of many calls at once each is answered as in a sequence, with shared FCALLs, shared messages and SOLD_OUT
--   from memory
require "stock"

local CALLERS, CALLS = count(200, 500), count(150, 200)
local CHANNELS = 4 -- of one server: 1 and 3, of the other: 2 and 4
local TRY_US = 1500000 -- client/call/call.c
local STALE_US = 20000 -- docs/stock.md, "Sold out, from memory"
local QUANTITY_MAX, SELDOM_THERE = 97, 400
local SKUS = {"a", "b:b", "c"} -- the first is scarce, the last one has a limit
local ON_HAND, BUYER_LIMIT = {["a"] = 500, ["b:b"] = 1 << 40, ["c"] = 5000}, 1000
local GROUPS = {"g", "h"} -- the first server changes nothing in "h", so it must ask the store

local ways, ops, n_ids, n_answered

local function server_of(way) return 1 + (way - 1) % 2 end
local function chance(percent) return math.random(100) <= percent end
local function new_id(kind)
  n_ids = n_ids + 1
  return kind .. n_ids
end

-- ---- one call ----

-- The beginning of the answer to a call that had an effect; the answer to an Adjust is the item.
local EFFECT = {Deduct = "DEDUCTED", Reserve = "RESERVED", Confirm = "CONFIRMED", Cancel = "CANCELLED", Return = "RETURNED"}

local function begin(way, method, request)
  local o = {method = method, request = with(request), server = server_of(way), begun = world.now_us()}
  o.call = ways[way]:start("Stock." .. method, o.request, {timeout_ms = 120000})
  ops[#ops + 1] = o
  return o
end

local function is_effect(o) return o.method == "Adjust" and o.code == "OK" or o.outcome == EFFECT[o.method] and o.outcome ~= nil end

local function finish(o)
  while not o.call:done() do coroutine.yield() end
  local got = answer("Stock." .. o.method, o.call:wait())
  o.call:free()
  o.call = nil
  o.ended, n_answered = world.now_us(), n_answered + 1
  o.code, o.outcome, o.again = got.error.code, got.outcome, got.replayed or false
  if got.response then
    o.told = got.text:gsub(" again", "", 1) .. (got.item and " v" .. got.item.version or "")
  else -- an Adjust takes more than there is, or a Deduct was cancelled before it arrived
    eq({o.method == "Adjust" or o.method == "Deduct", o.code}, {true, "FAILED_PRECONDITION"})
    o.told = o.code
  end
  o.had_effect = is_effect(o) and not o.again
  return o
end

-- ---- a caller; no two callers share an order, but all share the items ----

local function call_at(t, way, method, request)
  t.left = t.left - 1
  return finish(begin(way, method, request))
end

-- The channel for a call that gives units back, or that is a repeat.
local function way_of_change(group) return group == "g" and math.random(CHANNELS) or 2 * math.random(CHANNELS // 2) end

-- A repeat gets the first answer through any server.
local function maybe_again(t, method, request)
  if chance(30) then call_at(t, way_of_change(request.group), method, request) end
end

local function draw_order(t)
  local roll = math.random(100)
  local first, n = roll <= 80 and 0 or roll <= 90 and 1 or 2, chance(85) and 1 or math.random(2, #SKUS)
  local group, back, list = pick_from(GROUPS), t.back, {}
  for i = 1, n do list[i] = {sku = SKUS[1 + (first + i - 1) % #SKUS], quantity = math.random(QUANTITY_MAX)} end
  if back then -- this caller has just returned units: the answer must count them
    group, list = back.group, {{sku = back.sku, quantity = list[1].quantity}}
  end
  local method = chance(60) and "Deduct" or "Reserve"
  return method, {group = group, order_id = new_id "o", buyer_id = pick_from{"bob", "eve"}, lines = list,
    hold_ms = method == "Reserve" and 3600000 or nil, fresh = group == "h" or back ~= nil or chance(80)}
end

-- More orders of an item that is sold out, and repeats of an order that was made.
local function crowd(t, way, method, r)
  local quantity = r.lines[1].quantity
  for _ = 1, math.random(6) do
    r = with(r, {order_id = new_id "o", lines = {{quantity = quantity + pick(3)}}})
    if call_at(t, way, method, r).had_effect then return end
    if t.made and chance(20) then call_at(t, way, t.made.method, t.made.request) end
  end
end

-- Returns whether the order was made.
local function make(t, method, r)
  local way = t.back and t.back.way or math.random(CHANNELS)
  t.back = nil
  if r.group == "h" and server_of(way) == 1 and r.lines[1].sku == "a" then
    r.lines[1].quantity = r.lines[1].quantity + SELDOM_THERE -- this server sells little
  end
  if r.group == "g" and chance(20) then -- the same call through both servers at once
    r.fresh, t.left = false, t.left - 2
    local one, other = begin(way, method, r), begin(1 + way % CHANNELS, method, r)
    finish(one)
    finish(other)
    return one.had_effect or other.had_effect
  end
  local first = call_at(t, way, method, r)
  if not first.had_effect and r.fresh and #r.lines == 1 and chance(60) then
    crowd(t, way, method, r)
  elseif not first.had_effect and chance(30) then
    r.fresh = false
    first = call_at(t, way_of_change(r.group), method, r)
  end
  if not first.had_effect then return false end
  r.fresh = false
  if r.group == "g" then t.made = {method = method, request = r} end
  maybe_again(t, method, r)
  return true
end

local function step(t, way, method, r)
  local first = call_at(t, way, method, r)
  maybe_again(t, method, r)
  return first.had_effect
end

-- Returns a part of each line, or the rest.
local function take_some_back(t, order)
  local way, list = way_of_change(order.group), {}
  if not chance(60) then
    for i, line in ipairs(order.lines) do list[i] = {sku = line.sku, quantity = math.random(line.quantity)} end
  end
  if step(t, way, "Return", {group = order.group, order_id = order.order_id, return_id = new_id "r", lines = list}) then
    t.back = {way = way, group = order.group, sku = order.lines[1].sku}
  end
end

local function run_order(t)
  local method, order = draw_order(t)
  local way, id = way_of_change(order.group), {group = order.group, order_id = order.order_id}
  if order.group == "g" and not t.back and chance(6) then -- cancelled before it arrives, so it is not fresh
    order.fresh = false
    step(t, way, "Cancel", id)
  end
  if not make(t, method, order) then return end
  if method == "Reserve" and chance(40) then
    step(t, way, "Cancel", id)
    t.back = {way = way, group = order.group, sku = order.lines[1].sku}
    return
  end
  if method == "Reserve" then step(t, way, "Confirm", id) end
  if chance(10) then step(t, way, "Cancel", id) end
  if chance(75) then take_some_back(t, order) end
  if chance(30) then take_some_back(t, order) end
end

local function adjust_some(t)
  local group, delta = pick_from(GROUPS), math.random(QUANTITY_MAX) * (chance(60) and 1 or -1)
  local way = way_of_change(group)
  if step(t, way, "Adjust", {group = group, sku = "a", delta = delta, adjustment_id = new_id "a"}) and delta > 0 then
    t.back = {way = way, group = group, sku = "a"}
  end
end

local function trade()
  local t = {left = CALLS}
  while t.left > 0 do
    local roll = t.back and 100 or math.random(100)
    if roll <= 10 then
      adjust_some(t)
    elseif roll <= 27 then
      call_at(t, math.random(CHANNELS), "GetItem", {group = pick_from(GROUPS), sku = pick_from(SKUS)})
    else
      run_order(t)
    end
  end
end

local function run_callers()
  local all = {}
  for i = 1, CALLERS do all[i] = coroutine.create(trade) end
  while #all > 0 do
    local before = n_answered
    for i = #all, 1, -1 do
      local ok, why = coroutine.resume(all[i])
      if not ok then error(debug.traceback(all[i], tostring(why)), 0) end
      if coroutine.status(all[i]) == "dead" then table.remove(all, i) end
    end
    if n_answered == before then world.pause() end
  end
end

-- ---- the model, by docs/stock.md: items, and orders by id ----

local function item_line(item) return item_text(item) .. " v" .. item.version end
local function line_in(list, sku) for _, line in ipairs(list) do if line.sku == sku then return line end end end

-- Returns the text of the answer, and whether it is a repeat; for an effect nil, its kind in the ledger, and its lines.
local asked = {}

function asked.Deduct(m, r, order, method)
  if order and order.cancelled_first then return method == "Deduct" and "FAILED_PRECONDITION" or "CANCELLED" end
  if order then return order.first, true end
  for _, why in ipairs{"BUYER_LIMIT", "SOLD_OUT"} do
    local text = why
    for _, line in ipairs(r.lines) do
      local item = m.items[line.sku]
      local over = item.held and item.held[r.buyer_id] + line.quantity > BUYER_LIMIT
      if why == "BUYER_LIMIT" and over or why == "SOLD_OUT" and not over and item.available < line.quantity then
        text = ("%s %s:%d"):format(text, line.sku, item.available)
      end
    end
    if text ~= why then return text end
  end
  return nil, EFFECT[method], r.lines
end
asked.Reserve = asked.Deduct

function asked.Confirm(_, _, order)
  if not order then return "UNKNOWN_ORDER none" end
  if order.state == "RESERVED" then return nil, "CONFIRMED", order.lines end
  if order.state == "CANCELLED" then return "CANCELLED " .. order_text(order) end
  return order.confirmed, true
end

function asked.Cancel(_, _, order)
  if not order or order.cancelled_first then return "UNKNOWN_ORDER none", order ~= nil end
  if order.state == "RESERVED" then return nil, "CANCELLED", order.lines end
  if order.state == "CANCELLED" then return "CANCELLED " .. order_text(order), true end
  return "ALREADY_CONFIRMED " .. order_text(order)
end

function asked.Return(_, r, order)
  if not order then return "UNKNOWN_ORDER none" end
  local list, too_many = {}, order.state ~= "CONFIRMED"
  for _, line in ipairs(order.lines) do
    local left, wanted = line.quantity - line.returned, line_in(r.lines, line.sku)
    local quantity = wanted and wanted.quantity or #r.lines == 0 and left or 0
    too_many = too_many or quantity > left
    if quantity > 0 then list[#list + 1] = {sku = line.sku, quantity = quantity} end
  end
  if too_many or #list == 0 then return "TOO_MANY " .. order_text(order) end
  return nil, "RETURNED", list
end

function asked.Adjust(m, r)
  if m.items[r.sku].available + r.delta < 0 then return "FAILED_PRECONDITION" end
  return nil, "ADJUSTED", {{sku = r.sku, quantity = r.delta}}
end

function asked.GetItem(m, r) return item_line(m.items[r.sku]) end

local function ask(m, o) return asked[o.method](m, o.request, m.orders[o.request.order_id], o.method) end

local HELD = {DEDUCTED = 1, RESERVED = 1, CONFIRMED = 0, CANCELLED = -1, RETURNED = -1}

local function move_items(m, kind, list, buyer)
  for _, line in ipairs(list) do
    local item, by = m.items[line.sku], BY_KIND[kind]
    item.available = item.available + by[1] * line.quantity
    item.reserved = item.reserved + by[2] * line.quantity
    item.sold = item.sold + by[3] * line.quantity
    item.version = item.version + 1
    if item.held then item.held[buyer] = item.held[buyer] + HELD[kind] * line.quantity end
  end
end

-- Applies an effect to the model, and returns the answer to its call.
local function apply(m, r, kind, list)
  local order = m.orders[r.order_id]
  move_items(m, kind, list, r.buyer_id or order and order.buyer_id)
  if kind == "ADJUSTED" then return item_line(m.items[r.sku]) end
  local text = kind
  if not order then
    order = {state = kind == "DEDUCTED" and "CONFIRMED" or kind, buyer_id = r.buyer_id, lines = {}}
    for i, line in ipairs(list) do
      order.lines[i] = {sku = line.sku, quantity = line.quantity, returned = 0}
      text = ("%s %s:%d"):format(text, line.sku, m.items[line.sku].available)
    end
    m.orders[r.order_id], order.first = order, text
    return text
  end
  if kind == "RETURNED" then
    for _, line in ipairs(list) do
      local of = line_in(order.lines, line.sku)
      of.returned = of.returned + line.quantity
    end
    local whole = true
    for _, line in ipairs(order.lines) do whole = whole and line.returned == line.quantity end
    if whole then order.state = kind end
  else
    order.state = kind
  end
  text = kind .. " " .. order_text(order)
  if kind == "CONFIRMED" then order.confirmed = text end
  return text
end

-- ---- the effects, in the order of the ledger: `p` of them have happened at place p ----

local function describe(o)
  local r, list = o.request, {}
  for i, line in ipairs(r.lines or {}) do list[i] = line.sku .. ":" .. line.quantity end
  return ("%s of %s in %s (fresh %s, %s, server %d), told %s%s"):format(o.method, r.return_id or r.order_id or r.adjustment_id
    or r.sku, r.group, r.fresh, table.concat(list, " "), o.server, o.told, o.again and " again" or "")
end
local function fault(format, ...) error(format:format(...), 0) end

-- The client sends a call again when it has no answer after that time. So its first answer may be marked as a repeat.
local function may_be_first(o) return o.again and o.ended - o.begun >= TRY_US end

-- The key of an effect: it makes an order, ends it, or returns a part of it.
local function key_of(method, id) return ((method == "Deduct" or method == "Reserve") and "make" or method) .. " " .. id end
local function key(o)
  return key_of(o.method, o.request.return_id or o.request.adjustment_id or o.request.order_id)
end

-- The calls whose answer reports an effect, by its key.
local function told_of_effects(of_group)
  local told = {}
  for _, o in ipairs(of_group) do
    if o.had_effect then
      if told[key(o)] then fault("two calls were told that it was theirs: %s", describe(o)) end
      told[key(o)] = o
    end
  end
  for _, o in ipairs(of_group) do
    if is_effect(o) and may_be_first(o) then
      local other = told[key(o)]
      if not other or other.again and other.begun > o.begun then told[key(o)] = o end
    end
  end
  return told
end

local METHOD_OF = {DEDUCTED = "Deduct", RESERVED = "Deduct", CONFIRMED = "Confirm", CANCELLED = "Cancel", RETURNED = "Return",
  ADJUSTED = "Adjust"}

-- Each effect that an answer reports is in the ledger, once.
local function read_effects(group, told)
  local effects, after, latest = {}, "", nil
  repeat
    local page = read(after, {group = group, limit = 1000})
    for _, e in ipairs(page.entries) do
      after = e.id
      local o = e.kind ~= "PUT" and told[key_of(METHOD_OF[e.kind] or e.kind, e.order_id)]
      if o == nil then fault("the ledger has %s of %s, of which no call was told", e.kind, e.order_id) end
      if o and (not latest or latest.op ~= o) then
        if o.is_effect then fault("twice in the ledger: %s", describe(o)) end
        latest = {op = o, kind = e.kind, moves = {}}
        o.is_effect, effects[#effects + 1] = true, latest
      end
      if o then latest.moves[e.sku] = (latest.moves[e.sku] or 0) + e.quantity end
    end
  until #page.entries == 0
  for _, o in pairs(told) do if not o.is_effect then fault("not in the ledger: %s", describe(o)) end end
  return effects
end

-- An effect happened within its call: not before the call began, nor before an earlier effect's call began; not after it
-- ended, nor after a later effect's call ended.
local function time_effects(effects)
  local latest, earliest = 0, math.maxinteger
  for _, e in ipairs(effects) do
    latest = math.max(latest, e.op.begun)
    e.not_before = latest
    if e.op.ended < latest then fault("had ended when one before it in the ledger began: %s", describe(e.op)) end
  end
  for i = #effects, 1, -1 do
    earliest = math.min(earliest, effects[i].op.ended)
    effects[i].not_after = earliest
  end
end

-- Returns how many elements at the head of the list satisfy the function.
local function head(list, holds)
  local low, high = 0, #list
  while low < high do
    local middle = (low + high) // 2
    if holds(list[middle + 1]) then low = middle + 1 else high = middle end
  end
  return low
end

-- Returns the first and the last place that may have been current at that time.
local function first_place(effects, us) return head(effects, function(e) return e.not_after < us end) end
local function last_place(effects, us) return head(effects, function(e) return e.not_before <= us end) end

-- For each server the calls that may have given units back through it, by their end, and the last place after each.
local function changes_of(effects)
  local changes = {{}, {}}
  for i, e in ipairs(effects) do
    local o = e.op
    if o.method == "Cancel" or o.method == "Return" or o.method == "Adjust" then
      table.insert(changes[o.server], {ended = o.ended, place = i})
    end
  end
  for _, list in ipairs(changes) do
    table.sort(list, function(a, b) return a.ended < b.ended end)
    for i = 2, #list do list[i].place = math.max(list[i].place, list[i - 1].place) end
  end
  return changes
end

local function may_be_from_memory(o)
  return o.request.fresh and o.outcome == "SOLD_OUT" and #o.request.lines == 1 and o.request.lines[1].sku ~= "c"
end

local function find_places(o, effects, changes)
  o.first, o.last = first_place(effects, o.begun), last_place(effects, o.ended)
  if may_be_from_memory(o) then
    local behind = changes[o.server]
    local n = head(behind, function(c) return c.ended < o.begun end)
    o.first = math.max(first_place(effects, o.begun - STALE_US), n > 0 and behind[n].place or 0)
  end
  if o.first > o.last then fault("fits nowhere: %s", describe(o)) end
end

-- ---- the walk over all places ----

-- Returns whether the model now gives the same answer to a call without an effect. A Cancel that finds no order leaves a
-- mark, which only the caller of the order can see.
local function fits(m, o, told)
  local first = (o.method == "Return" or o.method == "Adjust") and told[key(o)]
  if o.again and first then return first.placed and first.told == o.told end
  local text, again = ask(m, o)
  if text ~= o.told or (again or false) ~= o.again and not may_be_first(o) then return false end
  if o.method == "Cancel" and not m.orders[o.request.order_id] then
    m.orders[o.request.order_id] = {cancelled_first = true}
  end
  return true
end

local function apply_effect(m, e)
  local o = e.op
  local _, kind, list = ask(m, o)
  local text = kind and list and apply(m, o.request, kind, list)
  if kind ~= e.kind or text ~= o.told then fault("the model tells %s where it is in the ledger: %s", text, describe(o)) end
  for _, line in ipairs(list) do
    if e.moves[line.sku] ~= line.quantity then fault("the ledger has other lines: %s", describe(o)) end
    e.moves[line.sku] = nil
  end
  if next(e.moves) then fault("the ledger has more lines: %s", describe(o)) end
  o.placed = true
end

local function walk(m, effects, others, told)
  local open, next_one = {}, 1
  for p = 0, #effects do
    if p > 0 then apply_effect(m, effects[p]) end
    while others[next_one] and others[next_one].first == p do
      open[#open + 1], next_one = others[next_one], next_one + 1
    end
    local left = {}
    for _, o in ipairs(open) do
      o.placed = fits(m, o, told)
      if not o.placed and p == o.last then
        fault("fits nowhere from place %d to %d, at the last %s: %s", o.first, p, ask(m, o), describe(o))
      end
      if not o.placed then left[#left + 1] = o end
    end
    open = left
  end
end

local function judge(m, group)
  local of_group, others = {}, {}
  for _, o in ipairs(ops) do if o.request.group == group then of_group[#of_group + 1] = o end end
  local told = told_of_effects(of_group)
  local effects = read_effects(group, told)
  time_effects(effects)
  local changes = changes_of(effects)
  for _, o in ipairs(of_group) do
    if not o.is_effect then
      find_places(o, effects, changes)
      others[#others + 1] = o
    end
  end
  table.sort(others, function(a, b) return a.first < b.first or a.first == b.first and a.begun < b.begun end)
  walk(m, effects, others, told)
  return #effects
end

-- promise E1: available >= 0 and on_hand = available + reserved + sold at each look, through two servers, while 200
--   callers reserve, confirm, cancel, return and adjust; also when holds end
-- promise E2: the ledger never leads below zero at any entry, each line passes through its states, and in the end
--   ledger, items, orders and answers agree
-- promise E3: no buyer is ever over the limit, by the ledger
-- promise E4: a repeat of any effect, at once, later, or through another server, changes nothing and gets the first
--   answer
-- promise E5: a Cancel before its Reserve; more is never returned than was sold
function case.each_answer_is_that_of_a_sequential_model()
  math.randomseed(tonumber(os.getenv "LOCKSTOCK_SEED") or 1)
  two_servers()
  ways, ops, n_ids, n_answered = {}, {}, 0, 0
  for i = 1, CHANNELS do ways[i] = open(servers[server_of(i)]:url()) end
  local models, seen = {}, {fresh = 0, again = 0, effects = 0}
  for _, group in ipairs(GROUPS) do
    local m = {items = {}, orders = {}}
    for sku, on_hand in pairs(ON_HAND) do
      local limited = sku == "c"
      local item = put(sku .. " " .. on_hand, {group = group, per_buyer_limit = limited and BUYER_LIMIT or nil}).item
      m.items[sku] = {available = on_hand, reserved = 0, sold = 0, version = item.version, held = limited and {bob = 0, eve = 0}}
    end
    models[group] = m
  end
  run_callers()
  for group, m in pairs(models) do seen.effects = seen.effects + judge(m, group) end
  for _, o in ipairs(ops) do
    if o.again then seen.again = seen.again + 1 end
    if o.outcome == "SOLD_OUT" and o.request.fresh then seen.fresh = seen.fresh + 1 end
  end
  print(("    %d calls, %d effects, %d sold out fresh, %d again"):format(#ops, seen.effects, seen.fresh, seen.again))
  eq(seen, {fresh = above(0), again = above(0)})
end

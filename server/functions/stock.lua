-- StockService, where orders begin: Deduct and Reserve.

-- What can stand in the way of a line, gravest first. The outcome of an order is
-- the gravest of its lines, and those are told.
local REFUSALS = {'UNKNOWN_SKU', 'NOT_OPEN', 'CLOSED', 'BUYER_LIMIT', 'SOLD_OUT'}

-- The rank in REFUSALS of what keeps a buyer who has `held` units from
-- `quantity` more; nil when nothing does.
local function refusal(item, quantity, held, now)
  if not item then return 1 end
  if now < item[OPENS] then return 2 end
  if item[CLOSES] > 0 and now >= item[CLOSES] then return 3 end
  if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end
  if quantity > item[AVAILABLE] then return 5 end
  return nil
end

-- `lines` of all of these: sku, quantity of each.

-- The first answer to an order, if that order is asked for again; of its hold what is left.
local function first_answer(base, order, way, id, buyer, lines, now)
  local same = order[HOW] == way.how and order[BUYER] == buyer and (#order - LINES + 1) / LINE == #lines / 2
  local asked, reply = {}, {way.outcome, '1', '0'}
  for i = 1, #lines, 2 do asked[lines[i]] = tonumber(lines[i + 1]) end
  for i = LINES, #order, LINE do
    same = same and asked[order[i]] == order[i + QUANTITY]
    reply[#reply + 1] = order[i]
    reply[#reply + 1] = int(order[i + LEFT])
  end
  if not same then fail('ALREADY_EXISTS', 'order_id: used for another order') end
  reply[3] = int(ms_until(hold_end(base, id, order) or 0, now))
  return reply
end

-- How a method makes an order.
local DEDUCT = {how = 'DEDUCT', outcome = 'DEDUCTED', state = 'CONFIRMED'}
local RESERVE = {how = 'RESERVE', outcome = 'RESERVED', state = 'RESERVED'}

-- The items of the order, with nothing over that would matter; nil when more is over
-- than one call gives back.
local function open_order(way, base, lines, now)
  local changes, touched = open_changes(base), way == RESERVE
  for i = 1, #lines, 2 do
    local item = changing_item(changes, lines[i])
    touched = touched or item and item[RESERVED] > 0
  end
  -- Where none of an item is held, nothing of it is over.
  if touched then
    local more, given = give_back_due(base, now)
    if more then return nil end
    if given then changes = open_changes(base) end
  end
  return changes
end

-- The answer when something stands in the way.
local function refused(changes, buyer, lines, now)
  local ranks, gravest, anybody = {}, nil, true
  for i = 1, #lines, 2 do
    local item, held = changing_item(changes, lines[i]), nil
    if item and item[LIMIT] > 0 then
      if buyer == '' then fail('INVALID_ARGUMENT', 'buyer_id: must be set, an item has a per-buyer limit') end
      held, anybody = changing_held(changes, lines[i], buyer), false
    end
    ranks[i] = refusal(item, tonumber(lines[i + 1]), held, now)
    if ranks[i] and (not gravest or ranks[i] < gravest) then gravest = ranks[i] end
  end
  if not gravest then return nil end
  local reply = {REFUSALS[gravest], '0', anybody and '1' or '0'}
  for i = 1, #lines, 2 do
    if ranks[i] == gravest then
      local item = changes.items[lines[i]]
      reply[#reply + 1] = lines[i]
      reply[#reply + 1] = item and int(item[AVAILABLE]) or '0'
    end
  end
  return reply
end

local function make_order(way, base, now, id, buyer, hold_ms, ...)
  local lines = {...}
  local order = load_record(order_key(base, id), 'order')
  if order and order[HOW] ~= 'CANCEL' then return first_answer(base, order, way, id, buyer, lines, now) end
  if order then
    if way == RESERVE then return {'CANCELLED', '0', '0'} end
    fail('FAILED_PRECONDITION', 'order_id: was cancelled before it came')
  end
  local changes = open_order(way, base, lines, now)
  if not changes then return {'MORE'} end
  local reply = refused(changes, buyer, lines, now)
  if reply then return reply end

  reply = {way.outcome, '0', hold_ms}
  order = {'order', way.how, way.state, buyer, 0}
  for i = 1, #lines, 2 do
    local item, quantity, n = changes.items[lines[i]], tonumber(lines[i + 1]), #order
    change(changes, way.outcome, lines[i], quantity, item[ERA], id, buyer)
    local left = item[AVAILABLE]
    if item[RETAIN] > order[KEEP] then order[KEEP] = item[RETAIN] end
    order[n + 1], order[n + 2], order[n + 3], order[n + 4], order[n + 5] = lines[i], quantity, 0, left, item[ERA]
    reply[#reply + 1] = lines[i]
    reply[#reply + 1] = int(left)
  end
  save_changes(changes)
  if way == RESERVE then
    write('SET', order_key(base, id), cmsgpack.pack(order))
    write('ZADD', base .. 'stock:x', int(now + tonumber(hold_ms) * 1000), id)
  else
    save_order(base, id, order)
  end
  return reply
end

-- Of both (hold_ms of Deduct: 0):
-- -> {outcome, '1' when replayed, ms left of the hold, sku, available of each line told...}
--    of a refusal, in place of the hold: '1' when it would be the same for any buyer
--    {'MORE'}: to be asked again
define('stock_deduct', {}, function(base, now, id, buyer, hold_ms, ...)
  return make_order(DEDUCT, base, now, id, buyer, hold_ms, ...)
end)

define('stock_reserve', {}, function(base, now, id, buyer, hold_ms, ...)
  return make_order(RESERVE, base, now, id, buyer, hold_ms, ...)
end)

-- StockService: Deduct and Reserve.

-- The reasons to refuse a line, highest priority first. The order is refused for the first reason that any line has,
-- and the reply names the lines that have it.
local REFUSALS = {'UNKNOWN_SKU', 'NOT_OPEN', 'CLOSED', 'BUYER_LIMIT', 'SOLD_OUT'}

-- Returns the place in REFUSALS; nil if `quantity` more can be sold to a buyer who has `held` units.
local function refusal(item, quantity, held)
  if not item then return 1 end
  if item[OPENS] > 0 and clock() < item[OPENS] then return 2 end
  if item[CLOSES] > 0 and clock() >= item[CLOSES] then return 3 end
  if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end
  if quantity > item[AVAILABLE] then return 5 end
  return nil
end

-- How a method makes an order: its number and the state's, and the change of reserved and sold per unit.
local DEDUCT = {outcome = 'DEDUCTED', how = PLACE.DEDUCT, state = PLACE.CONFIRMED, reserved = 0, sold = 1}
local RESERVE = {outcome = 'RESERVED', how = PLACE.RESERVE, state = PLACE.RESERVED, reserved = 1, sold = 0}

-- `lines` always has sku, quantity of each line.

-- Returns the first answer to a repeated order, with the ms left of its hold.
local function first_answer(s, way, id, order, buyer, lines)
  local same = PLACE[order[HOW]] == way.how and order[BUYER] == buyer and order[COUNT] == #lines / 2
  local ends = hold_end(s, id, order)
  local place, reply = {}, {'AGAIN', ends and ms_until(ends, clock()) or 0}
  for i = LINES, #order, LINE do place[order[i]] = i end
  for i = 1, #lines, 2 do
    local at = place[lines[i]]
    same = same and at and order[at + QUANTITY] == tonumber(lines[i + 1])
    reply[#reply + 1] = same and order[at + LEFT]
  end
  if not same then fail('ALREADY_EXISTS', 'order_id: used for another order', 'id_reused') end
  return reply
end

-- Returns the refusal of the order; nil: it can be made.
local function refused(s, buyer, lines)
  local ranks, gravest, anybody, counted = {}, nil, 1, true
  for i = 1, #lines, 2 do
    local item, held = item_of(s, lines[i]), nil
    if item and item[LIMIT] ~= 0 then
      if buyer == '' then fail('INVALID_ARGUMENT', 'buyer_id: must be set, because an item has a per-buyer limit') end
      if item[LIMIT] > 0 then held = held_of(s, lines[i], buyer) else counted = false end
      anybody = 0
    end
    ranks[i] = refusal(item, tonumber(lines[i + 1]), held)
    if ranks[i] and (not gravest or ranks[i] < gravest) then gravest = ranks[i] end
  end
  -- In a bucket the buyer's units are counted elsewhere (stock_claims.lua), and the claim is valid only for a while.
  counted = counted or s.claimed_at and clock() <= s.claimed_at + CLAIM_US
  if not counted and (not gravest or gravest > 3) then return {'CLAIM'} end
  if not gravest then return nil end
  local there = gravest == 1 and elsewhere(s.base)
  if there then return there end
  local reply = {REFUSALS[gravest], anybody}
  for i = 1, #lines, 2 do
    if ranks[i] == gravest then
      local item = s.items[lines[i]]
      reply[#reply + 1] = (i - 1) / 2
      reply[#reply + 1] = item and item[AVAILABLE] or 0
    end
  end
  return reply
end

-- Answers a repeated order, or one that was cancelled before it came.
local function known_order(s, way, id, order, buyer, lines)
  if order[HOW] ~= 'CANCEL' then return first_answer(s, way, id, order, buyer, lines) end
  if way == RESERVE then return {'CANCELLED'} end
  fail('FAILED_PRECONDITION', 'order_id: was cancelled before the order arrived')
end

-- A new order of n lines with its first line.
local function pack_made(way, n, keep_ms, buyer, sku, units, left, era)
  return struct.pack(ORDER_FORMATS[1], ORDER_MARK, n, way.how, way.state, keep_ms, buyer, sku, units, 0, left, era)
end

-- The most frequent call: it includes the work of `move` and `pack_order`.
local function make_order(s, way, id, buyer, hold_ms, ...)
  local lines, key = {...}, order_key(s, id)
  local text = text_of(s, key)
  if text then return known_order(s, way, id, unpack_order(text), buyer, lines) end
  local held_some, plain, keep_ms = way == RESERVE, true, 0
  for i = 1, #lines, 2 do
    local item = item_of(s, lines[i])
    if not item then
      plain = false
    else
      held_some = held_some or item[RESERVED] > 0
      plain = plain and item[LIMIT] + item[OPENS] + item[CLOSES] == 0 and lines[i + 1] + 0 <= item[AVAILABLE]
      if item[RETAIN] > keep_ms then keep_ms = item[RETAIN] end
    end
  end
  -- Without reserved units, no hold has expired.
  if held_some and give_back_due(s) then return {'MORE'} end
  local reply = not plain and refused(s, buyer, lines)
  if reply then return reply end

  for i = 1, #lines, 2 do
    local sku, quantity = lines[i], lines[i + 1] + 0
    local item = s.items[sku]
    local left, era = item[AVAILABLE] - quantity, item[ERA]
    item[AVAILABLE], item[VERSION] = left, item[VERSION] + 1
    item[RESERVED] = item[RESERVED] + way.reserved * quantity
    item[SOLD] = item[SOLD] + way.sold * quantity
    item[CHANGED] = true
    if item[LIMIT] > 0 then change_held(s, sku, buyer, quantity) end
    note(s, way.outcome, sku, lines[i + 1], id, '')
    if i == 1 then
      text = pack_made(way, #lines / 2, keep_ms, buyer, sku, quantity, left, era)
      reply = left
    else
      text = text .. struct.pack(LINE_FORMAT, sku, quantity, 0, left, era)
      if i == 3 then reply = {reply} end
      reply[#reply + 1] = left
    end
  end
  put_text(s, key, text, way == DEDUCT and keep_ms)
  if way == RESERVE then move_end(s, id, clock() + tonumber(hold_ms) * 1000) end
  return reply
end

-- The usual Deduct, of one line: a new order, and an item without a limit, a window and holds, which an earlier call of
-- the FCALL has read. nil: another case, nothing was changed.
local function sell_again(s, id, buyer, sku, quantity, another)
  local item = s.items and s.items[sku]
  if not item or another or item[LIMIT] ~= 0 or item[RESERVED] ~= 0 or item[OPENS] + item[CLOSES] ~= 0 then return nil end
  local key = s.base .. 'stock:o:' .. id
  if s.texts and s.texts[key] or redis.call('GET', key) then return nil end
  local available, units = item[AVAILABLE], quantity + 0
  local left = available - units
  if item[CHANGED] then touch(s) end
  if left < 0 then return {'SOLD_OUT', 1, 0, available} end
  item[AVAILABLE], item[SOLD], item[VERSION], item[CHANGED] = left, item[SOLD] + units, item[VERSION] + 1, true
  note(s, 'DEDUCTED', sku, quantity, id, '')
  put_text(s, key, pack_made(DEDUCT, 1, item[RETAIN], buyer, sku, units, left, item[ERA]), item[RETAIN])
  return left
end

-- The same for a call that is the only one of its group: it writes the same as close_stock, without the tables of a
-- state.
local function sell(base, _, id, buyer, sku, quantity, another)
  local order_at, item_at = base .. 'stock:o:' .. id, base .. 'stock:i:' .. sku
  if another or redis.call('GET', order_at) then return nil end
  local item = redis.call('GET', item_at)
  if not item or #item ~= ITEM_BYTES then return nil end
  local mark, available, sold, version, limit, opens, closes, keep_ms, era, reserved, born = struct.unpack(ITEM_FORMAT, item)
  if mark ~= ITEM_MARK or limit ~= 0 or reserved ~= 0 or opens + closes ~= 0 then return nil end
  local units = quantity + 0
  local left = available - units
  if left < 0 then return {'SOLD_OUT', 1, 0, available} end
  if redis.call('EXISTS', base .. 'stock:r') == 1 then return nil end
  write('XADD', base .. 'stock:ledger', '*', '1', 'DEDUCTED\0' .. sku .. '\0' .. quantity .. '\0' .. id .. '\0')
  write('SET', item_at, struct.pack(ITEM_FORMAT, mark, left, sold + units, version + 1, limit, opens, closes, keep_ms, era,
    reserved, born))
  write('SET', order_at, pack_made(DEDUCT, 1, keep_ms, buyer, sku, units, left, era), 'PX', ms_text(keep_ms))
  return left
end

-- Both -> {available of each line}
--         {refusal, 1 if it does not depend on the buyer, place from 0, available of each line with that refusal}
--         {'AGAIN', ms left of the hold, available of each line}: the first answer
--         {'CANCELLED'} before it came, {'MORE'}: call again, {'BUCKETED', n}
--         {'CLAIM'}: claim the units first, then call the function that takes the claim
define_pass('stock_deduct', {}, function(s, id, buyer, ...)
  return sell_again(s, id, buyer, ...) or make_order(s, DEDUCT, id, buyer, '0', ...)
end, SHARED, sell)

define_pass('stock_reserve', {}, function(s, id, buyer, hold_ms, ...)
  return make_order(s, RESERVE, id, buyer, hold_ms, ...)
end, SHARED)

define_pass('stock_deduct_claimed', {}, function(s, id, buyer, claimed_at, ...)
  s.claimed_at = tonumber(claimed_at)
  return make_order(s, DEDUCT, id, buyer, '0', ...)
end, SHARED)

define_pass('stock_reserve_claimed', {}, function(s, id, buyer, hold_ms, claimed_at, ...)
  s.claimed_at = tonumber(claimed_at)
  return make_order(s, RESERVE, id, buyer, hold_ms, ...)
end, SHARED)

-- The order of an Enter already exists, from an earlier attempt: its hold begins again, and expired units are taken
-- again. Replies as stock_reserve.
local function hold_again(s, id, hold_ms, again)
  local _, state = order_now(s, id)
  if state == 'CANCELLED' then return {'CANCELLED'} end
  if state ~= 'RESERVED' and state ~= 'EXPIRED' then return again end
  if state == 'EXPIRED' then
    if give_back_due(s) then return {'MORE'} end
    local order = load_order(s, id)
    local lines = {}
    for i = LINES, #order, LINE do lines[#lines + 1], lines[#lines + 2] = order[i], order[i + QUANTITY] end
    local reply = refused(s, order[BUYER], lines)
    if reply then return reply end
    for i = LINES, #order, LINE do order[i + LINE_ERA] = s.items[order[i]][ERA] end
    move_order(s, 'RESERVED', id, order, '')
    order[STATE] = 'RESERVED'
    put_text(s, order_key(s, id), pack_order(order), false)
  end
  move_end(s, id, clock() + tonumber(hold_ms) * 1000)
  again[2] = tonumber(hold_ms)
  return again
end

-- Returns the hold of an attempt that failed retryably; it may be taken again.
local function let_go(s, id)
  local order, state = order_now(s, id)
  if state == 'RESERVED' then end_hold(s, id, order, 'EXPIRED', 'EXPIRED', '') end
  return {order and (state == 'RESERVED' and 'EXPIRED' or state) or 'UNKNOWN_ORDER'}
end

services.stock = {
  open = open_stock, close = close_stock, confirm = confirm, cancel = cancel, let_go = let_go, extend_hold = extend_hold,

  is_known = function(s, id)
    return text_of(s, order_key(s, id))
  end,

  -- hold_ms '0': Deduct; otherwise Reserve. repeats: of the same Enter, which get the first answer.
  order = function(s, repeats, hold_ms, id, buyer, ...)
    local reply = make_order(s, hold_ms == '0' and DEDUCT or RESERVE, id, buyer, hold_ms, ...)
    if repeats or hold_ms == '0' or type(reply) ~= 'table' or reply[1] ~= 'AGAIN' then return reply end
    return hold_again(s, id, hold_ms, reply)
  end,
}

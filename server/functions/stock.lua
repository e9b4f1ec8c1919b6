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

-- A new order of n lines with its first line, packed as ORDER_FORMATS say. The head is usually that of the order before.
local pack_made
do
  local head, of_way, of_n, of_ms

  function pack_made(way, n, keep_ms, buyer, sku, units, left, era)
    if way ~= of_way or n ~= of_n or keep_ms ~= of_ms then
      of_way, of_n, of_ms = way, n, keep_ms
      head = struct.pack('<BBBBd', ORDER_MARK, n, way.how, way.state, keep_ms)
    end
    return head .. buyer .. '\0' .. sku .. '\0' .. struct.pack('<dddd', units, 0, left, era)
  end
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

-- The usual Deduct: a new order of one line, and an item without a limit, a window and holds. The two functions below
-- run it without the tables of a state, which cost more than the commands.

local sell_many
do
  -- Returns the item; nil: the usual Deduct cannot sell it. `items` has the items that were read, by sku.
  local function plain_item(base, items, sku)
    local item = items[sku]
    if item == nil then
      local text = redis.call('GET', base .. 'stock:i:' .. sku)
      item = text and unpack_item(text)
      if item and (item[LIMIT] ~= 0 or item[RESERVED] ~= 0 or item[OPENS] + item[CLOSES] ~= 0) then item = nil end
      items[sku] = item or false
    end
    return item or nil
  end

  -- Runs the usual Deducts at the beginning of the calls.
  function sell_many(base, words, starts, replies)
    local items, keys, seen, n = {}, {}, {}, 0
    if words[starts[1]] ~= '4' or not plain_item(base, items, words[starts[1] + 3]) then return end
    for k = 1, math.min(#starts, PACKED_MAX) do
      local id = words[starts[k] + 1]
      if words[starts[k]] ~= '4' or seen[id] then break end
      seen[id], keys[k], n = true, base .. 'stock:o:' .. id, k
    end
    if redis.call('EXISTS', unpack(keys)) > 0 then return end

    local entries, texts, keep, sold, run = {}, {}, {}, 0, redis.call
    local item, sku, quantity, units, keep_ms, entry
    for k = 1, n do
      local i = starts[k]
      if words[i + 3] ~= sku or words[i + 4] ~= quantity then
        sku, quantity = words[i + 3], words[i + 4]
        item = plain_item(base, items, sku)
        if not item then break end
        units, keep_ms, entry = quantity + 0, ms_text(item[RETAIN]), 'DEDUCTED\0' .. sku .. '\0' .. quantity .. '\0'
      end
      local left = item[AVAILABLE] - units
      if left < 0 then
        replies[k] = {'SOLD_OUT', 1, 0, item[AVAILABLE]}
      else
        item[AVAILABLE], item[SOLD], item[VERSION], item[CHANGED] = left, item[SOLD] + units, item[VERSION] + 1, true
        sold = sold + 1
        entries[sold], keys[sold], keep[sold] = entry .. words[i + 1] .. '\0', keys[k], keep_ms
        texts[sold] = pack_made(DEDUCT, 1, item[RETAIN], words[i + 2], sku, units, left, item[ERA])
        replies[k] = left
      end
    end
    if sold == 0 then return end
    write_entries(base, sold, table.concat(entries, '\0'))
    for of, one in pairs(items) do
      if one and one[CHANGED] then run('SET', base .. 'stock:i:' .. of, pack_item(one)) end
    end
    for k = 1, sold do run('SET', keys[k], texts[k], 'PX', keep[k]) end
  end
end

-- Runs the only call of its group, or the last one.
local function sell(base, _, id, buyer, sku, quantity, another)
  if another then return nil end
  local run, order_at, item_at = redis.call, base .. 'stock:o:' .. id, base .. 'stock:i:' .. sku
  local item = run('GET', item_at)
  if not item or #item ~= ITEM_BYTES then return nil end
  local mark, available, sold, version, limit, opens, closes, keep_ms, era, reserved, born = struct.unpack(ITEM_FORMAT, item)
  if mark ~= ITEM_MARK or limit ~= 0 or reserved ~= 0 or opens + closes ~= 0 then return nil end
  local units = quantity + 0
  local left = available - units
  if left < 0 then return run('EXISTS', order_at) == 0 and {'SOLD_OUT', 1, 0, available} or nil end
  if run('EXISTS', base .. 'stock:r') == 1 then return nil end
  local order = pack_made(DEDUCT, 1, keep_ms, buyer, sku, units, left, era)
  if run('SET', order_at, order, 'NX', 'GET', 'PX', ms_text(keep_ms)) then return nil end -- a repeat
  dirty = true
  local entry = 'DEDUCTED\0' .. sku .. '\0' .. quantity .. '\0' .. id .. '\0'
  local added = redis.pcall('XADD', base .. 'stock:ledger', '*', '1', entry)
  if type(added) == 'table' then -- the ledger is foreign data: nothing may change
    run('DEL', order_at)
    dirty = false
    error(added)
  end
  run('SET', item_at, struct.pack(ITEM_FORMAT, mark, left, sold + units, version + 1, limit, opens, closes, keep_ms, era,
    reserved, born))
  return left
end

-- Both -> {available of each line}
--         {refusal, 1 if it does not depend on the buyer, place from 0, available of each line with that refusal}
--         {'AGAIN', ms left of the hold, available of each line}: the first answer
--         {'CANCELLED'} before it came, {'MORE'}: call again, {'BUCKETED', n}
--         {'CLAIM'}: claim the units first, then call the function that takes the claim
define_pass('stock_deduct', {}, function(s, id, buyer, ...)
  return make_order(s, DEDUCT, id, buyer, '0', ...)
end, SHARED, sell, sell_many)

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
local function release_hold(s, id)
  local order, state = order_ended(s, id)
  if state == 'RESERVED' then end_hold(s, id, order, 'EXPIRED', 'EXPIRED', '') end
  return {order and (state == 'RESERVED' and 'EXPIRED' or state) or 'UNKNOWN_ORDER'}
end

services.stock = {
  open = open_stock, close = close_stock, confirm = confirm, cancel = cancel, release_hold = release_hold,
  extend_hold = extend_hold,

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

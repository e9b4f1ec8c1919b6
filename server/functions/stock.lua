-- StockService, orders.

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

-- The first answer to an order, if args ask for that order again.
local function first_answer(order, how, outcome, args)
  local same = order[HOW] == how and order[BUYER] == args[2] and (#order - LINES + 1) / LINE == (#args - 2) / 2
  local asked, reply = {}, {outcome, '1'}
  for i = 3, #args, 2 do asked[args[i]] = tonumber(args[i + 1]) end
  for i = LINES, #order, LINE do
    same = same and asked[order[i]] == order[i + QUANTITY]
    reply[#reply + 1] = order[i]
    reply[#reply + 1] = int(order[i + LEFT])
  end
  if not same then fail('ALREADY_EXISTS', 'order_id: used for another order') end
  return reply
end

-- args: order_id, buyer_id, then sku, quantity of each line
-- -> {outcome, '1' when replayed, sku, available of each line told...}
define('stock_deduct', {}, function(base, args, now)
  local order_key = base .. 'stock:o:' .. encode(args[1])
  local order = load_record(order_key, 'order')
  if order then return first_answer(order, 'DEDUCT', 'DEDUCTED', args) end

  local buyer, names, items, held, ranks, gravest = args[2], {}, {}, {}, {}, nil
  for i = 3, #args, 2 do
    names[i] = encode(args[i])
    local item = load_item(base .. 'stock:i:' .. names[i])
    if item and item[LIMIT] > 0 then
      if buyer == '' then fail('INVALID_ARGUMENT', 'buyer_id: must be set, an item has a per-buyer limit') end
      held[i] = tonumber(redis.call('HGET', base .. 'stock:b:' .. names[i], buyer) or '0')
        or fail('FAILED_PRECONDITION', FOREIGN)
    end
    items[i] = item
    ranks[i] = refusal(item, tonumber(args[i + 1]), held[i], now)
    if ranks[i] and (not gravest or ranks[i] < gravest) then gravest = ranks[i] end
  end
  if gravest then
    local reply = {REFUSALS[gravest], '0'}
    for i = 3, #args, 2 do
      if ranks[i] == gravest then
        reply[#reply + 1] = args[i]
        reply[#reply + 1] = items[i] and int(items[i][AVAILABLE]) or '0'
      end
    end
    return reply
  end

  local retain, reply = 0, {'DEDUCTED', '0'}
  order = {'order', 'DEDUCT', 'CONFIRMED', 0, buyer}
  for i = 3, #args, 2 do append_ledger(base, 'DEDUCTED', args[i], args[i + 1], args[1]) end
  for i = 3, #args, 2 do
    local item, quantity, n = items[i], tonumber(args[i + 1]), #order
    local left = item[AVAILABLE] - quantity
    write('HSET', base .. 'stock:i:' .. names[i], 'available', int(left), 'sold', int(item[SOLD] + quantity),
      'version', int(item[VERSION] + 1))
    if held[i] then write('HSET', base .. 'stock:b:' .. names[i], buyer, int(held[i] + quantity)) end
    if item[RETAIN] > retain then retain = item[RETAIN] end
    order[n + 1], order[n + 2], order[n + 3], order[n + 4], order[n + 5] = args[i], quantity, 0, left, item[ERA]
    reply[#reply + 1] = args[i]
    reply[#reply + 1] = int(left)
  end
  write('SET', order_key, cmsgpack.pack(order), 'PX', int(retain))
  return reply
end)

-- args: order_id -> {'OK', state, buyer, sku, quantity, returned of each line...}
-- or {'NONE'}
define('stock_get_order', {'no-writes'}, function(base, args)
  local order = load_record(base .. 'stock:o:' .. encode(args[1]), 'order')
  if not order then return {'NONE'} end
  local reply = {'OK', order[STATE], order[BUYER]}
  for i = LINES, #order, LINE do
    reply[#reply + 1] = order[i]
    reply[#reply + 1] = int(order[i + QUANTITY])
    reply[#reply + 1] = int(order[i + RETURNED])
  end
  return reply
end)

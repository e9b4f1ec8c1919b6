-- StockService, items one by one. A version is never used twice. Where more holds are
-- over than one call looks at, the answer is {'MORE'} (stock_hold.lua).

-- closes_in_ms 0: never; retain_ms: an order is remembered; expected_version 0: any
-- -> {'OK', view}
define('stock_put_item', {}, function(base, now, sku, total, buyer_limit, opens_in_ms, closes_in_ms, retain_ms,
  must_be_new, expected_version)
  local on_hand, limit, closes_in = tonumber(total), tonumber(buyer_limit), tonumber(closes_in_ms)
  local name = encode(sku)
  local key, buyers, skus = base .. 'stock:i:' .. name, base .. 'stock:b:' .. name, base .. 'stock:skus'
  if give_back_due(base, now) then return {'MORE'} end
  local old = load_item(key)
  local item = {}

  check_types(buyers, skus)
  if old then
    if must_be_new == '1' then fail('ALREADY_EXISTS', 'sku: the item exists') end
    check_version(tonumber(expected_version), old[VERSION])
    if on_hand < old[RESERVED] + old[SOLD] then
      fail('FAILED_PRECONDITION', 'on_hand: less than is reserved and sold')
    end
    item[VERSION], item[BORN] = old[VERSION] + 1, old[BORN]
    item[ERA] = old[LIMIT] == 0 and limit > 0 and item[VERSION] or old[ERA]
    item[RESERVED], item[SOLD] = old[RESERVED], old[SOLD]
  else
    if redis.call('EXISTS', key) == 1 then fail('FAILED_PRECONDITION', FOREIGN) end
    check_version(tonumber(expected_version), 0)
    item[VERSION] = math.max(now, deleted_version(base) + 1)
    item[BORN], item[ERA] = item[VERSION], item[VERSION]
    item[RESERVED], item[SOLD] = 0, 0
  end
  item[AVAILABLE] = on_hand - item[RESERVED] - item[SOLD]
  item[LIMIT] = limit
  item[OPENS] = now + tonumber(opens_in_ms) * 1000
  item[CLOSES] = closes_in > 0 and now + closes_in * 1000 or 0

  local more = old and item[AVAILABLE] - old[AVAILABLE] or on_hand
  if more ~= 0 or not old then append_ledger(base, 'PUT', sku, int(more), '') end
  write('HSET', key, 'available', int(item[AVAILABLE]), 'sold', int(item[SOLD]), 'version', int(item[VERSION]),
    'limit', int(limit), 'opens', int(item[OPENS]), 'closes', int(item[CLOSES]), 'retain', retain_ms,
    'era', int(item[ERA]), 'reserved', int(item[RESERVED]), 'born', int(item[BORN]))
  if limit == 0 then write('UNLINK', buyers) end
  if not old then
    write('ZADD', skus, 0, sku)
    -- TrimLedger may have given the ledger of a group without items an end.
    write('PERSIST', base .. 'stock:ledger')
  end
  return {'OK', view(sku, item, now)}
end)

-- -> {'OK', view of each that exists...}
define('stock_get_items', {'no-writes'}, function(base, now, ...)
  local due, reply = due_lines(base, now, HOLDS_MAX), {'OK'}
  if not due then return {'MORE'} end
  for _, sku in ipairs({...}) do
    local item = load_item_with(due, base, encode(sku))
    if item then reply[#reply + 1] = view(sku, item, now) end
  end
  return reply
end)

-- expected_version 0: any
-- -> {'OK', view, '1' when replayed}
define('stock_adjust', {}, function(base, now, sku, by, adjustment_id, reason, expected_version)
  local delta = tonumber(by)
  local key, record_key = base .. 'stock:i:' .. encode(sku), base .. 'stock:a:' .. encode(adjustment_id)
  local record = load_record(record_key, 'adjustment')
  if record then
    if record[2] ~= sku or record[3] ~= delta then
      fail('ALREADY_EXISTS', 'adjustment_id: used for another adjustment')
    end
    return {'OK', record[4], '1'}
  end
  if give_back_due(base, now) then return {'MORE'} end
  local item = existing_item(key)
  check_version(tonumber(expected_version), item[VERSION])
  if item[AVAILABLE] + delta < 0 then fail('FAILED_PRECONDITION', 'delta: takes more than is available') end
  if item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER then
    fail('INVALID_ARGUMENT', 'delta: on_hand would be over 2^53-1')
  end

  item[AVAILABLE] = item[AVAILABLE] + delta
  item[VERSION] = item[VERSION] + 1
  local answer = view(sku, item, now)
  if reason == '' then
    append_ledger(base, 'ADJUSTED', sku, int(delta), adjustment_id)
  else
    append_ledger(base, 'ADJUSTED', sku, int(delta), adjustment_id, 'reason', reason)
  end
  write('HSET', key, 'available', int(item[AVAILABLE]), 'version', int(item[VERSION]))
  write('SET', record_key, cmsgpack.pack({'adjustment', sku, delta, answer}), 'PX', int(item[RETAIN]))
  return {'OK', answer, '0'}
end)

-- Without memory too, for it gives some back.
-- expected_version 0: any -> {'OK'}
define('stock_delete_item', {'allow-oom'}, function(base, now, sku, expected_version)
  local name = encode(sku)
  local key, buyers, skus = base .. 'stock:i:' .. name, base .. 'stock:b:' .. name, base .. 'stock:skus'
  if give_back_due(base, now) then return {'MORE'} end
  local item = existing_item(key)
  check_version(tonumber(expected_version), item[VERSION])
  if item[RESERVED] > 0 then fail('FAILED_PRECONDITION', 'sku: some of the item is reserved') end
  check_types(buyers, skus)
  local version = math.max(item[VERSION], deleted_version(base))

  append_ledger(base, 'DELETED', sku, int(item[AVAILABLE]), '')
  write('UNLINK', key, buyers)
  write('ZREM', skus, sku)
  -- A new item's version is the time: the mark matters while that may be behind
  -- it, and is kept until a day later.
  write('SET', base .. 'stock:v', int(version), 'PX', int(ms_until(version, now) + DAY_MS))
  return {'OK'}
end)

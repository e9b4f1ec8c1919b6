-- StockService: single items. No version is used twice. {'MORE'}: stock_hold.lua.

-- Reads the keys that other code writes without reading, except the ledger: foreign data in them ends the call before
-- it changes anything.
local function check_types(s, sku)
  redis.call('HLEN', s.base .. 'stock:b:' .. encode(sku))
  redis.call('ZCARD', s.base .. 'stock:skus')
end

local function no_item()
  fail('NOT_FOUND', 'sku: no such item')
end

-- Returns the highest version of a deleted item that may still be ahead of the clock.
local function deleted_version(s)
  return tonumber(text_of(s, s.base .. 'stock:v') or '0') or foreign()
end

-- Whether a pool has changed since the server looked at it.
local function moved(expected_version, item)
  return expected_version ~= '0' and tonumber(expected_version) ~= item[VERSION]
end

-- closes_in_ms 0: never; retain_ms: for how long an order is remembered; expected_version 0: any
-- -> {'OK', view}, {'BUCKETED', n}
--    in a pool also {'SHORT', units that it needs first}, {'MOVED'}: the pool has another version
define_pass('stock_put_item', {}, function(s, sku, total, buyer_limit, opens_in_ms, closes_in_ms, retain_ms,
  must_be_new, expected_version)
  local pool, on_hand, limit = is_pool(s), tonumber(total), tonumber(buyer_limit)
  local opens_in, closes_in = tonumber(opens_in_ms), tonumber(closes_in_ms)
  if give_back_due(s) then return {'MORE'} end
  local old = item_of(s, sku)
  local item = {}

  check_types(s, sku)
  if old then
    if must_be_new == '1' then fail('ALREADY_EXISTS', 'sku: the item exists') end
    if pool and moved(expected_version, old) then return {'MOVED'} end
    check_version(tonumber(expected_version), old[VERSION])
    if on_hand < old[RESERVED] + old[SOLD] then
      if pool then return {'SHORT', old[RESERVED] + old[SOLD] - on_hand} end
      fail('FAILED_PRECONDITION', 'on_hand: must not be less than the reserved and sold units')
    end
    item[VERSION], item[BORN] = old[VERSION] + 1, old[BORN]
    item[ERA] = (pool or old[LIMIT] == 0 and limit > 0) and item[VERSION] or old[ERA]
    item[RESERVED], item[SOLD] = old[RESERVED], old[SOLD]
  else
    local there = elsewhere(s.base)
    if there then return there end
    check_version(tonumber(expected_version), 0)
    item[VERSION] = math.max(clock(), deleted_version(s) + 1)
    item[BORN], item[ERA] = item[VERSION], item[VERSION]
    item[RESERVED], item[SOLD] = 0, 0
  end
  item[AVAILABLE] = on_hand - item[RESERVED] - item[SOLD]
  item[LIMIT] = limit
  item[OPENS] = opens_in > 0 and clock() + opens_in * 1000 or 0
  item[CLOSES] = closes_in > 0 and clock() + closes_in * 1000 or 0
  item[RETAIN] = tonumber(retain_ms)

  local more = old and item[AVAILABLE] - old[AVAILABLE] or on_hand
  if more ~= 0 or not old then note(s, 'PUT', sku, int(more), '', '') end
  s.items[sku] = item
  change_item(s, item)
  if limit == 0 then forget_buyers(s, sku) end
  if not old then list_item(s, sku) end
  return {'OK', view(item)}
end, SHARED)

-- -> {'OK', view of each, or 0}, {'BUCKETED', n}
define_pass('stock_get_items', {'no-writes'}, function(s, ...)
  local due, reply = count_due(s, HOLDS_MAX), {'OK'}
  if not due then return {'MORE'} end
  for i, sku in ipairs({...}) do
    local item = item_with(s, due, sku)
    local there = not item and elsewhere(s.base)
    if there then return there end
    reply[i + 1] = item and view(item) or 0
  end
  return reply
end, SHARED)

-- expected_version 0: any
-- -> {'OK', view, 1 when replayed}, {'BUCKETED', n}; in a pool also {'SHORT', units}, {'MOVED'}
define_pass('stock_adjust', {}, function(s, sku, by, adjustment_id, reason, expected_version)
  local pool, delta = is_pool(s), tonumber(by)
  local key = s.base .. 'stock:a:' .. adjustment_id
  local record = load_record(s, key, 'adjustment')
  if record then
    if record[2] ~= sku or record[3] ~= delta then
      fail('ALREADY_EXISTS', 'adjustment_id: used for another adjustment', 'id_reused')
    end
    return {'OK', record[4], 1}
  end
  if give_back_due(s) then return {'MORE'} end
  local item = item_of(s, sku)
  if not item then return elsewhere(s.base) or no_item() end
  if pool and moved(expected_version, item) then return {'MOVED'} end
  check_version(tonumber(expected_version), item[VERSION])
  if item[AVAILABLE] + delta < 0 then
    if pool then return {'SHORT', -item[AVAILABLE] - delta} end
    fail('FAILED_PRECONDITION', 'delta: takes more units than are available')
  end
  if item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER then
    fail('INVALID_ARGUMENT', 'delta: on_hand would be over 2^53-1')
  end

  item[AVAILABLE] = item[AVAILABLE] + delta
  item[VERSION] = item[VERSION] + 1
  change_item(s, item)
  note(s, 'ADJUSTED', sku, int(delta), adjustment_id, reason)
  local answer = view(item)
  put_text(s, key, cmsgpack.pack({'adjustment', sku, delta, answer}), item[RETAIN])
  return {'OK', answer, 0}
end, SHARED)

-- version: a later item must have a higher one; part: this is a bucket, and the pool has deleted the item
local function remove_item(s, sku, item, version, part)
  check_types(s, sku)
  version = math.max(item[VERSION], version, deleted_version(s))
  if not part or item[AVAILABLE] > 0 then note(s, 'DELETED', sku, int(item[AVAILABLE]), '', '') end
  s.items[sku] = false
  list_item(s, sku)
  forget_buyers(s, sku)
  -- The version of a new item is the time. The mark is needed while the time may be behind it, and is kept for another
  -- day.
  put_text(s, s.base .. 'stock:v', int(version), ms_until(version, clock()) + DAY_MS)
  return {'OK'}
end

-- Runs without memory too, because it frees memory.
-- expected_version 0: any -> {'OK'}, {'BUCKETED', n}
define_pass('stock_delete_item', {'allow-oom'}, function(s, sku, expected_version)
  if give_back_due(s) then return {'MORE'} end
  local item = item_of(s, sku)
  if not item then return elsewhere(s.base) or no_item() end
  check_version(tonumber(expected_version), item[VERSION])
  if item[RESERVED] > 0 then fail('FAILED_PRECONDITION', 'sku: some of the item is reserved') end
  return remove_item(s, sku, item, 0)
end, SHARED)

-- In the pool, after all unsold units have come back; lent: the sold units in the buckets
-- -> also {'MOVED'}: the buckets have more, or the pool has another version
define_pass('stock_pool_delete', {'allow-oom'}, function(s, sku, expected_version, lent, version)
  local item = item_of(s, sku)
  if not item then return no_item() end
  if item[LENT] ~= tonumber(lent) or moved(expected_version, item) then return {'MOVED'} end
  return remove_item(s, sku, item, tonumber(version))
end, SHARED)

-- StockService. What changes together is written together: an item's counts, its
-- buyers' counts, the record that recognises a repeat and the ledger entry are
-- one function's writes, after all of its checks.
--
-- Keys, after the base; <x> is percent-encoded, here and nowhere else:
--   stock:i:<sku>            hash    an item: the fields of load_item
--   stock:b:<sku>            hash    buyer -> units bought; only while a limit is set
--   stock:o:<order_id>       string  an order: see HOW, STATE, ...
--   stock:a:<adjustment_id>  string  the answer of an Adjust
--   stock:skus               zset    the group's skus, all of score 0: pages in order
--   stock:ledger             stream  kind sku quantity order [reason]
--   stock:v                  string  the highest version of the items deleted lately
-- docs/stock.md says how large each is and when it ends.

local DAY_MS = 86400000
local FOREIGN = 'the store holds foreign data under this name'

-- An item's numbers, in the order in which load_item gives them. opens, closes:
-- the sale's window in microseconds, closes 0 = never. retain: ms an order is
-- remembered. born: the version it was created with. era: the version with which
-- its present buyer counts began, born or later; a line keeps the era it was sold
-- in, so that it belongs to this item if that is >= born, to its counts if ==.
local AVAILABLE, SOLD, VERSION, LIMIT, OPENS, CLOSES, RETAIN, ERA, RESERVED, BORN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

-- An order's record is {'order', method that made it, state, end of its hold in
-- microseconds, buyer, then for each line: sku, quantity, returned, what was
-- available after the first answer, era}.
local HOW, STATE, BUYER, LINES = 2, 3, 5, 6
local QUANTITY, RETURNED, LEFT, LINE = 1, 2, 3, 5 -- within a line; its length

-- What can stand in the way of a line, gravest first. The outcome of an order is
-- the gravest of its lines, and those are told.
local REFUSALS = {'UNKNOWN_SKU', 'NOT_OPEN', 'CLOSED', 'BUYER_LIMIT', 'SOLD_OUT'}

local function percent(c)
  return string.format('%%%02X', string.byte(c))
end

local function encode(text)
  if not string.find(text, '[^A-Za-z0-9._~-]') then return text end
  return (string.gsub(text, '[^A-Za-z0-9._~-]', percent))
end

-- nil when there is no item.
local function load_item(key)
  local item = redis.call('HMGET', key, 'available', 'sold', 'version', 'limit', 'opens', 'closes',
    'retain', 'era', 'reserved', 'born')
  if not item[AVAILABLE] then return nil end
  for i = 1, 10 do item[i] = tonumber(item[i]) or fail('FAILED_PRECONDITION', FOREIGN) end
  return item
end

local function existing_item(key)
  return load_item(key) or fail('NOT_FOUND', 'sku: no such item')
end

local function check_version(expected, current)
  if expected ~= 0 and expected ~= current then
    fail('ABORTED', 'expected_version: the current one is ' .. int(current))
  end
end

-- Reads what is about to be written unread, so that foreign data ends the call
-- while nothing is changed.
local function check_types(buyers, skus)
  redis.call('HLEN', buyers)
  redis.call('ZCARD', skus)
end

-- The highest version of a deleted item that may still be ahead of the clock.
local function deleted_version(base)
  return tonumber(redis.call('GET', base .. 'stock:v') or '0') or fail('FAILED_PRECONDITION', FOREIGN)
end

-- Milliseconds from now to an instant, never 0 before it.
local function ms_until(instant, now)
  return instant > now and math.ceil((instant - now) / 1000) or 0
end

-- The item as every answer gives it: sku, available, reserved, sold, version,
-- limit, state, ms to its opening, ms to its close.
local function view(sku, item, now)
  local state = 'OPEN'
  if now < item[OPENS] then
    state = 'NOT_OPEN'
  elseif item[CLOSES] > 0 and now >= item[CLOSES] then
    state = 'CLOSED'
  end
  return {sku, int(item[AVAILABLE]), int(item[RESERVED]), int(item[SOLD]), int(item[VERSION]),
    int(item[LIMIT]), state, int(ms_until(item[OPENS], now)), int(ms_until(item[CLOSES], now))}
end

-- A record of ours; nil when there is none.
local function load_record(key, kind)
  local text = redis.call('GET', key)
  if not text then return nil end
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' or record[1] ~= kind then
    fail('FAILED_PRECONDITION', FOREIGN)
  end
  return record
end

-- A function's first write, because the ledger is the one key it has not read.
local function append_ledger(base, kind, sku, quantity, cause, ...)
  write('XADD', base .. 'stock:ledger', '*', 'kind', kind, 'sku', sku, 'quantity', quantity, 'order', cause, ...)
end

-- args: sku, on_hand, limit, ms to the opening, ms to the close (0 = never),
--       ms an order is remembered, 1 = must be new, expected version (0 = any)
-- -> {'OK', view}
define('stock_put_item', {}, function(base, args, now)
  local sku, on_hand, limit, closes_in = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[5])
  local name = encode(sku)
  local key, buyers, skus = base .. 'stock:i:' .. name, base .. 'stock:b:' .. name, base .. 'stock:skus'
  local old = load_item(key)
  local item = {}

  check_types(buyers, skus)
  if old then
    if args[7] == '1' then fail('ALREADY_EXISTS', 'sku: the item exists') end
    check_version(tonumber(args[8]), old[VERSION])
    if on_hand < old[RESERVED] + old[SOLD] then
      fail('FAILED_PRECONDITION', 'on_hand: less than is reserved and sold')
    end
    item[VERSION], item[BORN] = old[VERSION] + 1, old[BORN]
    item[ERA] = old[LIMIT] == 0 and limit > 0 and item[VERSION] or old[ERA]
    item[RESERVED], item[SOLD] = old[RESERVED], old[SOLD]
  else
    if redis.call('EXISTS', key) == 1 then fail('FAILED_PRECONDITION', FOREIGN) end
    check_version(tonumber(args[8]), 0)
    item[VERSION] = math.max(now, deleted_version(base) + 1)
    item[BORN], item[ERA] = item[VERSION], item[VERSION]
    item[RESERVED], item[SOLD] = 0, 0
  end
  item[AVAILABLE] = on_hand - item[RESERVED] - item[SOLD]
  item[LIMIT] = limit
  item[OPENS] = now + tonumber(args[4]) * 1000
  item[CLOSES] = closes_in > 0 and now + closes_in * 1000 or 0

  local change = old and item[AVAILABLE] - old[AVAILABLE] or on_hand
  if change ~= 0 or not old then append_ledger(base, 'PUT', sku, int(change), '') end
  write('HSET', key, 'available', int(item[AVAILABLE]), 'sold', int(item[SOLD]), 'version', int(item[VERSION]),
    'limit', int(limit), 'opens', int(item[OPENS]), 'closes', int(item[CLOSES]), 'retain', args[6],
    'era', int(item[ERA]), 'reserved', int(item[RESERVED]), 'born', int(item[BORN]))
  if limit == 0 then write('UNLINK', buyers) end
  if not old then
    write('ZADD', skus, 0, sku)
    -- TrimLedger may have given the ledger of a group without items an end.
    write('PERSIST', base .. 'stock:ledger')
  end
  return {'OK', view(sku, item, now)}
end)

-- args: skus -> {'OK', view of each that exists...}
define('stock_get_items', {'no-writes'}, function(base, args, now)
  local reply = {'OK'}
  for _, sku in ipairs(args) do
    local item = load_item(base .. 'stock:i:' .. encode(sku))
    if item then reply[#reply + 1] = view(sku, item, now) end
  end
  return reply
end)

-- args: prefix, the sku after which the page begins ('' = from the first), size
-- -> {'OK', '1' when more follow, view...}
define('stock_list_group', {'no-writes'}, function(base, args, now)
  local prefix, after, size = args[1], args[2], tonumber(args[3])
  -- Not compared as text, which Lua does by locale.
  local from = after ~= '' and string.sub(after, 1, #prefix) == prefix and '(' .. after or '[' .. prefix
  -- No UTF-8 text has a byte 255: all that begins with the prefix is below.
  local skus = redis.call('ZRANGEBYLEX', base .. 'stock:skus', from, '(' .. prefix .. '\255', 'LIMIT', 0, size + 1)
  local reply = {'OK', skus[size + 1] and '1' or '0'}
  for i = 1, math.min(size, #skus) do
    local item = load_item(base .. 'stock:i:' .. encode(skus[i]))
    if item then reply[#reply + 1] = view(skus[i], item, now) end
  end
  return reply
end)

-- All groups of the base's namespace, a bounded number of keys a call.
-- args: prefix, cursor ('' = all keys were seen), size, then items that an earlier
--       call found and had no room for, each as "group/sku", both encoded
-- -> {'OK', next cursor, {group, view}...}, group and sku encoded, and of items
--    possibly a few more than size
define('stock_list_namespace', {'no-writes'}, function(base, args, now)
  local cursor, size, budget = args[2], tonumber(args[3]), 2000
  local namespace = string.match(base, '^ls:{[^/]*/')
  -- Encoded text has no character with a meaning of its own in a pattern.
  local pattern = namespace .. '*}:stock:i:' .. encode(args[1]) .. '*'
  local found, seen = {}, {}
  local function add(place)
    if not seen[place] then
      seen[place] = true
      found[#found + 1] = place
    end
  end

  for i = 4, #args do add(args[i]) end
  while cursor ~= '' and budget > 0 and #found < size do
    -- Asks for no more keys than there is room for, so that few are over.
    local count = math.min(size - #found, 100)
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'hash')
    budget = budget - count
    cursor = page[1] ~= '0' and page[1] or ''
    for _, key in ipairs(page[2]) do
      local group, sku = string.match(key, '^([^}]*)}:stock:i:(.*)$', #namespace + 1)
      add(group .. '/' .. sku)
    end
  end
  local reply = {'OK', cursor}
  for _, place in ipairs(found) do
    local group, sku = string.match(place, '^(.*)/(.*)$')
    local item = load_item(namespace .. group .. '}:stock:i:' .. sku)
    if item then reply[#reply + 1] = {group, view(sku, item, now)} end
  end
  return reply
end)

-- args: sku, delta, adjustment_id, reason, expected version (0 = any)
-- -> {'OK', view, '1' when replayed}
define('stock_adjust', {}, function(base, args, now)
  local sku, delta = args[1], tonumber(args[2])
  local key, record_key = base .. 'stock:i:' .. encode(sku), base .. 'stock:a:' .. encode(args[3])
  local record = load_record(record_key, 'adjustment')
  if record then
    if record[2] ~= sku or record[3] ~= delta then
      fail('ALREADY_EXISTS', 'adjustment_id: used for another adjustment')
    end
    return {'OK', record[4], '1'}
  end
  local item = existing_item(key)
  check_version(tonumber(args[5]), item[VERSION])
  if item[AVAILABLE] + delta < 0 then fail('FAILED_PRECONDITION', 'delta: takes more than is available') end
  if item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER then
    fail('INVALID_ARGUMENT', 'delta: on_hand would be over 2^53-1')
  end

  item[AVAILABLE] = item[AVAILABLE] + delta
  item[VERSION] = item[VERSION] + 1
  local answer = view(sku, item, now)
  if args[4] == '' then
    append_ledger(base, 'ADJUSTED', sku, int(delta), args[3])
  else
    append_ledger(base, 'ADJUSTED', sku, int(delta), args[3], 'reason', args[4])
  end
  write('HSET', key, 'available', int(item[AVAILABLE]), 'version', int(item[VERSION]))
  write('SET', record_key, cmsgpack.pack({'adjustment', sku, delta, answer}), 'PX', int(item[RETAIN]))
  return {'OK', answer, '0'}
end)

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

-- Whether a ledger id stands before another. Both parts are below 2^53.
local function id_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
  return a_ms < b_ms or a_ms == b_ms and tonumber(a_seq) < tonumber(b_seq)
end

-- args: the id after which to read ('' = from the oldest), limit
-- -> {'OK' or 'TRIMMED', oldest id or '', id, kind, sku, quantity, order, reason of each...}
define('stock_read_ledger', {'no-writes'}, function(base, args)
  local ledger, after = base .. 'stock:ledger', args[1]
  if redis.call('EXISTS', ledger) == 0 then
    -- An id was given here once: the ledger of then was trimmed and has ended.
    return {after ~= '' and after ~= '0-0' and 'TRIMMED' or 'OK', ''}
  end
  local info, field = redis.call('XINFO', 'STREAM', ledger), {}
  for i = 1, #info, 2 do field[info[i]] = info[i + 1] end
  local oldest = field['first-entry'] and field['first-entry'][1] or ''
  if after ~= '' and id_before(after, field['max-deleted-entry-id']) then return {'TRIMMED', oldest} end

  local reply = {'OK', oldest}
  local from = after == '' and '-' or '(' .. after
  for _, entry in ipairs(redis.call('XRANGE', ledger, from, '+', 'COUNT', args[2])) do
    reply[#reply + 1] = entry[1]
    for i = 2, 10, 2 do reply[#reply + 1] = entry[2][i] or '' end
  end
  return reply
end)

-- args: the last id to forget -> {'OK'}
define('stock_trim_ledger', {}, function(base, args)
  local ledger = base .. 'stock:ledger'
  local items = redis.call('ZCARD', base .. 'stock:skus')
  local last = redis.call('XREVRANGE', ledger, args[1], '-', 'COUNT', 1)[1]
  if last then
    -- XDEL, unlike XTRIM, leaves the mark by which ReadLedger tells TRIMMED.
    write('XDEL', ledger, last[1])
    write('XTRIM', ledger, 'MINID', '=', last[1])
    if items == 0 and redis.call('XLEN', ledger) == 0 then write('PEXPIRE', ledger, int(30 * DAY_MS)) end
  end
  return {'OK'}
end)

-- args: sku, expected version (0 = any) -> {'OK'}
define('stock_delete_item', {}, function(base, args, now)
  local sku = args[1]
  local name = encode(sku)
  local key, buyers, skus = base .. 'stock:i:' .. name, base .. 'stock:b:' .. name, base .. 'stock:skus'
  local item = existing_item(key)
  check_version(tonumber(args[2]), item[VERSION])
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

-- StockService. What changes together is written together: an item's counts, its
-- buyers' counts, the record that recognises a repeat and the ledger entry are
-- one function's writes, after all of its checks.
--
-- Keys, after the base; <x> is percent-encoded, here and nowhere else:
--   stock:i:<sku>            hash    an item: the fields of load_item
--   stock:b:<sku>            hash    buyer -> units bought; only while a limit is set
--   stock:o:<order_id>       string  an order: see HOW, STATE, ...; no TTL while RESERVED
--   stock:x                  zset    order_id of each RESERVED order, by the end of its hold in us
--   stock:a:<adjustment_id>  string  the answer of an Adjust
--   stock:t:<return_id>      string  the answer of a Return
--   stock:skus               zset    the group's skus, all of score 0: pages in order
--   stock:ledger             stream  kind sku quantity order [reason]
--   stock:r                  set     the servers where readers of the ledger wait
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

-- An order's record is {'order', method that made it, state, buyer, ms it is
-- remembered after its last change, then for each line: sku, quantity, returned, what
-- was available after the first answer, era}. When its hold ends stands in stock:x alone.
local HOW, STATE, BUYER, KEEP, LINES = 2, 3, 4, 5, 6
local QUANTITY, RETURNED, LEFT, LINE_ERA, LINE = 1, 2, 3, 4, 5 -- within a line; its length

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

-- The sub-call that has looked for the ledger's readers: one look is enough.
local looked_in = 0

-- A function's first write, because the ledger is the one key it has not read. Readers
-- that wait for an entry (stock_ledger.lua) are woken once, and register again.
local function append_ledger(base, kind, sku, quantity, cause, ...)
  local readers, servers = base .. 'stock:r', {}
  if looked_in ~= sub_call then servers = redis.call('SMEMBERS', readers) end
  write('XADD', base .. 'stock:ledger', '*', 'kind', kind, 'sku', sku, 'quantity', quantity, 'order', cause, ...)
  looked_in = sub_call
  for _, server in ipairs(servers) do write('PUBLISH', 'ls:wake:' .. server, 'W ' .. base .. 'ledger') end
  if #servers > 0 then write('DEL', readers) end
end

local function order_key(base, id)
  return base .. 'stock:o:' .. encode(id)
end

-- Writes an order that has ended: from now on it has an end itself.
local function save_order(base, id, order)
  write('SET', order_key(base, id), cmsgpack.pack(order), 'PX', int(order[KEEP]))
end

-- What a unit of each kind of ledger entry does: to available, reserved, sold, and to the
-- buyer's count.
local MOVES = {
  DEDUCTED = {-1, 0, 1, 1}, RESERVED = {-1, 1, 0, 1}, CONFIRMED = {0, -1, 1, 0},
  CANCELLED = {1, -1, 0, -1}, EXPIRED = {1, -1, 0, -1}, RETURNED = {1, 0, -1, -1},
}

-- Changes are made in memory first, so that all is read before the first write: items
-- by sku (false: there is none) with their keys, what their buyers have (nil: nobody's
-- was asked for), the ledger's entries.
local function open_changes(base)
  return {base = base, items = {}, keys = {}, held = nil, entries = {}}
end

local function changing_item(changes, sku)
  local item = changes.items[sku]
  if item == nil then
    local key = changes.base .. 'stock:i:' .. encode(sku)
    item = load_item(key) or false
    changes.items[sku], changes.keys[sku] = item, key
  end
  return item
end

-- What the buyer has in orders that count.
local function changing_held(changes, sku, buyer)
  changes.held = changes.held or {}
  local held = changes.held[sku] or {}
  changes.held[sku] = held
  if not held[buyer] then
    held[buyer] = tonumber(redis.call('HGET', changes.base .. 'stock:b:' .. encode(sku), buyer) or '0')
      or fail('FAILED_PRECONDITION', FOREIGN)
  end
  return held[buyer]
end

-- Whether units sold in the era are of this item, and not of one deleted since.
local function belongs(item, era)
  return item and era >= item[BORN]
end

-- Moves units of a line; more: what else the ledger says.
local function change(changes, kind, sku, quantity, era, id, buyer, ...)
  local item, by = changing_item(changes, sku), MOVES[kind]
  if not belongs(item, era) then return end
  item[AVAILABLE] = item[AVAILABLE] + by[1] * quantity
  item[RESERVED] = item[RESERVED] + by[2] * quantity
  item[SOLD] = item[SOLD] + by[3] * quantity
  item[VERSION] = item[VERSION] + 1
  if by[4] ~= 0 and item[LIMIT] > 0 and era == item[ERA] then
    local held = changing_held(changes, sku, buyer)
    changes.held[sku][buyer] = held + by[4] * quantity
  end
  changes.entries[#changes.entries + 1] = {kind, sku, int(quantity), id, ...}
end

local function change_order(changes, kind, id, order, ...)
  for i = LINES, #order, LINE do
    change(changes, kind, order[i], order[i + QUANTITY], order[i + LINE_ERA], id, order[BUYER], ...)
  end
end

local function save_changes(changes)
  local base = changes.base
  for _, entry in ipairs(changes.entries) do append_ledger(base, unpack(entry)) end
  for sku, item in pairs(changes.items) do
    if item then
      write('HSET', changes.keys[sku], 'available', int(item[AVAILABLE]), 'reserved', int(item[RESERVED]),
        'sold', int(item[SOLD]), 'version', int(item[VERSION]))
    end
  end
  for sku, held in pairs(changes.held or {}) do
    for buyer, count in pairs(held) do
      local key = base .. 'stock:b:' .. encode(sku)
      if count > 0 then write('HSET', key, buyer, int(count)) else write('HDEL', key, buyer) end
    end
  end
end

-- StockService: the state of a group in an FCALL: the data that its calls read and change. Changes are made in memory,
-- where later calls see them, and written once, after all calls (close_stock). A call reads everything that it needs
-- before it changes anything, so a call that fails has changed nothing. A call that sees a change of an earlier call
-- fails with that call if the write fails (touch).

-- Parts of a state, each made when it is needed. Most have one element, and are made with it, so that Lua need not grow
-- them.
--   items     by sku; false: no such item
--   texts     by key: the new values of string keys
--   keys      for each of these the key and the ms that it is kept, false: forever
--   ledger    ENTRY words each: note
--   held      by sku: units by buyer
--   bought    by sku: the buyers whose units changed
--   unlinked  skus whose buyers' counts end
--   ends      by order id: when its hold ends, false: no hold any more
--   moved     the order ids of `ends`
--   skus      new and deleted skus
--   fields    by key of a hash: its changed fields
--   others    states of other groups, by base
--   gave      whether all expired holds were given back
--   due, due_left  stock_hold.lua
local function open_stock(base)
  return {base = base, items = nil, texts = nil, keys = nil, ledger = nil, touched = false, at = 0}
end

-- ---- items ----

-- Returns nil if there is none.
local function item_of(s, sku)
  local items = s.items
  local item = items and items[sku]
  if item == nil then
    local text = redis.call('GET', s.base .. 'stock:i:' .. sku)
    item = false
    if text then item = unpack_item(text) or foreign() end
    if items then items[sku] = item else s.items = {[sku] = item} end
  elseif item and item[CHANGED] or s.skus and s.skus[sku] then
    touch(s)
  end
  return item or nil
end

-- Returns the reply for a missing key of a group in buckets; nil: the group is not in buckets.
local function elsewhere(base)
  local n = redis.call('GET', base .. 'stock:n')
  return n and {'BUCKETED', tonumber(n) or foreign()}
end

-- Whether this is the pool of a group in buckets.
local function is_pool(s)
  return string.find(s.base, '/%d+/0}:$') ~= nil
end

local function change_item(s, item)
  item[CHANGED] = true
  touch(s)
end

-- The sku is new or deleted: updates the group's list.
local function list_item(s, sku)
  s.skus = s.skus or {}
  s.skus[sku] = true
  touch(s)
end

-- Returns the units of the buyer's orders that count.
local function held_of(s, sku, buyer)
  s.held = s.held or {}
  local held = s.held[sku] or {}
  s.held[sku] = held
  if not held[buyer] then
    held[buyer] = tonumber(redis.call('HGET', s.base .. 'stock:b:' .. encode(sku), buyer) or '0')
      or foreign()
  end
  return held[buyer]
end

-- held_of must have read the buyer's units.
local function change_held(s, sku, buyer, by)
  s.bought = s.bought or {}
  local held, bought = s.held[sku], s.bought[sku] or {}
  s.bought[sku] = bought
  held[buyer] = held[buyer] + by
  bought[#bought + 1] = buyer
end

-- Deletes the counts of all buyers. check_types must have read their key.
local function forget_buyers(s, sku)
  s.unlinked = s.unlinked or {}
  s.unlinked[sku] = true
end

-- ---- orders and other records ----

-- Returns the value of a string key; false: none.
local function text_of(s, key)
  local text = s.texts and s.texts[key]
  if not text then return redis.call('GET', key) end
  touch(s)
  return text
end

-- keep_ms: false = forever
local function put_text(s, key, text, keep_ms)
  local keys = s.keys
  if keys then
    s.texts[key] = text
    keys[#keys + 1] = key
    keys[#keys + 1] = keep_ms
  else
    s.texts, s.keys = {[key] = text}, {key, keep_ms}
  end
  touch(s)
end

local function order_key(s, id)
  return s.base .. 'stock:o:' .. id
end

-- Returns nil if there is none.
local function load_order(s, id)
  local text = text_of(s, order_key(s, id))
  return text and unpack_order(text) or nil
end

-- An order that has ended is remembered only for a while.
local function save_order(s, id, order)
  put_text(s, order_key(s, id), pack_order(order), order[KEEP])
end

-- Returns the record of an Adjust or a Return; nil: none.
local function load_record(s, key, kind)
  local text = text_of(s, key)
  if not text then return nil end
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' or record[1] ~= kind then
    foreign()
  end
  return record
end

-- Returns when an order's hold ends; nil if the order is not RESERVED.
local function hold_end(s, id, order)
  if order[STATE] ~= 'RESERVED' then return nil end
  local ends = s.ends and s.ends[id]
  if ends == nil then
    return tonumber(redis.call('ZSCORE', s.base .. 'stock:x', id)) or foreign()
  end
  touch(s)
  return ends
end

-- ends: false = no hold any more
local function move_end(s, id, ends)
  s.ends, s.moved = s.ends or {}, s.moved or {}
  s.ends[id] = ends
  s.moved[#s.moved + 1] = id
  touch(s)
end

-- ---- lines ----

-- The change of available, reserved, sold, and the buyer's count for a unit of each kind of ledger entry.
local MOVES = {
  DEDUCTED = {-1, 0, 1, 1}, RESERVED = {-1, 1, 0, 1}, CONFIRMED = {0, -1, 1, 0},
  CANCELLED = {1, -1, 0, -1}, EXPIRED = {1, -1, 0, -1}, RETURNED = {1, 0, -1, -1},
}

-- Whether units sold in the era belong to this item, and not to one that was deleted since.
local function belongs(item, era)
  return item and era >= item[BORN]
end

local function counts(item, era)
  return item[LIMIT] > 0 and era == item[ERA]
end

-- A ledger entry: kind, sku, quantity as text, cause, reason.
local ENTRY = 5
local function note(s, kind, sku, quantity, cause, reason)
  local ledger = s.ledger
  if ledger then
    local n = #ledger
    ledger[n + 1], ledger[n + 2], ledger[n + 3], ledger[n + 4], ledger[n + 5] = kind, sku, quantity, cause, reason
  else
    s.ledger = {kind, sku, quantity, cause, reason}
  end
end

-- Moves units of a line that `ready` has read; `text` is the quantity for the ledger.
local function move(s, kind, sku, quantity, text, era, id, buyer, reason)
  local item, by = s.items[sku], MOVES[kind]
  if not belongs(item, era) then return end
  item[AVAILABLE] = item[AVAILABLE] + by[1] * quantity
  item[RESERVED] = item[RESERVED] + by[2] * quantity
  item[SOLD] = item[SOLD] + by[3] * quantity
  item[VERSION] = item[VERSION] + 1
  change_item(s, item)
  if by[4] ~= 0 and counts(item, era) then change_held(s, sku, buyer, by[4] * quantity) end
  note(s, kind, sku, text, id, reason)
end

-- Reads the data needed to move the lines of an order.
local function ready(s, kind, order)
  for i = LINES, #order, LINE do
    local item, era = item_of(s, order[i]), order[i + LINE_ERA]
    if MOVES[kind][4] ~= 0 and belongs(item, era) and counts(item, era) then held_of(s, order[i], order[BUYER]) end
  end
end

local function move_order(s, kind, id, order, reason)
  for i = LINES, #order, LINE do
    local quantity = order[i + QUANTITY]
    move(s, kind, order[i], quantity, int(quantity), order[i + LINE_ERA], id, order[BUYER], reason)
  end
end

-- ---- writing ----

-- The maximum of ledger entries in one entry of the stream.
local PACKED_MAX = 1000

local function wake_readers(of, servers)
  -- Readers of a group in buckets wait at the group: "{ns/group/n/k}" becomes "{ns/group}".
  local base = string.gsub(of, '/%d+/%d+}:$', '}:')
  for _, server in ipairs(servers) do write('PUBLISH', channel_of(server), 'W ' .. base .. 'ledger') end
  write('DEL', of .. 'stock:r')
end

-- Appends n entries, as one entry of the stream. The first call is the first write: nothing has read these keys, so they
-- may hold foreign data. Waiting readers are woken once and register again.
local function write_entries(base, n, text)
  local readers = base .. 'stock:r'
  local servers = redis.call('EXISTS', readers) == 1 and redis.call('SMEMBERS', readers)
  write('XADD', base .. 'stock:ledger', '*', n == 1 and '1' or int(n), text)
  if servers then wake_readers(base, servers) end
end

local function write_ledger(s)
  local words = s.ledger
  for first = 1, #words, ENTRY * PACKED_MAX do
    local last = math.min(#words, first + ENTRY * PACKED_MAX - 1)
    write_entries(s.base, (last - first + 1) / ENTRY, table.concat(words, '\0', first, last))
  end
end

local function write_items(s)
  local key = s.base .. 'stock:i:'
  for sku, item in pairs(s.items) do
    if item and item[CHANGED] then write('SET', key .. sku, pack_item(item)) end
  end
  if not s.skus then return end
  for sku in pairs(s.skus) do
    if s.items[sku] then
      write('ZADD', s.base .. 'stock:skus', 0, sku)
      -- TrimLedger may have set an expiry on the ledger of a group without items.
      write('PERSIST', s.base .. 'stock:ledger')
    else
      write('UNLINK', key .. sku, s.base .. 'stock:m:' .. encode(sku))
      write('ZREM', s.base .. 'stock:skus', sku)
    end
  end
end

local function write_buyers(s)
  for sku, buyers in pairs(s.bought or {}) do
    local key, held, some, none = s.base .. 'stock:b:' .. encode(sku), s.held[sku], {}, {}
    for _, buyer in ipairs(buyers) do
      if held[buyer] > 0 then
        some[#some + 1], some[#some + 2] = buyer, int(held[buyer])
      else
        none[#none + 1] = buyer
      end
    end
    if some[1] then write('HSET', key, unpack(some)) end
    if none[1] then write('HDEL', key, unpack(none)) end
  end
  for sku in pairs(s.unlinked or {}) do write('UNLINK', s.base .. 'stock:b:' .. encode(sku)) end
end

local function write_ends(s)
  local more, over = {}, {}
  for _, id in ipairs(s.moved) do
    if s.ends[id] then
      more[#more + 1], more[#more + 2] = s.ends[id], id
    else
      over[#over + 1] = id
    end
  end
  if #more > 0 then write('ZADD', s.base .. 'stock:x', unpack(more)) end
  if #over > 0 then write('ZREM', s.base .. 'stock:x', unpack(over)) end
end

-- Sets a field that was read before; value false: deletes it.
local function put_field(s, key, field, value)
  s.fields = s.fields or {}
  local fields = s.fields[key] or {}
  s.fields[key] = fields
  fields[field] = value
  touch(s)
end

-- Returns the value of a field; false: none.
local function field_of(s, key, field)
  local fields = s.fields and s.fields[key]
  if not fields or fields[field] == nil then return redis.call('HGET', key, field) end
  touch(s)
  return fields[field]
end

local function write_fields(s)
  for key, fields in pairs(s.fields) do
    for field, value in pairs(fields) do
      if value then write('HSET', key, field, value) else write('HDEL', key, field) end
    end
  end
end

local function write_texts(s)
  local keys, texts = s.keys, s.texts
  for i = 1, #keys, 2 do
    local key, keep_ms = keys[i], keys[i + 1]
    if keep_ms then
      write('SET', key, texts[key], 'PX', ms_text(keep_ms))
    else
      write('SET', key, texts[key])
    end
  end
end

local function close_stock(s)
  if s.ledger then write_ledger(s) end
  if s.items then write_items(s) end
  if s.bought or s.unlinked then write_buyers(s) end
  if s.keys then write_texts(s) end
  if s.fields then write_fields(s) end
  if s.moved then write_ends(s) end
  if s.others then
    for _, other in pairs(s.others) do close_stock(other) end
  end
end

-- For define_pass.
local SHARED = {open = open_stock, close = close_stock}

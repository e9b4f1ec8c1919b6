-- StockService: keys and records. A function checks everything before it writes, and writes an item's counts, its
-- buyers' counts, the record that recognizes a repeat and the ledger's entries together (stock_change.lua).
--
-- Keys, after the base. <x> is not encoded, except in the hashes stock:b and stock:m, because the scan that lists locks
-- reads hashes:
--   stock:i:<sku>            string  an item: pack_item
--   stock:b:<sku>            hash    buyer -> units bought; only while a limit is set. In a bucket: stock_claims.lua
--   stock:o:<order_id>       string  an order: pack_order; no TTL while RESERVED
--   stock:x                  zset    order_id of each RESERVED order, by the end of its hold in us
--   stock:a:<adjustment_id>  string  the answer of an Adjust
--   stock:t:<return_id>      string  the answer of a Return
--   stock:skus               zset    the group's skus, all with score 0, so that pages are in order
--   stock:ledger             stream  entries, packed: stock_ledger.lua
--   stock:r                  set     the servers where readers of the ledger wait
--   stock:v                  string  the highest version of recently deleted items
--   stock:n                  string  the number of buckets; a group that has it has no other key
--   stock:m:<sku>            hash    units under way between buckets: stock_moves.lua
-- docs/stock.md has their sizes and ends.

-- An item's numbers, in packed order. opens, closes: the sale's window in us, 0 = has begun, never ends. retain: how
-- many ms an order is remembered. born: the version with which the item was created. era: the version with which its
-- current buyer counts began. A line keeps the era in which it was sold: it belongs to this item if its era >= born,
-- and to the item's buyer counts if it is the item's era. In memory also: whether the item was changed.
local AVAILABLE, SOLD, VERSION, LIMIT, OPENS, CLOSES, RETAIN, ERA, RESERVED, BORN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local CHANGED = 11
local LENT = SOLD -- in a pool's item: stock_moves.lua

-- A packed order: a mark, the number of lines, the method that made it, its state, how many ms it is remembered after
-- its last change, the buyer, and for each line sku, quantity, returned, the units available after the first answer,
-- era. Only stock:x has the end of its hold.
local COUNT, HOW, STATE, KEEP, BUYER, LINES = 2, 3, 4, 5, 6, 7
local QUANTITY, RETURNED, LEFT, LINE_ERA, LINE = 1, 2, 3, 4, 5 -- within a line; LINE: its length

-- The first byte of packed data. The byte and the length distinguish it from foreign data.
local ITEM_MARK, ORDER_MARK = 1, 2
local ITEM_BYTES, ITEM_FORMAT = 81, '<Bdddddddddd'
-- Methods and states are packed as their places in WORDS.
local WORDS = {'DEDUCT', 'RESERVE', 'CANCEL', 'RESERVED', 'CONFIRMED', 'EXPIRED', 'CANCELLED', 'RETURNED'}
local PLACE = {}
for i = 1, #WORDS do PLACE[WORDS[i]] = i end
-- Indexed by the number of lines.
local LINE_FORMAT = '<sdddd'
local ORDER_FORMATS = {[0] = '<BBBBds'}
for n = 1, 64 do ORDER_FORMATS[n] = ORDER_FORMATS[n - 1] .. LINE_FORMAT end

local function pack_item(item)
  return struct.pack(ITEM_FORMAT, ITEM_MARK, unpack(item, 1, BORN))
end

-- Returns nil for foreign data.
local function unpack_item(text)
  if #text ~= ITEM_BYTES or string.byte(text) ~= ITEM_MARK then return nil end
  local item = {struct.unpack('<dddddddddd', text, 2)}
  item[CHANGED] = false
  return item
end

local function pack_order(order)
  return struct.pack(ORDER_FORMATS[order[COUNT]], ORDER_MARK, order[COUNT], PLACE[order[HOW]], PLACE[order[STATE]],
    unpack(order, KEEP))
end

local function unpack_order(text)
  local mark, n = string.byte(text, 1, 2)
  local order = {pcall(struct.unpack, ORDER_FORMATS[n or 0] or '', text)}
  if mark ~= ORDER_MARK or order[#order] ~= #text + 1 then foreign() end
  table.remove(order, 1)
  order[#order] = nil
  order[HOW], order[STATE] = WORDS[order[HOW]], WORDS[order[STATE]]
  return order[HOW] and order[STATE] and order or foreign()
end

local function percent(c)
  return string.format('%%%02X', string.byte(c))
end

local function encode(text)
  if not string.find(text, '[^A-Za-z0-9._~-]') then return text end
  return (string.gsub(text, '[^A-Za-z0-9._~-]', percent))
end

-- Returns 'NOT_OPEN' or 'CLOSED' outside the sale's window; otherwise nil.
local function window(item)
  if item[OPENS] > 0 and clock() < item[OPENS] then return 'NOT_OPEN' end
  if item[CLOSES] > 0 and clock() >= item[CLOSES] then return 'CLOSED' end
  return nil
end

-- The form of an item in every answer: available, reserved, sold, version, limit, state, ms to its opening, ms to its
-- close.
local function view(item)
  local opens_in, closes_in = 0, 0
  if item[OPENS] > 0 then opens_in = ms_until(item[OPENS], clock()) end
  if item[CLOSES] > 0 then closes_in = ms_until(item[CLOSES], clock()) end
  return {item[AVAILABLE], item[RESERVED], item[SOLD], item[VERSION], item[LIMIT], window(item) or 'OPEN',
    opens_in, closes_in}
end

-- The form of an order in every answer: state, ms left of its hold, buyer, then sku, quantity, returned of each line.
local function view_order(order, state, hold_ms)
  local reply, n = {state, hold_ms, order[BUYER]}, 3
  for i = LINES, #order, LINE do
    reply[n + 1], reply[n + 2], reply[n + 3] = order[i], order[i + QUANTITY], order[i + RETURNED]
    n = n + 3
  end
  return reply
end

-- StockService. What changes together is written together: an item's counts, its
-- buyers' counts, the record that recognises a repeat and the ledger's entries are
-- one function's writes, after all of its checks (stock_change.lua).
--
-- Keys, after the base. <x> comes last and is not encoded, but in stock:b, a hash, for
-- the scan that lists locks looks at hashes:
--   stock:i:<sku>            string  an item: pack_item
--   stock:b:<sku>            hash    buyer -> units bought; only while a limit is set
--   stock:o:<order_id>       string  an order: pack_order; no TTL while RESERVED
--   stock:x                  zset    order_id of each RESERVED order, by the end of its hold in us
--   stock:a:<adjustment_id>  string  the answer of an Adjust
--   stock:t:<return_id>      string  the answer of a Return
--   stock:skus               zset    the group's skus, all of score 0: pages in order
--   stock:ledger             stream  entries, packed: stock_ledger.lua
--   stock:r                  set     the servers where readers of the ledger wait
--   stock:v                  string  the highest version of the items deleted lately
--   stock:n                  string  how many buckets the group is in; then it has none of the other keys
--   stock:m:<sku>            hash    units on their way between buckets: stock_moves.lua
-- docs/stock.md says how large each is and when it ends.

local DAY_MS = 86400000

-- An item's numbers, in the order in which they are packed. opens, closes: the sale's
-- window in microseconds, 0 = has begun, never ends. retain: ms an order is
-- remembered. born: the version it was created with. era: the version with which
-- its present buyer counts began, born or later; a line keeps the era it was sold
-- in, so that it belongs to this item if that is >= born, to its counts if ==.
-- In memory also: whether it was changed.
local AVAILABLE, SOLD, VERSION, LIMIT, OPENS, CLOSES, RETAIN, ERA, RESERVED, BORN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local CHANGED = 11

-- An order, as it is packed: a mark, its count of lines, the method that made it, its
-- state, ms it is remembered after its last change, buyer, then for each line: sku,
-- quantity, returned, what was available after the first answer, era. When its hold
-- ends stands in stock:x alone.
local COUNT, HOW, STATE, KEEP, BUYER, LINES = 2, 3, 4, 5, 6, 7
local QUANTITY, RETURNED, LEFT, LINE_ERA, LINE = 1, 2, 3, 4, 5 -- within a line; its length

-- The first byte of what is packed; with the length it tells foreign data.
local ITEM_MARK, ORDER_MARK = 1, 2
local ITEM_BYTES = 81
-- Numbers of methods and states: their places.
local WORDS = {'DEDUCT', 'RESERVE', 'CANCEL', 'RESERVED', 'CONFIRMED', 'EXPIRED', 'CANCELLED', 'RETURNED'}
local PLACE = {}
for i = 1, #WORDS do PLACE[WORDS[i]] = i end
-- By the count of lines.
local LINE_FORMAT = '<sdddd'
local ORDER_FORMATS = {[0] = '<BBBBds'}
for n = 1, 64 do ORDER_FORMATS[n] = ORDER_FORMATS[n - 1] .. LINE_FORMAT end

local function pack_item(item)
  return struct.pack('<Bdddddddddd', ITEM_MARK, unpack(item, 1, BORN))
end

-- nil when it is foreign data.
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

-- Milliseconds from now to an instant, never 0 before it.
local function ms_until(instant, now)
  return instant > now and math.ceil((instant - now) / 1000) or 0
end

-- Whether the sale's window stands in the way: 'NOT_OPEN', 'CLOSED'; nil when it does not.
local function window(item)
  if item[OPENS] > 0 and clock() < item[OPENS] then return 'NOT_OPEN' end
  if item[CLOSES] > 0 and clock() >= item[CLOSES] then return 'CLOSED' end
  return nil
end

-- The item as every answer gives it: available, reserved, sold, version, limit, state,
-- ms to its opening, ms to its close.
local function view(item)
  local opens_in, closes_in = 0, 0
  if item[OPENS] > 0 then opens_in = ms_until(item[OPENS], clock()) end
  if item[CLOSES] > 0 then closes_in = ms_until(item[CLOSES], clock()) end
  return {item[AVAILABLE], item[RESERVED], item[SOLD], item[VERSION], item[LIMIT], window(item) or 'OPEN',
    opens_in, closes_in}
end

-- The order as every answer gives it: state, ms left of its hold, buyer, then sku,
-- quantity, returned of each line.
local function view_order(order, state, hold_ms)
  local reply, n = {state, hold_ms, order[BUYER]}, 3
  for i = LINES, #order, LINE do
    reply[n + 1], reply[n + 2], reply[n + 3] = order[i], order[i + QUANTITY], order[i + RETURNED]
    n = n + 3
  end
  return reply
end

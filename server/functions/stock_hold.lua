-- StockService, holds that end by themselves. A hold is over when its end in stock:x is
-- now or before, and from then on nobody sees it: who writes gives back first what is
-- over (give_back_due), who reads counts it as given back (due_lines). What nobody asks
-- for is given back by a server's lasting alarm (stock_expire).

-- How much one FCALL gives back, and one reader counts: holds, lines of theirs (but for
-- those of the last hold).
local HOLDS_MAX, HOLD_LINES_MAX = 300, 600
-- A lasting alarm comes again after this at the soonest, so that ends close together share one.
local ALARM_AGAIN_MS = 50
-- Later than that nobody has a lasting alarm for the group any more.
local OVERDUE_US = 2000000

-- When an order's hold ends; nil when it is not RESERVED.
local function hold_end(base, id, order)
  if order[STATE] ~= 'RESERVED' then return nil end
  return tonumber(redis.call('ZSCORE', base .. 'stock:x', id)) or fail('FAILED_PRECONDITION', FOREIGN)
end

-- The orders whose hold is over, the oldest first; one more than `max` if there are more.
local function due_ids(base, now, max)
  return redis.call('ZRANGEBYSCORE', base .. 'stock:x', '-inf', int(now), 'LIMIT', 0, max + 1)
end

-- The first `max` of them: {order id, order or false}...; whether that is not all; how many
-- lines they have with the `lines` that were counted before.
local function load_holds(base, ids, max, lines)
  local holds = {}
  for i, id in ipairs(ids) do
    if i > max or lines >= HOLD_LINES_MAX then return holds, true, lines end
    local order = load_record(order_key(base, id), 'order')
    -- One whose record was lost holds nothing that is known.
    if order and order[STATE] ~= 'RESERVED' then order = nil end
    lines = lines + (order and (#order - LINES + 1) / LINE or 0)
    holds[i] = {id, order or false}
  end
  return holds, false, lines
end

local function give_back(base, holds)
  local changes, ids = open_changes(base), {}
  for i, hold in ipairs(holds) do
    ids[i] = hold[1]
    if hold[2] then change_order(changes, 'EXPIRED', hold[1], hold[2]) end
  end
  save_changes(changes)
  for _, hold in ipairs(holds) do
    local id, order = hold[1], hold[2]
    if order then
      order[STATE] = 'EXPIRED'
      save_order(base, id, order)
    end
  end
  write('ZREM', base .. 'stock:x', unpack(ids))
end

-- The last FCALL that gave back, and how many holds and lines that were, of all its
-- sub-calls.
local gave_in, gave, gave_lines = 0, 0, 0

-- First thing of whoever needs to know what is available. True when more is over than
-- one call gives back: the answer then is {'MORE'}, and the same is asked again. Also:
-- whether anything was given back. What it writes is no effect of the call that found it.
local function give_back_due(base, now)
  if gave_in ~= fcall then gave_in, gave, gave_lines = fcall, 0, 0 end
  local holds, more, lines = load_holds(base, due_ids(base, now, HOLDS_MAX - gave), HOLDS_MAX - gave, gave_lines)
  gave_lines = lines
  if #holds > 0 then
    give_back(base, holds)
    gave = gave + #holds
    dirty = false
  end
  return more, #holds > 0
end

-- What was last counted for readers: they write nothing, so that it holds for all
-- sub-calls of the FCALL.
local counted = {}

-- For readers: the lines of all holds that are over, by encoded sku: {quantity, era}...;
-- nil when they are more than `room`, else how much of it is left. Then the answer is
-- {'MORE'}, and who asked has stock_expire called first.
local function count_due(base, now, room)
  local ids, due = due_ids(base, now, room), {}
  if #ids > room then return nil end
  local holds, more = load_holds(base, ids, room, 0)
  if more then return nil end
  for _, hold in ipairs(holds) do
    local order = hold[2] or {}
    for i = LINES, #order, LINE do
      local name = encode(order[i])
      local lines = due[name] or {}
      due[name] = lines
      lines[#lines + 1] = {order[i + QUANTITY], order[i + LINE_ERA]}
    end
  end
  return due, room - #holds
end

local function due_lines(base, now, room)
  if counted.fcall ~= fcall or counted.base ~= base or counted.room ~= room then
    local due, left = count_due(base, now, room)
    counted = {fcall = fcall, base = base, room = room, due = due, left = left}
  end
  return counted.due, counted.left
end

-- The item of that encoded sku as a writer would find it after give_back_due; nil when
-- there is none.
local function load_item_with(due, base, name)
  local item = load_item(base .. 'stock:i:' .. name)
  for _, line in ipairs(item and due[name] or {}) do
    if belongs(item, line[2]) then
      item[AVAILABLE] = item[AVAILABLE] + line[1]
      item[RESERVED] = item[RESERVED] - line[1]
      item[VERSION] = item[VERSION] + 1
    end
  end
  return item
end

-- Gives back what is over. Without memory too: it is what gives memory back.
-- -> {'OK', ms until it is due again: 0 = now, -1 = nothing is held}
define('stock_expire', {'allow-oom'}, function(base, now)
  if give_back_due(base, now) then return {'OK', 0} end
  local first = redis.call('ZRANGE', base .. 'stock:x', 0, 0, 'WITHSCORES')
  if not first[1] then return {'OK', -1} end
  return {'OK', math.max(ms_until(tonumber(first[2]), now), ALARM_AGAIN_MS)}
end)

-- Groups of which a hold ended a while ago and is not given back: who should have is gone.
-- -> {'OK', next cursor or '' at the end, base of each...}
define('stock_find_overdue', {'no-writes'}, function(base, now, cursor)
  local page = redis.call('SCAN', cursor, 'MATCH', 'ls:{*}:stock:x', 'COUNT', 1000, 'TYPE', 'zset')
  local reply = {'OK', page[1] ~= '0' and page[1] or ''}
  for _, key in ipairs(page[2]) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[2] and tonumber(first[2]) + OVERDUE_US < now then
      reply[#reply + 1] = string.sub(key, 1, -#'stock:x' - 1)
    end
  end
  return reply
end)

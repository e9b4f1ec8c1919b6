-- StockService: holds that expire. A hold has expired when its end in stock:x is not in the future; from then on it
-- does not count. Writers first return expired holds (give_back_due), readers count them as returned (count_due), and a
-- server's lasting alarm returns the others (stock_expire).

-- The maximum of holds, and of their lines, that one FCALL returns and one reader counts. The last hold may exceed the
-- lines.
local HOLDS_MAX, HOLD_LINES_MAX = 300, 600
-- The shortest time between two lasting alarms, so that ends that are close together share one.
local ALARM_AGAIN_MS = 50
-- After this time no lasting alarm and no server is expected to return the hold, or to finish the move.
local OVERDUE_US = 2000000

-- Orders whose hold has expired, the oldest first; one more than `max` if there are more.
local function due_ids(s, max)
  return redis.call('ZRANGEBYSCORE', s.base .. 'stock:x', '-inf', clock(), 'LIMIT', 0, max + 1)
end

-- Loads the first `max` of them: {order id, order or false}...; whether there are more; the number of their lines plus
-- `lines`.
local function load_holds(s, ids, max, lines)
  local holds = {}
  for i, id in ipairs(ids) do
    if i > max or lines >= HOLD_LINES_MAX then return holds, true, lines end
    local order = load_order(s, id)
    -- A hold whose order record was lost has no units.
    if order and order[STATE] ~= 'RESERVED' then order = nil end
    lines = lines + (order and order[COUNT] or 0)
    holds[i] = {id, order or false}
  end
  return holds, false, lines
end

local function give_back(s, holds)
  for _, hold in ipairs(holds) do
    if hold[2] then ready(s, 'EXPIRED', hold[2]) end
  end
  for _, hold in ipairs(holds) do
    local id, order = hold[1], hold[2]
    if order then
      move_order(s, 'EXPIRED', id, order, '')
      order[STATE] = 'EXPIRED'
      save_order(s, id, order)
    end
    move_end(s, id, false)
  end
end

-- The last FCALL that returned holds, and the number of holds and lines that its calls returned.
local gave_in, gave, gave_lines = 0, 0, 0

-- Called first by functions that need the available units. Returns true if more holds have expired than one FCALL
-- returns; the reply is then {'MORE'}, and the call is repeated. Returning holds is not an effect of the call.
local function give_back_due(s)
  if s.gave then return false end
  if gave_in ~= fcall then gave_in, gave, gave_lines = fcall, 0, 0 end
  local ids = due_ids(s, HOLDS_MAX - gave)
  local holds, more, lines = load_holds(s, ids, HOLDS_MAX - gave, gave_lines)
  give_back(s, holds)
  gave, gave_lines = gave + #holds, lines
  s.gave = not more
  return more
end

-- For readers: returns the lines of all expired holds by sku: {quantity, era}..., and the rest of `room`; nil if there
-- are more than `room`. The reply is then {'MORE'}, and the server calls stock_expire first.
local function count_due(s, room)
  if s.due == nil then
    local ids, due = due_ids(s, room), {}
    local holds, more = load_holds(s, ids, room, 0)
    for _, hold in ipairs(holds) do
      local order = hold[2] or {}
      for i = LINES, #order, LINE do
        local lines = due[order[i]] or {}
        due[order[i]] = lines
        lines[#lines + 1] = {order[i + QUANTITY], order[i + LINE_ERA]}
      end
    end
    s.due, s.due_left = not more and due, room - #holds
  end
  return s.due, s.due_left
end

-- Returns the item as a writer would find it after give_back_due; nil: no such item.
local function item_with(s, due, sku)
  local known = s.items and s.items[sku]
  local item = item_of(s, sku)
  if known or not item then return item end
  for _, line in ipairs(due[sku] or {}) do
    if belongs(item, line[2]) then
      item[AVAILABLE] = item[AVAILABLE] + line[1]
      item[RESERVED] = item[RESERVED] - line[1]
      item[VERSION] = item[VERSION] + 1
    end
  end
  return item
end

-- Returns expired holds. Runs without memory too, because it frees memory.
-- -> {'OK', ms until it is due again: 0 = now, -1 = nothing is held}
define_pass('stock_expire', {'allow-oom'}, function(s)
  if give_back_due(s) then return {'OK', 0} end
  local later = '(' .. int(clock())
  local first = redis.call('ZRANGEBYSCORE', s.base .. 'stock:x', later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not first[1] then return {'OK', -1} end
  return {'OK', math.max(ms_until(tonumber(first[2]), clock()), ALARM_AGAIN_MS)}
end, SHARED)

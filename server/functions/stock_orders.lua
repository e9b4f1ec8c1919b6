-- StockService, what becomes of an order: Confirm, ExtendHold, Cancel, Return.
--
--   from \ by   Confirm              ExtendHold  Cancel       the end of its hold  Return
--   RESERVED    CONFIRMED            RESERVED    CANCELLED    EXPIRED
--   CONFIRMED   (again)                                                            RETURNED when all is back
--   EXPIRED     CONFIRMED, if asked              CANCELLED
--   CANCELLED                                    (again)
--   RETURNED    (again)
--   nothing                                      CANCELLED

local DEFAULT_KEEP_MS = 30 * DAY_MS

-- The order as every answer gives it: state, ms left of its hold, buyer, then sku,
-- quantity, returned of each line.
local function view_order(order, state, hold_ms)
  local reply = {state, int(hold_ms), order[BUYER]}
  for i = LINES, #order, LINE do
    reply[#reply + 1] = order[i]
    reply[#reply + 1] = int(order[i + QUANTITY])
    reply[#reply + 1] = int(order[i + RETURNED])
  end
  return reply
end

-- As it was when it had just been confirmed.
local function view_confirmed(order)
  local reply = view_order(order, 'CONFIRMED', 0)
  for i = 6, #reply, 3 do reply[i] = '0' end
  return reply
end

-- nil when there is none; else the order, its state at this moment, ms left of its hold.
local function load_order(base, id, now)
  local order = load_record(order_key(base, id), 'order')
  if not order then return nil end
  local ends = hold_end(base, id, order)
  if ends and ends <= now then return order, 'EXPIRED', 0 end
  return order, order[STATE], ms_until(ends or 0, now)
end

-- -> {'OK', view} or {'NONE'}
define('stock_get_order', {'no-writes'}, function(base, now, order_id)
  local order, state, hold_ms = load_order(base, order_id, now)
  if not order then return {'NONE'} end
  return {'OK', view_order(order, state, hold_ms)}
end)

-- Ends a hold that stands, or one that is over and was not given back yet.
local function end_hold(base, id, order, kind, state, ...)
  local changes = open_changes(base)
  change_order(changes, kind, id, order, ...)
  save_changes(changes)
  order[STATE] = state
  save_order(base, id, order)
  write('ZREM', base .. 'stock:x', id)
end

-- What keeps an order whose hold is over from its stock; nil when nothing does.
local function barred(changes, order)
  local sold_out
  for i = LINES, #order, LINE do
    local sku, quantity = order[i], order[i + QUANTITY]
    local item = changing_item(changes, sku)
    if item and item[LIMIT] > 0 then
      -- A limit that came later counts, and nobody has no count.
      if order[BUYER] == '' or changing_held(changes, sku, order[BUYER]) + quantity > item[LIMIT] then
        return 'EXPIRED'
      end
    end
    if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end
  end
  return sold_out
end

-- Sells what an order held until its hold was over.
local function reacquire(base, id, order, now)
  if give_back_due(base, now) then return {'MORE'} end
  local changes = open_changes(base)
  local outcome = barred(changes, order)
  if outcome then return {outcome, '0', view_order(order, 'EXPIRED', 0)} end
  for i = LINES, #order, LINE do order[i + LINE_ERA] = changes.items[order[i]][ERA] end
  change_order(changes, 'DEDUCTED', id, order)
  save_changes(changes)
  order[STATE] = 'CONFIRMED'
  save_order(base, id, order)
  return {'CONFIRMED', '0', view_confirmed(order)}
end

-- Without memory too: who pays while it is short keeps what was held.
-- again '1': take the stock again when the hold is over
-- -> {outcome, '1' when replayed, view}, {'UNKNOWN_ORDER', '0'}, {'MORE'}
define('stock_confirm', {'allow-oom'}, function(base, now, id, again)
  local order, state = load_order(base, id, now)
  if not order then return {'UNKNOWN_ORDER', '0'} end
  if state == 'CONFIRMED' or state == 'RETURNED' then return {'CONFIRMED', '1', view_confirmed(order)} end
  if state == 'EXPIRED' and again == '1' then return reacquire(base, id, order, now) end
  if state ~= 'RESERVED' then return {state, '0', view_order(order, state, 0)} end
  end_hold(base, id, order, 'CONFIRMED', 'CONFIRMED')
  return {'CONFIRMED', '0', view_confirmed(order)}
end)

-- -> {outcome, ms left of the hold}
define('stock_extend_hold', {'allow-oom'}, function(base, now, id, hold_ms)
  local order, state = load_order(base, id, now)
  if not order then return {'UNKNOWN_ORDER', '0'} end
  if state == 'RETURNED' then return {'CONFIRMED', '0'} end
  if state ~= 'RESERVED' then return {state, '0'} end
  write('ZADD', base .. 'stock:x', int(now + tonumber(hold_ms) * 1000), id)
  return {'EXTENDED', hold_ms}
end)

-- Of an order that is not known there is nothing to cancel, but it will be refused when
-- it comes: where that is left to `leave_mark`, the reply is nil.
local function cancel(base, now, leave_mark, id, reason)
  local order, state, hold_ms = load_order(base, id, now)
  if not order then
    if not leave_mark then return nil end
    write('SET', order_key(base, id), cmsgpack.pack({'order', 'CANCEL', 'CANCELLED', '', DEFAULT_KEEP_MS}),
      'PX', int(DEFAULT_KEEP_MS))
    return {'UNKNOWN_ORDER', '0'}
  end
  if order[HOW] == 'CANCEL' then return {'UNKNOWN_ORDER', '1'} end
  if state == 'CONFIRMED' or state == 'RETURNED' then
    return {'ALREADY_CONFIRMED', '0', view_order(order, state, hold_ms)}
  end
  if state == 'CANCELLED' then return {'CANCELLED', '1', view_order(order, state, 0)} end
  if order[STATE] == 'EXPIRED' then
    order[STATE] = 'CANCELLED'
    save_order(base, id, order)
  elseif state == 'EXPIRED' then
    end_hold(base, id, order, 'EXPIRED', 'CANCELLED')
  elseif reason == '' then
    end_hold(base, id, order, 'CANCELLED', 'CANCELLED')
  else
    end_hold(base, id, order, 'CANCELLED', 'CANCELLED', 'reason', reason)
  end
  return {'CANCELLED', '0', view_order(order, 'CANCELLED', 0)}
end

-- -> {outcome, '1' when replayed, view}, {'UNKNOWN_ORDER', '1' when replayed}
--    {'UNSEEN'}: no such order; nothing was changed, and stock_cancel_unseen is to follow
define('stock_cancel', {'allow-oom'}, function(base, now, id, reason)
  return cancel(base, now, false, id, reason) or {'UNSEEN'}
end)

-- It leaves a key where there was none, so not without memory.
define('stock_cancel_unseen', {}, function(base, now, id, reason)
  return cancel(base, now, true, id, reason)
end)

-- What of each line of an order that is not all back comes back, by its place in the
-- record; nil when it is more than is left.
local function coming_back(order, lines)
  local asked, back, unmatched, all = {}, {}, #lines / 2, #lines == 0
  for i = 1, #lines, 2 do asked[lines[i]] = tonumber(lines[i + 1]) end
  for i = LINES, #order, LINE do
    local left = order[i + QUANTITY] - order[i + RETURNED]
    local quantity = all and left or asked[order[i]] or 0
    if quantity > left then return nil end
    if asked[order[i]] then unmatched = unmatched - 1 end
    if quantity > 0 then back[i] = quantity end
  end
  if unmatched > 0 then return nil end
  return back
end

-- Whether it is the return of the record that is asked for.
local function same_return(record, id, lines)
  if record[2] ~= id or #record[3] ~= #lines then return false end
  local asked = {}
  for i = 1, #lines, 2 do asked[lines[i]] = lines[i + 1] end
  for i = 1, #record[3], 2 do
    if asked[record[3][i]] ~= record[3][i + 1] then return false end
  end
  return true
end

-- Without memory too: what comes back is no more than was sold.
-- Lines: sku, quantity of each; none: all that is left
-- -> {outcome, '1' when replayed, view}, {'UNKNOWN_ORDER', '0'}
define('stock_return', {'allow-oom'}, function(base, now, return_id, id, ...)
  local lines, record_key = {...}, base .. 'stock:t:' .. encode(return_id)
  local record = load_record(record_key, 'return')
  if record then
    if not same_return(record, id, lines) then fail('ALREADY_EXISTS', 'return_id: used for another return') end
    return {'RETURNED', '1', record[4]}
  end
  local order, state, hold_ms = load_order(base, id, now)
  if not order then return {'UNKNOWN_ORDER', '0'} end
  local back = state == 'CONFIRMED' and coming_back(order, lines)
  if not back then return {'TOO_MANY', '0', view_order(order, state, hold_ms)} end

  local changes, whole = open_changes(base), true
  for i = LINES, #order, LINE do
    if back[i] then
      change(changes, 'RETURNED', order[i], back[i], order[i + LINE_ERA], return_id, order[BUYER])
      order[i + RETURNED] = order[i + RETURNED] + back[i]
    end
    whole = whole and order[i + RETURNED] == order[i + QUANTITY]
  end
  order[STATE] = whole and 'RETURNED' or 'CONFIRMED'
  local answer = view_order(order, order[STATE], 0)
  save_changes(changes)
  save_order(base, id, order)
  write('SET', record_key, cmsgpack.pack({'return', id, lines, answer}), 'PX', int(order[KEEP]))
  return {'RETURNED', '0', answer}
end)

-- StockService: Confirm, ExtendHold, Cancel, Return.
--
--   from \ by   Confirm              ExtendHold  Cancel       the end of its hold  Return
--   RESERVED    CONFIRMED            RESERVED    CANCELLED    EXPIRED
--   CONFIRMED   (again)                                                            RETURNED if all is back
--   EXPIRED     CONFIRMED, if asked              CANCELLED
--   CANCELLED                                    (again)
--   RETURNED    (again)
--   nothing                                      CANCELLED
--
-- An Enter makes an EXPIRED order RESERVED again, and a Leave ends a hold as its end does (guard.lua).

local DEFAULT_KEEP_MS = 30 * DAY_MS

-- The order as it was just after its confirmation.
local function view_confirmed(order)
  local reply = view_order(order, 'CONFIRMED', 0)
  for i = 6, #reply, 3 do reply[i] = 0 end
  return reply
end

-- Returns the order, its current state, ms left of its hold; nil: no such order.
local function order_now(s, id)
  local order = load_order(s, id)
  if not order then return nil end
  local ends = hold_end(s, id, order)
  if not ends then return order, order[STATE], 0 end
  if ends <= clock() then return order, 'EXPIRED', 0 end
  return order, order[STATE], ms_until(ends, clock())
end

-- All functions also -> {'BUCKETED', n} for an unknown order

-- -> {'OK', view} or {'NONE'}
define_pass('stock_get_order', {'no-writes'}, function(s, order_id)
  local order, state, hold_ms = order_now(s, order_id)
  if not order then return elsewhere(s.base) or {'NONE'} end
  return {'OK', view_order(order, state, hold_ms)}
end, SHARED)

-- Ends a hold that has not been returned.
local function end_hold(s, id, order, kind, state, reason)
  ready(s, kind, order)
  move_order(s, kind, id, order, reason)
  order[STATE] = state
  save_order(s, id, order)
  move_end(s, id, false)
end

-- As order_now, for a call that writes: an expired hold ends now, so that the order stays EXPIRED if the clock steps
-- back.
local function order_ended(s, id)
  local order, state, hold_ms = order_now(s, id)
  if state == 'EXPIRED' and order[STATE] ~= state then end_hold(s, id, order, state, state, '') end
  return order, state, hold_ms
end

-- Returns why an expired order cannot get its stock again; nil: it can.
local function barred(s, order)
  local sold_out
  for i = LINES, #order, LINE do
    local sku, quantity = order[i], order[i + QUANTITY]
    local item = item_of(s, sku)
    if item and item[LIMIT] < 0 then return 'EXPIRED' end -- in a bucket the buyer is counted elsewhere
    if item and item[LIMIT] > 0 then
      -- A limit that was set later counts, and an order without a buyer has no count.
      if order[BUYER] == '' or held_of(s, sku, order[BUYER]) + quantity > item[LIMIT] then
        return 'EXPIRED'
      end
    end
    if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end
  end
  return sold_out
end

-- Sells the units that an order held until its hold expired.
local function reacquire(s, id, order)
  if give_back_due(s) then return {'MORE'} end
  local outcome = barred(s, order)
  if outcome then return {outcome, 0, view_order(order, 'EXPIRED', 0)} end
  for i = LINES, #order, LINE do order[i + LINE_ERA] = s.items[order[i]][ERA] end
  move_order(s, 'DEDUCTED', id, order, '')
  order[STATE] = 'CONFIRMED'
  save_order(s, id, order)
  return {'CONFIRMED', 0, view_confirmed(order)}
end

-- Runs without memory too, so that a buyer who pays keeps the held units.
-- again '1': take the stock again if the hold has expired
-- -> {outcome, 1 if replayed, view}, {'UNKNOWN_ORDER', 0}, {'MORE'}
local function confirm(s, id, again)
  local order, state = order_ended(s, id)
  if not order then return elsewhere(s.base) or {'UNKNOWN_ORDER', 0} end
  if state == 'CONFIRMED' or state == 'RETURNED' then return {'CONFIRMED', 1, view_confirmed(order)} end
  if state == 'EXPIRED' and again == '1' then return reacquire(s, id, order) end
  if state ~= 'RESERVED' then return {state, 0, view_order(order, state, 0)} end
  end_hold(s, id, order, 'CONFIRMED', 'CONFIRMED', '')
  return {'CONFIRMED', 0, view_confirmed(order)}
end

define_pass('stock_confirm', {'allow-oom'}, confirm, SHARED)

-- -> {outcome, ms left of the hold}
local function extend_hold(s, id, hold_ms)
  local order, state = order_ended(s, id)
  if not order then return elsewhere(s.base) or {'UNKNOWN_ORDER', 0} end
  if state == 'RETURNED' then return {'CONFIRMED', 0} end
  if state ~= 'RESERVED' then return {state, 0} end
  move_end(s, id, clock() + tonumber(hold_ms) * 1000)
  return {'EXTENDED', hold_ms}
end

define_pass('stock_extend_hold', {'allow-oom'}, extend_hold, SHARED)

-- An unknown order has nothing to cancel, but must be refused if it comes later. Returns nil if `leave_mark` is false
-- and a mark for that is still needed.
local function cancel(s, leave_mark, id, reason)
  local order, state, hold_ms = order_ended(s, id)
  if not order then
    local there = elsewhere(s.base)
    if there or not leave_mark then return there end
    save_order(s, id, {ORDER_MARK, 0, 'CANCEL', 'CANCELLED', DEFAULT_KEEP_MS, ''})
    return {'UNKNOWN_ORDER', 0}
  end
  if order[HOW] == 'CANCEL' then return {'UNKNOWN_ORDER', 1} end
  if state == 'CONFIRMED' or state == 'RETURNED' then
    return {'ALREADY_CONFIRMED', 0, view_order(order, state, hold_ms)}
  end
  if state == 'CANCELLED' then return {'CANCELLED', 1, view_order(order, state, 0)} end
  if state == 'EXPIRED' then
    order[STATE] = 'CANCELLED'
    save_order(s, id, order)
  else
    end_hold(s, id, order, 'CANCELLED', 'CANCELLED', reason)
  end
  return {'CANCELLED', 0, view_order(order, 'CANCELLED', 0)}
end

-- -> {outcome, 1 when replayed, view}, {'UNKNOWN_ORDER', 1 when replayed}
--    {'UNSEEN'}: no such order, and nothing was changed; stock_cancel_unseen must follow
define_pass('stock_cancel', {'allow-oom'}, function(s, id, reason)
  return cancel(s, false, id, reason) or {'UNSEEN'}
end, SHARED)

-- Refused when memory is full, because it makes a key.
define_pass('stock_cancel_unseen', {}, function(s, id, reason)
  return cancel(s, true, id, reason)
end, SHARED)

-- Returns the units to return of each line of an order, by its place in the record; nil if they are more than are left.
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

-- Whether the record is for the same return.
local function same_return(record, id, lines)
  if record[2] ~= id or #record[3] ~= #lines then return false end
  local asked = {}
  for i = 1, #lines, 2 do asked[lines[i]] = lines[i + 1] end
  for i = 1, #record[3], 2 do
    if asked[record[3][i]] ~= record[3][i + 1] then return false end
  end
  return true
end

-- Runs without memory too, because no more units come back than were sold.
-- Lines: sku, quantity of each; none: everything that is left
-- -> {outcome, 1 when replayed, view}, {'UNKNOWN_ORDER', 0}
define_pass('stock_return', {'allow-oom'}, function(s, return_id, id, ...)
  local lines, key = {...}, s.base .. 'stock:t:' .. return_id
  local record = load_record(s, key, 'return')
  if record then
    if not same_return(record, id, lines) then fail('ALREADY_EXISTS', 'return_id: used for another return', 'id_reused') end
    return {'RETURNED', 1, record[4]}
  end
  local order, state, hold_ms = order_now(s, id)
  if not order then return elsewhere(s.base) or {'UNKNOWN_ORDER', 0} end
  local back = state == 'CONFIRMED' and coming_back(order, lines)
  if not back then return {'TOO_MANY', 0, view_order(order, state, hold_ms)} end

  local whole = true
  ready(s, 'RETURNED', order)
  for i = LINES, #order, LINE do
    if back[i] then
      move(s, 'RETURNED', order[i], back[i], int(back[i]), order[i + LINE_ERA], return_id, order[BUYER], '')
      order[i + RETURNED] = order[i + RETURNED] + back[i]
    end
    whole = whole and order[i + RETURNED] == order[i + QUANTITY]
  end
  order[STATE] = whole and 'RETURNED' or 'CONFIRMED'
  local answer = view_order(order, order[STATE], 0)
  save_order(s, id, order)
  put_text(s, key, cmsgpack.pack({'return', id, lines, answer}), order[KEEP])
  return {'RETURNED', 0, answer}
end, SHARED)

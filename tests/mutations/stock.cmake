# What keeps StockService's promises.

# Deduct and Reserve
lua_mutation(S2 test_stock_deduct [[item[AVAILABLE] = item[AVAILABLE] + by[1] * quantity]] "")
lua_mutation(S2 test_stock_reserve [[item[RESERVED] = item[RESERVED] + by[2] * quantity]] "")
lua_mutation(S2 test_stock_deduct [[item[SOLD] = item[SOLD] + by[3] * quantity]] "")
lua_mutation(S2 test_stock_deduct [['sold', int(item[SOLD]), 'version', int(item[VERSION]))
    end]] [['sold', '0', 'version', int(item[VERSION]))
    end]])
lua_mutation(S17 test_stock_items [[item[SOLD] = item[SOLD] + by[3] * quantity
  item[VERSION] = item[VERSION] + 1]] [[item[SOLD] = item[SOLD] + by[3] * quantity]])
lua_mutation(S1 test_stock_deduct [[if quantity > item[AVAILABLE] then return 5 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[CLOSES] > 0 and now >= item[CLOSES] then return 3 end]] "")
lua_mutation(S5 test_stock_deduct [[if now < item[OPENS] then return 2 end]] "")
lua_mutation(S5 test_stock_deduct [[if not item then return 1 end]] "")
lua_mutation(S5 test_stock_deduct [[ranks[i] < gravest]] [[ranks[i] > gravest]])
lua_mutation(S6 test_stock_deduct [[if ranks[i] == gravest then]] [[if ranks[i] then]])
lua_mutation(S10 test_stock_deduct [[if buyer == '' then fail]] [[if false then fail]])
lua_mutation(S11 test_stock_deduct [[changes.held[sku][buyer] = held + by[4] * quantity]] "")
lua_mutation(S7 test_stock_deduct [[if order and order[HOW] ~= 'CANCEL' then return first_answer]]
  [[if false then return first_answer]])
lua_mutation(S7 test_stock_deduct [[int(order[i + LEFT])]] [[int(order[i + QUANTITY])]])
lua_mutation(S7 test_stock_deduct
  [[write('SET', order_key(base, id), cmsgpack.pack(order), 'PX', int(order[KEEP]))]] "")
lua_mutation(S8 test_stock_deduct [=[same = same and asked[order[i]] == order[i + QUANTITY]]=] "")
lua_mutation(S8 test_stock_deduct [[ and (#order - LINES + 1) / LINE == #lines / 2]] "")
lua_mutation(S8 test_stock_deduct [[ and order[BUYER] == buyer ]] [[ ]])
lua_mutation(S13 test_stock_deduct [[cmsgpack.pack(order), 'PX', int(order[KEEP]))]] [[cmsgpack.pack(order))]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > order[KEEP] then]] [[if order[KEEP] == 0 then]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > order[KEEP] then]] [[if true then]])
lua_mutation(S3 test_stock_ledger
  [[for _, entry in ipairs(changes.entries) do append_ledger(base, unpack(entry)) end]] "")
lua_mutation(S27 test_stock_deduct [[string.format('%d', n)]] [[tostring(n)]])

# PutItem, GetItem
lua_mutation(S14 test_stock_items [[if must_be_new == '1' then fail]] [[if false then fail]])
lua_mutation(S14 test_stock_items [[if expected ~= 0 and expected ~= current then]] [[if false then]])
lua_mutation(S14 test_stock_items [[' .. int(current))]] [[')]])
lua_mutation(S14 test_stock_items [[expected ~= 0 and ]] "")
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[RESERVED] then]])
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[SOLD] then]])
lua_mutation(S2 test_stock_items [=[on_hand - item[RESERVED] - item[SOLD]]=] [=[on_hand - item[RESERVED]]=])
lua_mutation(S17 test_stock_items
  [[item[VERSION], item[BORN] = old[VERSION] + 1]] [[item[VERSION], item[BORN] = old[VERSION] ]])
lua_mutation(S15 test_stock_items [[old and item[AVAILABLE] - old[AVAILABLE] or on_hand]] [[on_hand]])
lua_mutation(S15 test_stock_items [[if more ~= 0 or not old then]] [[if true then]])
lua_mutation(S11 test_stock_deduct [[if limit == 0 then write('UNLINK', buyers) end]] "")
lua_mutation(S16 test_stock_items [[state = 'NOT_OPEN']] [[state = 'OPEN']])
lua_mutation(S16 test_stock_items [[state = 'CLOSED']] [[state = 'OPEN']])
lua_mutation(S16 test_stock_items
  [[return instant > now and math.ceil((instant - now) / 1000) or 0]] [[return math.ceil((instant - now) / 1000)]])

# Adjust
lua_mutation(S21 test_stock_items [[if item[AVAILABLE] + delta < 0 then]] [[if false then]])
lua_mutation(S21 test_stock_items
  [[item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER]] [[item[AVAILABLE] + delta > MAX_INTEGER]])
lua_mutation(S22 test_stock_items [[local record = load_record(record_key, 'adjustment')]] [[local record]])
lua_mutation(S22 test_stock_items [[record[2] ~= sku or ]] "")
lua_mutation(S22 test_stock_items [[ or record[3] ~= delta]] "")
lua_mutation(S13 test_stock_items [[answer}), 'PX', int(item[RETAIN]))]] [[answer}))]])
lua_mutation(S17 test_stock_items [[item[VERSION] = item[VERSION] + 1]] "")
lua_mutation(S22 test_stock_items [[append_ledger(base, 'ADJUSTED', sku, int(delta), adjustment_id)]] "")
lua_mutation(S22 test_stock_items [[adjustment_id, 'reason', reason)]] [[adjustment_id)]])

# DeleteItem
lua_mutation(S23 test_stock_items [[if item[RESERVED] > 0 then]] [[if false then]])
lua_mutation(S23 test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', buyers)]])
lua_mutation(S23 test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', key)]])
lua_mutation(S23 test_stock_items [[write('ZREM', skus, sku)]] "")
lua_mutation(S23 test_stock_items [[append_ledger(base, 'DELETED', sku, int(item[AVAILABLE]), '')]] "")
lua_mutation(S17 test_stock_items [[math.max(now, deleted_version(base) + 1)]] [[now]])
lua_mutation(S17 test_stock_items
  [[write('SET', base .. 'stock:v', int(version), 'PX']] [[redis.call('SET', base .. 'stock:w', int(version), 'PX']])
lua_mutation(S17 test_stock_items [[int(ms_until(version, now) + DAY_MS)]] [[int(DAY_MS / 2)]])

# Lists
lua_mutation(S19 test_stock_list [[write('ZADD', skus, 0, sku)]] "")
lua_mutation(S19 test_stock_list [['(' .. prefix .. '\255']] [['+']])
lua_mutation(S19 test_stock_list [['(' .. after or]] [['[' .. after or]])
lua_mutation(S19 test_stock_list [[skus[size + 1] and '1' or '0']] [[skus[size] and '1' or '0']])
lua_mutation(S20 test_stock_list [[local pattern = namespace .. ']] [[local pattern = ']])
lua_mutation(S20 test_stock_list [[encode(prefix) .. '*']] [[prefix .. '*']])
lua_mutation(S20 test_stock_list [[budget > 0 and ]] "")
lua_mutation(S20 test_stock_list [[for _, place in ipairs({...}) do add(place) end]] "")
lua_mutation(S20 test_stock_list [[, 'TYPE', 'hash')]] [[)]])
lua_mutation(S28 test_stock_items
  [[if not string.find(text, '[^A-Za-z0-9._~-]') then return text end]] [[if true then return text end]])

# The ledger
lua_mutation(S25 test_stock_ledger [[id_before(after, mark) or]] "")
lua_mutation(S25 test_stock_ledger [[or not redis.call('XRANGE', ledger, after, after)[1] then]] [[then]])
lua_mutation(S25 test_stock_ledger [[if after ~= '' and after ~= mark then]] [[if after ~= '' then]])
lua_mutation(S25 test_stock_ledger [[and 'TRIMMED' or 'OK', ''}]] [[and 'OK' or 'OK', ''}]])
lua_mutation(S25 test_stock_ledger [[write('XDEL', ledger, last[1])]] "")
lua_mutation(S24 test_stock_ledger [[write('XTRIM', ledger, 'MINID', '=', last[1])]] "")
lua_mutation(S24 test_stock_ledger [['(' .. after]] [[after]])
lua_mutation(S26 test_stock_ledger [[write('PEXPIRE', ledger, int(30 * DAY_MS), 'NX')]] "")
lua_mutation(S26 test_stock_ledger [[if items == 0 and ]] [[if ]])
lua_mutation(S26 test_stock_ledger [[write('PERSIST', base .. 'stock:ledger')]] "")

# Foreign data and errors
lua_mutation(S32 test_stock_faults [[redis.call('HLEN', buyers)]] "")
lua_mutation(S32 test_stock_faults [[redis.call('ZCARD', skus)]] "")
lua_mutation(S32 test_stock_faults [[local items = redis.call('ZCARD', base .. 'stock:skus')]] [[local items = 0]])
lua_mutation(S32 test_stock_faults
  [[if not ok or type(record) ~= 'table' or record[1] ~= kind then]] [[if not ok then]])
lua_mutation(S32 test_stock_faults
  [[local ok, record = pcall(cmsgpack.unpack, text)]] [[local ok, record = true, cmsgpack.unpack(text)]])
lua_mutation(S32 test_stock_faults
  [[item[i] = tonumber(item[i]) or fail('FAILED_PRECONDITION', FOREIGN)]] [[item[i] = tonumber(item[i])]])
lua_mutation(S32 test_stock_faults [[if redis.call('EXISTS', key) == 1 then]] [[if false then]])
lua_mutation(S32 test_stock_faults
  [[tonumber(redis.call('ZSCORE', base .. 'stock:x', id)) or fail('FAILED_PRECONDITION', FOREIGN)]]
  [[tonumber(redis.call('ZSCORE', base .. 'stock:x', id) or now or 1)]])
lua_mutation(S33 test_stock_faults [[  dirty = true]] "")
lua_mutation(S33 test_stock_faults [[      dirty = false
      sub_call]] [[      dirty = true
      sub_call]])

lua_mutation(S4 test_stock_deduct [[if not gravest then return nil end]] [[if gravest ~= 9 then return nil end]])
lua_mutation(S9 test_stock_deduct [[local reply = {REFUSALS[gravest], '0', anybody and '1' or '0'}]]
  [[local reply = {REFUSALS[gravest], '0', anybody and '1' or '0'}
  save_order(changes.base, lines[1], {'order', 'DEDUCT', REFUSALS[gravest], buyer, 1000})]])
lua_mutation(S12 test_stock_deduct [[      dirty = false
      sub_call]] [[      sub_call]])

# Holds
lua_mutation(S34 test_stock_reserve [[write('ZADD', base .. 'stock:x', int(now + tonumber(hold_ms) * 1000), id)
  else]] [[  else]])
lua_mutation(S34 test_stock_reserve [[write('SET', order_key(base, id), cmsgpack.pack(order))
]] [[save_order(base, id, order)
]])
lua_mutation(S35 test_stock_reserve [[reply[3] = int(ms_until(hold_end(base, id, order) or 0, now))]] "")
lua_mutation(S35 test_stock_orders [[if way == RESERVE then return {'CANCELLED', '0', '0'} end]] "")
lua_mutation(S36 test_stock_expiry [[if ends and ends <= now then return order, 'EXPIRED', 0 end]] "")
lua_mutation(S36 test_stock_expiry [[local due, reply = due_lines(base, now, HOLDS_MAX), {'OK'}]]
  [[local due, reply = {}, {'OK'}]])
lua_mutation(S36 test_stock_expiry
  [[local due, reply = due_lines(base, now, HOLDS_MAX), {'OK', skus[size + 1] and '1' or '0'}]]
  [[local due, reply = {}, {'OK', skus[size + 1] and '1' or '0'}]])
lua_mutation(S36 test_stock_expiry [[due[of], room = due_lines(of, now, room)]] [[due[of] = {}]])
lua_mutation(S36 test_stock_expiry [=[item[AVAILABLE] = item[AVAILABLE] + line[1]]=] "")
lua_mutation(S36 test_stock_expiry [=[item[RESERVED] = item[RESERVED] - line[1]]=] "")
lua_mutation(S36 test_stock_expiry [[item[RESERVED] = item[RESERVED] - line[1]
      item[VERSION] = item[VERSION] + 1]] [=[item[RESERVED] = item[RESERVED] - line[1]]=])
lua_mutation(S36 test_stock_expiry [[touched = touched or item and item[RESERVED] > 0]] "")
lua_mutation(S36 test_stock_expiry [[if given then changes = open_changes(base) end]] "")
lua_mutation(S36 test_stock_expiry [[if give_back_due(base, now) then return {'MORE'} end
  local old]] [[local old]])
lua_mutation(S36 test_stock_expiry [[if give_back_due(base, now) then return {'MORE'} end
  local item = existing_item(key)
  check_version(tonumber(expected_version)]] [[local item = existing_item(key)
  check_version(tonumber(expected_version)]])
lua_mutation(S36 test_stock_expiry [[if give_back_due(base, now) then return {'MORE'} end
  local item = existing_item(key)
  check_version(tonumber(expected_version)]] [[local item = existing_item(key)
  check_version(tonumber(expected_version)]])
lua_mutation(S36 test_stock_orders [[local function reacquire(base, id, order, now)
  if give_back_due(base, now) then return {'MORE'} end]] [[local function reacquire(base, id, order, now)]])
lua_mutation(S37 test_stock_expiry [[order[STATE] = 'EXPIRED'
      save_order(base, id, order)]] "")
lua_mutation(S37 test_stock_expiry [[write('ZREM', base .. 'stock:x', unpack(ids))]] "")
lua_mutation(S37 test_stock_expiry [[if hold[2] then change_order(changes, 'EXPIRED', hold[1], hold[2]) end]] "")
lua_mutation(S37 test_stock_expiry [[if order and order[STATE] ~= 'RESERVED' then order = nil end]] "")
lua_mutation(S38 test_stock_expiry [[if by[4] ~= 0 and item[LIMIT] > 0 and era == item[ERA] then]]
  [[if by[4] ~= 0 and item[LIMIT] > 0 then]])
lua_mutation(S38 test_stock_reserve
  [[if count > 0 then write('HSET', key, buyer, int(count)) else write('HDEL', key, buyer) end]]
  [[write('HSET', key, buyer, int(count))]])
lua_mutation(S38 test_stock_orders [[CANCELLED = {1, -1, 0, -1}]] [[CANCELLED = {1, -1, 0, 0}]])
lua_mutation(S38 test_stock_reserve [[EXPIRED = {1, -1, 0, -1}]] [[EXPIRED = {1, -1, 0, 0}]])
lua_mutation(S38 test_stock_return [[RETURNED = {1, 0, -1, -1}]] [[RETURNED = {1, 0, -1, 0}]])
lua_mutation(S39 test_stock_expiry [[    gave = gave + #holds
    dirty = false]] [[    gave = gave + #holds]])
lua_mutation(S40 test_stock_expiry [[if i > max or lines >= HOLD_LINES_MAX then]] [[if lines >= HOLD_LINES_MAX then]])
lua_mutation(S40 test_stock_expiry [[if i > max or lines >= HOLD_LINES_MAX then]] [[if i > max then]])
lua_mutation(S40 test_stock_expiry [[due_ids(base, now, HOLDS_MAX - gave), HOLDS_MAX - gave, gave_lines)]]
  [[due_ids(base, now, HOLDS_MAX), HOLDS_MAX, gave_lines)]])
lua_mutation(S40 test_stock_expiry [[looked_in = 0 -- each]] [[-- each]])
lua_mutation(S40 test_stock_expiry [[if give_back_due(base, now) then return {'OK', 0} end]]
  [[give_back_due(base, now)]])
lua_mutation(S41 test_stock_expiry [[if not first[1] then return {'OK', -1} end]]
  [[if not first[1] then return {'OK', 50} end]])
lua_mutation(S41 test_stock_expiry [[math.max(ms_until(tonumber(first[2]), now), ALARM_AGAIN_MS)]] [[ALARM_AGAIN_MS]])
lua_mutation(S41 test_stock_expiry [[math.max(ms_until(tonumber(first[2]), now), ALARM_AGAIN_MS)]]
  [[ms_until(tonumber(first[2]), now)]])
lua_mutation(S42 test_stock_expiry [[tonumber(first[2]) + OVERDUE_US < now]] [[tonumber(first[2]) + OVERDUE_US > now]])
lua_mutation(S42 test_stock_expiry [[tonumber(first[2]) + OVERDUE_US < now]] [[tonumber(first[2]) < now]])
lua_mutation(S42 test_stock_expiry [['COUNT', 1000, 'TYPE', 'zset')]] [['COUNT', 1000000, 'TYPE', 'zset')]])
lua_mutation(S42 test_stock_expiry [['COUNT', 1000, 'TYPE', 'zset')]] [['COUNT', 1000)]])
lua_mutation(S42 test_stock_expiry [['ls:{*}:stock:x']] [['*stock:x']])
lua_mutation(S42 test_stock_expiry [[reply[#reply + 1] = string.sub(key, 1, -#'stock:x' - 1)]] "")

# Confirm, ExtendHold, Cancel, Return, GetOrder
lua_mutation(S43 test_stock_orders [[end_hold(base, id, order, 'CONFIRMED', 'CONFIRMED')]] "")
lua_mutation(S43 test_stock_orders [[return {'CONFIRMED', '1', view_confirmed(order)}]]
  [[return {'CONFIRMED', '0', view_confirmed(order)}]])
lua_mutation(S43 test_stock_orders [[for i = 6, #reply, 3 do reply[i] = '0' end]] "")
lua_mutation(S43 test_stock_orders [[save_order(base, id, order)
  write('ZREM', base .. 'stock:x', id)]] [[save_order(base, id, order)]])
lua_mutation(S44 test_stock_orders [[if state == 'EXPIRED' and again == '1' then]] [[if state == 'EXPIRED' then]])
lua_mutation(S44 test_stock_orders [[if state == 'EXPIRED' and again == '1' then]] [[if false then]])
lua_mutation(S44 test_stock_orders [[if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]]
  [[if not item then sold_out = 'SOLD_OUT' end]])
lua_mutation(S44 test_stock_orders [[if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]]
  [[if item and quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]])
lua_mutation(S44 test_stock_orders [[ or changing_held(changes, sku, order[BUYER]) + quantity > item[LIMIT] then]]
  [[ then]])
lua_mutation(S44 test_stock_orders [[if order[BUYER] == '' or changing_held]] [[if changing_held]])
lua_mutation(S44 test_stock_orders [=[order[i + LINE_ERA] = changes.items[order[i]][ERA]]=] "")
lua_mutation(S45 test_stock_orders [[write('ZADD', base .. 'stock:x', int(now + tonumber(hold_ms) * 1000), id)
  return {'EXTENDED']] [[  return {'EXTENDED']])
lua_mutation(S45 test_stock_orders [[if state == 'RETURNED' then return {'CONFIRMED', '0'} end]] "")
lua_mutation(S45 test_stock_orders [[if state ~= 'RESERVED' then return {state, '0'} end]] "")
lua_mutation(S46 test_stock_orders [[end_hold(base, id, order, 'CANCELLED', 'CANCELLED', 'reason', reason)]]
  [[end_hold(base, id, order, 'CANCELLED', 'CANCELLED')]])
lua_mutation(S46 test_stock_orders [[return {'ALREADY_CONFIRMED', '0', view_order(order, state, hold_ms)}]] "")
lua_mutation(S46 test_stock_orders
  [[if state == 'CANCELLED' then return {'CANCELLED', '1', view_order(order, state, 0)} end]] "")
lua_mutation(S46 test_stock_orders [[if order[STATE] == 'EXPIRED' then
    order[STATE] = 'CANCELLED']] [[if order[STATE] == 'EXPIRED' then]])
lua_mutation(S46 test_stock_orders [[elseif state == 'EXPIRED' then]] [[elseif false then]])
lua_mutation(S47 test_stock_orders
  [[write('SET', order_key(base, id), cmsgpack.pack({'order', 'CANCEL', 'CANCELLED', '', DEFAULT_KEEP_MS}),
      'PX', int(DEFAULT_KEEP_MS))]] "")
lua_mutation(S47 test_stock_orders [['PX', int(DEFAULT_KEEP_MS))
]] [['PX', int(DAY_MS))
]])
lua_mutation(S47 test_stock_orders [[if order[HOW] == 'CANCEL' then return {'UNKNOWN_ORDER', '1'} end]] "")
lua_mutation(S47 test_stock_orders [[fail('FAILED_PRECONDITION', 'order_id: was cancelled before it came')]] "")
lua_mutation(S48 test_stock_return
  [[change(changes, 'RETURNED', order[i], back[i], order[i + LINE_ERA], return_id, order[BUYER])]] "")
lua_mutation(S48 test_stock_return [=[order[i + RETURNED] = order[i + RETURNED] + back[i]]=] "")
lua_mutation(S48 test_stock_return [[order[STATE] = whole and 'RETURNED' or 'CONFIRMED']] "")
lua_mutation(S48 test_stock_return [[  save_changes(changes)
  save_order(base, id, order)
  write('SET', record_key]] [[  save_changes(changes)
  write('SET', record_key]])
lua_mutation(S49 test_stock_return
  [[write('SET', record_key, cmsgpack.pack({'return', id, lines, answer}), 'PX', int(order[KEEP]))]] "")
lua_mutation(S49 test_stock_return [[answer}), 'PX', int(order[KEEP]))]] [[answer}))]])
lua_mutation(S49 test_stock_return [[if record[2] ~= id or #record[3] ~= #lines then]]
  [[if #record[3] ~= #lines then]])
lua_mutation(S49 test_stock_return [[if record[2] ~= id or #record[3] ~= #lines then]]
  [[if record[2] ~= id then]])
lua_mutation(S49 test_stock_return [=[if asked[record[3][i]] ~= record[3][i + 1] then return false end]=] "")
lua_mutation(S50 test_stock_return [[if quantity > left then return nil end]] "")
lua_mutation(S50 test_stock_return [[if unmatched > 0 then return nil end]] "")
lua_mutation(S50 test_stock_return [[local back = state == 'CONFIRMED' and coming_back(order, lines)]]
  [[local back = coming_back(order, lines)]])
lua_mutation(S51 test_stock_return [=[return item and era >= item[BORN]]=] [[return item]])
lua_mutation(S52 test_stock_deduct [[if not order then return {'NONE'} end]]
  [[if not order then return {'OK', {'CANCELLED', '0', ''}} end]])
lua_mutation(S53 test_stock_faults [[define('stock_expire', {'allow-oom'}]] [[define('stock_expire', {}]])
lua_mutation(S53 test_stock_faults [[define('stock_cancel_unseen', {}]] [[define('stock_cancel_unseen', {'allow-oom'}]])
lua_mutation(S53 test_stock_faults [[define('stock_delete_item', {'allow-oom'}]] [[define('stock_delete_item', {}]])
lua_mutation(S53 test_stock_faults [[define('stock_confirm', {'allow-oom'}]] [[define('stock_confirm', {}]])
lua_mutation(S53 test_stock_faults [[define('stock_extend_hold', {'allow-oom'}]] [[define('stock_extend_hold', {}]])
lua_mutation(S53 test_stock_faults [[define('stock_cancel', {'allow-oom'}]] [[define('stock_cancel', {}]])
lua_mutation(S53 test_stock_faults [[define('stock_return', {'allow-oom'}]] [[define('stock_return', {}]])

# C: what reaches the functions, and what the caller gets
c_mutation(S18 server/services/stock_items.c test_stock_items [[if (answer_count(a, reply) == 1)
        lks_error_set]] [[if (answer_count(a, reply) == 0)
        lks_error_set]])
c_mutation(S18 server/services/stock_items.c test_stock_items [[    if (one_group) {
        plan_call]] [[    if (false) {
        plan_call]])
c_mutation(S18 server/services/stock_items.c test_stock_items [[        if (!one_group)
]] [[        if (false)
]])
c_mutation(S7 server/services/stock.c test_stock_deduct
  [[&lockstock__v1__deduct_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__deduct_outcome__descriptor);]])
c_mutation(S22 server/services/stock_items.c test_stock_items [[response->replayed = answer_int(a, reply, 2) != 0;]] "")
c_mutation(S29 server/services/stock.c test_stock_deduct
  [[n == 1 ? lines[0]->sku : NULL]] [[NULL]])
c_mutation(S29 server/services/plan.c test_stock_input
  [[plan_invalid(p, "group: must be set where the request does not name exactly one thing");]] [[group = "-";]])
c_mutation(S30 server/services/stock.c test_stock_input [[plan_check_name(p, field, lines[i]->sku);]] "")
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_invalid(p, "%s: the same as lines[%zu].sku", field, j);]] [[;]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_check_range(p, field, lines[i]->quantity, 1, SERVICE_QUANTITY_MAX);]] "")
c_mutation(S30 server/services/stock.c test_stock_input [[if (n > SERVICE_BATCH_MAX)]] [[if (false)]])
c_mutation(S30 server/services/stock.c test_stock_input [[plan_invalid(p, "lines: must not be empty");]] [[;]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[if (lines[i]->quantity > SERVICE_QUANTITY_MAX - sum)]] [[if (false)]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_check_name_or_empty(p, "buyer_id", buyer_id);]] "")
c_mutation(S30 server/services/stock.c test_stock_input [[plan_check_name(p, "order_id", order_id);]] "")
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);]] "")
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);]] "")
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "return_id", request->return_id);]] "")
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    stock_check_lines(]] [[stock_check_lines(]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[stock_check_lines(p, request->lines, request->n_lines);]] "")
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    plan_call(p, &fn_stock_confirm]] [[plan_call(p, &fn_stock_confirm]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    plan_check_range(]] [[plan_check_range(]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    plan_check_text(]] [[plan_check_text(]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);]] "")
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    plan_call(p, &fn_stock_get_order]] [[plan_call(p, &fn_stock_get_order]])
c_mutation(S29 server/services/stock_orders.c test_stock_return
  [[request->n_lines == 1 ? request->lines[0]->sku : NULL]] [[NULL]])
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_range(p, "on_hand", request->on_hand, 0, SERVICE_QUANTITY_MAX);]] "")
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_range(p, "per_buyer_limit", request->per_buyer_limit, 0, SERVICE_QUANTITY_MAX);]] "")
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_range(p, "opens_in_ms", request->opens_in_ms, 0, SPAN_MAX_MS);]] "")
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_range(p, "closes_in_ms", request->closes_in_ms, 0, SPAN_MAX_MS);]] "")
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_invalid(p, "closes_in_ms: must be later than opens_in_ms");]] [[;]])
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_range(p, "order_retain_ms", retain_ms, RETAIN_MIN_MS, SPAN_MAX_MS);]] "")
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_invalid(p, "%s: the same as skus[%zu]", field, j);]] [[;]])
c_mutation(S30 server/services/stock_items.c test_stock_input [[plan_invalid(p, "delta: must not be zero");]] [[;]])
c_mutation(S30 server/services/stock_items.c test_stock_input
  [[plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);]] "")
c_mutation(S30 server/services/stock_ledger.c test_stock_input [[(text[0] == '0' && at > text + 1)]] [[false]])
c_mutation(S30 server/services/stock_ledger.c test_stock_input
  [[plan_check_range(p, "limit", limit, 1, LIMIT_MAX);]] "")
c_mutation(S30 server/services/stock_list.c test_stock_input
  [[plan_check_range(p, "page_size", size, 1, PAGE_MAX);]] "")
c_mutation(S20 server/services/stock_list.c test_stock_list [[if (!is_place(p->arena, place))]] [[if (false)]])
c_mutation(S31 rpc/scan.c test_stock_input [[return lks_rpc_utf8_valid(text.at, len) || fail(m, "not valid UTF-8");]]
  [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[if (len > 0 && memchr(text.at, '\0', len))]] [[if (false)]])
c_mutation(S31 rpc/scan.c test_stock_input [[return fail(m, "not of the wire type of the field");]] [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[return wire_skip(&m->wire, type) || fail(m, "ends inside an unknown field");]]
  [[return fail(m, "unknown");]])
c_mutation(S34 server/services/stock.c test_stock_reserve
  [[answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms > 0 ? response->hold_ms : -1);]] "")
c_mutation(S35 server/services/stock.c test_stock_reserve
  [[&lockstock__v1__reserve_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__reserve_outcome__descriptor);]])
c_mutation(S40 server/services/stock.c test_stock_expiry [[    if (more)
        answer_again(a, next);]] "")
c_mutation(S40 server/services/stock.c test_stock_expiry [[            next = expire_first;]]
  [[            next = ask_again;]])
c_mutation(S40 server/services/stock.c test_stock_expiry [[? &fn_stock_expire_listed : &fn_stock_expire;]]
  [[? &fn_stock_expire : &fn_stock_expire;]])
c_mutation(S45 server/services/stock_orders.c test_stock_orders
  [[        answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms);]]
  [[        ;]])
c_mutation(S43 server/services/stock_orders.c test_stock_orders
  [[&lockstock__v1__confirm_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__confirm_outcome__descriptor);]])
c_mutation(S46 server/services/stock_orders.c test_stock_orders
  [[&lockstock__v1__cancel_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__cancel_outcome__descriptor);]])
c_mutation(S47 server/services/stock_orders.c test_stock_orders [[        answer_again(a, cancel_unseen);
]] "")
c_mutation(S49 server/services/stock_orders.c test_stock_return
  [[&lockstock__v1__return_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__return_outcome__descriptor);]])
c_mutation(S52 server/services/stock_orders.c test_stock_reserve [[order->hold_ms = answer_int(a, view, 1);]] "")
c_mutation(S52 server/services/stock_orders.c test_stock_orders [[order->lines[i]->returned = answer_int(a, view, HEAD + LINE * i + 2);]] "")
c_mutation(S42 server/calls/sweep.c test_stock_orphans [[alarms_set_lasting(s->alarms, reply->element[i].string, fn_stock_expire.name, lks_rpc_slice_of(""), 0);]]
  [[;]])

# What keeps StockService's promises.

# Deduct and Reserve
lua_mutation(S43 test_stock_orders [[item[AVAILABLE] = item[AVAILABLE] + by[1] * quantity]] "")
lua_mutation(S43 test_stock_orders [[item[RESERVED] = item[RESERVED] + by[2] * quantity]] "")
lua_mutation(S43 test_stock_orders [[item[SOLD] = item[SOLD] + by[3] * quantity]] "")
lua_mutation(S2 test_stock_deduct [[item[AVAILABLE], item[VERSION] = left, item[VERSION] + 1]] [[item[VERSION] = item[VERSION] + 1]])
lua_mutation(S2 test_stock_reserve [[item[RESERVED] = item[RESERVED] + way.reserved * quantity]] "")
lua_mutation(S2 test_stock_deduct [[item[SOLD] = item[SOLD] + way.sold * quantity]] "")
lua_mutation(S2 test_stock_deduct [[    item[CHANGED] = true
    if item[LIMIT] > 0]] [[    if item[LIMIT] > 0]])
lua_mutation(S2 test_stock_deduct [[if item and item[CHANGED] then write('SET', key .. sku, pack_item(item)) end]] "")
lua_mutation(S17 test_stock_model [[item[SOLD] = item[SOLD] + by[3] * quantity
  item[VERSION] = item[VERSION] + 1]] [[item[SOLD] = item[SOLD] + by[3] * quantity]])
lua_mutation(S17 test_stock_items [[item[AVAILABLE], item[VERSION] = left, item[VERSION] + 1]] [[item[AVAILABLE] = left]])
lua_mutation(S1 test_stock_deduct [[if quantity > item[AVAILABLE] then return 5 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[CLOSES] > 0 and clock() >= item[CLOSES] then return 3 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[OPENS] > 0 and clock() < item[OPENS] then return 2 end]] "")
lua_mutation(S5 test_stock_deduct [[if not item then return 1 end]] "")
lua_mutation(S5 test_stock_deduct [[item[LIMIT] + item[OPENS] + item[CLOSES] == 0 and ]] "")
lua_mutation(S1 test_stock_deduct [=[ == 0 and lines[i + 1] + 0 <= item[AVAILABLE]]=] [[ == 0]])
lua_mutation(S6 test_stock_deduct [[reply[#reply + 1] = (i - 1) / 2]] [[reply[#reply + 1] = 0]])
lua_mutation(S5 test_stock_deduct [[ranks[i] < gravest]] [[ranks[i] > gravest]])
lua_mutation(S6 test_stock_deduct [[if ranks[i] == gravest then]] [[if ranks[i] then]])
lua_mutation(S10 test_stock_deduct [[if buyer == '' then fail]] [[if false then fail]])
lua_mutation(S11 test_stock_deduct [[held[buyer] = held[buyer] + by]] "")
lua_mutation(S7 test_stock_deduct [[if text then return known_order]] [[if false then return known_order]])
lua_mutation(S7 test_stock_deduct [=[same and order[at + LEFT]]=] [=[same and order[at + QUANTITY]]=])
lua_mutation(S7 test_stock_deduct [[write('SET', key, texts[key], 'PX', ms_text(keep_ms))]] "")
lua_mutation(S8 test_stock_deduct [[same and at and order[at + QUANTITY] == tonumber(lines[i + 1])]] [[same and at]])
lua_mutation(S8 test_stock_deduct [[ and order[COUNT] == #lines / 2]] "")
lua_mutation(S8 test_stock_reserve [=[PLACE[order[HOW]] == way.how and ]=] "")
lua_mutation(S8 test_stock_deduct [[ and order[BUYER] == buyer ]] [[ ]])
lua_mutation(S13 test_stock_deduct [[write('SET', key, texts[key], 'PX', ms_text(keep_ms))]] [[write('SET', key, texts[key])]])
lua_mutation(S57 test_stock_together [[if ms ~= kept_ms then]] [[if not kept_ms then]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > keep_ms then]] [[if keep_ms == 0 then]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > keep_ms then]] [[if true then]])
lua_mutation(S2 test_stock_deduct [[if i == 3 then reply = {reply} end]] [[if i >= 3 then reply = {reply} end]])
lua_mutation(S3 test_stock_ledger [[if s.ledger then write_ledger(s) end]] "")
lua_mutation(S3 test_stock_ledger [[    note(s, way.outcome, sku, lines[i + 1], id, '')]] "")
lua_mutation(S27 test_stock_deduct [[string.format('%d', n)]] [[tostring(n)]])

# An FCALL's calls share what they read and change
lua_mutation(S57 test_stock_together [[  if not text then return redis.call('GET', key) end]] [[  if true then return redis.call('GET', key) end]])
lua_mutation(S57 test_stock_together [[if items then items[sku] = item else]] [[if items then items[sku] = nil else]])
lua_mutation(S57 test_stock_together [[  if not held[buyer] then
]] [[  if true then
]])
lua_mutation(S57 test_stock_together [=[local ends = s.ends and s.ends[id]]=] [[local ends]])
lua_mutation(S57 test_stock_together [[if item and item[CHANGED] then write]] [[if item then write]])
lua_mutation(S58 test_stock_together [[  touch(s)
  return text]] [[  return text]])
lua_mutation(S58 test_stock_together [[  elseif item and item[CHANGED] or s.skus and s.skus[sku] then]] [[  elseif false then]])
lua_mutation(S58 test_stock_together [[    keys[#keys + 1] = keep_ms
  else
    s.texts, s.keys = {[key] = text}, {key, keep_ms}
  end
  touch(s)]] [[    keys[#keys + 1] = keep_ms
  else
    s.texts, s.keys = {[key] = text}, {key, keep_ms}
  end]])
lua_mutation(S58 test_stock_together [[if s.touched then s.touched[s.at] = true else s.touched = {[s.at] = true} end]]
  [[s.touched = {} for n = 1, s.at do s.touched[n] = true end]])
lua_mutation(S58 test_stock_together [[for k in pairs(wrong and s.touched or {}) do replies[k] = wrong end]] "")
lua_mutation(S59 test_stock_together [[  if s.gave then return false end]] "")

# PutItem, GetItem
lua_mutation(S14 test_stock_items [[if must_be_new == '1' then fail]] [[if false then fail]])
lua_mutation(S14 test_stock_items [[if expected ~= 0 and expected ~= current then]] [[if false then]])
lua_mutation(S14 test_stock_items [[' .. int(current), 'version]] [[', 'version]])
lua_mutation(S14 test_stock_items [[expected ~= 0 and ]] "")
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[RESERVED] then]])
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[SOLD] then]])
lua_mutation(S2 test_stock_items [=[on_hand - item[RESERVED] - item[SOLD]]=] [=[on_hand - item[RESERVED]]=])
lua_mutation(S17 test_stock_items
  [[item[VERSION], item[BORN] = old[VERSION] + 1]] [[item[VERSION], item[BORN] = old[VERSION] ]])
lua_mutation(S15 test_stock_items [[old and item[AVAILABLE] - old[AVAILABLE] or on_hand]] [[on_hand]])
lua_mutation(S15 test_stock_items [[if more ~= 0 or not old then]] [[if true then]])
lua_mutation(S11 test_stock_deduct [[if limit == 0 then forget_buyers(s, sku) end]] "")
lua_mutation(S11 test_stock_deduct
  [[for sku in pairs(s.unlinked or {}) do write('UNLINK', s.base .. 'stock:b:' .. encode(sku)) end]] "")
lua_mutation(S16 test_stock_items [[return 'NOT_OPEN' end]] [[return nil end]])
lua_mutation(S16 test_stock_items [[return 'CLOSED' end]] [[return nil end]])
lua_mutation(S16 test_stock_items
  [[return instant > now and math.ceil((instant - now) / 1000) or 0]] [[return math.ceil((instant - now) / 1000)]])

# Adjust
lua_mutation(S21 test_stock_items [[if item[AVAILABLE] + delta < 0 then]] [[if false then]])
lua_mutation(S21 test_stock_items
  [[item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER]] [[item[AVAILABLE] + delta > MAX_INTEGER]])
lua_mutation(S22 test_stock_items [[local record = load_record(s, key, 'adjustment')]] [[local record]])
lua_mutation(S22 test_stock_items [[record[2] ~= sku or ]] "")
lua_mutation(S22 test_stock_items [[ or record[3] ~= delta]] "")
lua_mutation(S13 test_stock_items [[answer}), item[RETAIN])]] [[answer}), false)]])
lua_mutation(S17 test_stock_items [[item[VERSION] = item[VERSION] + 1]] "")
lua_mutation(S22 test_stock_items [[note(s, 'ADJUSTED', sku, int(delta), adjustment_id, reason)]] "")
lua_mutation(S22 test_stock_items [[adjustment_id, reason)]] [[adjustment_id, '')]])

# A move of an item that is gone
lua_mutation(SB7 test_stock_buckets [[  if not item or item[BORN] ~= born then return {'OK'} end
  put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))]] [[  put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))
  if not item or item[BORN] ~= born then return {'OK'} end]])

# DeleteItem
lua_mutation(S23 test_stock_items [[if item[RESERVED] > 0 then]] [[if false then]])
lua_mutation(S23 test_stock_items [[write('UNLINK', key .. sku, s.base .. 'stock:m:' .. encode(sku))]] "")
lua_mutation(S23 test_stock_items [[  list_item(s, sku)
  forget_buyers(s, sku)]] [[  list_item(s, sku)]])
lua_mutation(S23 test_stock_items [[write('ZREM', s.base .. 'stock:skus', sku)]] "")
lua_mutation(S23 test_stock_items [[note(s, 'DELETED', sku, int(item[AVAILABLE]), '', '')]] "")
lua_mutation(S17 test_stock_items [[math.max(clock(), deleted_version(s) + 1)]] [[clock()]])
lua_mutation(S17 test_stock_items
  [[put_text(s, s.base .. 'stock:v', int(version)]] [[put_text(s, s.base .. 'stock:w', int(version)]])
lua_mutation(S17 test_stock_items [[ms_until(version, clock()) + DAY_MS]] [[DAY_MS / 2]])

# Lists
lua_mutation(S19 test_stock_list [[write('ZADD', s.base .. 'stock:skus', 0, sku)]] "")
lua_mutation(S19 test_stock_list [['(' .. prefix .. '\255']] [['+']])
lua_mutation(S19 test_stock_list [['(' .. after or]] [['[' .. after or]])
lua_mutation(S19 test_stock_list [[skus[size + 1] and 1 or 0]] [[skus[size] and 1 or 0]])
lua_mutation(S20 test_stock_list [[string.gsub(prefix, '[*?[%]\\]', '\\%0')]] [[prefix]])
lua_mutation(S20 test_stock_list [[ and string.sub(sku, 1, #prefix) == prefix and not]] [[ and not]])
lua_mutation(S20 test_stock_list [[if group and bucket == '0' and string.sub]] [[if bucket == '0' and string.sub]])
lua_mutation(S20 test_stock_list [[if not ok and not item.lks_code then error(item) end]] [[if not ok then error(item) end]])
lua_mutation(S20 test_stock_list [[budget > 0 and ]] "")
lua_mutation(S20 test_stock_list [[for i = 1, resumed and #places or 0, 2 do add(places[i], places[i + 1]) end]] "")
lua_mutation(S20 test_stock_list [[, 'TYPE', 'string')]] [[)]])
lua_mutation(S28 test_stock_items
  [[if not string.find(text, '[^A-Za-z0-9._~-]') then return text end]] [[if true then return text end]])

# The ledger
lua_mutation(S25 test_stock_ledger [[ or id_before(at, mark) or]] [[ or]])
lua_mutation(S25 test_stock_ledger [[ or not entry or left >= packed_in(entry) then]] [[ then]])
lua_mutation(S25 test_stock_ledger [[ or left >= packed_in(entry) then]] [[ then]])
lua_mutation(S25 test_stock_ledger [[  if at ~= mark then]] [[  if true then]])
lua_mutation(S25 test_stock_ledger [[  elseif left > 0 then
    return nil]] [[  elseif left < 0 then
    return nil]])
lua_mutation(S25 test_stock_ledger [[    if mark ~= '0-0' then return nil end]] "")
lua_mutation(S24 test_stock_ledger [[return left > 0 and at or '(' .. at, left]] [[return '(' .. at, left]])
lua_mutation(S24 test_stock_ledger [[wanted = wanted - (left > 0 and math.min(left, n) or n)]] [[wanted = wanted - n]])
lua_mutation(S24 test_stock_ledger [[  until last or wanted <= 0]] [[  until true]])
lua_mutation(S24 test_stock_ledger [[for first = 1, #words, ENTRY * PACKED_MAX do]] [[for first = 1, 1 do]])
lua_mutation(S24 test_stock_ledger [[local PACKED_MAX = 1000]] [[local PACKED_MAX = 1001]])
lua_mutation(S24 test_stock_ledger [[int((seq + 1) * PACKED_MAX - packed_in(entry) + 1)]] [[int((seq + 1) * PACKED_MAX)]])
lua_mutation(S26 test_stock_ledger [[local whole = math.floor(seq / PACKED_MAX)]] [[local whole = math.ceil(seq / PACKED_MAX)]])
lua_mutation(S26 test_stock_ledger [[if whole == 0 then ms, whole = ms - 1, MAX_INTEGER end]] [[if whole == 0 then whole = 1 end]])
lua_mutation(S25 test_stock_ledger [[then return {'TRIMMED', '', time_ms(), ''} end]] [[then return {'OK', '', time_ms(), '0-0'} end]])
lua_mutation(S25 test_stock_ledger [[write('XDEL', ledger, last[1])]] "")
lua_mutation(S24 test_stock_ledger [[write('XTRIM', ledger, 'MINID', '=', last[1])]] "")
lua_mutation(S24 test_stock_ledger [=['(' .. entry[1]]=] [=[entry[1]]=])
lua_mutation(S26 test_stock_ledger [[write('PEXPIRE', ledger, int(30 * DAY_MS), 'NX')]] "")
lua_mutation(S26 test_stock_ledger [[if items == 0 and ]] [[if ]])
lua_mutation(S26 test_stock_ledger [[write('PERSIST', s.base .. 'stock:ledger')]] "")

# Foreign data and errors
lua_mutation(S32 test_stock_faults [[redis.call('HLEN', s.base .. 'stock:b:' .. encode(sku))]] "")
lua_mutation(S32 test_stock_faults [[  redis.call('ZCARD', s.base .. 'stock:skus')
end]] [[end]])
lua_mutation(S32 test_stock_faults [[local items = redis.call('ZCARD', base .. 'stock:skus')]] [[local items = 0]])
lua_mutation(S32 test_stock_faults
  [[if not ok or type(record) ~= 'table' or record[1] ~= kind then]] [[if not ok then]])
lua_mutation(S32 test_stock_faults
  [[local ok, record = pcall(cmsgpack.unpack, text)]] [[local ok, record = true, cmsgpack.unpack(text)]])
lua_mutation(S32 test_stock_faults [[if #text ~= ITEM_BYTES or string.byte]] [[if string.byte]])
lua_mutation(S32 test_stock_faults [[if #text ~= ITEM_BYTES or string.byte(text) ~= ITEM_MARK then]] [[if #text ~= ITEM_BYTES then]])
lua_mutation(S32 test_stock_faults [[if mark ~= ORDER_MARK or order[#order] ~= ]] [[if order[#order] ~= ]])
lua_mutation(S32 test_stock_faults [[ or order[#order] ~= #text + 1 then]] [[ then]])
lua_mutation(S32 test_stock_faults [[return order[HOW] and order[STATE] and order or]] [[return order[STATE] and order or]])
lua_mutation(S32 test_stock_faults [[return order[HOW] and order[STATE] and order or]] [[return order[HOW] and order or]])
lua_mutation(S32 test_stock_faults
  [[tonumber(redis.call('ZSCORE', s.base .. 'stock:x', id)) or foreign()]]
  [[tonumber(redis.call('ZSCORE', s.base .. 'stock:x', id) or 1)]])
lua_mutation(S33 test_stock_faults [[  dirty = true]] "")
lua_mutation(S33 test_stock_faults [[s.at, dirty = n, false]] [[s.at, dirty = n, true]])
lua_mutation(S33 test_stock_faults [[  dirty = false
  local ok, e = pcall(shared.close, s)]] [[  dirty = true
  local ok, e = pcall(shared.close, s)]])

lua_mutation(S4 test_stock_deduct [[if not gravest then return nil end]] [[if gravest ~= 9 then return nil end]])
lua_mutation(S9 test_stock_deduct [[local reply = {REFUSALS[gravest], anybody}]]
  [[local reply = {REFUSALS[gravest], anybody}
  save_order(s, lines[1], {ORDER_MARK, 0, 'DEDUCT', 'CANCELLED', 1000, buyer})]])
lua_mutation(S12 test_stock_deduct [[s.at, dirty = n, false]] [[s.at = n]])

# Holds
lua_mutation(S34 test_stock_reserve [[if way == RESERVE then move_end(s, id, clock() + tonumber(hold_ms) * 1000) end]] "")
lua_mutation(S34 test_stock_reserve [[write('ZADD', s.base .. 'stock:x', unpack(more))]] "")
lua_mutation(S34 test_stock_reserve [[put_text(s, key, text, way == DEDUCT and keep_ms)]] [[put_text(s, key, text, keep_ms)]])
lua_mutation(S35 test_stock_reserve [[ends and ms_until(ends, clock()) or 0}]] [[0}]])
lua_mutation(S35 test_stock_orders [[if way == RESERVE then return {'CANCELLED'} end]] "")
lua_mutation(S36 test_stock_expiry [[if ends <= clock() then return order, 'EXPIRED', 0 end]] "")
lua_mutation(S36 test_stock_expiry [[local due, reply = count_due(s, HOLDS_MAX), {'OK'}]]
  [[local due, reply = {}, {'OK'}]])
lua_mutation(S36 test_stock_expiry
  [[local due, reply = count_due(s, HOLDS_MAX), {'OK', skus[size + 1] and 1 or 0}]]
  [[local due, reply = {}, {'OK', skus[size + 1] and 1 or 0}]])
lua_mutation(S36 test_stock_expiry [[due[base], room = count_due(of, room)]] [[due[base] = {}]])
lua_mutation(S36 test_stock_expiry [=[item[AVAILABLE] = item[AVAILABLE] + line[1]]=] "")
lua_mutation(S36 test_stock_expiry [=[item[RESERVED] = item[RESERVED] - line[1]]=] "")
lua_mutation(S36 test_stock_expiry [[item[RESERVED] = item[RESERVED] - line[1]
      item[VERSION] = item[VERSION] + 1]] [=[item[RESERVED] = item[RESERVED] - line[1]]=])
lua_mutation(S36 test_stock_expiry [[held_some = held_some or item[RESERVED] > 0]] "")
lua_mutation(S36 test_stock_expiry [[if known or not item then return item end]] [[if not item then return item end]])
lua_mutation(S36 test_stock_expiry [[if give_back_due(s) then return {'MORE'} end
  local old]] [[local old]])
lua_mutation(S36 test_stock_expiry [[if give_back_due(s) then return {'MORE'} end
  local item = item_of(s, sku)]] [[local item = item_of(s, sku)]])
lua_mutation(S36 test_stock_orders [[local function reacquire(s, id, order)
  if give_back_due(s) then return {'MORE'} end]] [[local function reacquire(s, id, order)]])
lua_mutation(S37 test_stock_expiry [[order[STATE] = 'EXPIRED'
      save_order(s, id, order)]] "")
lua_mutation(S37 test_stock_expiry [[write('ZREM', s.base .. 'stock:x', unpack(over))]] "")
lua_mutation(S37 test_stock_expiry [[move_order(s, 'EXPIRED', id, order, '')]] "")
lua_mutation(S32 test_stock_faults [[    if hold[2] then ready(s, 'EXPIRED', hold[2]) end]] "")
lua_mutation(S37 test_stock_expiry [[if order and order[STATE] ~= 'RESERVED' then order = nil end]] "")
lua_mutation(S38 test_stock_expiry [=[return item[LIMIT] > 0 and era == item[ERA]]=] [[return item[LIMIT] > 0]])
lua_mutation(S38 test_stock_reserve
  [[      if held[buyer] > 0 then]] [[      if true then]])
lua_mutation(S38 test_stock_orders [[CANCELLED = {1, -1, 0, -1}]] [[CANCELLED = {1, -1, 0, 0}]])
lua_mutation(S38 test_stock_reserve [[EXPIRED = {1, -1, 0, -1}]] [[EXPIRED = {1, -1, 0, 0}]])
lua_mutation(S38 test_stock_return [[RETURNED = {1, 0, -1, -1}]] [[RETURNED = {1, 0, -1, 0}]])
lua_mutation(S39 test_stock_expiry [[  s.at, dirty = n, false]] [[  s.at = n]])
lua_mutation(S40 test_stock_expiry [[if i > max or lines >= HOLD_LINES_MAX then]] [[if lines >= HOLD_LINES_MAX then]])
lua_mutation(S40 test_stock_expiry [[if i > max or lines >= HOLD_LINES_MAX then]] [[if i > max then]])
lua_mutation(S40 test_stock_expiry [[load_holds(s, ids, HOLDS_MAX - gave, gave_lines)]] [[load_holds(s, ids, HOLDS_MAX, gave_lines)]])
lua_mutation(S40 test_stock_expiry [[for _, other in pairs(s.others) do close_stock(other) end]] "")
lua_mutation(S40 test_stock_expiry [[if give_back_due(s) then return {'OK', 0} end]] [[give_back_due(s)]])
lua_mutation(S41 test_stock_expiry [[if not first[1] then return {'OK', -1} end]]
  [[if not first[1] then return {'OK', 50} end]])
lua_mutation(S41 test_stock_expiry [[math.max(ms_until(tonumber(first[2]), clock()), ALARM_AGAIN_MS)]] [[ALARM_AGAIN_MS]])
lua_mutation(S41 test_stock_expiry [[math.max(ms_until(tonumber(first[2]), clock()), ALARM_AGAIN_MS)]]
  [[ms_until(tonumber(first[2]), clock())]])
lua_mutation(S42 test_stock_expiry [[tonumber(first[2]) + OVERDUE_US < now]] [[tonumber(first[2]) + OVERDUE_US > now]])
lua_mutation(S42 test_stock_expiry [[tonumber(first[2]) + OVERDUE_US < now]] [[tonumber(first[2]) < now]])
lua_mutation(S42 test_stock_expiry [['COUNT', 1000)]] [['COUNT', 1000000)]])
lua_mutation(S42 test_stock_expiry [[if is == 'zset' and]] [[if]])
lua_mutation(S42 test_stock_expiry [[reply[#reply + 1] = group]] "")

# Confirm, ExtendHold, Cancel, Return, GetOrder
lua_mutation(S43 test_stock_orders [[end_hold(s, id, order, 'CONFIRMED', 'CONFIRMED', '')]] "")
lua_mutation(S43 test_stock_orders [[return {'CONFIRMED', 1, view_confirmed(order)}]]
  [[return {'CONFIRMED', 0, view_confirmed(order)}]])
lua_mutation(S43 test_stock_orders [[for i = 6, #reply, 3 do reply[i] = 0 end]] "")
lua_mutation(S43 test_stock_orders [[  save_order(s, id, order)
  move_end(s, id, false)]] [[  save_order(s, id, order)]])
lua_mutation(S44 test_stock_orders [[if state == 'EXPIRED' and again == '1' then]] [[if state == 'EXPIRED' then]])
lua_mutation(S44 test_stock_orders [[if state == 'EXPIRED' and again == '1' then]] [[if false then]])
lua_mutation(S44 test_stock_orders [[if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]]
  [[if not item then sold_out = 'SOLD_OUT' end]])
lua_mutation(S44 test_stock_orders [[if not item or quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]]
  [[if item and quantity > item[AVAILABLE] then sold_out = 'SOLD_OUT' end]])
lua_mutation(S44 test_stock_orders [[ or held_of(s, sku, order[BUYER]) + quantity > item[LIMIT] then]]
  [[ then]])
lua_mutation(S44 test_stock_orders [[if order[BUYER] == '' or held_of]] [[if held_of]])
lua_mutation(S44 test_stock_orders [=[order[i + LINE_ERA] = s.items[order[i]][ERA]]=] "")
lua_mutation(S45 test_stock_orders [[move_end(s, id, clock() + tonumber(hold_ms) * 1000)
  return {'EXTENDED']] [[  return {'EXTENDED']])
lua_mutation(S45 test_stock_orders [[if state == 'RETURNED' then return {'CONFIRMED', 0} end]] "")
lua_mutation(S45 test_stock_orders [[if state ~= 'RESERVED' then return {state, 0} end]] "")
lua_mutation(S46 test_stock_orders [[end_hold(s, id, order, 'CANCELLED', 'CANCELLED', reason)]]
  [[end_hold(s, id, order, 'CANCELLED', 'CANCELLED', '')]])
lua_mutation(S46 test_stock_orders [[return {'ALREADY_CONFIRMED', 0, view_order(order, state, hold_ms)}]] "")
lua_mutation(S46 test_stock_orders
  [[if state == 'CANCELLED' then return {'CANCELLED', 1, view_order(order, state, 0)} end]] "")
lua_mutation(S46 test_stock_orders [[if order[STATE] == 'EXPIRED' then
    order[STATE] = 'CANCELLED']] [[if order[STATE] == 'EXPIRED' then]])
lua_mutation(S46 test_stock_orders [[elseif state == 'EXPIRED' then]] [[elseif false then]])
lua_mutation(S47 test_stock_orders
  [[save_order(s, id, {ORDER_MARK, 0, 'CANCEL', 'CANCELLED', DEFAULT_KEEP_MS, ''})]] "")
lua_mutation(S47 test_stock_orders [['CANCELLED', DEFAULT_KEEP_MS, ''})]] [['CANCELLED', DAY_MS, ''})]])
lua_mutation(S47 test_stock_orders [[if order[HOW] == 'CANCEL' then return {'UNKNOWN_ORDER', 1} end]] "")
lua_mutation(S47 test_stock_orders [[fail('FAILED_PRECONDITION', 'order_id: was cancelled before it came')]] "")
lua_mutation(S48 test_stock_return
  [[move(s, 'RETURNED', order[i], back[i], int(back[i]), order[i + LINE_ERA], return_id, order[BUYER], '')]] "")
lua_mutation(S48 test_stock_return [=[order[i + RETURNED] = order[i + RETURNED] + back[i]]=] "")
lua_mutation(S48 test_stock_return [[order[STATE] = whole and 'RETURNED' or 'CONFIRMED']] "")
lua_mutation(S48 test_stock_return [[  save_order(s, id, order)
  put_text(]] [[  put_text(]])
lua_mutation(S49 test_stock_return [[put_text(s, key, cmsgpack.pack({'return', id, lines, answer}), order[KEEP])]] "")
lua_mutation(S49 test_stock_return [[answer}), order[KEEP])]] [[answer}), false)]])
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
lua_mutation(S52 test_stock_deduct [[if not order then return elsewhere(s.base) or {'NONE'} end]]
  [[if not order then return {'OK', {'CANCELLED', 0, ''}} end]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_expire', {'allow-oom'}]] [[define_pass('stock_expire', {}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_cancel_unseen', {}]] [[define_pass('stock_cancel_unseen', {'allow-oom'}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_delete_item', {'allow-oom'}]] [[define_pass('stock_delete_item', {}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_confirm', {'allow-oom'}]] [[define_pass('stock_confirm', {}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_extend_hold', {'allow-oom'}]] [[define_pass('stock_extend_hold', {}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_cancel', {'allow-oom'}]] [[define_pass('stock_cancel', {}]])
lua_mutation(S53 test_stock_faults [[define_pass('stock_return', {'allow-oom'}]] [[define_pass('stock_return', {}]])

# C: what reaches the functions, and what the caller gets
c_mutation(S18 server/services/stock_items.c test_stock_items [[    if (one_group) {
        plan_call]] [[    if (false) {
        plan_call]])
c_mutation(S18 server/services/stock_items.c test_stock_items [[        if (!one_group)
]] [[        if (false)
]])
c_mutation(S7 server/services/stock.c test_stock_deduct
  [[    response->outcome = (lks_deduct_outcome)s.outcome;
    response->replayed = s.replayed;]] [[    response->outcome = (lks_deduct_outcome)s.outcome;]])
c_mutation(S6 server/services/stock.c test_stock_deduct [[each == 1 ? i : (size_t)answer_int(a, reply, at++);]]
  [[i; at += each - 1;]])
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
    plan_check_range(]] [[plan_check_range(]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_name(p, "order_id", request->order_id);
    plan_check_text(]] [[plan_check_text(]])
c_mutation(S30 server/services/stock_orders.c test_stock_input
  [[plan_check_text(p, "reason", request->reason, 0, STOCK_REASON_BYTES_MAX);]] "")
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
c_mutation(S20 server/services/stock_list.c test_stock_list [[    if (!sku)
        bad_token(p);]] [[    if (!sku)
        sku = "";]])
c_mutation(S31 rpc/scan.c test_stock_input [[return lks_rpc_utf8_valid(text.at, len) || fail(m, "not valid UTF-8");]]
  [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[if (len > 0 && memchr(text.at, '\0', len))]] [[if (false)]])
c_mutation(S31 rpc/scan.c test_stock_input [[return fail(m, "not of the wire type of the field");]] [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[return wire_skip(&m->wire, type) || fail(m, "ends inside an unknown field");]]
  [[return fail(m, "unknown");]])
c_mutation(S34 server/services/stock.c test_stock_reserve
  [[answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms > 0 ? response->hold_ms : -1);]] "")
c_mutation(S35 server/services/stock.c test_stock_reserve
  [[    response->outcome = (lks_reserve_outcome)s.outcome;
    response->replayed = s.replayed;]] [[    response->outcome = (lks_reserve_outcome)s.outcome;]])
c_mutation(S35 server/services/stock.c test_stock_reserve [[s.replayed ? s.hold_ms : request->hold_ms;]] [[request->hold_ms;]])
c_mutation(S45 server/services/stock_orders.c test_stock_orders
  [[        answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms);]]
  [[        ;]])
c_mutation(S46 server/services/stock_orders.c test_stock_orders
  [[&lockstock__v1__cancel_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__cancel_outcome__descriptor);]])
c_mutation(S49 server/services/stock_orders.c test_stock_return
  [[&lockstock__v1__return_outcome__descriptor);
    response->replayed = answer_int(a, reply, 1) != 0;]] [[&lockstock__v1__return_outcome__descriptor);]])
c_mutation(S52 server/services/stock_orders.c test_stock_reserve [[order->hold_ms = answer_int(a, view, 1);]] "")
c_mutation(S52 server/services/stock_orders.c test_stock_orders [[order->lines[i]->returned = answer_int(a, view, HEAD + LINE * i + 2);]] "")

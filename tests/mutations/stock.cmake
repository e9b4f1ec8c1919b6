# What keeps StockService's promises.

# Deduct
lua_mutation(S2 test_stock_deduct [['available', int(left), 'sold']] [['available', int(item[AVAILABLE]), 'sold']])
lua_mutation(S2 test_stock_deduct [['sold', int(item[SOLD] + quantity)]] [['sold', int(item[SOLD])]])
lua_mutation(S17 test_stock_items [['version', int(item[VERSION] + 1))]] [['version', int(item[VERSION]))]])
lua_mutation(S1 test_stock_deduct [[if quantity > item[AVAILABLE] then return 5 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end]] "")
lua_mutation(S5 test_stock_deduct [[if item[CLOSES] > 0 and now >= item[CLOSES] then return 3 end]] "")
lua_mutation(S5 test_stock_deduct [[if now < item[OPENS] then return 2 end]] "")
lua_mutation(S5 test_stock_deduct [[if not item then return 1 end]] "")
lua_mutation(S5 test_stock_deduct [[ranks[i] < gravest]] [[ranks[i] > gravest]])
lua_mutation(S6 test_stock_deduct [[if ranks[i] == gravest then]] [[if ranks[i] then]])
lua_mutation(S10 test_stock_deduct [[if buyer == '' then fail]] [[if false then fail]])
lua_mutation(S11 test_stock_deduct [[if held[i] then write]] [[if false then write]])
lua_mutation(S7 test_stock_deduct [[if order then return first_answer]] [[if false then return first_answer]])
lua_mutation(S7 test_stock_deduct [[int(order[i + LEFT])]] [[int(order[i + QUANTITY])]])
lua_mutation(S7 test_stock_deduct [[write('SET', order_key, cmsgpack.pack(order), 'PX', int(retain))]] "")
lua_mutation(S8 test_stock_deduct [=[same = same and asked[order[i]] == order[i + QUANTITY]]=] "")
lua_mutation(S8 test_stock_deduct [[and (#order - LINES + 1) / LINE == (#args - 2) / 2]] "")
lua_mutation(S8 test_stock_deduct [[and order[BUYER] == args[2] ]] "")
lua_mutation(S13 test_stock_deduct [[cmsgpack.pack(order), 'PX', int(retain))]] [[cmsgpack.pack(order))]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > retain then]] [[if retain == 0 then]])
lua_mutation(S13 test_stock_deduct [[if item[RETAIN] > retain then]] [[if true then]])
lua_mutation(S3 test_stock_ledger [[append_ledger(base, 'DEDUCTED', args[i], args[i + 1], args[1])]] "")
lua_mutation(S27 test_stock_deduct [[string.format('%.0f', n)]] [[tostring(n)]])

# PutItem, GetItem
lua_mutation(S14 test_stock_items [[if args[7] == '1' then fail]] [[if false then fail]])
lua_mutation(S14 test_stock_items [[if expected ~= 0 and expected ~= current then]] [[if false then]])
lua_mutation(S14 test_stock_items [[' .. int(current))]] [[')]])
lua_mutation(S14 test_stock_items [[expected ~= 0 and ]] "")
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[RESERVED] then]])
lua_mutation(S14 test_stock_items [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[SOLD] then]])
lua_mutation(S2 test_stock_items [=[on_hand - item[RESERVED] - item[SOLD]]=] [=[on_hand - item[RESERVED]]=])
lua_mutation(S17 test_stock_items
  [[item[VERSION], item[BORN] = old[VERSION] + 1]] [[item[VERSION], item[BORN] = old[VERSION] ]])
lua_mutation(S15 test_stock_items [[old and item[AVAILABLE] - old[AVAILABLE] or on_hand]] [[on_hand]])
lua_mutation(S15 test_stock_items [[if change ~= 0 or not old then]] [[if true then]])
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
lua_mutation(S22 test_stock_items [[append_ledger(base, 'ADJUSTED', sku, int(delta), args[3])]] "")
lua_mutation(S22 test_stock_items [[args[3], 'reason', args[4])]] [[args[3])]])

# DeleteItem
lua_mutation(S23 test_stock_items [[if item[RESERVED] > 0 then]] [[if false then]])
lua_mutation(S23 test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', buyers)]])
lua_mutation(S23 test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', key)]])
lua_mutation(S23 test_stock_list [[write('ZREM', skus, sku)]] "")
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
lua_mutation(S20 test_stock_list [[encode(args[1]) .. '*']] [[args[1] .. '*']])
lua_mutation(S20 test_stock_list [[budget > 0 and ]] "")
lua_mutation(S20 test_stock_list [[for i = 4, #args do add(args[i]) end]] "")
lua_mutation(S20 test_stock_list [[, 'TYPE', 'hash')]] [[)]])
lua_mutation(S28 test_stock_items
  [[if not string.find(text, '[^A-Za-z0-9._~-]') then return text end]] [[if true then return text end]])

# The ledger
lua_mutation(S25 test_stock_ledger [[id_before(after, field['max-deleted-entry-id'])]] [[false]])
lua_mutation(S25 test_stock_ledger [[tonumber(a_seq) < tonumber(b_seq)]] [[tonumber(a_seq) <= tonumber(b_seq)]])
lua_mutation(S25 test_stock_ledger [[and 'TRIMMED' or 'OK', ''}]] [[and 'OK' or 'OK', ''}]])
lua_mutation(S25 test_stock_ledger [[write('XDEL', ledger, last[1])]] "")
lua_mutation(S24 test_stock_ledger [[write('XTRIM', ledger, 'MINID', '=', last[1])]] "")
lua_mutation(S24 test_stock_ledger [['(' .. after]] [[after]])
lua_mutation(S26 test_stock_ledger [[write('PEXPIRE', ledger, int(30 * DAY_MS))]] "")
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
lua_mutation(S33 test_stock_faults [[  dirty = true]] "")
lua_mutation(S33 test_stock_faults [[        dirty = false]] [[        dirty = true]])

lua_mutation(S4 test_stock_deduct [[if gravest then
    local reply]] [[if gravest == 9 then
    local reply]])
lua_mutation(S9 test_stock_deduct [[local reply = {REFUSALS[gravest], '0'}]]
  [[local reply = {REFUSALS[gravest], '0'}
    redis.call('SET', order_key, cmsgpack.pack({'order', 'DEDUCT', REFUSALS[gravest], 0, buyer}), 'PX', 1000)]])
lua_mutation(S12 test_stock_deduct [[        dirty = false]] "")

# C: what reaches the functions, and what the caller gets
c_mutation(S18 server/services/stock_items.c test_stock_items [[if (answer_count(a, reply) == 1)
        lks_error_set]] [[if (answer_count(a, reply) == 0)
        lks_error_set]])
c_mutation(S18 server/services/stock_items.c test_stock_items [[    if (one_group)
        plan_call]] [[    if (false)
        plan_call]])
c_mutation(S18 server/services/stock_items.c test_stock_items [[        if (!one_group)
]] [[        if (false)
]])
c_mutation(S7 server/services/stock.c test_stock_deduct [[response->replayed = answer_int(a, reply, 1) != 0;]] "")
c_mutation(S22 server/services/stock_items.c test_stock_items [[response->replayed = answer_int(a, reply, 2) != 0;]] "")
c_mutation(S29 server/services/stock.c test_stock_deduct
  [[request->n_lines == 1 ? request->lines[0]->sku : NULL]] [[NULL]])
c_mutation(S29 server/services/plan.c test_stock_input
  [[plan_invalid(p, "group: must be set where the request does not name exactly one thing");]] [[group = "-";]])
c_mutation(S30 server/services/stock.c test_stock_input [[plan_check_name(p, field, lines[i]->sku);]] "")
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_invalid(p, "%s: the same as lines[%zu].sku", field, j);]] [[;]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_check_range(p, field, lines[i]->quantity, 1, SERVICE_QUANTITY_MAX);]] "")
c_mutation(S30 server/services/stock.c test_stock_input [[if (n < 1 || n > SERVICE_BATCH_MAX)]] [[if (n < 1)]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[if (lines[i]->quantity > SERVICE_QUANTITY_MAX - sum)]] [[if (false)]])
c_mutation(S30 server/services/stock.c test_stock_input
  [[plan_check_name_or_empty(p, "buyer_id", request->buyer_id);]] "")
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
  [[plan_check_text(p, "reason", request->reason, 0, REASON_BYTES_MAX);]] "")
c_mutation(S30 server/services/stock_ledger.c test_stock_input [[(text[0] == '0' && at > text + 1)]] [[false]])
c_mutation(S30 server/services/stock_ledger.c test_stock_input
  [[plan_check_range(p, "limit", limit, 1, LIMIT_MAX);]] "")
c_mutation(S30 server/services/stock_list.c test_stock_input
  [[plan_check_range(p, "page_size", size, 1, PAGE_MAX);]] "")
c_mutation(S20 server/services/stock_list.c test_stock_list [[if (!is_place(p->arena, place))]] [[if (false)]])
c_mutation(S31 rpc/scan.c test_stock_input [[return utf8_valid(text.at, len) || fail(m, "not valid UTF-8");]] [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[if (len > 0 && memchr(text.at, '\0', len))]] [[if (false)]])
c_mutation(S31 rpc/scan.c test_stock_input [[return fail(m, "not of the wire type of the field");]] [[return true;]])
c_mutation(S31 rpc/scan.c test_stock_input [[return wire_skip(&m->wire, type) || fail(m, "ends inside an unknown field");]]
  [[return fail(m, "unknown");]])

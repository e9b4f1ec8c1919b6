# The lines of server/functions that keep StockService's promises; see
# docs/contract-coverage.md.

# Deduct
mutation("what is sold is no longer available" test_stock_deduct
  [['available', int(left), 'sold']] [['available', int(item[AVAILABLE]), 'sold']])
mutation("on_hand = available + reserved + sold" test_stock_deduct
  [['sold', int(item[SOLD] + quantity)]] [['sold', int(item[SOLD])]])
mutation("the version changes with a sale" test_stock_items
  [['version', int(item[VERSION] + 1))]] [['version', int(item[VERSION]))]])
mutation("available >= 0" test_stock_deduct [[if quantity > item[AVAILABLE] then return 5 end]] "")
mutation("BUYER_LIMIT" test_stock_deduct
  [[if item[LIMIT] > 0 and held + quantity > item[LIMIT] then return 4 end]] "")
mutation("CLOSED" test_stock_deduct [[if item[CLOSES] > 0 and now >= item[CLOSES] then return 3 end]] "")
mutation("NOT_OPEN" test_stock_deduct [[if now < item[OPENS] then return 2 end]] "")
mutation("UNKNOWN_SKU" test_stock_deduct [[if not item then return 1 end]] "")
mutation("the gravest refusal" test_stock_deduct [[ranks[i] < gravest]] [[ranks[i] > gravest]])
mutation("the lines in the way, only they" test_stock_deduct [[if ranks[i] == gravest then]] [[if ranks[i] then]])
mutation("buyer_id where there is a limit" test_stock_deduct [[if buyer == '' then fail]] [[if false then fail]])
mutation("a sale counts for its buyer" test_stock_deduct [[if held[i] then write]] [[if false then write]])
mutation("the same order_id is the first answer" test_stock_deduct
  [[if order then return first_answer]] [[if false then return first_answer]])
mutation("... with what was available then" test_stock_deduct [[int(order[i + LEFT])]] [[int(order[i + QUANTITY])]])
mutation("an effect is recorded" test_stock_deduct
  [[write('SET', order_key, cmsgpack.pack(order), 'PX', int(retain))]] "")
mutation("another quantity or sku: ALREADY_EXISTS" test_stock_deduct
  [=[same = same and asked[order[i]] == order[i + QUANTITY]]=] "")
mutation("more lines: ALREADY_EXISTS" test_stock_deduct [[and (#order - LINES + 1) / LINE == (#args - 2) / 2]] "")
mutation("another buyer: ALREADY_EXISTS" test_stock_deduct [[and order[BUYER] == args[2] ]] "")
mutation("orders end" test_stock_deduct [[cmsgpack.pack(order), 'PX', int(retain))]] [[cmsgpack.pack(order))]])
mutation("the longest retention of an order's items" test_stock_deduct
  [[if item[RETAIN] > retain then]] [[if retain == 0 then]])
mutation("the longest retention of an order's items" test_stock_deduct
  [[if item[RETAIN] > retain then]] [[if true then]])
mutation("a sale is in the ledger" test_stock_ledger
  [[append_ledger(base, 'DEDUCTED', args[i], args[i + 1], args[1])]] "")
mutation("numbers are exact" test_stock_deduct [[string.format('%.0f', n)]] [[tostring(n)]])

# PutItem, GetItem
mutation("must_be_new" test_stock_items [[if args[7] == '1' then fail]] [[if false then fail]])
mutation("expected_version" test_stock_items [[if expected ~= 0 and expected ~= current then]] [[if false then]])
mutation("expected_version names the current one" test_stock_items [[' .. int(current))]] [[')]])
mutation("expected_version 0 = any" test_stock_items [[expected ~= 0 and ]] "")
mutation("on_hand not below what is sold" test_stock_items
  [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[RESERVED] then]])
mutation("on_hand not below what is reserved" test_stock_items
  [[if on_hand < old[RESERVED] + old[SOLD] then]] [[if on_hand < old[SOLD] then]])
mutation("on_hand = available + reserved + sold" test_stock_items
  [=[on_hand - item[RESERVED] - item[SOLD]]=] [=[on_hand - item[RESERVED]]=])
mutation("the version changes with PutItem" test_stock_items
  [[item[VERSION], item[BORN] = old[VERSION] + 1]] [[item[VERSION], item[BORN] = old[VERSION] ]])
mutation("the difference is a ledger entry" test_stock_items
  [[old and item[AVAILABLE] - old[AVAILABLE] or on_hand]] [[on_hand]])
mutation("no difference, no entry" test_stock_items [[if change ~= 0 or not old then]] [[if true then]])
mutation("without a limit nobody is counted" test_stock_deduct [[if limit == 0 then write('UNLINK', buyers) end]] "")
mutation("an item knows its window" test_stock_items [[state = 'NOT_OPEN']] [[state = 'OPEN']])
mutation("an item knows its window" test_stock_items [[state = 'CLOSED']] [[state = 'OPEN']])
mutation("ms to the opening" test_stock_items
  [[return instant > now and math.ceil((instant - now) / 1000) or 0]] [[return math.ceil((instant - now) / 1000)]])

# Adjust
mutation("below zero: FAILED_PRECONDITION" test_stock_items [[if item[AVAILABLE] + delta < 0 then]] [[if false then]])
mutation("over 2^53-1: OUT_OF_RANGE" test_stock_items
  [[item[AVAILABLE] + item[RESERVED] + item[SOLD] + delta > MAX_INTEGER]] [[item[AVAILABLE] + delta > MAX_INTEGER]])
mutation("the same adjustment_id is the first answer" test_stock_items
  [[local record = load_record(record_key, 'adjustment')]] [[local record]])
mutation("another adjustment: ALREADY_EXISTS" test_stock_items [[record[2] ~= sku or ]] "")
mutation("another adjustment: ALREADY_EXISTS" test_stock_items [[ or record[3] ~= delta]] "")
mutation("adjustments end" test_stock_items [[answer}), 'PX', int(item[RETAIN]))]] [[answer}))]])
mutation("the version changes with Adjust" test_stock_items [[item[VERSION] = item[VERSION] + 1]] "")
mutation("an adjustment is in the ledger" test_stock_items
  [[append_ledger(base, 'ADJUSTED', sku, int(delta), args[3])]] "")
mutation("... with its reason" test_stock_items [[args[3], 'reason', args[4])]] [[args[3])]])

# DeleteItem
mutation("not while some is reserved" test_stock_items [[if item[RESERVED] > 0 then]] [[if false then]])
mutation("deleted is gone" test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', buyers)]])
mutation("... with its buyer counts" test_stock_items [[write('UNLINK', key, buyers)]] [[write('UNLINK', key)]])
mutation("... and from the list" test_stock_list [[write('ZREM', skus, sku)]] "")
mutation("... and told in the ledger" test_stock_items
  [[append_ledger(base, 'DELETED', sku, int(item[AVAILABLE]), '')]] "")
mutation("versions are never used twice" test_stock_items [[math.max(now, deleted_version(base) + 1)]] [[now]])
mutation("versions are never used twice" test_stock_items
  [[write('SET', base .. 'stock:v', int(version), 'PX']] [[redis.call('SET', base .. 'stock:w', int(version), 'PX']])
mutation("the version mark stays long enough" test_stock_items
  [[int(ms_until(version, now) + DAY_MS)]] [[int(DAY_MS / 2)]])

# Lists
mutation("a group in order, all of it" test_stock_list [[write('ZADD', skus, 0, sku)]] "")
mutation("a group's prefix" test_stock_list [['(' .. prefix .. '\255']] [['+']])
mutation("pages go on where they ended" test_stock_list [['(' .. after or]] [['[' .. after or]])
mutation("a last page says so" test_stock_list [[skus[size + 1] and '1' or '0']] [[skus[size] and '1' or '0']])
mutation("only the namespace" test_stock_list [[local pattern = namespace .. ']] [[local pattern = ']])
mutation("a namespace's prefix, literally" test_stock_list [[encode(args[1]) .. '*']] [[args[1] .. '*']])
mutation("bounded work a call" test_stock_list [[budget > 0 and ]] "")
mutation("what was over comes with the next page" test_stock_list [[for i = 4, #args do add(args[i]) end]] "")
mutation("foreign keys are passed by" test_stock_list [[, 'TYPE', 'hash')]] [[)]])
mutation("names are encoded in keys" test_stock_items
  [[if not string.find(text, '[^A-Za-z0-9._~-]') then return text end]] [[if true then return text end]])

# The ledger
mutation("TRIMMED" test_stock_ledger [[id_before(after, field['max-deleted-entry-id'])]] [[false]])
mutation("TRIMMED, exactly" test_stock_ledger
  [[tonumber(a_seq) < tonumber(b_seq)]] [[tonumber(a_seq) <= tonumber(b_seq)]])
mutation("TRIMMED, told from where nothing is left" test_stock_ledger
  [[and 'TRIMMED' or 'OK', ''}]] [[and 'OK' or 'OK', ''}]])
mutation("trimming leaves its mark" test_stock_ledger [[write('XDEL', ledger, last[1])]] "")
mutation("trimming trims" test_stock_ledger [[write('XTRIM', ledger, 'MINID', '=', last[1])]] "")
mutation("reading goes on after an id" test_stock_ledger [['(' .. after]] [[after]])
mutation("an emptied ledger without items ends" test_stock_ledger [[write('PEXPIRE', ledger, int(30 * DAY_MS))]] "")
mutation("... and only without items" test_stock_ledger [[if items == 0 and ]] [[if ]])
mutation("... until there is an item" test_stock_ledger [[write('PERSIST', base .. 'stock:ledger')]] "")

# Foreign data and errors
mutation("foreign types change nothing" test_stock_faults [[redis.call('HLEN', buyers)]] "")
mutation("foreign types change nothing" test_stock_faults [[redis.call('ZCARD', skus)]] "")
mutation("foreign types change nothing" test_stock_faults
  [[local items = redis.call('ZCARD', base .. 'stock:skus')]] [[local items = 0]])
mutation("foreign text changes nothing" test_stock_faults
  [[if not ok or type(record) ~= 'table' or record[1] ~= kind then]] [[if not ok then]])
mutation("foreign text changes nothing" test_stock_faults
  [[local ok, record = pcall(cmsgpack.unpack, text)]] [[local ok, record = true, cmsgpack.unpack(text)]])
mutation("foreign fields change nothing" test_stock_faults
  [[item[i] = tonumber(item[i]) or fail('FAILED_PRECONDITION', FOREIGN)]] [[item[i] = tonumber(item[i])]])
mutation("foreign hashes change nothing" test_stock_faults [[if redis.call('EXISTS', key) == 1 then]] [[if false then]])
mutation("an error after a write is MAYBE" test_stock_faults [[  dirty = true]] "")
mutation("an error before a write is NO" test_stock_faults [[        dirty = false]] [[        dirty = true]])

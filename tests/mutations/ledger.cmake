# What keeps the promises of waiting for the ledger, and of its consumer.

# Who is told
lua_mutation(SL1 test_stock_ledger_wait [[write('PUBLISH', channel_of(server), 'W ' .. base .. 'ledger')]] "")
lua_mutation(SL1 test_stock_ledger_wait [[write('SADD', readers, server)]] "")
lua_mutation(SL2 test_stock_ledger_wait [[  write('DEL', of .. 'stock:r')]] "")
lua_mutation(SL3 test_stock_ledger_wait [[redis.call('EXISTS', readers) == 1 and ]] "")

# What a reader gets
lua_mutation(SL6 test_stock_ledger_wait [[ or #reply > 4 then]] [[ then]])
c_mutation(SL6 server/services/stock_ledger.c test_stock_ledger_wait
  [[waits ? &fn_stock_await_ledger : &fn_stock_read_ledger]] [[&fn_stock_await_ledger]])
lua_mutation(SL7 test_stock_ledger_wait [[if reply[1] ~= 'OK' or #reply > 4]] [[if #reply > 4]])

# What waiting leaves behind
lua_mutation(SL8 test_stock_ledger_wait [[write('PEXPIRE', readers, wait_ms)]] [[redis.call('PTTL', readers)]])
lua_mutation(SL8 test_stock_ledger_wait [[redis.call('PTTL', readers) < tonumber(wait_ms)]] [[true]])

# When something is short, wrong or missed
lua_mutation(SL10 test_stock_ledger_wait [[define('stock_await_ledger', {'allow-oom'}]] [[define('stock_await_ledger', {}]])
lua_mutation(SL10 test_stock_ledger_wait [[define('stock_trim_ledger', {'allow-oom'}]] [[define('stock_trim_ledger', {}]])
lua_mutation(SL11 test_stock_ledger_wait
  [[and redis.call('SMEMBERS', readers)]] [[and redis.pcall('SMEMBERS', readers)]])
c_mutation(SL12 server/services/stock_ledger.c test_stock_input
  [[plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);]] "")
c_mutation(SL13 server/server.c test_ledger_wait [[waiters_missed(s->waiters);]] [[;]])

# The consumer
c_mutation(SL14 examples/ledger/copy.c test_ledger_consumer
  [[options->naive ? goods_copy_naively : goods_copy]] [[goods_copy_naively]])
c_mutation(SL15 examples/ledger/goods.c test_ledger_consumer
  [["UPDATE consumer SET last_id = ? WHERE ledger = ? AND last_id = ?"]]
  [["UPDATE consumer SET last_id = ? WHERE ledger = ? AND (last_id = ? OR TRUE)"]])
c_mutation(SL15 examples/ledger/copy.c test_ledger_consumer [[if (is_lost(db, position))]] [[if (true)]])
c_mutation(SL16 examples/ledger/copy.c test_ledger_consumer
  [[!trim(channel, group, position)]] [[!trim(channel, group, "9007199254740991-0")]])
c_mutation(SL17 examples/ledger/goods.h test_ledger_consumer
  [[#define GOODS_NOTHING_READ "0-0"]] [[#define GOODS_NOTHING_READ ""]])
c_mutation(SL18 examples/ledger/goods.c test_ledger_consumer:*share_a_database*
  [[" WHERE ledger = ? AND id = ? AND num >= ?]] [[" WHERE ledger <> ? AND id = ? AND num >= ?]])
c_mutation(SL19 examples/ledger/copy.c test_ledger_consumer:*forgotten_ledger*
  [[if (goods_start_over(db, position))]] [[if (false)]])
c_mutation(SL19 examples/ledger/goods.c test_ledger_consumer:*forgotten_ledger*
  [[" AND NOT EXISTS (SELECT 1 FROM goods WHERE goods.ledger = consumer.ledger)"]] [[""]])
c_mutation(SL4 server/services/stock_ledger.c test_stock_ledger_wait
  [[p->event.kind != SERVICE_WAIT_OVER]] [[p->event.kind == SERVICE_NO_EVENT]])
c_mutation(SL5 server/services/stock_ledger.c test_stock_ledger_wait
  [[ && p->event.kind != SERVICE_WAIT_OVER]] "")
c_mutation(SL9 server/services/rounds.c test_stock_ledger_wait [[event.kind == SERVICE_ABANDONED]] [[false]])

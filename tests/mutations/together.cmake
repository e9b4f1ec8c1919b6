# What keeps the promises that are shown with all services, servers and threads together.
# Of the function library too in a private tree, for these tests run the real lockstockd.

# The equations of stock, at each look and by the ledger
c_mutation(E1 server/functions/stock_change.lua test_sequential
  [[item[RESERVED] = item[RESERVED] + by[2] * quantity]] "")
lua_mutation(E1 test_stock_expiry
  [=[item[RESERVED] = item[RESERVED] - line[1]]=] "")
c_mutation(E1 server/functions/stock.lua test_sequential
  [[  if quantity > item[AVAILABLE] then return 5 end]] "")
lua_mutation(E2 test_stock_expiry
  [[move_order(s, 'EXPIRED', id, order, '')]] "")
lua_mutation(E2 test_stock_expiry
  [[  note(s, kind, sku, text, id, reason)]] [[  if kind ~= 'EXPIRED' then note(s, kind, sku, text, id, reason) end]])
c_mutation(E3 server/functions/stock_change.lua test_sequential [[held[buyer] = held[buyer] + by]] "")
lua_mutation(E3 test_stock_expiry
  [=[held_of(s, sku, order[BUYER]) + quantity > item[LIMIT] then]=] [[false then]])

# Repeats: later, by others, elsewhere, twice at once, and of everything at the end
c_mutation(E4 server/functions/stock.lua test_sequential
  [[if text then return known_order]] [[if false then return known_order]])
c_mutation(E4 server/functions/stock.lua test_sequential [=[same and order[at + LEFT]]=] [[same and 0]])
c_mutation(E4 server/functions/stock_orders.lua test_sequential
  [[if state == 'CONFIRMED' or state == 'RETURNED' then return {'CONFIRMED', 1, view_confirmed(order)} end]] "")
c_mutation(E4 server/functions/stock_orders.lua test_sequential
  [[if state == 'CANCELLED' then return {'CANCELLED', 1, view_order(order, state, 0)} end]] "")
c_mutation(E4 server/functions/stock_orders.lua test_sequential
  [[put_text(s, key, cmsgpack.pack({'return', id, lines, answer}), order[KEEP])]] "")
c_mutation(E4 server/functions/stock_orders.lua test_sequential
  [[if order[HOW] == 'CANCEL' then return {'UNKNOWN_ORDER', 1} end]] "")
c_mutation(E5 server/functions/stock.lua test_sequential
  [[if way == RESERVE then return {'CANCELLED'} end]] "")
c_mutation(E5 server/functions/stock_orders.lua test_sequential [[if quantity > left then return nil end]] "")

# A hold that is over, with nobody to give it back
lua_mutation(E6 test_stock_expiry
  [=[item[AVAILABLE] = item[AVAILABLE] + line[1]]=] "")
lua_mutation(E6 test_stock_expiry [[if held_some and give_back_due(s) then return {'MORE'} end]] "")

# What is created also ends: a key of each service, the servers' own memory
c_mutation(E7 server/functions/lock.lua test_memory_flat
  [[  write_spent(q.base .. 'lock:t:' .. w.token, q.now)]]
  [[  write_record(q.base .. 'lock:t:' .. w.token, 'X', q.now, 0, '  ')]])
c_mutation(E7 server/functions/lock_names.lua test_memory_flat [[write('PEXPIRE', lock.queue_key, ms)]] "")
c_mutation(E7 server/functions/stock_change.lua test_memory_flat
  [[write('SET', key, texts[key], 'PX', ms_text(keep_ms))]] [[write('SET', key, texts[key])]])
c_mutation(E7 server/functions/stock_change.lua test_memory_flat
  [[write('ZREM', s.base .. 'stock:x', unpack(over))]] "")
c_mutation(E7 server/functions/stock_change.lua test_memory_flat
  [[for sku in pairs(s.unlinked or {}) do write('UNLINK', s.base .. 'stock:b:' .. encode(sku)) end]] "")
c_mutation(E7 server/functions/idempotency.lua test_memory_flat
  [[save_record(s.record, 'R', '', '', 'PX', s.life_ms)]] [[save_record(s.record, 'R', '', '')]])
c_mutation(E7 server/functions/idempotency_ticket.lua test_memory_flat [[#subject, subject), 'PX', ttl_ms)]] [[#subject, subject))]])
c_mutation(E7 server/functions/ratelimit_policies.lua test_memory_flat [[write('ZREM', names, name)]] "")
c_mutation(E8 net/sp/frames.c test_memory_flat:memory_is_flat [[f->pool[f->n_pool++] = arena;]] "")

# Everybody clicks twice
c_mutation(E9 server/functions/idempotency.lua test_helpers:*double_click*
  [[if record.state == 'C' or record.state == 'F' then]] [[if record.state == 'F' then]])
c_mutation(E9 server/functions/ratelimit.lua test_helpers:*limit_holds*
  [[local passes = at and at <= now]] [[local passes = true]])
c_mutation(E9 client/reservation.c test_helpers:*gives_back [[    lks_reservation_free(*reservation);
]] "")

# The token of a form, a penalty, orders settled behind the sale, versions
lua_mutation(E10 test_idempotency_ticket
  [[if its_consumer ~= '' then return {'ALREADY_CONSUMED', 0} end]] "")
lua_mutation(E10 test_idempotency_ticket
  [[if its_subject ~= subject then return {'UNKNOWN', 0} end]] "")
lua_mutation(E10 test_idempotency_ticket
  [[#subject, subject), 'PX', ttl_ms)]] [[#subject, subject))]])
lua_mutation(E11 test_ratelimit_check
  [[  if p[3] > rule.after then]] [[  if false then]])
c_mutation(E12 server/functions/idempotency.lua test_helpers:*double_click*
  [[if record.state == 'C' or record.state == 'F' then]] [[if record.state == 'F' then]])
lua_mutation(E13 test_stock_buckets
  [[if expected ~= 0 and expected ~= current then]] [[if false then]])

# The shop with guards
c_mutation(E14 client/guard/guard.c test_guarded_hosts:double_clicks* [[    if (!g->guard->idempotency) {]] [[    if (g) {]])
c_mutation(E14 client/guard/answer.c test_guarded_hosts:double_clicks* [[    answer->replays = true;]] "")
c_mutation(E15 client/guard/guard.c test_guards:locks_are_held* [[    if (!guard) {
        settle(g, GUARD_ADMITTED, NULL);]] [[    if (g) {
        settle(g, GUARD_ADMITTED, NULL);]])
c_mutation(E16 client/guard/guard.c test_guarded_hosts:double_clicks* [[    if (!g->guard->idempotency) {]] [[    if (g) {]])
c_mutation(E17 client/guard/guard.c test_guarded_hosts:a_process_killed* [[        g->number = response->attempt;]] [[        g->number = 1;]])
c_mutation(E18 client/guard/guard.c test_guarded_hosts:a_handler_frozen*
  [[    return i < lks_guard_n_locks(context) ? context->guarded->fences[i] : 0;]]
  [[    return i < lks_guard_n_locks(context) ? 0 * context->guarded->fences[i] : 0;]])
c_mutation(E18 client/guard/leave.c test_guarded_hosts:a_handler_frozen*
  [[    if (code == LKS_OK && response->outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED) {]]
  [[    if (code == LKS_OK && response->outcome == LKS_COMPLETE_OUTCOME_UNSPECIFIED) {]])

# Rows B: no FCALL holds Redis for long (docs/contract-coverage.md).

c_mutation(B1 server/store/pending.c test_store_pipeline [[list->weight += weight_of(p);]] "")
c_mutation(B1 server/services/lock.c test_weights [[plan_weighs(p, 2 + request->n_targets / LOCK_TARGETS_OF_WEIGHT);]] "")
c_mutation(B1 server/services/lock.c test_weights [[(n ? n : SERVICE_TARGETS_MAX)]] [[n]])
c_mutation(B1 server/services/lock_admin.c test_weights [[plan_weighs(p, HOLDERS_WEIGHT);]] "")
c_mutation(B1 server/services/lock_admin.c test_weights [[plan_weighs(p, STORE_WEIGHT_MAX);]] "")
c_mutation(B1 server/services/stock_items.c test_weights
  [[plan_weighs(p, 1 + request->n_skus / STOCK_ITEMS_OF_WEIGHT);]] "")
c_mutation(B1 server/services/stock_list.c test_weights [[plan_weighs(p, 1 + (size_t)step / STOCK_ITEMS_OF_WEIGHT);]] "")
c_mutation(B1 server/services/stock_ledger.c test_weights [[plan_weighs(p, 1 + (size_t)limit / ENTRIES_OF_WEIGHT);]] "")
c_mutation(B1 server/services/stock_ledger.c test_weights [[plan_weighs(p, STORE_WEIGHT_MAX);]] "")
c_mutation(B1 server/services/ratelimit.c test_weights [[plan_weighs(p, request->n_rules);]] "")
c_mutation(B1 server/services/ratelimit_policies.c test_weights [[plan_weighs(p, 1 + (size_t)size / POLICIES_OF_WEIGHT);]] "")
c_mutation(B1 server/services/idempotency.c test_weights [[plan_weighs(p, RESULT_WEIGHT);]] "")
c_mutation(B1 server/services/id.c test_weights [[plan_weighs(p, GRANT_WEIGHT);]] "")

lua_mutation(B2 test_lock_modes [[> LOOK_MAX) then look_if_over(lock, q.now) end]] [[> LOOK_MAX) then look(lock, q.now) end]])

# what an FCALL does for others than its callers, for all its calls together
lua_mutation(B17 test_lock_bounds:calls_that_travel*
  [[if worked_in ~= fcall then]] [[if true then]])
lua_mutation(B17 test_lock_bounds:calls_that_travel* [[  units_done = units_done + units
]] "")
lua_mutation(B17 test_lock_bounds:calls_that_travel* [[worked(0) - q.free >= WORK_MAX then]] [[q.tired then]])
lua_mutation(B17 test_lock_bounds:a_try_behind* [[not is_barred(line.lock, want) and not drop_dead(q, line) then]]
  [[not is_barred(line.lock, want) then]])
lua_mutation(B17 test_lock_bounds:*looks_no_more* [[worked(0) - q.free >= WORK_MAX]] [[worked(0) >= WORK_MAX]])
lua_mutation(B17 test_lock_bounds:a_try_behind* [[q.tired and lock.several and redis.call('HLEN', lock.several) > LOOK_MAX]] [[q.tired]])
lua_mutation(B17 test_lock_bounds:*reads_no_more* [[q.tired and lock.several and redis.call('HLEN', lock.several) > LOOK_MAX]] [[false]])
lua_mutation(B17 test_lock_bounds:*looks_no_more* [[if q.tired then return {'OK', 0} end]] "")
lua_mutation(B17 test_lock_bounds:*reads_no_more* [[worked(#all / ENTRIES_OF_WORK)]] "")
lua_mutation(B18 test_lock_bounds:a_refusal* [[
  promote(q)
  tell(q)
  dirty = false]] [[
  dirty = false]])
lua_mutation(B18 test_lock_bounds:a_refusal_that_finds* [[
  promote(q)
  tell(q)
  dirty = false]] [[
  tell(q)
  dirty = false]])
lua_mutation(B18 test_lock_bounds:a_refusal_is* [[
  tell(q)
  dirty = false]] [[
  tell(q)]])

# no error after a write
lua_mutation(L56 test_lock_bounds [[local ok, place = pcall(barred_at, q, w.wants, w.number)]]
  [[local ok, place = true, barred_at(q, w.wants, w.number)]])
lua_mutation(L56 test_lock_bounds [[local ok, line = pcall(due, q, want.name)]] [[local ok, line = true, due(q, want.name)]])
lua_mutation(L56 test_lock_bounds [[local ok, line, next = pcall(first_of, q, want.name)]]
  [[local ok, line, next = true, first_of(q, want.name)]])
lua_mutation(L56 test_lock_bounds:a_foreign_record* [[local ok, record = pcall(read_record, base .. 'lock:t:' .. token)]]
  [[local ok, record = true, read_record(base .. 'lock:t:' .. token)]])
c_mutation(B2 server/services/lock_admin.c test_lock_modes [[% DESCRIBED_MAX == 0]] [[== 0]])

lua_mutation(B3 test_lock_admin [[whole = whole and work < LIST_WORK and]] [[whole = whole and]])
c_mutation(B3 server/services/stock_list.c test_stock_list [[return size < STEP_MAX ? (int32_t)size : STEP_MAX;]]
  [[return (int32_t)size;]])
c_mutation(B3 server/services/stock_list.c test_stock_list [[places > PLACES_MAX]] [[false]])

lua_mutation(B4 test_stock_expiry [[  if s.due == nil then]] [[  if true then]])

lua_mutation(B5 test_stock_ledger [[, 'LIMIT', TRIM_STEP)]] [[, 'LIMIT', 0)]])
lua_mutation(B5 test_stock_ledger [[if gone > TRIM_STEP / 2 then return {'MORE'} end]] "")

lua_mutation(B6 test_lock_renew_release [[if not text and not leave_mark then return {'UNSEEN'} end]] "")
lua_mutation(B6 test_lock_renew_release [[define('lock_release_unseen', {}]] [[define('lock_release_unseen', {'allow-oom'}]])
lua_mutation(B6 test_lock_renew_release [[return release(base, now, true, token, server, ...)]] [[return release(base, now, false, token, server, ...) or {}]])
c_mutation(B6 server/services/lock.c test_lock_renew_release
  [[plan_release((const lks_release_request *)(const void *)request, p, &fn_lock_release_unseen);]]
  [[plan_release((const lks_release_request *)(const void *)request, p, &fn_lock_renew);]])

lua_mutation(B7 test_lock_wait
  [[if #found > 0 and not line.checked then line.checked = redis.call('HLEN', line.servers) end]] "")
lua_mutation(B7 test_lock_wait [[due_and_read(q, name).lock]] [[due(q, name).lock]])
lua_mutation(B7 test_lock_wait [[if #entry ~= ENTRY_BYTES then foreign() end]] "")

lua_mutation(B8 test_lock_fence [[if fence > now + FENCE_AHEAD_US then]] [[if false then]])
lua_mutation(B8 test_lock_fence [[if fence > now + FENCE_AHEAD_US then]] [[if fence > now then]])
lua_mutation(B9 test_lock_fence [[if fence > 0 then write('SET', key, int(fence)) else write('DEL', key) end]]
  [[if fence > 0 then write('SET', key, int(fence)) end]])
lua_mutation(B9 test_lock_fence [[if fence > 0 then write('SET', key, int(fence)) else write('DEL', key) end]]
  [[write('DEL', key)]])
c_mutation(B9 server/services/lock_admin.c test_lock_fence [[    (void)request;
    response->high_water = (uint64_t)answer_int(a, a->replies[0], 1);]] [[    (void)request;
    (void)response;
    (void)a;]])

c_mutation(B10 server/store/safety.c test_store_redis:*becomes_unsafe*
  [[else if (!s.appends && !s.snapshots)]] [[else if (false)]])
c_mutation(B10 server/store/safety.c test_store_redis:*becomes_unsafe*
  [[strcmp(setting(reply, "maxmemory-policy"), "noeviction") != 0;]] [[false;]])

c_mutation(B11 server/services/rounds.c test_dispatch [[r->any_succeeded = a->applied;]] [[r->any_succeeded = false;]])
c_mutation(B11 server/services/answer.c test_dispatch [[a->applied = true;]] "")

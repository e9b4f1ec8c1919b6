# What keeps the promises of groups in buckets.

# Where an order is, and how a server learns it
lua_mutation(SB1 test_stock_buckets [[local there = gravest == 1 and elsewhere(s.base)]] [[local there = nil]])


# Moves
lua_mutation(SB3 test_stock_buckets:a_move* [=[  put_move(s, sku, to, id, n, item[BORN])
]=] "")
lua_mutation(SB3 test_stock_buckets:a_move* [[  if under_way > 0 then return {'SENT', last, under_way, of} end
]] "")
lua_mutation(SB4 test_stock_buckets:a_move_that_came* [[if born < last_born or born == last_born and id <= last then return {'OK'} end]] "")
lua_mutation(SB4 test_stock_buckets:a_move_that_came* [[  put_field(s, key, field, struct.pack(CAME_FORMAT, born, id))
]] "")
lua_mutation(SB5 test_stock_buckets [[note_move(s, sku, n, 1, from, to, id)]] "")
lua_mutation(SB5 test_stock_buckets [[note_move(s, sku, n, -1, from, to, id)]] "")
lua_mutation(SB6 test_stock_buckets [[  if from == '0' then item[SOLD] = item[SOLD] + n end
]] "")
lua_mutation(SB6 test_stock_buckets [[  if to == '0' then item[SOLD] = item[SOLD] - n end
]] "")

# SOLD_OUT
c_mutation(SB8 server/services/stock_refusals.c test_stock_buckets:a_remembered* [[base.data[len] != '}' && (base.data[len] != '/' || ++slashes < 2)]]
  [[base.data[len] != '}']])

# Items
lua_mutation(SB9 test_stock_buckets:the_number* [[if redis.call('EXISTS', base .. 'stock:skus', base .. 'stock:ledger') > 0 then]] [[if false then]])
c_mutation(SB10 server/services/stock_items.c test_stock_buckets:buckets_are* [[    plan_check_range(p, "buckets", request->buckets, 0, STOCK_BUCKETS_MAX);
]] "")
c_mutation(SB10 server/services/stock_items.c test_stock_buckets:buckets_are*
  [[        plan_check_range(p, "per_buyer_limit", request->per_buyer_limit, 0, STOCK_BUCKETS_LIMIT_MAX);]] [[        ;]])
lua_mutation(SB14 test_stock_buckets:adjust* [[    if pool then return {'SHORT', -item[AVAILABLE] - delta} end
]] "")
lua_mutation(SB15 test_stock_buckets:lists* [[local bucket = group and string.match(group, '/([^/]*)$') or '0']] [[local bucket = '0']])

# Limits a buyer
lua_mutation(SB16 test_stock_buckets:a_buyer* [[  if not counted and (not gravest or gravest > 3) then return {'CLAIM'} end
]] "")
lua_mutation(SB16 test_stock_buckets:a_buyer* [[if sum > -item[LIMIT] then over[#over + 1] = others end]] "")
lua_mutation(SB16 test_stock_buckets:a_buyer* [[  for sku, claims in pairs(claimed) do put_claims(s, sku, buyer, claims) end
]] "")
lua_mutation(SB17 test_stock_buckets:what_comes* [[if units > 0 then claims[c + 1] = units else remove_claim(claims, c) end]] "")
lua_mutation(SB17 test_stock_buckets:a_claim* [[(units >= 0 or clock() > at + CLAIM_GONE_US)]] [[true]])
lua_mutation(SB17 test_stock_buckets:a_claim* [[(units >= 0 or clock() > at + CLAIM_GONE_US)]] [[units >= 0]])

# What a server that died has left on its way
lua_mutation(SB24 test_stock_buckets:*overdue* [[if units > 0 and id + OVERDUE_US < now then]] [[if false then]])
c_mutation(SB24 server/calls/sweep.c test_sweep:units_on* [[        submit(s, &s->home.sent, on_sent);]] [[        bring_home(s);]])
c_mutation(SB24 server/calls/sweep.c test_sweep:units_that* [[result->code == LKS_OK && answer_says(result->value, "OK") && !pass_is_stopped(s->pass)]] [[!pass_is_stopped(s->pass)]])
c_mutation(SB24 server/services/stock_home.c test_sweep:units_on* [[stock_bucket_name((unsigned)to)]] [[(unsigned)to]])

# What a failover has lost

# The ledger
lua_mutation(SB20 test_stock_bucket_ledger:a_trimmed* [[  if mark ~= '0-0' and (id_before(at, mark) or at == mark and left > 0) then return nil end
]] "")
lua_mutation(SB23 test_stock_bucket_ledger:next_after_is* [[    after = last_id(mark)
]] [[    after = '0-0'
]])
lua_mutation(SB23 test_stock_bucket_ledger:next_after_goes* [[    if left < packed_in(entries[1]) then return after end
]] "")
lua_mutation(SB21 test_stock_ledger_wait:an_entry_of* [[string.gsub(of, '/%d+/%d+}:$', '}:')]] [[of]])
lua_mutation(SB21 test_stock_ledger_wait:an_entry_of* [[  wake_readers(base, servers)
]] "")

# The engine of transfers
c_mutation(SB1 server/services/stock_place.c test_stock_buckets:an_order* [[hash_folded(hash_more(HASH_START, id, strlen(id))) % n]] [[0 % n]])
c_mutation(SB2 server/services/stock_transfer.c test_stock_buckets:a_server_that* [[    if (!t->is_guess)]] [[    if (true)]])
c_mutation(SB2 server/services/stock_place.c test_stock_buckets:an_order_that* [[    memory->any_buckets |= n > 0;
]] "")
c_mutation(SB22 server/services/stock_place.c test_stock_buckets:buckets_lie* [=[names[bucket - 1];]=] [=[bucket + 99;]=])
c_mutation(SB7 server/services/stock_moves.c test_stock_buckets:sold_out* [[return t->look.unchanged ? TRANSFER_DONE : TRANSFER_LOOK;]] [[return TRANSFER_DONE;]])
c_mutation(SB7 server/services/stock_look.c test_stock_buckets:sold_out* [=[        look->unchanged = before[i].version == look->items[i].version;]=] [[        ;]])
c_mutation(SB7 server/services/stock_moves.c test_stock_buckets:sold_out* [[return t->moves.n > 0 ? TRANSFER_RECEIVE : TRANSFER_DONE;]] [[return TRANSFER_DONE;]])
c_mutation(SB9 server/services/stock_pool.c test_stock_buckets:the_number* [[if (t->n_buckets > 0 && buckets != 0 && buckets != (int32_t)t->n_buckets) {]] [[if (false) {]])
c_mutation(SB11 server/services/stock_look.c test_stock_buckets [[        sum.available -= item->reserved + item->sold;]] [[        ;]])
c_mutation(SB11 server/services/stock_pool.c test_stock_buckets:an_expected* [[c->expected == 0 || c->expected == current ||]] [[true ||]])
c_mutation(SB12 server/services/stock_pool.c test_stock_buckets:delete_needs* [[        if (item->reserved > 0)]] [[        if (false)]])
c_mutation(SB12 server/services/stock_moves.c test_stock_buckets:a_deleted* [[    return !pool->exists && item->exists && item->born <= pool->version;]] [[    return false;]])
c_mutation(SB13 server/services/stock_moves.c test_stock_buckets:a_bucket_without* [[    return pool->exists &&]] [[    return false &&]])
c_mutation(SB18 server/services/stock_claims.c test_stock_buckets:a_refused* [[? TRANSFER_UNCLAIM : TRANSFER_DONE;]] [[? TRANSFER_DONE : TRANSFER_DONE;]])
c_mutation(SB18 server/services/stock_claims.c test_stock_buckets:a_repeat* [=[        c->keeps_claim = answer_int(a, a->replies[0], 2) != 0;
]=] "")
c_mutation(SB25 server/services/stock_look.c test_stock_buckets:*can_be* [[    return look->unchanged || look_fits(look);]] [[    return look_fits(look);]])
c_mutation(SB25 server/services/stock_pool.c test_stock_buckets:*can_be_deleted* [[    if (t->look.unchanged)]] [[    if (false)]])
c_mutation(SB25 server/services/stock_pool.c test_stock_buckets:*set_back* [[            if (look_item(&t->look, 0, k)->version > latest)]] [[            if (false)]])
c_mutation(SB25 server/services/stock_look.c test_stock_buckets:*made_later* [[    return is_of(look_item(look, sku, 0), item) ? item->available : 0;]] [[    return item->available;]])
c_mutation(SB26 server/services/stock_moves.c test_stock_buckets:many_holds* [[            t->rounds--;]] [[            ;]])
c_mutation(SB19 server/services/stock_ledger_pages.c test_stock_buckets:its_ledgers* [[        id.seq--;
]] [[        ;
]])
c_mutation(SB19 server/services/stock_ledger_pages.c test_stock_buckets:its_ledgers* [[.seq = id.seq * SHIFT + k};]] [[.seq = id.seq * SHIFT};]])
c_mutation(SB19 server/services/stock_ledger_pages.c test_stock_bucket_ledger:an_entry* [[        if (id.ms >= before_ms)
            return false;
]] "")
c_mutation(SB20 server/services/stock_ledger_pages.c test_stock_bucket_ledger:a_trimmed* [[        trimmed = trimmed || pages]] [[        trimmed = trimmed && pages]])
c_mutation(SB23 server/services/stock_ledger_pages.c test_stock_bucket_ledger:a_position* [[        return NEVER_GIVEN;
]] [[        ;
]])
c_mutation(B3 server/services/stock_list.c test_stock_list [[        return TRANSFER_CALL;
    return t->list.n == 0]] [[        ;
    return t->list.n == 0]])
c_mutation(B5 server/services/stock_transfer.c test_stock_ledger [[    if (says_any(a, "MORE")) {]] [[    if (false) {]])
c_mutation(S33 server/services/stock_transfer.c test_stock_faults [[        t->applied |= t->more_is_applied;
]] "")
c_mutation(S40 server/services/stock_transfer.c test_stock_expiry [[? &fn_stock_expire_listed : &fn_stock_expire;]] [[? &fn_stock_expire : &fn_stock_expire;]])
c_mutation(S47 server/services/stock_orders.c test_stock_orders [[    t->order.unseen = true;
    return TRANSFER_CALL;]] [[    return TRANSFER_DONE;]])

# What keeps IdService's promises.

# SNOWFLAKE: bits and time
c_mutation(D1 server/services/id_snowflake.c test_id_snowflake [[1704067200000;      /* 2024]] [[1704067200001;        /* 2024]])
c_mutation(D1 server/services/id_snowflake.c test_id_snowflake
  [[(uint64_t)s->worker << SEQUENCE_BITS |]] [[(uint64_t)s->worker << WORKER_BITS |]])
c_mutation(D1 server/services/id_snowflake.c test_id_snowflake
  [[(int32_t)(id >> SEQUENCE_BITS) & (WORKERS - 1)]] [[(int32_t)(id >> SEQUENCE_BITS) & (SEQUENCES - 1)]])
c_mutation(D1 server/services/id_snowflake.c test_id_snowflake
  [[EPOCH_MS + (id >> (WORKER_BITS + SEQUENCE_BITS))]] [[(id >> (WORKER_BITS + SEQUENCE_BITS))]])
c_mutation(D2 server/services/id_snowflake.c test_id_snowflake
  [[return s->next < s->end && s->end - s->next >= count;]] [[return true;]])
c_mutation(D2 server/services/id.c test_id_snowflake [[if (a->plan->round < ROUNDS_MAX)]] [[if (false)]])
c_mutation(D2 server/services/id.c test_id_snowflake [[if (a->plan->round < ROUNDS_MAX)]] [[if (true)]])
c_mutation(D2 server/services/id_snowflake.c test_id_snowflake
  [[    if (time > s->next)
        s->next = time;]] "")
c_mutation(D2 server/services/id_snowflake.c test_id_snowflake
  [[    if (time > s->end - SEQUENCES)
        time = s->end - SEQUENCES;]] "")
c_mutation(D3 server/services/id.c test_id_snowflake
  [[if (!snowflake_has(&state->snowflake, p->now_ns, count_of(request)))]] [[if (true)]])
lua_mutation(D4 test_id_snowflake [[first > now_ms + AHEAD_MS and since >= 0]] [[false and since >= 0]])
lua_mutation(D4 test_id_snowflake [[since >= 0 and since < RANGE_MS]] [[since >= 0]])
lua_mutation(D4 test_id_snowflake [[first > now_ms + AHEAD_MS]] [[first > now_ms]])
c_mutation(D4 server/services/id.c test_id_snowflake
  [[if (strcmp(answer_text(a, reply, 0), "AHEAD") == 0 && snowflake_left(s, a->plan->now_ns, count))]] [[if (false)]])

# SNOWFLAKE: unique
lua_mutation(D5 test_id_snowflake [[worker.owner == owner and worker.low or worker.high]] [[0]])
lua_mutation(D5 test_id_model [[worker.owner == owner and worker.low or worker.high]] [[0]])
lua_mutation(D5 test_id_snowflake [[worker.owner == owner and worker.low or worker.high]]
  [[worker.owner == owner and 0 or worker.high]])
lua_mutation(D5 test_id_snowflake [[int(math.max(worker.high, till))]] [[int(math.max(worker.high, first))]])
lua_mutation(D5 test_id_snowflake [[int(math.max(worker.high, till))]] [[int(till)]])
c_mutation(D6 server/services/id_snowflake.c test_id_snowflake
  [[s->next = next > first ? next : first;]] [[s->next = first;]])
c_mutation(D6 server/services/id_snowflake.c test_id_snowflake
  [[s->worker == range->worker ? s->next]] [[true ? s->next]])
lua_mutation(D6 test_id_snowflake [[math.max(now_ms, floor, number(unused))]] [[math.max(now_ms, floor)]])
c_mutation(D7 server/services/id_snowflake.c test_id_snowflake
  [[age_ns(s, now_ns) < RANGE_NS && snowflake_left]] [[snowflake_left]])
lua_mutation(D7 test_id_snowflake [[worker and worker.owner == owner then]] [[worker then]])
lua_mutation(D8 test_id_snowflake [[left > 0 and left <= LEASE_MS and left or -1]] [[-1]])
lua_mutation(D8 test_id_snowflake [[left > 0 and left <= LEASE_MS and left or -1]] [[left > 0 and left or -1]])
lua_mutation(D8 test_id_snowflake [[if worker.owner == owner then return worker end]] "")
lua_mutation(D8 test_id_snowflake [[elseif not best or worker.high < best.high then]] [[elseif not best then]])
c_mutation(D8 server/services/id.c test_id_snowflake [[lks_rpc_slice_of("ls:{meta}:")]] [[plan_base(p, "meta")]])
lua_mutation(D9 test_id_snowflake [[if not worker then return {'TAKEN', int(soonest)} end]] "")
lua_mutation(D9 test_id_snowflake [[soonest = math.min(soonest, left)]] "")

# SNOWFLAKE: a store that is new or lost its data
lua_mutation(D10 test_id_snowflake [[if floor > now_ms and floor <= now_ms + LEASE_MS then]] [[if false then]])
lua_mutation(D10 test_id_snowflake [['floor', int(now_ms + LEASE_MS)]] [['floor', int(now_ms)]])
lua_mutation(D10 test_id_snowflake [[    return {'STARTING', int(LEASE_MS)}
  end]] [[    floor = now_ms
  end]])
lua_mutation(D10 test_id_snowflake [[math.max(now_ms, floor, number(unused))]] [[math.max(now_ms, number(unused))]])
lua_mutation(D10 test_id_snowflake [[and floor <= now_ms + LEASE_MS then]] [[then]])
lua_mutation(D11 test_id_snowflake [[if first <= EPOCH_MS or till > END_MS then]] [[if first <= EPOCH_MS then]])
lua_mutation(D11 test_id_snowflake [[if first <= EPOCH_MS or till > END_MS then]] [[if till > END_MS then]])
lua_mutation(D12 test_id_snowflake [[tonumber(text) or foreign()]] [[tonumber(text) or 0]])
lua_mutation(D12 test_id_kinds [[tonumber(text) or foreign()]] [[tonumber(text) or 0]])

c_mutation(D21 server/services/id_snowflake.c test_ids [[s->worker = range->worker;]] [[s->worker = 0;]])

# UUID_V7
c_mutation(D13 server/services/id_uuid.c test_id_kinds [[random >> 2 | 1ull << 63]] [[random >> 1 | 1ull << 63]])
c_mutation(D13 server/services/id_uuid.c test_id_kinds [[0x7000 | (tick & 0xfff)]] [[0x4000 | (tick & 0xfff)]])
c_mutation(D13 server/services/id_uuid.c test_id_kinds [[(tick << 4 & ~UINT64_C(0xffff))]] [[(tick << 8 & ~UINT64_C(0xffff))]])
c_mutation(D14 server/services/id_uuid.c test_id_kinds [[tick > last ? tick : last + 1]] [[tick]])
c_mutation(D14 server/services/id_uuid.c test_id_kinds [[% 1000000 * 4096 / 1000000]] [[% 1000000 * 2048 / 1000000]])
c_mutation(D15 server/services/id_uuid.c test_id_kinds [[uuid_format(*last, random[i], text[i])]] [[uuid_format(*last, random[0], text[i])]])

# SEQUENCE
lua_mutation(D16 test_id_kinds [[write('SET', s.key, int(s.last))]] "")
c_mutation(D16 server/services/id.c test_id_kinds [[response->ids[i] = first + (int64_t)i;]] [[response->ids[i] = last + (int64_t)i;]])
c_mutation(D16 server/services/id.c test_id_kinds [[plan_call(p, &fn_id_sequence, "", request->name, 0);]] [[plan_call(p, &fn_id_sequence, "s", request->name, 0);]])
c_mutation(D16 server/services/id.c test_id_kinds
  [[keeps_blocks(state) ? LKS_ORDER_SCOPE_SERVER : LKS_ORDER_SCOPE_GLOBAL]] [[LKS_ORDER_SCOPE_SERVER]])
lua_mutation(D16 test_shared_state [[s.last = s.last or number(redis.call('GET', s.key) or '0')]] [[s.last = number(redis.call('GET', s.key) or '0')]])
lua_mutation(D17 test_id_kinds [[if s.last > MAX_INTEGER - how_many then]] [[if false then]])
c_mutation(D18 server/services/id.c test_id_kinds
  [[(keeps_blocks(state) && sequences_left(state->sequences, name_of(p, request)) >= count)]] [[false]])
c_mutation(D18 server/services/id_sequence.c test_id_kinds [[    if (first != b->last + 1)
        b->next = first;]] [[    b->next = first;]])
c_mutation(D18 server/services/id_sequence.c test_id_kinds [[    if (first != b->last + 1)
        b->next = first;]] "")
c_mutation(D18 server/services/id_sequence.c test_id_kinds [[same(b->of.name, of.name) && same(b->of.ns, of.ns)]] [[same(b->of.name, of.name)]])
c_mutation(D18 server/services/id_sequence.c test_id_kinds [[    b->next += count;]] "")
c_mutation(D18 server/services/id.c test_id_kinds:*get_no_number_twice [[sequences_left(state->sequences, of) < (int64_t)count]] [[false]])
c_mutation(D18 server/services/id.c test_id_kinds [[return count > state->sequence_block ? count : state->sequence_block;]] [[return state->sequence_block;]])
c_mutation(D19 server/services/id_sequence.c test_id_kinds [[|| all->blocks[i].used < oldest->used)]] [[)]])

# Input
c_mutation(D20 server/services/id.c test_id_kinds [[if (request->kind == LKS_ID_KIND_UNSPECIFIED)]] [[if (false)]])
c_mutation(D20 server/services/id.c test_id_kinds [[plan_check_range(p, "count", request->count, 0, ID_COUNT_MAX);]] "")
c_mutation(D20 server/services/id.c test_id_kinds [[    plan_check_name(p, "name", request->name);]] "")
c_mutation(D20 server/services/id.c test_id_kinds [[if (request->kind != LKS_ID_KIND_SEQUENCE && request->name[0] != '\0')]] [[if (false)]])
c_mutation(D20 server/services/id.c test_id_kinds [[plan_check_range(p, "id", request->id, 1, INT64_MAX);]] "")

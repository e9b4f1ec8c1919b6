# What keeps RateLimitService's promises.

# FIXED_WINDOW
lua_mutation(R1 test_ratelimit_check [=[return r[3] + cost <= rule.limit and now or r[2]]=] [=[return r[3] <= rule.limit and now or r[2]]=])
lua_mutation(R1 test_ratelimit_model
  [[if old and old[5] == period then return old end]] [[if old and old[5] == period then old[3] = 0 return old end]])
lua_mutation(R1 test_ratelimit_model [[return {rule.counter, window_start(now, period) + period,]] [[return {rule.counter, now + period,]])

# SLIDING_LOG
lua_mutation(R2 test_ratelimit_model [[if instant > till or units <= room then]] [[if instant >= till or units <= room then]])
lua_mutation(R2 test_ratelimit_model [[units, number, passed = units - cost,]] [[units, number, passed = units - 1,]])
lua_mutation(R2 test_ratelimit_model [[units, number = units - sum, number + CHUNK]] [[number = number + CHUNK]])
lua_mutation(R2 test_ratelimit_model [[if sum and instant <= till and units - sum > room then]] [[if sum and units - sum > room then]])
lua_mutation(R2 test_ratelimit_model [[if sum and instant <= till and units - sum > room then]] [[if sum and instant <= till then]])
lua_mutation(R2 test_ratelimit_model [[oldest < number and sum_of(log, c - 1) or 0]] [[0]])
lua_mutation(R2 test_ratelimit_model [[if #text < LOOK * ENTRY_BYTES then number = (c + 1) * CHUNK end]] [[if #text < LOOK * ENTRY_BYTES then number = next end]])
lua_mutation(R2 test_ratelimit_faults [[if text == '' and c < chunk_of(next - 1) then units = units_from(log, c + 1, next) end]] "")
lua_mutation(R2 test_ratelimit_refund [[if r[5] < UNITS or r[6] > till then return end]] [[if true then return end]])

# SLIDING_WINDOW
lua_mutation(R3 test_ratelimit_check [[start + 2 * period, start, 0, old[4], old[6]}]] [[start + 2 * period, start, 0, 0, old[6]}]])
lua_mutation(R3 test_ratelimit_model [[if before == 0 then return start end]] [[if true then return start end]])
lua_mutation(R3 test_ratelimit_model [[return start + math.max(period - mul_div(room, period, before), 0)]] [[return start + math.max(period - mul_div(room, period, before) - 1, 0)]])

# TOKEN_BUCKET
lua_mutation(R4 test_ratelimit_check [[spacing(rule, rule.burst - cost)]] [[spacing(rule, rule.burst)]])
lua_mutation(R4 test_ratelimit_check [[(r[3] + rest >= rule.limit and 1 or 0)]] [[0]])
lua_mutation(R4 test_ratelimit_check [[r[2], r[3] = r[2] + whole + 1, rule.limit - (rest - r[3])]] [[r[2], r[3] = r[2] + whole + 1, 0]])
lua_mutation(R4 test_ratelimit_model [[r[2], r[3] = r[2] + whole, r[3] - rest]] [[r[2], r[3] = r[2] + whole, 0]])
lua_mutation(R4 test_ratelimit_input [[while place * 128 <= a do place = place * 128 end]] "")
c_mutation(R4 server/services/ratelimit_limits.c test_ratelimit_check [[limit->burst != 0 ? limit->burst : limit->limit]] [[limit->limit]])

# Answers
lua_mutation(R5 test_ratelimit_check [[if now < p[5] then j.refuses = 'BANNED']] [[if now < p[5] then j.refuses = 'DENIED']])
c_mutation(R5 server/services/ratelimit.c test_ratelimit_check [[size_t at = REPLY_OF_RULE * i;]] [[size_t at = 0;]])
c_mutation(R5 server/services/ratelimit.c test_ratelimit_check [[if (result->outcome > response->outcome)]] [[if (i == 0)]])
c_mutation(R5 server/services/ratelimit.c test_ratelimit_check [[response->replayed = answer_count(a, reply) > REPLY_OF_RULE * request->n_rules;]] "")
lua_mutation(R6 test_ratelimit_check
  [[local remaining = algorithm.remaining(record, rule, now, key)]] [[local remaining = algorithm.remaining(record, rule, now, key) - 1]])
lua_mutation(R6 test_ratelimit_policies [[remaining > 0 and remaining or 0]] [[remaining]])
lua_mutation(R6 test_ratelimit_check [[counted - (rest > 0 and 1 or 0)]] [[counted]])
lua_mutation(R6 test_ratelimit_model [[return units + math.ceil((rest - r[3]) / period)]] [[return units + 1]])
lua_mutation(R7 test_ratelimit_model
  [[return instant > now and math.ceil((instant - now) / 1000) or 0]] [[return instant > now and math.floor((instant - now) / 1000) or 0]])
lua_mutation(R7 test_ratelimit_model
  [[if instant > till or units <= room then]] [[if instant > till or units < room then]])
lua_mutation(R7 test_ratelimit_model [=[log.told[room] = (last or r[3]) + rule.period]=] [=[log.told[room] = r[3] + rule.period]=])
lua_mutation(R7 test_ratelimit_model [[return room_in(r[3] + period, period, r[4], limit - cost)]] [[return r[3] + period]])
lua_mutation(R8 test_ratelimit_check [[if r[4] > 0 then return r[2] end]] [[if r[4] > 0 then return (r[2] + r[3]) / 2 end]])
lua_mutation(R8 test_ratelimit_penalty [[banned = ms_until(j.penalty[5], now)]] [[banned = 0]])

# Costs and several rules
c_mutation(R9 server/services/ratelimit.c test_ratelimit_check [[request->cost != 0 ? request->cost : 1]] [[request->cost]])
lua_mutation(R9 test_ratelimit_check [[if cost > rule.limit then return nil end]] "")
lua_mutation(R9 test_ratelimit_check [[if cost > rule.burst then return nil end]] "")
lua_mutation(R9 test_ratelimit_check [[passes and 0 or at and ms_until(at, now) or -1]] [[passes and 0 or at and ms_until(at, now) or 0]])
lua_mutation(R10 test_ratelimit_check [[if j.refuses and not rule.shadow then all_pass = false end]] "")
lua_mutation(R11 test_ratelimit_check [[local go, reply = all_pass or mode == 'I', {}]] [[local go, reply = all_pass, {}]])
c_mutation(R11 server/services/ratelimit.c test_ratelimit_check [[request->mode == LKS_CHECK_MODE_INDEPENDENT ? "I" : "A"]] [["A"]])
lua_mutation(R12 test_ratelimit_check [[if not peek then charge(]] [[if true then charge(]])
lua_mutation(R12 test_ratelimit_check [[if not peek and (passes or converted) then]] [[if passes or converted then]])
lua_mutation(R12 test_ratelimit_faults [[define_pass('rate_peek', {'no-writes'}]] [[define_pass('rate_peek', {}]])
c_mutation(R12 server/services/ratelimit.c test_ratelimit_check [[request->peek ? &fn_rate_peek : &fn_rate_check]] [[&fn_rate_check]])
c_mutation(R12 server/services/ratelimit.c test_ratelimit_check [[const char *id = request->peek ? "" : request->request_id;]] [[const char *id = request->request_id;]])

# Who is counted
lua_mutation(R13 test_ratelimit_check
  [[local counter = name and '@' .. name .. ',' .. letter or spec]] [[local counter = name and '@' .. name .. ',' .. letter or letter]])
lua_mutation(R13 test_ratelimit_check [[local name = base .. 'rate:k:' .. id]] [[local name = base .. 'rate:k:']])
lua_mutation(R13 test_ratelimit_policies [['@' .. name .. ',' .. letter]] [[spec]])
c_mutation(R13 server/services/ratelimit_limits.c test_ratelimit_check [[penalty->factor != 0 ? penalty->factor : 1]] [[penalty->factor]])
c_mutation(R13 server/services/ratelimit.c test_ratelimit_input [[check_twice(p, request, specs, i);]] "")
c_mutation(R14 server/services/ratelimit.c test_ratelimit_check [[request->n_rules == 1 ? request->rules[0]->key : NULL]] [[NULL]])

# Penalties
lua_mutation(R15 test_ratelimit_check [[if p[3] > rule.after then]] [[if p[3] > rule.after + 1 then]])
lua_mutation(R15 test_ratelimit_penalty [[if p and now < p[4] then return p end]] [[if p then return p end]])
lua_mutation(R15 test_ratelimit_check [[    start_ban(p, rule, now)]] "")
lua_mutation(R16 test_ratelimit_penalty [[(go or j.refuses)]] [[j.refuses]])
lua_mutation(R16 test_ratelimit_penalty [[(go or j.refuses)]] [[true]])
lua_mutation(R16 test_ratelimit_penalty [[elseif p[3] >= rule.after then j.refuses = 'DENIED' end]] [[end]])
lua_mutation(R17 test_ratelimit_penalty [[return j.penalty and j.refuses ~= 'BANNED' and]] [[return j.penalty and]])
lua_mutation(R17 test_ratelimit_penalty [[if j.refuses == 'BANNED' then at = math.max(at, p[5]) end]] [[if j.refuses == 'BANNED' then at = p[5] end]])
lua_mutation(R17 test_ratelimit_penalty [[if at < p[4] and p[3] >= j.rule.after then at = p[4] end]] "")
lua_mutation(R18 test_ratelimit_penalty [[p[6] * rule.factor]] [=[p[6]]=])
lua_mutation(R18 test_ratelimit_penalty [[math.min(math.max(longer, rule.ban), rule.max_ban)]] [[math.max(longer, rule.ban)]])
lua_mutation(R18 test_ratelimit_penalty [[now < memory_end(p, rule) and]] [[true and]])
lua_mutation(R18 test_ratelimit_penalty [[p[5] + math.max(p[6], rule.period)]] [=[p[5] + p[6]]=])
lua_mutation(R18 test_ratelimit_penalty [[p[5] + math.max(p[6], rule.period)]] [[p[5] + rule.period]])
lua_mutation(R19 test_ratelimit_check [[p[5], p[3] = now + p[6], 0]] [[p[5], p[3] = now, 0]])

# request_id
lua_mutation(R20 test_ratelimit_check [[if not first then return nil end]] [[if true then return nil end]])
lua_mutation(R20 test_ratelimit_check [[reply[#reply + 1] = 1]] "")
lua_mutation(R20 test_ratelimit_check:*slow_retry* [[keep = math.max(keep, j.rule.algorithm.as_new_at(j.record, now) - now)]] "")
lua_mutation(R20 test_ratelimit_check:*while_it_may*
  [[local charges, keep, any = {}, again_ms * 1000, false]] [[local charges, keep, any = {}, 0, false]])
c_mutation(R20 server/services/ratelimit.c test_ratelimit_check:*while_it_may* [[repeat_ms + REPEAT_MARGIN_MS);]] [[repeat_ms);]])
c_mutation(R20 server/services/ratelimit.c test_ratelimit_check:*while_it_may* [[p->repeat_ms < REPEAT_MS_MAX ? p->repeat_ms : REPEAT_MS_MAX;]] [[p->repeat_ms;]])
c_mutation(R20 server/calls/dispatch.c test_dispatch:*how_long_it_may_be_repeated* [[.repeat_ms = call->timeout_ms ? call->timeout_ms : options->timeout_ms};]] [[.repeat_ms = 0};]])
lua_mutation(R20 test_ratelimit_check [[return now < record[2] and record or nil]] [[return record]])
lua_mutation(R20 test_ratelimit_check [[not all_pass and #charges == 0 then]] [[not all_pass then]])
lua_mutation(R21 test_ratelimit_check [[if first[3] ~= signature then]] [[if false then]])
lua_mutation(R21 test_ratelimit_check [[local parts = {cost, mode}]] [[local parts = {cost}]])
lua_mutation(R21 test_ratelimit_check [[local parts = {cost, mode}]] [[local parts = {mode}]])
lua_mutation(R21 test_ratelimit_check [[parts[#parts + 1] = rule_of(args[i + 1]).who]] [=[parts[#parts + 1] = args[i + 1]]=])
lua_mutation(R22 test_ratelimit_check [[if not any or not all_pass and #charges == 0 then]] [[if not any then]])

lua_mutation(R21 test_ratelimit_check [[if rule.unknown then fail('NOT_FOUND']] [[if false then fail('NOT_FOUND']])

# Refund, Reset
lua_mutation(R23 test_ratelimit_refund [[if not request then return {'UNKNOWN'} end]] [[if not request then return {'REFUNDED'} end]])
lua_mutation(R23 test_ratelimit_refund [[if request[4] == 1 then return {'ALREADY_REFUNDED'} end]] "")
lua_mutation(R23 test_ratelimit_refund [[cmsgpack.pack(request), 'KEEPTTL']] [[cmsgpack.pack(request)]])
lua_mutation(R24 test_ratelimit_refund [[if since ~= r[4] then return false end]] "")
lua_mutation(R24 test_ratelimit_refund [[if receipt[1] ~= r[6] then return false end]] "")
lua_mutation(R24 test_ratelimit_refund [[elseif receipt[2] == r[3] - rule.period then]] [[elseif false then]])
lua_mutation(R24 test_ratelimit_model [[if receipt[2] == r[3] then]] [[if true then]])
lua_mutation(R24 test_ratelimit_refund [[r[2], r[3] = r[2] - whole + passed, r[3] + rest]] [[r[2], r[3] = r[2] - whole, r[3] + rest]])
lua_mutation(R24 test_ratelimit_refund [[if receipt[1] ~= r[6] or whole < passed then return false end]] [[if whole < passed then return false end]])
lua_mutation(R24 test_ratelimit_refund
  [[if receipt[1] ~= r[6] or whole < passed then return false end]] [[if receipt[1] ~= r[6] then return false end]])
lua_mutation(R24 test_ratelimit_refund [[8, struct.pack('<I', 0))]] [[8, struct.pack('<I', gone.cost))]])
lua_mutation(R24 test_ratelimit_refund [[struct.pack('<I', gone.sum - gone.cost)]] [[struct.pack('<I', gone.sum)]])
lua_mutation(R24 test_ratelimit_refund [[if cost > 0 and c * CHUNK + place ~= but then]] [[if cost > 0 then]])
lua_mutation(R24 test_ratelimit_refund [[if cost > 0 and c * CHUNK + place ~= but then]] [[if c * CHUNK + place ~= but then]])
lua_mutation(R24 test_ratelimit_refund [[if text ~= struct.pack(ENTRY, receipt[2], cost) then return false end]] "")
lua_mutation(R24 test_ratelimit_refund [[if not converted and algorithm.refund(]] [[if algorithm.refund(]])
lua_mutation(R25 test_ratelimit_refund [[write('UNLINK', kept.name, unpack(names))]] [[write('UNLINK', kept.name)]])
lua_mutation(R25 test_ratelimit_refund [[write('UNLINK', kept.name, unpack(names))]] [[write('HDEL', kept.name, 'x', unpack(names))]])
c_mutation(R25 server/services/ratelimit.c test_ratelimit_refund [[&fn_rate_reset, request->group, request->key, 0]] [[&fn_rate_reset, request->key, NULL, 0]])

# Policies
lua_mutation(R26 test_ratelimit_policies [[local policy = {'policy', version, tonumber(kind), algorithm}]] [[local policy = {'policy', version, 0, algorithm}]])
c_mutation(R26 server/services/ratelimit_policies.c test_ratelimit_policies [[limit->burst = spec->burst;]] "")
c_mutation(R26 server/services/ratelimit_policies.c test_ratelimit_policies [[penalty->max_ban_ms = spec->max_ban_ms;]] "")
c_mutation(R26 server/services/ratelimit_policies.c test_ratelimit_policies [[lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "name: no such policy");]] [[response->policy = NULL;]])
lua_mutation(R27 test_ratelimit_policies [[if expected ~= 0 and expected ~= current then]] [[if false then]])
lua_mutation(R27 test_ratelimit_policies [=[version = old[2] + 1]=] [=[version = old[2]]=])
lua_mutation(R27 test_ratelimit_policies [[math.max(now, deleted_policy_version(base) + 1)]] [[now]])
lua_mutation(R28 test_ratelimit_policies [=[after == '' and '-' or '(' .. after]=] [=[after == '' and '-' or '[' .. after]=])
lua_mutation(R28 test_ratelimit_policies [[write('ZREM', names, name)]] "")
lua_mutation(R28 test_ratelimit_policies [[write('HDEL', policies, name)]] "")
lua_mutation(R28 test_ratelimit_policies [[names[size + 1] and '1' or '0']] [['0']])
c_mutation(R29 server/services/ratelimit.c test_ratelimit_policies [["rules[%zu].policy: no such policy", i]] [["rules[0].policy: no such policy"]])
c_mutation(R30 server/services/ratelimit.h test_ratelimit_policies [[#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(900000000)]] [[#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(2000000000)]])
c_mutation(R30 server/services/ratelimit.h test_ratelimit_policies [[#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(900000000)]] [[#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(0)]])
lua_mutation(R31 test_ratelimit_policies [[old and old[3] or 0, now, period, 0}]] [[0, now, period, 0}]])
lua_mutation(R31 test_ratelimit_policies [[math.min(old[4] + old[5], rule.limit), 0, now]] [[0, 0, now]])
lua_mutation(R31 test_ratelimit_policies [[if old[4] == rule.limit and old[5] == rule.period then return old end]] [[if true then return old end]])
lua_mutation(R31 test_ratelimit_policies [[if not peek and (passes or converted) then]] [[if not peek and passes then]])
lua_mutation(R31 test_ratelimit_policies [['@' .. name .. ',' .. letter]] [['@' .. name]])
lua_mutation(R32 test_ratelimit_policies [[(passes or rule.shadow) and 'ALLOWED']] [[passes and 'ALLOWED']])
lua_mutation(R32 test_ratelimit_policies [[if j.refuses and not rule.shadow then all_pass = false end]] [[if j.refuses then all_pass = false end]])

# What is kept
lua_mutation(R33 test_ratelimit_refund [[write('SET', key.name, text, 'PX', life_ms(finish - now))]] [[write('SET', key.name, text)]])
lua_mutation(R33 test_ratelimit_refund [[elseif finish == key.finish then]] [[elseif true then]])
lua_mutation(R33 test_ratelimit_refund [[write('SET', name, before .. entries, 'PX', life)]] [[write('SET', name, before .. entries)]])
lua_mutation(R33 test_ratelimit_check [[cmsgpack.pack(s.requests[key]), 'PX', life_ms(keep))]] [[cmsgpack.pack(s.requests[key]))]])
lua_mutation(R33 test_ratelimit_refund [[if record[2] > now then key[#key + 1] = record end]] [[key[#key + 1] = record]])
lua_mutation(R33 test_ratelimit_refund [[if n > COUNTERS_MAX then]] [[if false then]])
lua_mutation(R33 test_ratelimit_refund [[if #removed > 0 then write('UNLINK', unpack(removed)) end]] "")
lua_mutation(R33 test_ratelimit_refund [[write('PEXPIRE', log.name .. c, life)]] "")
lua_mutation(R33 test_ratelimit_faults [[removed[1] = name -- it was lost]] "")
lua_mutation(R33 test_ratelimit_refund [[if place > 0 and window_start(last, period) ~= window_start(r[3], period) then]] [[if false then]])
lua_mutation(R33 test_ratelimit_penalty [[p[6] > 0 and memory_end(p, rule) or 0]] [[0]])
lua_mutation(R33 test_ratelimit_policies [['PX', int(math.max(math.ceil((version - now) / 1000), 0) + DAY_MS)]] [['PX', 1000]])
lua_mutation(R34 test_ratelimit_check [[parts[#parts + 1] = pack_record(key[i])]] [[parts[#parts + 1] = 'x']])
lua_mutation(R34 test_ratelimit_check [[replies[n] = call_on(]] [[replies[n] = replies[1] or call_on(]])
c_mutation(R35 server/services/ratelimit.c test_ratelimit_check [[each_rate_check(p, .key = request->rules[i]->key,]] [[each_rate_check(p, .key = "key",]])
c_mutation(R35 server/services/plan.c test_ratelimit_check [[text ? plan_encode(p->arena, text) : NULL]] [[text ? memory_printf_in(p->arena, "%.1s", text) : NULL]])

# Bad input
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_range(p, "cost", request->cost, 0, SERVICE_QUANTITY_MAX);]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_name_or_empty(p, "request_id", request->request_id);]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[if (request->n_rules < 1 || request->n_rules > RULES_MAX)]] [[if (request->n_rules < 1)]])
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_name(p, plan_path(p, "rules[%zu].key", i), rule->key);]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_name(p, plan_path(p, "rules[%zu].policy", i), rule->policy);]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_invalid(p, "%s: or limit must be set", plan_path(p, "rules[%zu].policy", i));]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[&fn_rate_refund, request->group, NULL, 0]] [[&fn_rate_refund, request->group, request->request_id, 0]])
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_name(p, "request_id", request->request_id);]] "")
c_mutation(R36 server/services/ratelimit.c test_ratelimit_input [[plan_check_name(p, "key", request->key);]] "")
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[plan_check_range(p, plan_path(p, "%s.penalty.after", field), penalty->after, 0, RATELIMIT_UNITS_MAX);]] "")
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[if (penalty->ban_ms != 0 || penalty->factor != 0 || penalty->max_ban_ms != 0)]] [[if (false)]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[plan_check_range(p, plan_path(p, "%s.penalty.ban_ms", field), penalty->ban_ms, 1, SPAN_MAX_MS);]] "")
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[plan_check_range(p, plan_path(p, "%s.penalty.factor", field), penalty->factor, 0, FACTOR_MAX);]] "")
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[plan_check_range(p, plan_path(p, "%s.penalty.max_ban_ms", field), penalty->max_ban_ms, penalty->ban_ms,
                         SPAN_MAX_MS);]] [[;]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[plan_invalid(p, "%s: must be set", plan_path(p, "%s.algorithm", field));]] [[;]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[log ? LOG_LIMIT_MAX : RATELIMIT_UNITS_MAX]] [[RATELIMIT_UNITS_MAX]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[limit->period_ms, 1, SPAN_MAX_MS]] [[limit->period_ms, 1, INT64_MAX]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[bucket ? RATELIMIT_UNITS_MAX : 0]] [[RATELIMIT_UNITS_MAX]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input [[if ((wide)spec.burst * spec.period_ms > (wide)spec.limit * SPAN_MAX_MS)]] [[if (false)]])
c_mutation(R36 server/services/ratelimit_policies.c test_ratelimit_input [[plan_invalid(p, "limit: must be set");]] [[;]])
c_mutation(R36 server/services/ratelimit_policies.c test_ratelimit_input [[plan_check_range(p, "page_size", size, 1, PAGE_MAX);]] "")
c_mutation(R36 server/services/ratelimit_policies.c test_ratelimit_input [[plan_check_name_or_empty(p, "page_token", request->page_token);]] "")

# Checks that share an FCALL
lua_mutation(R43 test_shared_state [[if keys[i].id == id then return keys[i] end]] "")
lua_mutation(R43 test_shared_state [[s.touched = {[s.at] = true}]] "")
lua_mutation(R43 test_shared_state [[log.rule, log.period = false, period -- what was told has changed]] [[log.period = period]])
lua_mutation(R43 test_shared_state [[if added and #text < many * ENTRY_BYTES then]] [[if false then]])
lua_mutation(R43 test_shared_state [=[local stored = log.begun[c] and 0 or log.next % CHUNK]=] [[local stored = 0]])
lua_mutation(R43 test_shared_state [[if #key >= COUNTERS_MAX and not find_record(key, rule.counter) then too_many_counters() end]] "")
lua_mutation(R43 test_shared_state [[  s.requests[key] = {'check', now + keep,]] [[  s.requests['x'] = {'check', now + keep,]])

# Refusals from memory
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[request->n_rules == 1 && request->cost <= 1]] [[request->n_rules == 1]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[request->n_rules == 1 && request->cost <= 1]] [[request->cost <= 1]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ && !request->peek]] "")
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ && request->request_id[0] == '\0';]] [[;]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[strcmp(call->function, fn_rate_refund.name) == 0 || ]] "")
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ || strcmp(call->function, fn_rate_reset.name) == 0]] "")
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[{p->ns, lks_rpc_slice_of(request->group]] [[{lks_rpc_slice_of(""), lks_rpc_slice_of(request->group]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[lks_rpc_slice_of(request->group[0] != '\0' ? request->group : key)]] [[lks_rpc_slice_of("")]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[lks_rpc_slice_of(key), lks_rpc_slice_of(rule)}]] [[lks_rpc_slice_of(""), lks_rpc_slice_of(rule)}]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[lks_rpc_slice_of(key), lks_rpc_slice_of(rule)}]] [[lks_rpc_slice_of(key), lks_rpc_slice_of("")}]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[return rule->banned_ms - 1;]] [[return rule->banned_ms;]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[return rule->retry_after_ms - 1;]] [[return rule->retry_after_ms;]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ || q->has_penalty]] "")
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[stands < (int64_t)(REFUSAL_KNOWN_NS / MS) ? (uint64_t)stands * MS : REFUSAL_KNOWN_NS]] [[REFUSAL_KNOWN_NS]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[stands < (int64_t)(REFUSAL_KNOWN_NS / MS) ? (uint64_t)stands * MS : REFUSAL_KNOWN_NS]] [[(uint64_t)stands * MS]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals
  [[p->asked_ns + (until < REFUSAL_ASK_NS ? until : REFUSAL_ASK_NS)]] [[p->asked_ns + until]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[[REMAINING] = rule->remaining,]] [[[REMAINING] = 0,]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ms_until(number[RETRY_AT], a->now_ns)]] [[number[RETRY_AT] > 0]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ms_until(number[RESET_AT], a->now_ns)]] [[number[RESET_AT] > 0]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[ms_until(number[BAN_ENDS], a->now_ns)]] [[number[BAN_ENDS] > 0]])
c_mutation(R44 server/services/ratelimit_refusals.c test_ratelimit_refusals [[        recent_forget(r, &key, a->now_ns);
]] "")

# What can go wrong in the store
lua_mutation(R37 test_ratelimit_faults [[or string.find(text, 'data string too short', 1, true))]] [[)]])
lua_mutation(R37 test_ratelimit_faults [[or record[1] ~= 'check' then foreign() end]] [[then foreign() end]])
lua_mutation(R37 test_ratelimit_faults [[or policy[1] ~= 'policy' or #policy ~= POLICY_FIELDS then foreign() end]] [[then foreign() end]])
lua_mutation(R37 test_ratelimit_faults [[redis.call('ZCARD', names)]] "")
lua_mutation(R37 test_ratelimit_faults
  [[keys[i].logs then save_logs(keys[i], now) end]] [[keys[i].logs then save_key(keys[i], now) save_logs(keys[i], now) end]])
lua_mutation(R38 test_ratelimit_faults [[define('rate_refund', {'allow-oom'}]] [[define('rate_refund', {}]])
lua_mutation(R38 test_ratelimit_faults [[define('rate_reset', {'allow-oom'}]] [[define('rate_reset', {}]])
lua_mutation(R39 test_ratelimit_faults [[dirty = true]] [[dirty = false]])
c_mutation(R39 server/services/ratelimit.c test_ratelimit_faults [[result->banned_ms = answer_int(a, reply, at + 5);]] [[a->error.code = LKS_OK;]])
lua_mutation(R41 test_ratelimit_policies:*unlimited*
  [[if spec == '' or spec == 'U' then]] [[if spec == 'U' then spec = 'F,9007199254740991,1' end if spec == '' then]])
lua_mutation(R41 test_ratelimit_policies:*unlimited* [[if not any or not all_pass and]] [[if not all_pass and]])
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_policies:*unlimited* [[request->unlimited ? UNLIMITED
                                 :]] "")
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_policies:*unlimited* [[answer_int(a, view, 2) == SHADOW;
    policy->unlimited]] [[answer_int(a, view, 2) != 0;
    policy->unlimited]])
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_policies:*unlimited* [[    if (answer_int(a, view, 2) == UNLIMITED)
        return (limit_spec){.algorithm = LKS_ALGORITHM_UNSPECIFIED};
]] "")
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_policies:*unlimited* [[policy->unlimited ? NULL : new_limit(a, &spec)]] [[new_limit(a, &spec)]])
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_input:*unlimited* [[plan_invalid(p, "limit: must not be set, the policy is unlimited");]] [[;]])
c_mutation(R41 server/services/ratelimit_policies.c test_ratelimit_input:*unlimited* [[plan_invalid(p, "shadow: must not be set, the policy is unlimited");]] [[;]])
lua_mutation(R40 test_ratelimit_refund [[if start == old[3] + period then]] [[if start ~= old[3] then]])
c_mutation(R36 server/services/ratelimit_limits.c test_ratelimit_input
  [[if ((wide)spec.burst * spec.period_ms > (wide)spec.limit * SPAN_MAX_MS)]]
  [[if (spec.burst / spec.limit > SPAN_MAX_MS / spec.period_ms)]])

# What a server remembers of policies
c_mutation(R30 server/services/ratelimit_policies.c test_ratelimit_policies [[    recent_forget(policies_of(a->plan), &key, a->now_ns);]] "")
c_mutation(R30 server/services/ratelimit_policies.c test_ratelimit_changes [[a->plan->now_ns + RATELIMIT_POLICY_AGE_MAX_NS;]] [[a->now_ns + 2 * RATELIMIT_POLICY_AGE_MAX_NS;]])
c_mutation(R30 server/services/ratelimit_policies.c test_ratelimit_policies [[    part[0] = p->ns;]] [[    part[0] = lks_rpc_slice_of("");]])
c_mutation(R32 server/services/ratelimit_policies.c test_ratelimit_policies [[(policy->shadow ? IS_SHADOW : 0)]] [[0]])
c_mutation(R21 server/services/ratelimit.c test_ratelimit_check [[if (!policy->exists && !may_repeat)]] [[if (!policy->exists)]])

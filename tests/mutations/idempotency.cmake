# What keeps IdempotencyService's promises.

# Begin
lua_mutation(I1 test_idempotency_begin
  [[if not has_lease(record, now) then return nil end]] [[if true then return nil end]])
lua_mutation(I1 test_idempotency_model
  [[return record.state == 'R' and record.lease_end > now]] [[return record.state == 'R']])
lua_mutation(I1 test_idempotency_begin
  [[math.ceil((record.lease_end - now) / 1000) or 0]] [[math.ceil(record.lease_end / 1000) or 0]])
lua_mutation(I2 test_idempotency_begin [[if record.state == 'C' or record.state == 'F' then]] [[if record.state == 'F' then]])
lua_mutation(I3 test_idempotency_begin
  [[if record.token == token then return {'EXECUTE', record.attempt, record.fence} end]] "")
lua_mutation(I3 test_idempotency_begin
  [[if record.token == token then return {'EXECUTE', record.attempt, record.fence} end]]
  [[if record.token == token then return nil end]])
lua_mutation(I3 test_idempotency_begin [[retain_ms = retain_ms, token = token,]] [[retain_ms = retain_ms, token = 'x',]])
lua_mutation(I4 test_idempotency_begin [[local goes_on = old.state == 'R' and old.token == token]] [[local goes_on = false]])
lua_mutation(I4 test_idempotency_begin [[local goes_on = old.state == 'R' and old.token == token]] [[local goes_on = old.token == token]])
lua_mutation(I4 test_idempotency_begin [[  s.life_ms = lease_ms + retain_ms
]] "")
lua_mutation(I5 test_idempotency_begin [[attempt, fence = attempt + 1, math.max]] [[attempt, fence = attempt, math.max]])
lua_mutation(I5 test_idempotency_begin
  [[return record.state == 'R' and record.lease_end > now]] [[return record.state == 'R']])
lua_mutation(I5 test_idempotency_begin [[    lease_end = now + lease_ms * 1000,]] [[    lease_end = now + lease_ms,]])
lua_mutation(I6 test_idempotency_begin
  [[if not record or record.fence ~= tonumber(fence) then return {'SUPERSEDED', 0} end]]
  [[if not record then return {'SUPERSEDED', 0} end]])
lua_mutation(I6 test_idempotency_begin [[record.fence ~= tonumber(fence) or record.state]] [[record.state]])
lua_mutation(I7 test_idempotency_begin [[result and 'F' or 'T', detail]] [[result and 'F' or 'R', detail]])
lua_mutation(I7 test_idempotency_begin
  [[save_record(s.record, 'R', '', '', 'PX', s.life_ms)]] [[save_record(s.record, 'R', 'x', '', 'PX', s.life_ms)]])
lua_mutation(I8 test_idempotency_begin [[if record.state == 'C' or record.state == 'F' then]] [[if record.state == 'C' then]])
c_mutation(I8 server/services/idempotency_result.c test_idempotency_begin [[    header.value = detail;
]] "")
c_mutation(I8 server/services/idempotency_result.c test_idempotency_begin [[    result.code = FAILURE_CODE;
]] "")
c_mutation(I8 server/services/idempotency_result.c test_idempotency_input
  [[if (strncasecmp(header->key, reserved, sizeof reserved - 1) == 0)]]
  [[if (strcmp(header->key, failure_header) == 0)]])
lua_mutation(I9 test_idempotency_begin [[if record.state == state then return {'STORED', 1} end]] "")
lua_mutation(I9 test_idempotency_begin [[
  if record.state ~= 'R' then return {'SUPERSEDED', 0} end
  local servers]] [[
  local servers]])
c_mutation(I9 server/services/idempotency_attempt.c test_idempotency_begin
  [[__complete_outcome__descriptor);
    response->replayed = answer_int(a, a->replies[0], 1) != 0;]] [[__complete_outcome__descriptor);]])
c_mutation(I9 server/services/idempotency_attempt.c test_idempotency_begin
  [[__fail_outcome__descriptor);
    response->replayed = answer_int(a, a->replies[0], 1) != 0;]] [[__fail_outcome__descriptor);]])
lua_mutation(I10 test_idempotency_begin [[if record.fingerprint ~= fingerprint then return {'MISMATCH'} end]] "")
lua_mutation(I10 test_idempotency_begin
  [[if record.fingerprint ~= fingerprint then]] [[if record.fingerprint ~= fingerprint and fingerprint ~= '' then]])
lua_mutation(I10 test_idempotency_begin
  [[if record.fingerprint ~= fingerprint then]] [[if record.fingerprint ~= fingerprint and record.state ~= 'T' then]])
lua_mutation(I11 test_idempotency_begin [[record.lease_end = math.max(record.lease_end, now + lease_ms * 1000)]] "")
lua_mutation(I11 test_idempotency_begin
  [[record.lease_end = math.max(record.lease_end, now + lease_ms * 1000)]] [[record.lease_end = now + lease_ms * 1000]])
lua_mutation(I11 test_idempotency_begin [[tonumber(fence) or record.state ~= 'R' then]] [[tonumber(fence) then]])
lua_mutation(I11 test_idempotency_begin
  [[tonumber(fence) or record.state ~= 'R' then]] [[tonumber(fence) or not has_lease(record, now) then]])
lua_mutation(I12 test_idempotency_begin [[write('DEL', base .. 'idem:r')]] "")
lua_mutation(I13 test_idempotency_begin [[math.max(fence + 1, now)]] [[now]])
lua_mutation(I13 test_idempotency_begin [[math.max(fence + 1, now)]] [[fence]])
lua_mutation(I13 test_idempotency_begin [[local old, attempt, fence = s.record, 1, now]] [[local old, attempt, fence = s.record, 1, 1]])

# Records
lua_mutation(I14 test_idempotency_begin [[save_record(s.record, 'R', '', '', 'PX', s.life_ms)]] [[save_record(s.record, 'R', '', '')]])
lua_mutation(I14 test_idempotency_begin [[s.life_ms = lease_ms + retain_ms]] [[s.life_ms = lease_ms]])
lua_mutation(I14 test_idempotency_begin
  [[save_record(record, state, detail, result, 'PX', record.retain_ms)]] [[save_record(record, state, detail, result, 'KEEPTTL')]])
lua_mutation(I14 test_idempotency_begin [[write('PEXPIRE', record.key, lease_ms + record.retain_ms, 'GT')]] "")
lua_mutation(I14 test_idempotency_begin [[record.retain_ms, 'GT')]] [[record.retain_ms)]])
lua_mutation(I14 test_idempotency_begin [[retain_ms = retain_ms, token]] [[retain_ms = 86400000, token]])
c_mutation(I14 server/services/idempotency.c test_idempotency_begin
  [[request->retain_ms ? request->retain_ms : RETAIN_MS_DEFAULT]]
  [[request->retain_ms ? request->retain_ms : RETAIN_MS_MIN]])
lua_mutation(I15 test_idempotency_begin [[record.state == 'R' and 0 or math.max]] [[math.max]])
lua_mutation(I15 test_idempotency_begin
  [[record.fingerprint, lease_left_ms(record, now), retain_ms]] [[record.fingerprint, 5, retain_ms]])
lua_mutation(I15 test_idempotency_begin [[record.detail, result_of(record)}]] [['', result_of(record)}]])
c_mutation(I15 server/services/idempotency_attempt.c test_idempotency_begin
  [[if (answer_says(reply, "NONE")) {]] [[if (false) {]])
c_mutation(I15 server/services/idempotency_attempt.c test_idempotency_begin
  [[    record->fingerprint.data = (uint8_t *)answer_text(a, reply, 3);]]
  [[    record->fingerprint.data = (uint8_t *)"";]])
c_mutation(I16 server/services/idempotency_attempt.c test_idempotency_result [[    result.body = request->body;
]] "")
c_mutation(I16 server/services/idempotency_attempt.c test_idempotency_result [[    result.code = request->code;
]] "")
c_mutation(I16 server/services/idempotency_attempt.c test_idempotency_result
  [[    result.n_headers = request->n_headers;]] [[    result.n_headers = request->n_headers > 1 ? 1 : 0;]])

# Waiting
lua_mutation(I17 test_idempotency_wait [[
  wake_all(base, servers)
  return {'STORED', 0}]] [[
  return {'STORED', 0}]])
lua_mutation(I17 test_idempotency_wait [[write('SADD', key, unpack(servers))]] "")
lua_mutation(I17 test_idempotency_wait
  [[for _, server in ipairs(servers) do wake(base, server) end]] [[wake(base, servers[1])]])
lua_mutation(I17 test_idempotency_wait [[
  write('DEL', base .. 'idem:w')
]] "\n")
lua_mutation(I18 test_idempotency_wait [[
  write('DEL', base .. 'idem:r')
  wake_all(base, servers)]] [[
  write('DEL', base .. 'idem:r')]])
lua_mutation(I18 test_idempotency_model
  [[reply[1] == 'IN_PROGRESS' and wait_ms ~= '0']] [[reply[1] == 'IN_PROGRESS' and wait_ms ~= '0' and reply[2] == 1]])
lua_mutation(I19 test_idempotency_wait [[
  wake(base, server)
  return {'OK', WOKEN_AGAIN_MS}]] [[
  return {'OK', WOKEN_AGAIN_MS}]])
lua_mutation(I19 test_idempotency_wait
  [[if record and has_lease(record, now) then return {'OK', lease_left_ms(record, now)} end]] "")
lua_mutation(I19 test_idempotency_wait [[
  wake(base, server)
  return {'OK', WOKEN_AGAIN_MS}]] [[
  if not record or record.state ~= 'R' then return {'OK', -1} end
  wake(base, server)
  return {'OK', WOKEN_AGAIN_MS}]])
c_mutation(I19 server/services/idempotency.c test_idempotency_wait
  [[        answer_alarm(a, fn_idempotency_lease_over.name, a->plan->server, answer_int(a, reply, 2));
]] "")
lua_mutation(I22 test_idempotency_wait [[if longer then write('PEXPIRE', key, retain_ms) end]] "")
lua_mutation(I22 test_idempotency_wait [[if longer then write('PEXPIRE', key, retain_ms) end]] [[write('PEXPIRE', key, retain_ms)]])

# Begins that share an FCALL
lua_mutation(I37 test_shared_state [[  s.record = {key = s.base .. 'idem:r', state = 'R',]] [[  s.later = {key = s.base .. 'idem:r', state = 'R',]])
lua_mutation(I37 test_shared_state [[if s.record == nil then s.record = load_record(s.base) or false end]] [[s.record = load_record(s.base) or false]])

# Bad times
foreach(name extend complete fail delete consume_ticket)
  lua_mutation(I23 test_idempotency_begin
    "define('idempotency_${name}', {'allow-oom'}" "define('idempotency_${name}', {}")
endforeach()
lua_mutation(I23 test_idempotency_begin [[define_pass('idempotency_begin', {}]] [[define_pass('idempotency_begin', {'allow-oom'}]])
lua_mutation(I23 test_idempotency_begin [[define_pass('idempotency_begin_again', {'allow-oom'}]] [[define_pass('idempotency_begin_again', {}]])
lua_mutation(I23 test_idempotency_begin
  [[define('idempotency_issue_ticket', {}]] [[define('idempotency_issue_ticket', {'allow-oom'}]])
lua_mutation(I24 test_idempotency_begin [[if not STATE[state] then foreign() end]] "")
lua_mutation(I24 test_idempotency_begin [[or string.find(text, 'data string too short', 1, true))]] [[)]])
lua_mutation(I37 test_shared_state [[redis.call('SCARD', s.base .. 'idem:w')]] "")
c_mutation(I24 server/services/idempotency_result.c test_idempotency_begin
  [[if (!result && a->error.code == LKS_OK)]] [[if (!result && a->error.code == LKS_INTERNAL)]])

# Input
c_mutation(I25 server/services/idempotency.c test_idempotency_input [[    plan_check_name(p, "scope", scope);
]] "")
c_mutation(I25 server/services/idempotency.c test_idempotency_input
  [[    plan_check_text(p, "key", key, 1, KEY_BYTES_MAX);
]] "")
c_mutation(I25 server/services/idempotency.c test_idempotency_input
  [[        plan_check_text(p, field, id, SERVICE_TOKEN_BYTES_MIN, SERVICE_TOKEN_BYTES_MAX);
]] "")
c_mutation(I25 server/services/idempotency.c test_idempotency_input
  [[request->fingerprint.len > FINGERPRINT_BYTES_MAX]] [[false]])
c_mutation(I25 server/services/idempotency.c test_idempotency_input [[    idempotency_check_lease(p, request->lease_ms);
]] "")
c_mutation(I25 server/services/idempotency.c test_idempotency_input
  [[        plan_check_range(p, "retain_ms", request->retain_ms, RETAIN_MS_MIN, RETAIN_MS_MAX);]] [[        ;]])
c_mutation(I25 server/services/idempotency.c test_idempotency_input
  [[    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
]] "")
c_mutation(I25 server/services/idempotency_attempt.c test_idempotency_input
  [[if (fence < 1 || fence > (uint64_t)SERVICE_QUANTITY_MAX)]] [[if (fence < 1)]])
c_mutation(I25 server/services/idempotency_attempt.c test_idempotency_input
  [[if (fence < 1 || fence > (uint64_t)SERVICE_QUANTITY_MAX)]] [[if (fence > (uint64_t)SERVICE_QUANTITY_MAX)]])
c_mutation(I25 server/services/idempotency_attempt.c test_idempotency_input
  [[    idempotency_check_lease(p, request->lease_ms);
]] "")
c_mutation(I25 server/services/idempotency_attempt.c test_idempotency_input
  [[if (request->kind == LKS_FAIL_KIND_UNSPECIFIED)]] [[if (false)]])
c_mutation(I25 server/services/idempotency_attempt.c test_idempotency_input
  [[    plan_check_text(p, "detail", request->detail, 0, DETAIL_BYTES_MAX);
]] "")
c_mutation(I25 server/services/idempotency_result.c test_idempotency_input
  [[if (body_len > BODY_BYTES_MAX)]] [[if (false)]])
c_mutation(I25 server/services/idempotency_result.c test_idempotency_input
  [[if (n_headers > HEADERS_MAX)]] [[if (false)]])
c_mutation(I25 server/services/idempotency_result.c test_idempotency_input
  [[if (key_len < 1 || key_len > HEADER_KEY_BYTES_MAX)]] [[if (key_len < 1)]])
c_mutation(I25 server/services/idempotency_result.c test_idempotency_input
  [[if (key_len < 1 || key_len > HEADER_KEY_BYTES_MAX)]] [[if (key_len > HEADER_KEY_BYTES_MAX)]])
c_mutation(I25 server/services/idempotency_result.c test_idempotency_input
  [[if (strlen(header->value) > HEADER_VALUE_BYTES_MAX)]] [[if (false)]])
c_mutation(I25 server/services/idempotency_ticket.c test_idempotency_input
  [[    plan_check_range(p, "ttl_ms", request->ttl_ms, TTL_MS_MIN, TTL_MS_MAX);
]] "")
c_mutation(I25 server/services/idempotency_ticket.c test_idempotency_input
  [[    plan_check_name(p, "ticket", request->ticket);
]] "")
c_mutation(I26 server/services/plan.c test_idempotency_begin [[        lks_rpc_random_id(p->id);]] [[        ;]])
c_mutation(I27 server/services/plan.c test_idempotency_begin [[        *end++ = '/';
        end = encode_to(end, b, b_len);]] [[        end = encode_to(end, b, b_len);]])
c_mutation(I27 server/services/plan.c test_idempotency_begin
  [[        end = encode_to(end, b, b_len);]] [[        memcpy(end, b, b_len), end += b_len;]])

# Tickets
c_mutation(I28 server/services/idempotency_ticket.c test_idempotency_ticket
  [[    lks_rpc_random_id(ticket);]] [[    ticket[0] = 't';]])
lua_mutation(I29 test_idempotency_ticket [[write('SET', key, text .. consumer, 'KEEPTTL')]] "")
lua_mutation(I29 test_idempotency_ticket [[if its_consumer ~= '' then return {'ALREADY_CONSUMED', 0} end]] "")
lua_mutation(I29 test_idempotency_ticket [[if its_consumer == consumer then return {'CONSUMED', 1} end]] "")
c_mutation(I29 server/services/idempotency_ticket.c test_idempotency_ticket
  [[    response->replayed = answer_int(a, reply, 1) != 0;
]] "")
lua_mutation(I30 test_idempotency_ticket [[if its_subject ~= subject then]] [[if false then]])
c_mutation(I30 server/services/idempotency_ticket.c test_idempotency_ticket
  [[&fn_idempotency_consume_ticket, request->scope,]] [[&fn_idempotency_consume_ticket, "s",]])
lua_mutation(I31 test_idempotency_ticket [[#subject, subject), 'PX', ttl_ms)]] [[#subject, subject))]])
lua_mutation(I31 test_idempotency_ticket [[write('SET', key, text .. consumer, 'KEEPTTL')]] [[write('SET', key, text .. consumer)]])

# On real servers
c_mutation(I32 server/functions/idempotency.lua test_idempotency
  [[  if not has_lease(record, now) then return nil end]] [[  if true then return nil end]])
c_mutation(I35 server/functions/idempotency.lua test_idempotency [[  save_record(record, state, detail, result, 'PX', record.retain_ms)
]] "")
c_mutation(I33 server/functions/idempotency.lua test_idempotency
  [[  if record.token == token then return {'EXECUTE', record.attempt, record.fence} end
]] "")
c_mutation(I34 server/functions/idempotency.lua test_idempotency
  [[  if not record or record.fence ~= tonumber(fence) then return {'SUPERSEDED', 0} end]]
  [[  if not record then return {'SUPERSEDED', 0} end]])
c_mutation(I36 server/services/idempotency.c test_idempotency [[        answer_waits(a);
]] "")
c_mutation(I20 server/services/idempotency.c test_idempotency_wait
  [[return &fn_idempotency_begin_over;]] [[return &fn_idempotency_begin_again;]])
c_mutation(I21 server/services/rounds.c test_idempotency_wait [[event.kind == SERVICE_ABANDONED]] [[false]])

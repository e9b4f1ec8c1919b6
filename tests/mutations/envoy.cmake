# What keeps the promises of Envoy's ShouldRateLimit.
c_mutation(EV1 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[        if (!policy || policy->spec.algorithm == LKS_ALGORITHM_UNSPECIFIED)
            return;]] [[        if (!policy) {
            d->verdict = NEVER;
            return;
        }]])
c_mutation(EV2 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[int len = snprintf(s.name, sizeof s.name, "%s/", name);]] [[int len = snprintf(s.name, sizeof s.name, "web/");]])
c_mutation(EV2 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[value, star, last ? "" : "/");]] [[value, star, "/");]])
c_mutation(EV2 server/services/ratelimit_domains.c test_envoy_ratelimit [[bare ? "" : "="]] [[""]])
c_mutation(EV2 server/services/ratelimit_domains.c test_envoy_ratelimit [[last ? len + 1 : len);]] [[len);]])
c_mutation(EV2 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[memcmp(d->ns.data, ns.data, ns.len) == 0]] [[true]])
c_mutation(EV3 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[for (size_t n = s->in->has_stars ? strlen(entry->start) + 1 : 0; n > 0 && !found; n--)]]
  [[for (size_t n = s->in->has_stars ? strlen(entry->start) + 1 : 0; n > 0; n--)]])
c_mutation(EV3 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[if (!found && entry->value[0] != '\0')]] [[if (entry->value[0] != '\0')]])
c_mutation(EV3 server/services/ratelimit_domains.c test_envoy_ratelimit
  [[        found = look_for(s, at, len, within, "", 0, "");]] [[        ;]])
c_mutation(EV4 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_encode_bytes(p->arena, data, head)]] [[lks_rpc_arena_copy(p->arena, data, head)]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[response->overall_code = CODE(OVER_LIMIT);]] [[response->overall_code = CODE(UNKNOWN);]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[response->overall_code = CODE(OK);]] [[response->overall_code = CODE(OVER_LIMIT);]])
c_mutation(EV9 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[== LKS_CHECK_OUTCOME_ALLOWED ?]] [[!= LKS_CHECK_OUTCOME_DENIED ?]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [=[a->replies[next++]]=] [=[a->replies[next]]=])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[        if (status->code == CODE(OVER_LIMIT))]] [[        if (status->code != CODE(OK))]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->hits_addend != 0 ? request->hits_addend : 1;]] [[1;]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->hits_addend != 0 ? request->hits_addend : 1;]] [[request->hits_addend;]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[from->hits_addend ? from->hits_addend->value :]] [[from->hits_addend ? 1 :]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[hits != 0 ? &fn_rate_check : &fn_rate_peek]] [[&fn_rate_check]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[.cost = hits != 0 ? (int64_t)hits : 1]] [[.cost = (int64_t)hits]])
c_mutation(EV7 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[UNIT(WEEK)]] [[UNIT(DAY)]])
c_mutation(EV7 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[INT64_C(30) * 24]] [[INT64_C(31) * 24]])
c_mutation(EV7 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[INT64_C(365) * 24]] [[INT64_C(366) * 24]])
c_mutation(EV7 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[ || d->spec.limit > UINT32_MAX]] "")
c_mutation(EV7 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[units[i].ms != d->spec.period_ms]] [[units[i].ms > d->spec.period_ms]])
c_mutation(EV8 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[retry > reset ? retry : reset]] [[reset]])
c_mutation(EV8 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[retry > reset ? retry : reset]] [[retry]])
c_mutation(EV8 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[remaining < UINT32_MAX ? (uint32_t)remaining : UINT32_MAX]] [[UINT32_MAX]])
c_mutation(EV9 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[ratelimit_policy_text(p->arena, policy, shadow,]] [[ratelimit_policy_text(p->arena, policy, false,]])
c_mutation(EV18 server/services/envoy_ratelimit.c test_envoy_ratelimit:*unlimited*
  [[ || policy->spec.algorithm == LKS_ALGORITHM_UNSPECIFIED]] "")
c_mutation(EV10 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[.key = d->key]] [[.key = d->policy]])
c_mutation(EV10 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_encode(p->arena, d->policy) : OVERRIDE_POLICY]] [["x" : OVERRIDE_POLICY]])
c_mutation(EV11 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[p->now_ns < known->checked_ns + RATELIMIT_POLICY_AGE_MAX_NS)]] [[true)]])
lua_mutation(EV11 test_envoy_ratelimit [[if known == version then]] [[if known ~= '' then]])
lua_mutation(EV11 test_envoy_ratelimit [[mark_version(base .. 'rate:c', all, now)]] [[]])
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_check_name(p, "domain", request->domain);]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->n_descriptors < 1 ||]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[ || request->n_descriptors > DESCRIPTORS_MAX]] "")

# a descriptor that cannot be judged hides no other; no value makes the call fail
c_mutation(EV13 server/services/envoy_ratelimit.c test_envoy_ratelimit:*cannot_be_judged*
  [[from->n_entries < 1 ||]] "")
c_mutation(EV13 server/services/envoy_ratelimit.c test_envoy_ratelimit:*cannot_be_judged*
  [[ || from->n_entries > ENTRIES_MAX;]] ";")
c_mutation(EV13 server/services/envoy_ratelimit.c test_envoy_ratelimit:*cannot_be_judged*
  [[malformed = from->entries[i]->key[0] == '\0';]] [[malformed = false;]])
c_mutation(EV13 server/services/envoy_ratelimit.c test_envoy_ratelimit:*cannot_be_judged*
  [[        hits = (uint64_t)SERVICE_QUANTITY_MAX; /*]] [[        /*]])
c_mutation(EV13 server/services/envoy_ratelimit.c test_envoy_ratelimit:values_are_bytes
  [[from->value.data, from->value.len, &to->start]] [[from->value.data, strlen((char *)from->value.data), &to->start]])

# a long value is hashed, by all of it; what it begins with still counts
c_mutation(EV14 server/services/envoy_ratelimit.c test_envoy_ratelimit:a_long_value*
  [[return whole ? text : short_name(p, data, len);]] [[return text;]])
c_mutation(EV14 server/services/envoy_ratelimit.c test_envoy_ratelimit:a_long_value*
  [[return whole ? text : short_name(p, data, len);]] [[return whole ? text : short_name(p, data, head);]])
c_mutation(EV14 server/services/envoy_ratelimit.c test_envoy_ratelimit:a_long_value*
  [[    *start = text;
]] [[    *start = whole ? text : "";
]])

# a star, any entry without its value, the limit of a descriptor
c_mutation(EV15 server/services/ratelimit_domains.c test_envoy_ratelimit:*star*
  [[found = look_for(s, at, len, within, entry->start, n - 1, "*");]]
  [[found = look_for(s, at, len, within, entry->start, strlen(entry->start) + 1 - n, "*");]])
c_mutation(EV15 server/services/ratelimit_domains.c test_envoy_ratelimit:*any_entry*
  [[: look(s, at + 1, len, found);]] [[: at > 0 || bare ? NULL : look(s, at + 1, len, found);]])
c_mutation(EV16 server/services/envoy_ratelimit.c test_envoy_ratelimit:*comes_along*
  [[if (!take_override(from->limit, d)) {]] [[if (true) {]])
c_mutation(EV16 server/services/envoy_ratelimit.c test_envoy_ratelimit:*comes_along*
  [[limit->requests_per_unit > 0 ? COUNTED : NEVER;]] [[COUNTED;]])
c_mutation(EV16 server/services/envoy_ratelimit.c test_envoy_ratelimit:*comes_along*
  [[plan_encode(p->arena, d->policy) : OVERRIDE_POLICY]] [[plan_encode(p->arena, d->policy) : ""]])

# all pages of a domain are read, and no other domain's policies
lua_mutation(EV17 test_envoy_ratelimit [[names[size + 1] and names[size] or '']] [['']])
lua_mutation(EV17 test_envoy_ratelimit [[local behind = '(' .. domain .. '0']] [[local behind = '(' .. domain .. '.']])
c_mutation(EV11 server/services/ratelimit_policies.c test_envoy_ratelimit
  [[    ratelimit_domains_forget(ratelimit_domains_of(a->plan), a->plan->ns, name);]] "")

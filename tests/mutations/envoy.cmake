# What keeps the promises of Envoy's ShouldRateLimit.
c_mutation(EV1 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[        d->policy = NULL;
        return;]] [[        return;]])
c_mutation(EV2 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[domain[0] ? plan_encode(p->arena, domain) :]] [[false ? plan_encode(p->arena, domain) :]])
c_mutation(EV2 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[text[0] ? "/" : ""]] [[""]])
c_mutation(EV2 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[value[0] ? "=" : ""]] [[""]])
c_mutation(EV3 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[c < d->n_candidates && !spec]] [[c < d->n_candidates]])
c_mutation(EV3 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[i + without < from->n_entries ?]] [[i >= without ?]])
c_mutation(EV3 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[without <= from->n_entries &&]] [[without < from->n_entries &&]])
c_mutation(EV4 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[char *value_text = key_text ? plan_encode(p->arena, value) : NULL;]]
  [[char *value_text = key_text ? (char *)(uintptr_t)value : NULL;]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[response->overall_code = CODE(OVER_LIMIT);]] [[response->overall_code = CODE(UNKNOWN);]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[response->overall_code = CODE(OK);]] [[response->overall_code = CODE(OVER_LIMIT);]])
c_mutation(EV9 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[== LKS_CHECK_OUTCOME_ALLOWED ?]] [[!= LKS_CHECK_OUTCOME_DENIED ?]])
c_mutation(EV5 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [=[a->replies[next++]]=] [=[a->replies[next]]=])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->hits_addend != 0 ? request->hits_addend : 1]] [[1]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->hits_addend != 0 ? request->hits_addend : 1]] [[request->hits_addend]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[hits = (int64_t)from->hits_addend->value;]] [[hits = 1;]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[hits != 0 ? "rate_check" : "rate_peek"]] [["rate_check"]])
c_mutation(EV6 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_arg_int(p, hits != 0 ? hits : 1);]] [[plan_arg_int(p, hits);]])
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
  [[plan_arg(p, shadow ? "1" : "0");]] [[plan_arg(p, "0");]])
c_mutation(EV10 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_arg_encoded(p, d->key);]] [[plan_arg_encoded(p, d->policy);]])
c_mutation(EV10 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_arg_encoded(p, d->policy);]] [[plan_arg_encoded(p, "x");]])
c_mutation(EV11 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[if (ratelimit_policies_known(p, &q->candidates))]] [[if (true)]])
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[plan_check_name(p, "domain", request->domain);]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[request->n_descriptors < 1 ||]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[ || request->n_descriptors > DESCRIPTORS_MAX]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[from->n_entries < 1 ||]] "")
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[from->entries[e]->key[0] == '\0']] [[false]])
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[from->hits_addend->value > (uint64_t)SERVICE_QUANTITY_MAX]] [[false]])
c_mutation(EV12 server/services/envoy_ratelimit.c test_envoy_ratelimit
  [[strlen(to->key) > KEY_BYTES_MAX]] [[false]])

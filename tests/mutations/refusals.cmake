# Refusals from a server's memory.

c_mutation(S54 server/services/refusals.c test_refusals [[return now_ns < p->what.until_ns && ]] [[return ]])
c_mutation(S54 server/services/refusals.c test_refusals [[ && p->drops == r->drops[p->base] ]] [[ ]])
c_mutation(S54 server/services/refusals.c test_refusals [[ && p->all_drops == r->all_drops;]] [[;]])
c_mutation(S54 server/services/refusals.c test_refusals [[    if (p && now_ns >= p->what.ask_ns) {]] [[    if (false) {]])
c_mutation(S54 server/services/refusals.c test_refusals [[        p->what.ask_ns = p->what.until_ns;
]] "")
c_mutation(S54 server/services/refusals.c test_refusals [[        out[len++] = (char)(part->len & 255);
]] "")
c_mutation(S54 server/services/refusals.c test_refusals [[ || len + 2 + part->len > REFUSAL_KEY_BYTES_MAX]] "")
c_mutation(S54 server/services/refusals.c test_refusals [[        if (!counts(r, &set[i], now_ns))
            return &set[i];
]] [[]])
c_mutation(S54 server/services/refusals.c test_refusals [[    if (p)
        p->what.until_ns = 0;]] "    (void)p;")
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals [[part[0] = p->ns;]] [[part[0] = lks_rpc_slice_of("");]])
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals
  [[part[1] = lks_rpc_slice_of(group[0] == '\0' ? sku : group);]] [[part[1] = lks_rpc_slice_of("");]])
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals [[part[2] = lks_rpc_slice_of(sku);]]
  [[part[2] = lks_rpc_slice_of("");]])
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals [[.until_ns = asked_ns + REFUSAL_KNOWN_NS]]
  [[.until_ns = asked_ns + 2 * REFUSAL_KNOWN_NS]])
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals [[.ask_ns = asked_ns + REFUSAL_ASK_NS]]
  [[.ask_ns = asked_ns + REFUSAL_KNOWN_NS]])
c_mutation(S54 server/services/stock_refusals.c test_stock_refusals
  [[        refusals_forget(memory, &key, a->now_ns);]] [[        ;]])
lua_mutation(S54 test_stock_refusals [[      anybody = 0
]] "")

# What ends it
c_mutation(S55 server/services/rounds.c test_stock_refusals [[    for (size_t i = 0; i < r->plan.n_calls; i++)
        tell_service(&r->plan, i);
]] "")
c_mutation(S55 server/services/rounds.c test_stock_refusals [[    tell_service(&r->plan, call);
]] "")
c_mutation(S55 server/calls/alarms.c test_alarms [[    if (all->called)
        all->called(all->called_arg, &a->asking->call);
]] "")
c_mutation(S55 server/services/stock_refusals.c test_stock_refusals [[        refusals_drop(sold_out, group_of(call->base));]] [[        ;]])
c_mutation(S55 server/services/stock_refusals.c test_stock_refusals [[        refusals_drop_all(sold_out); /* of all groups that it finds */]]
  [[        refusals_drop(sold_out, group_of(call->base));]])

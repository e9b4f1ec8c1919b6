# Who calls: room to run, to wait and to hold bytes, and order: server/calls/callers.c, net/admission/budget.c, dispatch, frames

# a call that waits takes no room to run, only room to wait

# a quarter of the room to run is for calls that settle, another for those that take; what settles starts first
c_mutation(K2 server/calls/callers_room.c test_callers [[    return max - max / RESERVE;]] [[    return max;]])
c_mutation(K2 server/calls/callers_room.c test_callers [[of_kind[settles] < for_one_kind(max)]] [[of_kind[0] < for_one_kind(max)]])
c_mutation(K2 server/calls/callers.c test_callers [[    return call ? call : next_of_kind(all, false);]] [[    return next_of_kind(all, false);]])
c_mutation(K2 server/calls/callers.c test_callers [[    if (!call->settles && queue_is_full(c))]] [[    if (queue_is_full(c))]])
c_mutation(K2 server/calls/dispatch.c test_dispatch [[.settles = route->method->settles, ]] [[.settles = false, ]])

# waiting has limits of a connection, a principal and the server
c_mutation(K3 server/calls/callers_room.c test_callers [[all->n_waiting >= o->waiting_max]] [[false]])
c_mutation(K3 server/calls/callers_room.c test_callers [[c->n_waiting >= o->waiting_per_caller]] [[false]])
c_mutation(K3 server/calls/callers_room.c test_callers
  [[sum && sum->members > (o->waiting_max + PRINCIPAL_PART - 1) / PRINCIPAL_PART]] [[false]])
c_mutation(K3 server/calls/callers_room.c test_callers [[    c->n_waiting--;
    c->all->n_waiting--;]] [[    ;]])

# a call that was woken runs before calls that take
c_mutation(K4 server/calls/callers.c test_callers [[    call->settles = true; /* what it does from now on ends its wait */]] "")

# an owner has a share of what runs, of turns and of queues, however many connections it has
c_mutation(K19 server/calls/callers.c test_callers:owners_take* [[    TAILQ_INSERT_TAIL(&all->ready[settles], o, ready_in[settles]);
    TAILQ_REMOVE(&o->]] [[    TAILQ_INSERT_HEAD(&all->ready[settles], o, ready_in[settles]);
    TAILQ_REMOVE(&o->]])
c_mutation(K19 server/calls/callers_room.c test_callers:an_owner* [[all->options.running_per_owner, settles) || !callers_contended(all, o)]] [[all->options.running_per_owner, settles) || true]])
c_mutation(K19 server/calls/callers_room.c test_callers:an_owner* [[ || !callers_contended(all, o)]] "")
c_mutation(K19 server/calls/callers.c test_callers:a_principal* [[        caller_set_owner(c, principal);]] [[        ;]])
c_mutation(K19 server/calls/callers.c test_callers:connections_of* [[o->turn_ns >= all->options.turn_ns && callers_contended(all, o)]] [[false]])
# what an abandoned call left in the store is ended in its owner's turn

# a lost connection takes its calls with it, and no others; nothing of it starts any more
c_mutation(K5 server/calls/callers.c test_callers [[    if (c->lost)
        return lks_error_set]] [[    if (false)
        return lks_error_set]])
c_mutation(K5 server/calls/running.c test_dispatch [[        *r->handle = NULL;]] [[        ;]])

# calls of one frame and one group run in their order

# costly callers together have one turn, and so have queues
c_mutation(K13 server/calls/callers.c test_callers:costly* [[is_costly && all->costly_ns >= turn_of_costly(all)]] [[false]])
c_mutation(K13 server/calls/callers.c test_callers:costly* [[all->queue_ns < until_ns && ]] "")
c_mutation(K13 server/calls/callers.c test_callers:costly* [[        all->light_ns = now_ns;]] [[        ;]])
c_mutation(K13 server/calls/callers.c test_callers:costly* [[? all->options.turn_ns : ALONE_NS]] [[? all->options.turn_ns : all->options.turn_ns]])
c_mutation(K13 server/calls/callers.c test_callers:costly* [[in_this_turn ? c->was_costly : used_up]] [[true]])

# a draining server answers each call of a frame
c_mutation(K7 net/sp/frames.c test_frames [[    if (x->frames->draining)]] [[    if (false)]])

# bytes held are bounded by connection, principal and server, and leave room for one more
c_mutation(K8 net/admission/budget.c test_budget [[smaller(left, all->bytes / CONNECTION_PART)]] [[left]])
c_mutation(K8 net/admission/budget.c test_budget [[smaller(left, all->bytes / CONNECTION_PART)]] [[all->bytes / CONNECTION_PART]])
c_mutation(K8 net/admission/budget.c test_budget
  [[sum->held + bytes > smaller(left, all->bytes / PRINCIPAL_PART)]] [[false]])
c_mutation(K8 net/admission/budget.c test_budget [[    if (held > BUDGET_SMALL_BYTES) {]] [[    {]])
c_mutation(K8 net/admission/budget.c test_budget [[    sum->held -= share->held;]] [[    ;]])
c_mutation(K8 net/sp/frames.c test_frames [[    else if (!has_room)]] [[    else if (false)]])
c_mutation(K8 net/sp/frames.c test_frames [[        budget_force(bytes, more);
        x->work->held += more;]] [[        (void)more;]])

# a call whose answer cannot fit into its reply is not begun
c_mutation(K9 net/sp/frames.c test_frames [[    else if (x->work->shared.full)]] [[    else if (false)]])
c_mutation(K9 net/sp/frames.c test_frames [[    if (w->made >= w->bytes_max)]] [[    if (false)]])

# what weighs much in the store takes more of the room to run; calls that settle have a bound of their connection
c_mutation(K11 server/calls/dispatch.c test_dispatch [[    r->call.more = more_places(&r->work->rounds.plan);]] "")
c_mutation(K11 server/calls/callers.c test_callers [[    if (call->settles && too_many_settle(c))]] [[    if (false)]])

# a refused call leaves a line, with wire and address
c_mutation(K12 server/calls/dispatch.c test_admission [[        audit_refusal(&d->audit, route ? route->method : NULL, call->caller, verdict.principal, &error);]] "")
c_mutation(K12 server/calls/dispatch.c test_admission [[    if (code != LKS_OK)
        audit_refusal(&d->audit, method, from, verdict.principal, error);]] "")
c_mutation(K12 server/calls/audit.c test_admission:*has_left* [[.from = copy_in(arena, caller_from(from))]] [[.from = caller_from(from)]])
c_mutation(K12 server/log.c test_admission:*has_left* [[    write_line(LOG_LEVEL_INFO, "audit", format, args);]] [[    write_wanted(LOG_LEVEL_INFO, "audit", format, args);]])
c_mutation(K12 server/calls/audit.c test_admission [[        *quote = '\'';]] [[        quote++;]])
c_mutation(K12 server/calls/identity.c test_admission [[    ret->principal = p->name;
    bool]] [[    bool]])
c_mutation(K12 server/log.c test_log [[(*from == '"' || *from == '\\')]] [[false]])
c_mutation(K12 server/log.c test_log [=[(unsigned char)from[i] < ' ' ? ' ' : from[i]]=] [=[from[i]]=])
c_mutation(K12 net/grpc/grpc.c test_admission [[.from = stream_from(s),]] [[.from = "?",]])
c_mutation(K12 net/sp/sp_server.c test_admission [[.from = stream_from(s),]] [[.from = "?",]])

# who may not know it does not hear that a method is not there
c_mutation(K10 server/calls/dispatch.c test_admission
  [[d->judge ? identity_admit(]] [[method && d->judge ? identity_admit(]])
c_mutation(K10 server/calls/identity.c test_identity [[(method && !may(p, method))]] [[(!method || !may(p, method))]])

# overload: a call that would queue for too long is refused at once, before it is read; what settles is not
c_mutation(K14 server/calls/callers.c test_callers:a_call_that* [[    if (ns == 0 || !pace_too_long(]] [[    if (true || !pace_too_long(]])
c_mutation(K14 server/calls/callers_room.c test_callers:a_queue_takes* [[(uint64_t)c->n_queued[false] * all->n_takers;]] [[c->n_taking;]])
c_mutation(K14 server/calls/callers_room.c test_callers:a_call_that* [[before < all->n_taking ? before : all->n_taking]] [[before + 1]])
c_mutation(K14 server/calls/dispatch.c test_dispatch [[    if (code == LKS_OK && !route->method->settles)]] [[    if (false)]])
c_mutation(K14 server/calls/dispatch.c test_dispatch [[    if (code == LKS_OK && !route->method->settles)]] [[    if (code == LKS_OK)]])
c_mutation(K14 client/call/call.c test_channel_load:a_call_that* [[    if (!insists && channel_is_slow(]] [[    if (false && channel_is_slow(]])
c_mutation(K14 client/call/call.c test_channel_load:a_call_that* [[    if (!insists && channel_is_slow(]] [[    if (channel_is_slow(]])
c_mutation(K14 base/pace.c test_pace [[p->calls < WINDOW_CALLS || took_ns < WINDOW_NS]] [[p->calls < WINDOW_CALLS]])
c_mutation(K14 base/pace.c test_pace [[++p->calls < WINDOW_CALLS || ]] [[++p->calls < 1 || ]])
c_mutation(K14 base/pace.c test_pace [[    *p = (pace){.since_ns = now_ns};]] [[    p->since_ns = now_ns;]])
c_mutation(K14 base/pace.c test_pace [[p->ns ? (p->ns * OLD_PART + ns) / (OLD_PART + 1) : ns]] [[ns]])

# overload: what queues for long, or stands still, is read on, so that it ages where it can be refused
c_mutation(K15 server/calls/callers_room.c test_callers:a_connection_whose* [[queue_ns(c) >= LONG_NS || ]] "")
c_mutation(K15 server/calls/callers_room.c test_callers:a_connection_whose* [[ || clock_now_ns() - c->moved_ns >= c->all->options.stall_ns]] "")
c_mutation(K15 server/calls/callers.c test_callers:a_connection_whose* [[(c->held || !callers_queue_long(c))]] [[!queues_for_long(c)]])

# a call whose time is over while it queues, or before it is taken from what was read, is not run

# a call that waits keeps what it was asked, in little memory, and is made again from that
c_mutation(K17 server/calls/running.c test_dispatch [[    r->lender->give(r->arg);]] [[    ;]])

# quotas
c_mutation(K18 server/calls/quotas.c test_quotas:*whole_pass* [[has[0] >= q->limits.keys]] [[has[0] > q->limits.keys]])
c_mutation(K18 server/calls/quotas.c test_quotas:*failed* [[    q->failed = q->failed || !reply;]] "")
c_mutation(K18 server/calls/quotas.c test_quotas:waiters* [[sum->members <= q->limits.waiters]] [[sum->members <= q->limits.waiters + 1]])
c_mutation(K18 server/calls/dispatch.c test_cli_quotas [[method->effect == LKS_RPC_EFFECT_WRITE && !method->settles]] [[true]])
c_mutation(K18 server/calls/dispatch.c test_cli_quotas [[    return !r->call.waits || quotas_wait(]] [[    return !takes || !r->call.waits || quotas_wait(]])
c_mutation(K18 server/calls/running.c test_cli_quotas [[    quotas_leave(r->target->dispatch->options.quotas, r->of_namespace);]] "")
c_mutation(K1 server/calls/callers.c test_callers [[        call->settles = true;]] "")
c_mutation(K1 server/calls/callers.c test_callers [[    serve(call->caller->all);]] "")
c_mutation(K16 server/calls/running.c test_dispatch [[r->deadline_ns <= now_ns]] [[false]])
c_mutation(K20 server/calls/running.c test_dispatch [[r->event.kind != SERVICE_ABANDONED || !undo(r)]] [[true]])
c_mutation(W14 server/services/rounds.c test_dispatch [[event.kind == SERVICE_STOPPING]] [[false]])
c_mutation(L57 server/calls/running.c test_dispatch
  [[event.kind == SERVICE_GRANTED ? SERVICE_WOKEN : event.kind]] [[event.kind]])
c_mutation(L58 server/calls/waiters.c test_waiters [[ && !tell_key(all, key, (service_event){SERVICE_GRANTED, n, numbers})]] "")

# Connections: their ends, shares of the loop and of memory, places, and what the log tells of them.

# the end of a peer is seen in any state; what it left unread is not run
c_mutation(CN1 net/stream/stream_input.c test_sp_limits:*end_of_a_peer*
  [[    if (s->reading != WATCHED)
        stream_end(s, STREAM_PEER_LEFT);]] "")
c_mutation(CN1 net/stream/hangups.c test_sp_limits:*end_of_a_peer* [[.events = EPOLLRDHUP | EPOLLET]] [[.events = EPOLLET]])
c_mutation(CN1 net/sp/sp_server.c test_sp_limits:*dead_peer*
  [[stream_is_closing(c->stream) || ]] "")

# heavy ones together have one part of a turn, longer ones alone, and take turns
c_mutation(CN2 net/admission/turns.c test_turns [[(contended ? TURNS_CONTENDED_NS : TURNS_ALONE_NS)]] [[TURNS_ALONE_NS]])
c_mutation(CN2 net/admission/turns.c test_turns [[(contended ? TURNS_CONTENDED_NS : TURNS_ALONE_NS)]] [[TURNS_CONTENDED_NS]])
c_mutation(CN2 net/admission/turns.c test_turns [[        TAILQ_REMOVE(&o->queue, t, next);
        TAILQ_INSERT_TAIL(&o->queue, t, next);]] "")
c_mutation(CN2 net/admission/turns.c test_turns:owners* [[        TAILQ_REMOVE(&all->queue, o, next);
        TAILQ_INSERT_TAIL(&all->queue, o, next);]] "")
c_mutation(CN3 net/admission/turns.c test_turns:connections_of* [[used_at(&owner_of(all, t)->use, TURNS_OWNER_LEAK_PART, now_ns) < TURNS_LIGHT_NS)]] [[true)]])
c_mutation(CN3 net/admission/turns.h test_turns:an_owner* [[TURNS_OWNER_LEAK_PART = 4,]] [[TURNS_OWNER_LEAK_PART = TURNS_LEAK_PART,]])
c_mutation(CN2 net/admission/turns.c test_turns:*rest_after* [[    if (began_ns < all->rest_until_ns)]] [[    if (false)]])
c_mutation(CN2 net/admission/turns.c test_turns:*rest_after* [[all->light_ns > all->heavy_ns && ]] "")
c_mutation(CN3 net/stream/stream_input.c test_sp_limits:*left_over_is_taken* [[    s->paused = false;
    if (is_light(s)) {]] [[    s->paused = false;
    if (true) {]])
c_mutation(CN3 net/admission/turns.c test_turns:connections_of* [[now_ns >= all->light_owner_ns + TURNS_QUIET_NS ||]] "")
c_mutation(CN2 net/admission/turns.c test_turns [[    if (!t->queued && used_ns < TURNS_LIGHT_NS)]] [[    if (true)]])
c_mutation(CN2 net/admission/turns.c test_turns [[    if (TAILQ_EMPTY(&all->queue))
        uv_idle_stop(&all->busy);]] "")

# who has cost much is heavy until it has leaked away; pieces are as long as they are cheap
c_mutation(CN3 net/admission/turns.c test_turns
  [[(now_ns - use->at_ns) / leak_part : 0]] [[0 : 0]])
c_mutation(CN3 net/admission/turns.c test_turns [[used_ns < USED_NS_MAX ? used_ns : USED_NS_MAX]] [[used_ns]])
c_mutation(CN3 net/admission/turns.c test_turns [[cost > before ? cost :]] [[cost > before ? before :]])
c_mutation(CN3 net/admission/turns.c test_turns [[before - (before - cost) / 4]] [[before]])
c_mutation(CN3 net/stream/stream_input.c test_sp_limits:*a_costly_peer*
  [[is_light(s) ? (unsigned)begin_read(s) : 0]] [[(unsigned)begin_read(s)]])

# a message without room is skipped but for its ids; each of its calls is refused, and the connection goes on
c_mutation(CN4 net/sp/sp.c test_sp [[return hold(r, room) ? set_room(r, room) : begin_skipping(r);]] [[return set_room(r, room);]])
c_mutation(CN4 net/sp/sp.c test_sp [[    if (m->skipped)
        sp_calls_pass(&r->calls, data, len);]] "")
c_mutation(CN4 net/sp/sp_calls.c test_sp [[c->calls += tag == (CALLS_FIELD << 3 | WIRE_LENGTH);]] [[c->calls = 1;]])
c_mutation(CN4 net/sp/sp_server.c test_sp_limits:*no_room* [[    if (message->skipped)]] [[    if (false)]])

# what is half read, left over and not sent is held, and given back
c_mutation(CN5 net/sp/sp.c test_sp [[    if (r->held > 0)
        budget_give(r->share, r->held);]] "")
c_mutation(CN5 net/sp/sp_server.c test_sp_limits:*left_over* [[    budget_force(c->sender.bytes, len);]] "")
c_mutation(CN5 net/stream/stream_output.c test_sp_limits:*output_is_held* [[    budget_force(s->guest.bytes, block->len);]] "")
c_mutation(CN5 net/stream/stream_output.c test_sp_limits [[    budget_give(s->guest.bytes, block->len);]] "")

# while a mebibyte of answers waits no call of the connection starts
c_mutation(CN6 net/sp/sp_server.c test_sp_limits:*output_is_held* [[        look_at_output(c);
    end_request(r);]] [[        (void)c;
    end_request(r);]])
c_mutation(CN6 net/sp/sp_server.c test_sp_limits:*output_is_held* [[    look_at_output(c);
    read_on(c);]] [[    read_on(c);]])
c_mutation(CN6 net/grpc/grpc.c test_grpc:answers_that_wait* [[    c->all->options.sink->hold(c->caller, c->held);]] "")
c_mutation(CN6 net/grpc/grpc.c test_grpc:who_queues* [[    if (c->held && c->paused)]] [[    if (false)]])
c_mutation(CN6 net/grpc/grpc_call.c test_grpc:answers_that_wait* [[    drop_output(s);
    s->from = NULL;]] [[    s->from = NULL;]])
c_mutation(CN6 server/calls/callers_room.c test_callers:*held* [[    return !c->held && ]] [[    return ]])

# a message that is not whole in time ends the connection; the time is each message's own
c_mutation(CN7 net/stream/stream.c test_sp_limits:*does_not_finish* [[    else if (s->request_end_ms > 0 && !s->paused)
        ms =]] [[    else if (false)
        ms =]])
c_mutation(CN7 net/sp/sp_server.c test_sp_limits:*slow_but_finishes* [[!sp_reader_idle(&c->reader), c->took);]] [[!sp_reader_idle(&c->reader), false);]])

# memory goes back to the system after a peak
c_mutation(CN8 net/stream/trim.c test_trim [[    malloc_trim(0);]] "")
c_mutation(CN8 net/admission/budget.c test_budget [[    see_peak(all);
}]] [[}]])
c_mutation(CN8 net/stream/trim.c test_trim [[    if (lately > t->peak / PART)
        return;]] "")

# places: the idlest that is nobody's goes for a newcomer, by address, by wire, in all; unix sockets keep room
c_mutation(CN9 net/admission/places.c test_places [[TAILQ_INSERT_TAIL(&p->in[i]->quiet, p, quiet[i]);]] [[TAILQ_INSERT_HEAD(&p->in[i]->quiet, p, quiet[i]);]])
c_mutation(CN9 net/admission/places.c test_places [[.max = all->options.per_wire};]] [[.max = 0};]])
c_mutation(CN9 net/admission/places.c test_places [[.max = all->options.per_address};]] [[.max = 0};]])
c_mutation(CN9 net/admission/places.c test_places [[options->all - options->for_unix : 1;]] [[options->all : 1;]])
c_mutation(CN9 net/admission/places.c test_places [[limit == BY_ALL && p->in[BY_NETWORK] ? p->in[BY_NETWORK] : g;]] [[g;]])
c_mutation(CN9 net/admission/admission.c test_sp_limits:*who_is_known* [[idle && !has_certificate && !budget_principal(g->bytes)]] [[idle]])
c_mutation(CN9 net/stream/stream.c test_sp_limits:*connections_have* [[s->idle || !s->ready, stream]] [[true, stream]])
c_mutation(CN9 net/stream/stream.c test_sp_limits:*idlest* [[s->idle || !s->ready, stream]] [[s->idle, stream]])
c_mutation(CN9 net/stream/remote.c test_sp_limits:*address_has* [[    memcpy(ret->origin.bytes, bytes, V4_BYTES);]] "")

# lines that peers cause: so many a second of each reason
c_mutation(CN10 base/log_rate.c test_log_rate [[    if (r->lines >= LOG_RATE_LINES) {]] [[    if (false) {]])
c_mutation(CN10 base/log_rate.c test_log_rate [[    *left_out = r->left_out;]] [[    *left_out = 0;]])

# who is thrown out again and again opens new connections at a limited rate; time pays; what is known is bounded
c_mutation(CN11 net/admission/penalties.c test_penalties [[now_ms + PENALTIES_FREE_MS)]] [[now_ms)]])
c_mutation(CN11 net/admission/penalties.c test_penalties [[    o->next_ms += PENALTIES_INTERVAL_MS;]] "")
c_mutation(CN11 net/admission/penalties.c test_penalties [[    if (o->next_ms - now_ms > PENALTIES_WAIT_MAX_MS)
        return false;]] "")
c_mutation(CN11 net/admission/penalties.c test_penalties [[owed_ms < PENALTIES_OWED_MAX_MS ? owed_ms : PENALTIES_OWED_MAX_MS]] [[owed_ms]])
c_mutation(CN11 net/admission/penalties.c test_penalties [[    if (++all->n > PENALTIES_ADDRESSES)]] [[    if (false)]])
c_mutation(CN11 net/admission/penalties.c test_penalties [[    TAILQ_REMOVE(&all->known, o, next);
    TAILQ_INSERT_TAIL(&all->known, o, next);]] "")
c_mutation(CN11 net/admission/admission.c test_sp_limits:*breaks_the_rules* [[        penalties_add(all->penalties, g->from, now_ms);]] [[        (void)0;]])
c_mutation(CN11 net/stream/stream.c test_sp_limits:*breaks_the_rules* [[    stream_end_reading(s);
    begin(s);]] [[    ;]])
c_mutation(CN11 net/admission/penalties.c test_penalties [[        o->next_ms -= PENALTIES_INTERVAL_MS;]] [[        ;]])
c_mutation(CN11 net/admission/admission.c test_sp_limits:*breaks_the_rules* [[    if (g->put_off)
        penalties_left]] [[    if (false)
        penalties_left]])


# gRPC: the engine over raw HTTP/2, its texts and its messages.

# a unary call and its answer: message, headers, trailers
c_mutation(G1 net/grpc/grpc_call.c test_grpc [[.data = data, .len = written]] [[.data = data]])
c_mutation(G1 net/grpc/grpc_call.c test_grpc [[    if (!grpc_reader_idle(&s->reader))]] [[    if (false)]])
c_mutation(G1 net/grpc/grpc_call.c test_grpc [[    } else if (s->request) {]] [[    } else if (false) {]])

# errors are trailers only, with lockstock-applied and details
c_mutation(G2 net/grpc/grpc_call.c test_grpc [[    if (s->finished && TAILQ_EMPTY(&s->output)) {]] [[    if (false) {]])
c_mutation(G2 net/grpc/grpc_call.c test_grpc [[put(f, "lockstock-applied", applied, strlen(applied));]] [[(void)applied;]])
c_mutation(G2 net/grpc/grpc_call.c test_grpc [[        if (len > 0)
            put(f, "grpc-status-details-bin"]] [[        if (false)
            put(f, "grpc-status-details-bin"]])

# what is refused at its headers: who still sends is told to stop, after the answer
c_mutation(G3 net/grpc/grpc.c test_grpc [[if (s && last && !s->half_closed) {]] [[if (false) {]])
c_mutation(G3 net/grpc/grpc_call.c test_grpc [[else if (judge(]] [[else if (false && judge(]])
c_mutation(G3 net/grpc/grpc_call.c test_grpc [[answer_http(s, "405");]] [[answer_http(s, "404");]])
c_mutation(G3 net/grpc/grpc_call.c test_grpc [[strchr(";+", type.data[16])]] [[true]])

# limits of headers, of calls at a time: what is beyond is refused alone
c_mutation(G4 net/grpc/grpc_call.c test_grpc [[    else if (s->header_bytes > HEADER_BYTES_MAX)]] [[    else if (false)]])
c_mutation(G4 net/grpc/grpc.c test_grpc [[(c->header_bytes <= GRPC_HEADER_BYTES_WORST && grpc_meter_strike(&c->meter)))]] [[grpc_meter_strike(&c->meter))]])
c_mutation(G7 net/grpc/grpc.c test_grpc [[ && grpc_meter_strike(&c->meter)))]] [[))]])
c_mutation(G4 net/grpc/grpc.c test_grpc [[    return count_header(user, name_len, value_len);]] [[    return (void)name_len, (void)value_len, (void)user, 0;]])
c_mutation(G4 net/grpc/grpc.c test_grpc [[c->n_calls < calls_max(c) ? ]] [[true ? ]])
c_mutation(G4 net/grpc/grpc.c test_grpc [[        put_calls_max(c, block->data + block->len);]] "")
c_mutation(G4 net/grpc/grpc.c test_grpc
  [[{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NO_LIMIT}, /*]] [[{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, calls_max(c)}, /*]])

# a call that is cancelled, or whose connection is gone, is lost, alone
c_mutation(G5 net/grpc/grpc_call.c test_grpc [[    s->all->options.sink->abandon(s->running); /* it may be over */]] "")
c_mutation(G5 net/grpc/grpc_call.c test_grpc [[        .caller = s->from->caller,]] "")
c_mutation(G5 net/grpc/grpc.c test_grpc [[    while ((s = TAILQ_FIRST(&c->calls)))
        grpc_call_detach(s);]] "")

# bytes held count on the connection's share, and only for as long; what runs or waits does not count
c_mutation(G6 net/grpc/grpc_call.c test_grpc [[    if (!budget_take(s->bytes, bytes))
        return false;]] [[    budget_force(s->bytes, bytes);]])
c_mutation(G6 net/grpc/grpc_call.c test_grpc [[    if (s->waiting > WAITING_BYTES_MAX)]] [[    if (false)]])
c_mutation(G6 net/grpc/grpc_call.c test_grpc [[        let_go(s, s->reading);
        s->reading = 0;
        expect_input(s);]] [[        expect_input(s);]])
c_mutation(G6 net/grpc/grpc_call.c test_grpc [[    hold_only(s, RUNNING_BYTES + (arena > ARENA_BYTES ? arena - ARENA_BYTES : 0));]] [[    (void)arena;]])
c_mutation(G6 net/grpc/grpc_call.c test_grpc [[    hold_only(s, CALL_BYTES + s->waiting);]] "")
c_mutation(G6 net/grpc/grpc.c test_grpc [[    budget_force(c->bytes, CONNECTION_BYTES);]] "")

# what brings nothing is struck, before nghttp2 reads it, and ends the connection
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[    return m->strikes <= GRPC_STRIKES_MAX;]] [[    return true;]])
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[m->strikes > leaked ? m->strikes - leaked : 0;]] [[m->strikes;]])
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[>= padding + SMALL_DATA)]] [[>= SMALL_DATA)]])
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[    if (!is_new)
        return strikes]] [[    if (false)
        return strikes]])
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[    if (m->block > GRPC_HEADER_BYTES_WORST)
        return false;]] "")
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[    earn(m, EARNED_BY_CALL);]] "")
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[        return strikes(m, 1 + length_of(m->head) / BYTES_A_STRIKE);]] [[        return true;]])
c_mutation(G7 net/grpc/grpc_meter.c test_grpc_meter [[    m->last_id = UINT32_MAX;]] "")
c_mutation(G7 net/grpc/grpc.c test_grpc [[nghttp2_session_mem_recv(c->session, data, good) < 0;]] [[nghttp2_session_mem_recv(c->session, data, len) < 0;]])
c_mutation(G7 net/grpc/grpc.c test_grpc [[    if (!fine)
        give_up(c, STREAM_TOO_COSTLY);]] [[    (void)fine;]])
c_mutation(G7 net/grpc/grpc.c test_grpc [[        !grpc_meter_strike(&c->meter))]] [[        false)]])
c_mutation(G7 net/grpc/grpc.c test_grpc [[    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);]] "")
c_mutation(G7 net/grpc/grpc.c test_grpc [[(frame->hd.flags & NGHTTP2_FLAG_ACK) && c->goodbye == GOODBYE_TOLD)]] [[(frame->hd.flags & NGHTTP2_FLAG_ACK))]])

# draining: two GOAWAYs, calls under way end whole
c_mutation(G8 net/grpc/grpc.c test_grpc [[        nghttp2_submit_shutdown_notice(c->session);]] "")
c_mutation(G8 net/grpc/grpc.c test_grpc [[        say_goodbye(c);
        any = true;]] "")
c_mutation(G8 net/grpc/grpc_call.c test_grpc [[    else if (s->all->draining)]] [[    else if (false)]])
c_mutation(G8 net/grpc/grpc.c test_grpc [[            grpc_call_stop(s);]] [[            (void)s;]])

# streaming methods: rights, messages both ways, the end
c_mutation(G9 net/grpc/grpc_call.c test_grpc [[    if (method->effect && judge(]] [[    if (false && judge(]])
c_mutation(G9 net/grpc/grpc_call.c test_grpc [[        s->method->half_closed(s->state);]] [[        (void)s;]])
c_mutation(G9 net/grpc/grpc_call.c test_grpc [[        nghttp2_session_resume_data(s->from->session, s->id);]] "")

# texts: timeouts, messages, details
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[(value * units[u].ns + 999999) / 1000000]] [[value * units[u].ns / 1000000]])
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[len > TIMEOUT_DIGITS_MAX + 1]] [[len > TIMEOUT_DIGITS_MAX + 2]])
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[ && *c != '%')]] [[)]])
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[    put_number(&duration, 2, (uint64_t)(ms % 1000) * 1000000);]] "")
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[        put_bad_request(&status, error);]] [[        ;]])
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[        put_error_info(&status, error->reason);]] [[        ;]])
c_mutation(G10 net/grpc/grpc_text.c test_grpc_text [[first ? error->message + len + 2 : error->message]] [[error->message]])

# messages: any pieces, gzip, its bombs, what is too long
c_mutation(G11 net/grpc/grpc_message.c test_grpc_message [[    if (length > r->bytes_max)]] [[    if (false)]])
c_mutation(G11 net/grpc/grpc_message.c test_grpc_message [[    if (*ret_len > bytes_max)
        return]] [[    if (false)
        return]])
c_mutation(G11 net/grpc/grpc_message.c test_grpc_message [[(r->prefix[0] == COMPRESSED && !r->gzip)]] [[false]])
c_mutation(G11 net/grpc/grpc_message.c test_grpc_message [[    size_t room = 2 * (r->len + more) > ROOM_MIN ? 2 * (r->len + more) : ROOM_MIN;]] [[    size_t room = r->wanted;]])
c_mutation(G11 net/grpc/grpc_message.c test_grpc_message [[++*blocks > BLOCKS_FREE + z->total_out / BLOCK_BYTES)]] [[++*blocks == 0)]])
c_mutation(G11 net/grpc/grpc_call.c test_grpc [[        s->reader.bytes_max = OPEN_MESSAGE_BYTES;]] [[        s->reader.bytes_max += 0;]])

# a request comes within its time, or ends
c_mutation(G12 net/grpc/grpc_call.c test_grpc [[(!s->half_closed && now_ns >= s->input_due_ns)]] [[(false)]])
c_mutation(G12 net/grpc/grpc_call.c test_grpc [[(s->deadline_ns > 0 && now_ns >= s->deadline_ns);]] [[(false);]])
c_mutation(G12 net/grpc/grpc_call.c test_grpc [[        if (!s->begun)
            return false; /*]] [[        if (false)
            return false; /*]])
c_mutation(G12 net/grpc/grpc_call.c test_grpc [[        s->reading = 0;
        expect_input(s);]] [[        s->reading = 0;]])
c_mutation(G12 net/grpc/grpc.c test_grpc [[    bool idle = c->ready && c->n_whole == 0;]] [[    bool idle = c->ready && c->n_calls == 0;]])

# an answer is taken within its time, or is dropped; with its connection when none is taken
c_mutation(G13 net/grpc/grpc_call.c test_grpc [[    if (stalls(s, s->moved_ns, now_ns)) {]] [[    if (false) {]])
c_mutation(G13 net/grpc/grpc_call.c test_grpc [[        if (stalls(s, s->from->moved_ns, now_ns))
            return false;]] "")
c_mutation(G13 net/grpc/grpc_call.c test_grpc [[        if (stalls(s, s->from->moved_ns, now_ns))
            return]] [[        if (true)
            return]])
c_mutation(G13 net/grpc/grpc_call.c test_grpc [[s->taken >= TAKEN_BYTES)]] [[true)]])

# calls that wait have streams of their own; who has calls that queue is read no further
c_mutation(G14 net/grpc/grpc.c test_grpc [[ + c->all->options.waiting_per_peer;]] [[;]])
c_mutation(G14 net/grpc/grpc.c test_grpc [[        stream_pause(c->stream);]] "")
c_mutation(G14 net/grpc/grpc.c test_grpc [[    c->paused = false;
    stream_resume(c->stream);]] [[    stream_resume(c->stream);]])
c_mutation(G14 net/grpc/grpc.c test_grpc [[    stream_resume(c->stream);]] "")
c_mutation(G14 net/grpc/grpc.c test_grpc [[ || s->from->paused || ]] [[ || ]])

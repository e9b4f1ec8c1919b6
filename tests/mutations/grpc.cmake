# gRPC: the engine over raw HTTP/2, its texts and its messages.

# a unary call and its answer: message, headers, trailers
c_mutation(G1 server/wire/grpc_call.c test_grpc [[.data = data, .len = written]] [[.data = data]])
c_mutation(G1 server/wire/grpc_call.c test_grpc [[    if (!grpc_reader_idle(&s->reader))]] [[    if (false)]])
c_mutation(G1 server/wire/grpc_call.c test_grpc [[    } else if (s->request) {]] [[    } else if (false) {]])

# errors are trailers only, with lockstock-applied and details
c_mutation(G2 server/wire/grpc_call.c test_grpc [[    if (s->finished && TAILQ_EMPTY(&s->output)) {]] [[    if (false) {]])
c_mutation(G2 server/wire/grpc_call.c test_grpc [[put(f, "lockstock-applied", applied, strlen(applied));]] [[(void)applied;]])
c_mutation(G2 server/wire/grpc_call.c test_grpc [[        if (len > 0)
            put(f, "grpc-status-details-bin"]] [[        if (false)
            put(f, "grpc-status-details-bin"]])

# what is refused at its headers: who still sends is told to stop, after the answer
c_mutation(G3 server/wire/grpc.c test_grpc [[if (s && last && !s->half_closed)]] [[if (false)]])
c_mutation(G3 server/wire/grpc_call.c test_grpc [[answer_http(s, "405");]] [[answer_http(s, "404");]])
c_mutation(G3 server/wire/grpc_call.c test_grpc [[strchr(";+", type.data[16])]] [[true]])

# limits of headers, of calls at a time
c_mutation(G4 server/wire/grpc_call.c test_grpc [[    if (s->header_bytes > HEADER_BYTES_MAX)]] [[    if (false)]])
c_mutation(G4 server/wire/grpc_call.c test_grpc [[return s->header_bytes <= HEADER_BYTES_WORST;]] [[return true;]])
c_mutation(G4 server/wire/grpc.c test_grpc
  [[{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->in_flight_per_peer},]] [[{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000},]])

# a call that is cancelled, or whose connection is gone, is lost, alone
c_mutation(G5 server/wire/grpc_call.c test_grpc [[    dispatch_abandon(s->running); /* it may be over */]] "")
c_mutation(G5 server/wire/grpc_call.c test_grpc [[        .caller = s->from->caller,]] "")
c_mutation(G5 server/wire/grpc.c test_grpc [[    while ((s = TAILQ_FIRST(&c->calls)))
        grpc_call_detach(s);]] "")

# memory is bounded: by share, by what is not taken, by what was handed on
c_mutation(G6 server/wire/grpc_call.c test_grpc [[    return s->all->held > HELD_BYTES_MAX && s->from->held]] [[    return false && s->from->held]])
c_mutation(G6 server/wire/grpc_call.c test_grpc
  [[ && s->from->held > HELD_BYTES_MAX / s->all->n_connections;]] [[;]])
c_mutation(G6 server/wire/grpc_call.c test_grpc [[    if (s->waiting > WAITING_BYTES_MAX)]] [[    if (false)]])
c_mutation(G6 server/wire/grpc_call.c test_grpc [[        let_go(s, s->reading);]] "")

# floods end the connection
c_mutation(G7 server/wire/grpc.c test_grpc [[    return c->strikes <= STRIKES_MAX;]] [[    return true;]])
c_mutation(G7 server/wire/grpc.c test_grpc [[    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:]] [[    case NGHTTP2_SETTINGS:]])
c_mutation(G7 server/wire/grpc.c test_grpc
  [[return frame->hd.length == 0 && !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM);]] [[return false;]])
c_mutation(G7 server/wire/grpc.c test_grpc [[(frame->hd.flags & NGHTTP2_FLAG_ACK) && c->told_to_go)]] [[(frame->hd.flags & NGHTTP2_FLAG_ACK))]])

# draining: two GOAWAYs, calls under way end whole
c_mutation(G8 server/wire/grpc.c test_grpc [[        nghttp2_submit_shutdown_notice(c->session);]] "")
c_mutation(G8 server/wire/grpc.c test_grpc [[        say_goodbye(c);
]] "")
c_mutation(G8 server/wire/grpc_call.c test_grpc [[    else if (s->all->draining)]] [[    else if (false)]])
c_mutation(G8 server/wire/grpc.c test_grpc [[            grpc_call_stop(s);]] [[            (void)s;]])

# streaming methods: rights, messages both ways, the end
c_mutation(G9 server/wire/grpc_call.c test_grpc [[    if (method->effect && dispatch_judge(]] [[    if (false && dispatch_judge(]])
c_mutation(G9 server/wire/grpc_call.c test_grpc [[        s->method->half_closed(s->state);]] [[        (void)s;]])
c_mutation(G9 server/wire/grpc_call.c test_grpc [[        nghttp2_session_resume_data(s->from->session, s->id);]] "")

# texts: timeouts, messages, details
c_mutation(G10 server/wire/grpc_text.c test_grpc_text [[(value * units[u].ns + 999999) / 1000000]] [[value * units[u].ns / 1000000]])
c_mutation(G10 server/wire/grpc_text.c test_grpc_text [[len > TIMEOUT_DIGITS_MAX + 1]] [[len > TIMEOUT_DIGITS_MAX + 2]])
c_mutation(G10 server/wire/grpc_text.c test_grpc_text [[ && *c != '%')]] [[)]])
c_mutation(G10 server/wire/grpc_text.c test_grpc_text [[    put_number(&duration, 2, (uint64_t)(ms % 1000) * 1000000);]] "")
c_mutation(G10 server/wire/grpc_text.c test_grpc_text [[        any = put_bad_request(&status, error->message);]] "")

# messages: any pieces, gzip, its bombs, what is too long
c_mutation(G11 server/wire/grpc_message.c test_grpc_message [[    if (length > r->bytes_max)]] [[    if (false)]])
c_mutation(G11 server/wire/grpc_message.c test_grpc_message [[    if (*ret_len > bytes_max)
        return]] [[    if (false)
        return]])
c_mutation(G11 server/wire/grpc_message.c test_grpc_message [[(r->prefix[0] == COMPRESSED && !r->gzip)]] [[false]])
c_mutation(G11 server/wire/grpc_message.c test_grpc_message [[    size_t room = 2 * (r->len + more) > ROOM_MIN ? 2 * (r->len + more) : ROOM_MIN;]] [[    size_t room = r->wanted;]])

# What the wire and the server keep, whatever the service.

# malformed or truncated Protobuf: INVALID_ARGUMENT, naming the field
c_mutation(W1 rpc/scan.c test_scan [[case WIRE_FIXED64:
        return wire_take(from, 8, &bytes) || fail(m, "ends inside the value");]] [[case WIRE_FIXED64:
        return wire_take(from, 8, &bytes) || true;]])
c_mutation(W1 rpc/scan.c test_scan [[        if (!wire_tag(&m->wire, &number, &type))
            return fail(m, "not a field's tag");]] [[        if (!wire_tag(&m->wire, &number, &type))
            return true;]])
c_mutation(W1 rpc/scan.c test_scan
  [[return fail(m, "not of the wire type of the field");]] [[return wire_skip(&m->wire, type);]])
c_mutation(W1 rpc/scan.c test_scan [[        return fail(m, "not a whole varint");]] [[        return true;]])
c_mutation(W1 rpc/scan.c test_scan [[if (m->field->label == PROTOBUF_C_LABEL_REPEATED)
        append(path, "[%u]", element_index(m));]] "")
c_mutation(W1 rpc/scan.c test_scan [[    if (message && !repeated && again && element_index(m) > 0)]] [[    if (false)]])
c_mutation(W1 rpc/exchange.c test_exchange
  [[lks_code code = lks_rpc_scan(method->request, payload, len, limits, error);]]
  [[lks_code code = LKS_OK;]])

# not UTF-8: INVALID_ARGUMENT
c_mutation(W2 rpc/scan.c test_scan [[return lks_rpc_utf8_valid(text.at, len) || fail(m, "not valid UTF-8");]] [[return true;]])

# a NUL in a string: INVALID_ARGUMENT
c_mutation(W3 rpc/scan.c test_scan [[if (len > 0 && memchr(text.at, '\0', len))]] [[if (false)]])

# an unknown enum value: INVALID_ARGUMENT; numbers of more than 32 bits too
c_mutation(W4 rpc/scan.c test_scan [[fits_int32(value) && enum_known(m, value)]] [[fits_int32(value)]])
c_mutation(W4 rpc/scan.c test_scan [[return fits_int32(value) || fail(m, "more than 32 bits");]] [[return true;]])
c_mutation(W4 rpc/scan.c test_scan [[return value <= UINT32_MAX || fail(m, "more than 32 bits");]] [[return true;]])

# an unknown field is ignored, but not any number of them
c_mutation(W5 rpc/scan.c test_scan
  [[return wire_skip(&m->wire, type) || fail(m, "ends inside an unknown field");]] [[return fail(m, "unknown");]])
c_mutation(W5 rpc/scan.c test_scan [[if (++m->scan->unknown > m->scan->limits->unknown)]] [[if (false)]])

# what a message claims takes no memory: depth, elements and sizes are limited before it is unpacked
c_mutation(W6 rpc/scan.c test_scan [[if (m->depth >= m->scan->limits->depth)]] [[if (false)]])
c_mutation(W6 rpc/scan.c test_scan [[if (m->scan->elements >= m->scan->limits->elements)]] [[if (false)]])
c_mutation(W6 rpc/scan.c test_scan [[if (len > m->scan->limits->string_bytes)]] [[if (false)]])
c_mutation(W6 rpc/scan.c test_scan
  [[(size_t)(bytes.end - bytes.at) <= m->scan->limits->bytes_bytes || fail(m, "too many bytes")]] [[true]])
c_mutation(W6 rpc/scan.c test_scan [[bool counted = again || repeated ||]] [[bool counted = repeated ||]])
c_mutation(W6 rpc/frame.c test_frame
  [[.elements = (uint32_t)(n_calls * (1 + METADATA_MAX)),]] [[.elements = UINT32_MAX,]])

# unknown method: UNIMPLEMENTED
c_mutation(W7 server/calls/dispatch.c test_dispatch
  [[code = lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method:]]
  [[code = lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "method:]])
c_mutation(W7 rpc/exchange.c test_exchange
  [[return strcmp(left->method->path, right->method->path);]]
  [[return left->method->path[0] - right->method->path[0];]])

# deadline already past: DEADLINE_EXCEEDED, not run; the caller's deadline counts, up to the limit
c_mutation(W8 server/calls/dispatch.c test_dispatch
  [[call->timeout_ms ? call->timeout_ms : d->options.timeout_ms + wait]] [[d->options.timeout_ms + wait]])

# frame over the size limit: the connection is closed, and only that one
c_mutation(W9 net/sp/sp.c test_sp:*length* [[if (length < SP_ID_BYTES || r->too_long)]] [[if (length < SP_ID_BYTES)]])

# not a frame: the connection is closed; a frame that cannot be served is refused whole
c_mutation(W10 net/sp/frames.c test_frames [[if (error.code == LKS_DATA_LOSS)]] [[if (false)]])
c_mutation(W10 net/sp/frames.c test_frames
  [[            refuse(f, port, message, arena, 1, &error);]] [[            port->close_peer(message);]])
c_mutation(W10 rpc/frame.c test_frames [[if (frame->version != LKS_RPC_FRAME_VERSION)]] [[if (false)]])
c_mutation(W10 rpc/frame.c test_frames [[if (frame->n_calls == 0)]] [[if (false)]])
c_mutation(W10 rpc/frame.c test_frame [[if (frame->n_calls > max)]] [[if (false)]])

# overload: queues are bounded, RESOURCE_EXHAUSTED, NO, with a moment to wait; a connection cannot take all
c_mutation(W11 server/calls/callers.c test_callers [[return left == 0 || (c->owner->n_taking]] [[return (c->owner->n_taking]])
c_mutation(W11 server/calls/callers_room.c test_callers
  [[callers_fit(&c->all->running, c->all->options.running_max, settles) &&]] [[true &&]])
c_mutation(W11 server/calls/callers_room.c test_callers [[    error->retry_after_ms = CALLERS_RETRY_AFTER_MS;]] [[    ;]])
c_mutation(W11 server/calls/callers.c test_callers [[(in_this_turn && used_up) || ]] "")
c_mutation(W11 server/calls/callers.c test_callers [[    TAILQ_INSERT_TAIL(&o->ready[settles], c, ready_in[settles]);
    return]] [[    TAILQ_INSERT_HEAD(&o->ready[settles], c, ready_in[settles]);
    return]])
c_mutation(W11 server/calls/callers.c test_callers [[        tell_room(c); /* who was told]] [[        /* who was told]])

# one call of a frame spoils no other; a response that does not fit is refused alone
c_mutation(W12 rpc/exchange.c test_exchange
  [[size_t reserved = (reply->n_results - i - 1) * REFUSAL_BYTES;]] [[size_t reserved = 0;]])
c_mutation(W12 rpc/exchange.c test_frames [[if (element_bytes(result) > room) {]] [[if (false) {]])
c_mutation(W12 net/sp/frames.c test_frames [[.waiting_for = frame->n_calls + 1]] [[.waiting_for = frame->n_calls]])

# a call that waits stands alone in its frame; it is parked before its store call
c_mutation(W13 server/calls/dispatch.c test_dispatch
  [[if (call->message && r->call.waits)]] [[if (false)]])
c_mutation(W13 server/calls/running.c test_dispatch [[if (p->wait_key.len > 0) {]] [[if (false) {]])
c_mutation(W13 server/calls/running.c test_dispatch [[r->deadline_ns - (last_ns < half_ns ? last_ns : half_ns);]] [[r->deadline_ns;]])

# SIGTERM: parked calls end at once with UNAVAILABLE and keep their place; nothing more is asked
c_mutation(W14 server/calls/waiters.c test_waiters [[tell_all(all, SERVICE_STOPPING);]] "")

# SIGTERM: finish what runs within the drain limit, refuse the rest with UNAVAILABLE and NO, exit 0
c_mutation(W15 server/server.c test_command [[    uv_signal_start(&s->on_term, on_signal, SIGTERM);]] "")
c_mutation(W15 server/server.c test_stop:a_stop* [[        wires_hang_up(s->wires);]] [[        (void)0;]])
c_mutation(W15 server/calls/callers.c test_callers:who_is_lost* [[    caller_hold(c, false); /* no output is left that could be taken */]] "")
c_mutation(W15 server/server.c test_overload [[        dispatch_stop(s->dispatch);]] [[        (void)0;]])
c_mutation(W15 server/calls/dispatch.c test_dispatch:*about_to_close* [[    if (code == LKS_OK && d->stopped)]] [[    if (false)]])

# applied: NO has no effect, YES persists, else MAYBE; of a read always NO
c_mutation(W16 server/services/rounds.c test_dispatch [[        r->error.applied = LKS_APPLIED_NO;
    else if]] [[        ;
    else if]])
c_mutation(W16 server/services/rounds.c test_dispatch [[        r->error.applied = LKS_APPLIED_MAYBE;
    else if]] [[        ;
    else if]])
c_mutation(W16 server/services/rounds.c test_dispatch
  [[lks_error_set_reason(&r->error, result->code, result->applied, result->reason, "%s", result->message);]]
  [[lks_error_set_reason(&r->error, result->code, LKS_APPLIED_NO, result->reason, "%s", result->message);]])
c_mutation(W16 server/services/rounds.c test_dispatch [[r->error.retry_after_ms = result->retry_after_ms;]] "")
c_mutation(W16 rpc/frame.c test_frame
  [[known ? (lks_applied)result->applied : LKS_APPLIED_MAYBE]]
  [[known ? (lks_applied)result->applied : LKS_APPLIED_NO]])

# the client: a reply lost after sending is asked for again when the call has a natural id or reads, else MAYBE; one lost try makes the call MAYBE

# the client: a deadline tells how far the call came; a cancelled call says whether it was sent

# a failure says its reason in a word, and the field that is wrong
c_mutation(W19 rpc/status.c test_status [[reason != LKS_REASON_NONE ? reason : implied_by(code)]] [[reason]])
c_mutation(W19 rpc/status.c test_status [[    if (len < sizeof error->field)
        memcpy(]] [[    if (len == 0)
        memcpy(]])
c_mutation(W19 rpc/status.c test_status [[at[0] == ':' && at[1] == ' ']] [[at[0] == ':']])
c_mutation(W19 rpc/frame.c test_frame [[has_memory = read_text(&f, arena, &ret->field);]] [[;]])
c_mutation(W19 rpc/frame.c test_frame [[has_memory = read_text(&f, arena, &ret->reason);]] [[;]])
c_mutation(W19 rpc/frame.c test_frame [[strlen(result->field) < sizeof error->field ? result->field : ""]] [[result->field]])
c_mutation(W19 server/services/rounds.c test_errors
  [[result->applied, result->reason, "%s", result->message);]] [[result->applied, LKS_REASON_NONE, "%s", result->message);]])
c_mutation(W19 server/store/fcall.c test_store_answers [[.reason = lks_reason_of(e[5].string.data),]] "")
c_mutation(W19 cli/diagnosis.c test_diagnosis [[status && status->evicts)]] [[false)]])

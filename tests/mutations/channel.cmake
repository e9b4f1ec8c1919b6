# A channel and its calls, and what the helpers on it have in common; a host's limits.

# What is known is not spoilt
c_mutation(CH1 client/call/tries.c test_channel_retry:*that_come_late* [[TRY_MS_MAX = 1500,]] [[TRY_MS_MAX = 900,]])
c_mutation(CH1 client/call/tries.c test_channel_retry:*that_come_late* [[ ||
        would_spoil(call, again_ns)) {]] [[) {]])
c_mutation(CH1 client/call/tries.c test_channel_retry:*that_come_late*
  [[        call->refusal_ns = lks_rpc_now_ns() - call->sent_ns;]] "")
c_mutation(CH1 client/call/tries.c test_store_away [[ ||
        would_spoil(call, again_ns)) {]] [[) {]])
c_mutation(CH1 client/call/tries.c test_channel_retry:*said_before* [[        call->cause = strdup(call->error.message);]]
  [[        call->cause = NULL;]])

# Room
c_mutation(CH2 client/wire/endpoint.c test_channel_load:*ten_thousand* [[prompt < UINT32_MAX - waiting ? prompt + waiting : UINT32_MAX;]]
  [[prompt;]])
c_mutation(CH2 client/wire/endpoint.c test_channel:*leave_room* [[endpoint->in_flight[lane] < endpoint->in_flight_max[lane] && ]] "")
c_mutation(CH2 client/call/channel.c test_channel_load:*ten_thousand* [[    WAITING_MAX = 16384,]] [[    WAITING_MAX = 192,]])

# What insists
c_mutation(CH3 client/call/tries.c test_channel_retry:*insists* [[    case LKS_RESOURCE_EXHAUSTED:
]] "")
c_mutation(CH3 client/call/tries.c test_channel_retry:*insists* [[ || call->error.applied != LKS_APPLIED_NO)]] [[)]])
c_mutation(CH3 client/call/tries.c test_channel_retry:*final* [[!call->request->insist || ]] "")
c_mutation(CH3 client/call/channel.c test_channel:*full_queue* [[(insist ? INSISTENT_MAX : 0)]] [[0]])
c_mutation(CH3 client/once.c test_once_lease:*outlasts* [[lease->lease_ms,
                              .insist = true};]] [[lease->lease_ms};]])
c_mutation(CH3 client/lease/lock.c test_mutex:*given_up [[const lks_call_options options = {.insist = true};
    lks_release_request]] [[const lks_call_options options = {.insist = false};
    lks_release_request]])
c_mutation(CH3 client/lease/lock.c test_mutex:*given_up [[    if (code != LKS_OK)
        release_later(lock, token);
    else if (response->outcome]] [[    if (code == LKS_OK && response->outcome]])

c_mutation(CH3 client/call/call.c test_channel:*full_queue* [[method->settles || ]] "")

# Fields of a request
c_mutation(CH4 rpc/method.c test_channel_retry:*option* [[    if (!method->first_try)
        return false;
    const ProtobufCFieldDescriptor *field =
        field_named(request->descriptor, method->first_try, strlen(method->first_try));]]
  [[    const ProtobufCFieldDescriptor *field = field_named(request->descriptor, "fresh", 5);]])
c_mutation(CH4 client/call/request.c test_channel_retry:*same_id [[    if (lks_rpc_end_first_try(method, message))]] [[    if (false)]])
c_mutation(CH4 rpc/method.c test_method:*says_that_it_is_one
  [[        *(protobuf_c_boolean *)((char *)request + field->quantifier_offset) = true;]] [[        ;]])
c_mutation(CH5 rpc/method.c test_method:*is_sent_is_an_id [[if (has_presence(field) && !is_present(message, field))
        return false;]] "")
c_mutation(CH5 rpc/method.c test_method:*is_sent_is_an_id [[text && text != field->default_value && ]] [[text && ]])
c_mutation(CH5 rpc/method.c test_method:*is_sent_is_an_id [[has_presence(field) || !all_zero]] [[!all_zero]])
c_mutation(CH5 rpc/method.c test_method:*is_its_default
  [[wait_ms = field->default_value; /* what the server reads then */]] [[wait_ms = NULL;]])

# Forks and long waits
c_mutation(CH6 client/call/call.c test_channel:*forked* [[    if (call->pid != getpid())
        return lks_error_set(error,]] [[    if (false)
        return lks_error_set(error,]])
c_mutation(CH7 client/lease/lease_time.c test_mutex:*of_a_day [[return ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;]] [[return ms;]])
c_mutation(CH7 client/once.c test_once:*of_a_day [[lease_wait_ms(options->wait_ms)]] [[options->wait_ms]])

# What a cancelled call leaves at a server is undone, by the method's option
c_mutation(CH14 client/call/tries.c test_mutex:*cancelled_acquire* [[        call_undo(channel, call->request);]] [[        ;]])
c_mutation(CH14 rpc/method.c test_method:*undoes* [[*from && !text; from++)]] [[*from; from++)]])
c_mutation(CH14 rpc/method.c test_method:*undoes* [[(repeated && repeated_count(message, field) != 1)]] [[false]])
c_mutation(CH14 rpc/method.c test_method:*undoes* [[text && is_plain_text(field)]] [[text && field]])

# A host
c_mutation(CH8 host/host.c test_host:*as_a_message
  [[host->table.limits.string_bytes = host->table.limits.bytes_bytes = all.message_bytes_max;]] "")
c_mutation(CH8 host/host.c test_host:*unknown_value* [[host->table.limits.open_enums = all.open_enums;]] "")
c_mutation(CH8 host/host.c test_host:*unknown_value* [[open_enums = all.open_enums;]] [[open_enums = true;]])
c_mutation(CH9 host/calls.c test_host_wires:*beyond_the_limit* [[    } else if (begins && is_full(call->caller)) {]] [[    } else if (false) {]])
c_mutation(CH9 host/calls.c test_host_wires:*served_in_time* [[    if (queued && !on_queues(c) && !c->lost && c->on_room)]] [[    if (false)]])
c_mutation(CH9 host/calls.c test_host_wires:*knows_its_call* [[(uint64_t)(named ? call->timeout_ms : table->timeout_ms) * 1000000;]]
  [[(uint64_t)table->timeout_ms * 1000000;]])
c_mutation(CH9 host/calls.c test_host_wires:*knows_its_certificate* [[    if (call->who.certificate)
        r->context.certificate]] [[    if (false)
        r->context.certificate]])
c_mutation(CH10 host/calls.c test_host_wires:*take_turns* [[    TAILQ_REMOVE(&all->round, c, round);
    c->in_round = false;
    put_into_round(c);]] [[    put_into_round(c);]])
c_mutation(CH10 host/calls.c test_host:*one_after_the_other [[    if (begins)
        enqueue(r);]] [[    enqueue(r);]])
c_mutation(CH10 host/calls.c test_host:*told_truly* [[    if (!next->order->full) {]] [[    if (true) {]])
c_mutation(CH11 host/calls.c test_host_wires:*lost_connection* [[    withdraw_all(c, &withdrawn);
    end_all(&withdrawn, LKS_CANCELLED, gone);]] "")
c_mutation(CH11 host/calls.c test_host_wires:*cancelled* [[    if (!withdraw(r))
        return;]] [[    return;]])
c_mutation(CH12 host/host.c test_host_wires:*at_once* [[        calls_refuse_waiting(host->calls);]] [[        ;]])
c_mutation(CH12 host/host.c test_host_wires:*lets_what_waits_run* [[ && late && !host->refused)]] [[ && !host->refused)]])
c_mutation(CH13 gen/descriptors.c test_generated:*descriptors [[            mark(model, proto->dependency[j], needed);]] [[            (void)j;]])
c_mutation(CH13 gen/descriptors.c test_generated:*descriptors [[            bare[i].source_code_info = NULL;]] "")

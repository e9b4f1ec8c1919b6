# A channel and its calls, and what the helpers on it have in common; a host's limits.

# What is known is not spoilt

# Room
c_mutation(CH2 client/call/channel.c test_channel_load:*ten_thousand* [[    WAITING_MAX = 16384,]] [[    WAITING_MAX = 192,]])

# What insists
c_mutation(CH3 client/call/channel.c test_channel:*full_queue* [[(insist ? INSISTENT_MAX : 0)]] [[0]])
c_mutation(CH3 client/once.c test_once_lease:*outlasts* [[lease->lease_ms,
                              .insist = true};]] [[lease->lease_ms};]])
c_mutation(CH3 client/lease/lock.c test_mutex:*given_up [[    if (code != LKS_OK)
        lock_release_later(lock->channel, lock->group, token);
    else if (response->outcome]] [[    if (code == LKS_OK && response->outcome]])

c_mutation(CH3 client/call/call.c test_channel:*full_queue* [[method->settles || ]] "")

# Fields of a request
c_mutation(CH4 rpc/method.c test_channel_retry:*option* [[    if (!method->first_try)
        return false;
    const ProtobufCFieldDescriptor *field =
        lks_rpc_field_named(request->descriptor, method->first_try, strlen(method->first_try));]]
  [[    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(request->descriptor, "fresh", 5);]])
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
c_mutation(CH6 client/call/call.c test_channel:*forked* [[    if (call->forks != forks_so_far())
        return lks_error_set(error,]] [[    if (false)
        return lks_error_set(error,]])
c_mutation(CH7 client/lease/lease_time.c test_mutex:*of_a_day [[return ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;]] [[return ms;]])
c_mutation(CH7 client/once.c test_once:*of_a_day [[lease_wait_ms(options->wait_ms)]] [[options->wait_ms]])

# What a cancelled call leaves at a server is undone, by the method's option
c_mutation(CH14 rpc/method.c test_method:*undoes* [[*from && !text; from++)]] [[*from; from++)]])
c_mutation(CH14 rpc/method.c test_method:*undoes* [[(repeated && lks_rpc_field_count(message, field) != 1)]] [[false]])
c_mutation(CH14 rpc/method.c test_method:*undoes* [[text && is_plain_text(field)]] [[text && field]])

# Calls that share a message
c_mutation(CH16 client/call/request.c test_channel_coalesce:*alone [[method->coalesce && ]] "")
c_mutation(CH16 client/call/request.c test_channel_coalesce:*alone [[ && !request->no_retry]] "")
c_mutation(CH16 client/call/request.c test_channel_coalesce:*bytes_of_a_frame [[ && bytes <= REQUEST_FRAME_BYTES_MAX]] "")
c_mutation(CH16 client/call/request.c test_channel_coalesce:*short_messages* [[defaults->message_bytes_max >= LKS_RPC_MESSAGE_BYTES_MAX]]
  [[true]])
c_mutation(CH20 net/sp/frames.c test_frames [[n_calls > 1 && f->message_bytes_max > LKS_RPC_MESSAGE_BYTES_MAX]] [[false]])
c_mutation(CH20 net/sp/frames.c test_frames [[        error.retry_after_ms = RETRY_AFTER_MS;]] [[        ;]])

# A host
c_mutation(CH8 host/host.c test_host:*as_a_message
  [[host->table.limits.string_bytes = host->table.limits.bytes_bytes = all.message_bytes_max;]] "")
c_mutation(CH8 host/host.c test_host:*unknown_value* [[host->table.limits.open_enums = all.open_enums;]] "")
c_mutation(CH8 host/host.c test_host:*unknown_value* [[open_enums = all.open_enums;]] [[open_enums = true;]])
c_mutation(CH9 host/calls.c test_host_wires:*beyond_the_limit* [[    } else if (is_full(call->caller)) {]] [[    } else if (false) {]])
c_mutation(CH9 host/calls.c test_host_wires:*served_in_time* [[    if (queued && !on_queues(c) && !c->lost && c->on_room)]] [[    if (false)]])
c_mutation(CH9 host/calls.c test_host_wires:*knows_its_call* [[(uint64_t)(named ? call->timeout_ms : table->timeout_ms) * 1000000;]]
  [[(uint64_t)table->timeout_ms * 1000000;]])
c_mutation(CH9 host/calls.c test_host_wires:*knows_its_certificate* [[    if (call->who.certificate)
        r->context.certificate]] [[    if (false)
        r->context.certificate]])
c_mutation(CH10 host/work.c test_host_wires:*take_turns* [[    TAILQ_REMOVE(&all->round, c, round);
    c->in_round = false;
    put_into_round(c);]] [[    put_into_round(c);]])
c_mutation(CH11 host/calls.c test_host_wires:*lost_connection* [[    stop_all(c, LKS_CANCELLED, gone, &stopped);
    end_all(&stopped);]] "")
c_mutation(CH11 host/calls.c test_host_wires:*cancelled* [[    if (stop(r, LKS_CANCELLED, gone))
        end(r);]] "")
c_mutation(CH12 host/host.c test_host_wires:*at_once* [[        calls_refuse_waiting(host->calls);]] [[        ;]])
c_mutation(CH12 host/host.c test_host_wires:*lets_what_waits_run* [[ && late && !host->refused)]] [[ && !host->refused)]])
c_mutation(CH13 gen/descriptors.c test_generated:*descriptors [[            mark(model, proto->dependency[j], needed);]] [[            (void)j;]])
c_mutation(CH13 gen/descriptors.c test_generated:*descriptors [[            bare[i].source_code_info = NULL;]] "")

# A thread that sends its own call in the loop thread's place
c_mutation(CH21 client/loop/loop.c test_loop:*runs_in_time [[    rouse = rouse || heap_next_ns(&loop->timers) < loop->sleeps_until_ns;]] "")
c_mutation(CH21 client/loop/loop.c test_loop:*wakes_nobody [[rouse || heap_next_ns(&loop->timers) < loop->sleeps_until_ns;]] [[true;]])
c_mutation(CH21 client/loop/loop.c test_loop:*wakes_nobody [[    if (loop->visited)]] [[    if (false)]])
c_mutation(CH21 client/loop/loop.c test_loop:*changes_and_takes_away [[    if (source != loop->taken)
        tell_kernel(loop, EPOLL_CTL_MOD, source, events);]] "")
c_mutation(CH21 client/loop/loop.c test_loop:*changes_and_takes_away [[i < found && !loop->fewer;]] [[i < found;]])
c_mutation(CH21 client/loop/loop.c test_loop:one_guest* [[ && !loop->guest &&]] [[ &&]])
c_mutation(CH21 client/loop/loop.c test_loop:one_guest* [[loop->asleep && !loop->guest]] [[!loop->guest]])
c_mutation(CH21 client/loop/loop.c test_loop:*before_its_guest* [[    while (loop->guest)
        pthread_cond_wait(&loop->guest_left, &loop->lock);
]] "")

# And reads its answer there
c_mutation(CH22 client/call/channel.c test_channel_alone:*alone_too [[    if (!TAILQ_EMPTY(&channel->calls))
        loop_give_back(&channel->loop);]] "")
c_mutation(CH22 client/loop/loop.c test_loop:*sleeps_on [[source, POLLRDHUP);]] [[source, POLLIN);]])
c_mutation(CH22 client/loop/loop.c test_loop:*end_of_what_was_taken [[source, POLLRDHUP);]] [[source, 0);]])
c_mutation(CH22 client/loop/loop.c test_loop:*was_woken_before [[    if (stays && loop->woken)]] [[    if (false)]])
c_mutation(CH22 client/loop/loop.c test_loop:*for_a_guest_that_stays [[    bool stays = loop->asleep && !loop->staying;]]
  [[    bool stays = loop->asleep;]])
c_mutation(CH22 client/loop/loop.c test_loop:*for_a_guest_that_stays [[    oust(loop);]] [[    (void)oust;]])
c_mutation(CH22 client/loop/loop.c test_loop:*hears_again [[    tell_kernel(loop, EPOLL_CTL_MOD, source, source->events);]] "")
c_mutation(CH22 client/loop/loop.c test_loop:*hears_what_was_taken [[    loop_give_back(loop);
    tell(]] [[    tell(]])
c_mutation(CH22 client/loop/loop.c test_loop:*is_cancelled* [[        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &loop->cancel_state);]]
  [[        ;]])
c_mutation(CH22 client/loop/loop.c test_loop:*outlives* [[    while (loop->staying)
        pthread_cond_wait(&loop->guest_left, &loop->lock);
]] "")
c_mutation(CH1 client/call/call.c test_channel_retry:*that_come_late* [[ || again_ns + patience_ns(call) <= deadline_ns]] [[ || true]])
c_mutation(CH1 client/call/call.c test_channel_retry:*said_before* [[        call->cause = strdup(call->error.message);]]
  [[        call->cause = NULL;]])
c_mutation(CH2 client/wire/connection.c test_channel:*leave_room*
  [[lane == LANE_WAITING ? c->waiting_max - waiting : c->prompt_max - prompt]] [[UINT32_MAX]])
c_mutation(CH3 client/call/call.c test_channel_retry:*insists [[ || call->error.applied != LKS_APPLIED_NO)]] [[)]])
c_mutation(CH15 client/wire/connection.c test_channel_coalesce:*gather* [[c->frames[lane] < FRAMES_MAX ? ]] [[true ? ]])
c_mutation(CH16 client/call/call.c test_channel_coalesce:*its_like*
  [[request->method->settles ? LANE_COALESCED_SETTLING : LANE_COALESCED]] [[LANE_COALESCED]])
c_mutation(CH18 client/wire/connection.c test_channel_coalesce:*cancelled_or_late [[    s->calls[call->place] = NULL;]] "")
c_mutation(C32 client/wire/engine_sp.c test_channel_sp:*late_answer* [[s->state == SLOT_AWAITING && s->id == id]]
  [[s->state == SLOT_AWAITING]])
c_mutation(C33 client/wire/engine_sp.c test_channel_retry
  [[sp_reader_init_client(&t->input, t->mapping, link->message_bytes_max);]]
  [[sp_reader_init_client(&t->input, t->mapping, 1 << 30);]])
c_mutation(C34 client/wire/byte_stream.c test_channel_sp:*with_the_reason
  [[    snprintf(b->why, sizeof b->why, "%s: %s", what, why);]] [[    (void)what, (void)why;]])
c_mutation(GD22 client/wire/connection.c test_channel_retry:*did_nothing* [[call->applied != LKS_APPLIED_NO,]] [[call->tries != 0,]])
c_mutation(A13 client/call/channel.c test_channel:*token* [[    *text = *ret;]] "")
c_mutation(CH14 client/call/call.c test_mutex:*cancelled_acquire* [[        request_undo(request_of(call), call->channel);]] [[        return;]])
c_mutation(CH17 client/wire/connection.c test_channel_coalesce:*counted_in_calls [[    c->in_flight[s->lane]--;]] "")
c_mutation(CH18 client/wire/connection.c test_channel_coalesce:*taken_back* [[    if (call->connection->engine->withdraw(s))
        slot_end(s, SLOT_UNSENT, NULL, 0);
    else]] "")
c_mutation(CH19 client/call/call.c test_channel_coalesce:*tried_alone [[!shared || !retry_alone(call)]] [[shared || !retry_alone(call)]])
c_mutation(CH22 client/call/call.c test_channel_alone:*thread_sleep [[    run(channel, call);]] [[    (void)run;
    channel_start(channel, &call->start);]])
c_mutation(C31 client/wire/connection.c test_channel_retry [[        slot_end(s, SLOT_LOST, NULL, 0);]] [[        slot_end(s, SLOT_UNSENT, NULL, 0);]])
c_mutation(M6 client/call/call.c test_mutex:*unanswered_try* [[applied != LKS_APPLIED_NO ? applied : LKS_APPLIED_UNSPECIFIED]] [[applied == LKS_APPLIED_NO ? applied : LKS_APPLIED_UNSPECIFIED]])
c_mutation(W17 client/call/call.c test_channel_retry [[call->error.applied == LKS_APPLIED_NO || request_of(call)->repeatable;]] [[call != NULL;]])
c_mutation(W18 client/call/call.c test_channel:cancelling* [[        note_applied(call, LKS_APPLIED_MAYBE);
        connection_forget]] [[        connection_forget]])
c_mutation(C30 client/wire/engine_sp.c test_channel_retry:*half_written* [[m == TAILQ_FIRST(&t->output) && t->output_done != 0;]] [[false;]])

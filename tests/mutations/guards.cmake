# What keeps the promises of guards around handlers.

# Keys
c_mutation(GD2 rpc/fields.c test_guard_keys:*look_like* [[               is_entry_name(entry->name, type, field);]] [[               true;]])

# Locks

# One effect

# Refusals
c_mutation(GD11 client/guard/guard.c test_guards_generated [[g->unanswered_before ? 0 : outcome]] [[0]])
c_mutation(GD11 client/guard/answer.c test_guards:*outcome* [[    set_field(response, guarded->guard->outcome, guarded->answer.outcome);
]] "")
c_mutation(GD11 client/guard/answer.c test_guards:*outcome* [[        set_field(response, guarded->guard->retry_after, guarded->answer.error.retry_after_ms);]] [[        ;]])
c_mutation(GD22 client/guard/guard.c test_guards:*is_in_doubt [[g->unanswered_before ? 0 : outcome]] [[outcome]])
c_mutation(GD22 client/guard/guard.c test_guards:*is_in_doubt [[g->unanswered_before ? LKS_APPLIED_MAYBE : ]] "")
c_mutation(GD22 rpc/frame.c test_frames:*as_it_came [[f.varint != 0;
        else if (f.number == METADATA)]] [[false;
        else if (f.number == METADATA)]])
c_mutation(GD22 net/grpc/grpc_call.c test_grpc:*and_its_answer [["grpc-previous-rpc-attempts").len > 0]] [["grpc-previous-rpc-attempts").len > 1]])

# The ends of calls
c_mutation(GD14 host/calls.c test_guards_ends:*queue_of_a_lock_leaves* [[        lks_guard_cancel(r->context.guarded);]] [[        ;]])
c_mutation(GD15 host/calls.c test_guards_ends:*thread_is_free* [[        leave(r);
        return false;]] [[        return true;]])
c_mutation(GD15 host/work.c test_guards_ends:*does_not_run [[    if (code == LKS_OK && lks_guard_is_lost(&r->context))]] [[    if (false)]])
c_mutation(GD16 host/work.c test_guards:*keep_no_thread [[    if (answered)
        proceed(r);
    return false;]] [[    pthread_mutex_lock(&all->lock);
    while (!r->answered)
        pthread_cond_wait(&all->work, &all->lock);
    pthread_mutex_unlock(&all->lock);
    if (answered || r->state == GUARDING)
        proceed(r);
    return false;]])
c_mutation(GD17 host/host.c test_guards_ends:*without_a_channel* [[if (service->bindings[i].guard && !host->options.guards)]] [[if (false)]])
c_mutation(GD18 host/deferred.c test_guards_ends:*keep_no_thread [[bool over = !r->deferred || r->ended;]] [[bool over = true;]])
c_mutation(GD18 host/deferred.c test_guards_ends:*before_its_handler* [[bool over = !r->deferred || r->ended;]] [[bool over = !r->deferred;]])
c_mutation(GD19 host/calls.c test_guards_ends:*caller_is_gone [[        deferred_cancel(r);
    stop_all]] [[        ;
    stop_all]])
c_mutation(GD19 host/deferred.c test_guards_ends:*deadline_is_over [[ || r->context.deadline_ns <= now)]] [[)]])

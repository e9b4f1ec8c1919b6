# What keeps the promises of guards around handlers.

# Keys
c_mutation(GD2 rpc/fields.c test_guard_keys:*look_like* [[               is_entry_name(entry->name, type, field);]] [[               true;]])

# Locks

# One effect

# Refusals
c_mutation(GD22 rpc/frame.c test_frames:*as_it_came [[f.varint != 0;
        else if (f.number == METADATA)]] [[false;
        else if (f.number == METADATA)]])
c_mutation(GD22 net/grpc/grpc_call.c test_grpc:*and_its_answer [["grpc-previous-rpc-attempts").len > 0]] [["grpc-previous-rpc-attempts").len > 1]])

# The ends of calls
c_mutation(GD14 host/calls.c test_guards_ends:*queue_of_a_lock_leaves* [[        lks_guard_cancel(r->context.guarded);]] [[        ;]])
c_mutation(GD15 host/calls.c test_guards_ends:*thread_is_free* [[        leave(r);
        return false;]] [[        return true;]])
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
c_mutation(GD19 host/deferred.c test_guards_ends:*deadline_is_over [[ || r->context.deadline_ns <= now)]] [[)]])

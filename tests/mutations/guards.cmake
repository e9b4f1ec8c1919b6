# What keeps the promises of guards around handlers.

# Keys
c_mutation(GD1 client/guard/keys.c test_guard_keys:*joined* [[append(to, "%25", 3)]] [[append(to, "%", 1)]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*joined* [[append(to, "%3A", 3)]] [[append(to, ":", 1)]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*joined* [[to.escapes = paths[1] || ]] [[to.escapes = ]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*of_the_next [[to.separates = n_plural > 1;]] [[to.separates = false;]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*is_absent* [[field && !is_absent(message, field)]] [[field]])
c_mutation(GD21 client/guard/guard.c test_guards:*of_its_own [[name : g->method->path;]] [[name : "";]])
c_mutation(GD21 client/guard/guard.c test_guards:*share_it [[return name && *name != '\0' ? name]] [[return false ? name]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*single* [[    if (!to->escapes)
]] [[    if (false)
]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*not_set* [[strcmp(text, "0") == 0 ? unset(to) : ]] "")
c_mutation(GD1 client/guard/keys.c test_guard_keys:*not_set* [[if (len > to->bytes_max - to->len)]] [[if (len > to->bytes_max + 1 - to->len)]])
c_mutation(GD1 client/guard/keys.c test_guard_keys:*in_order* [[    qsort(names, to.n_names, sizeof *names, compare_names);
]] "")
c_mutation(GD1 client/guard/keys.c test_guards:*needs_must* [[    if (to->n_names == GUARD_NAMES_MAX)]] [[    if (false)]])
c_mutation(GD2 client/guard/fingerprint.c test_guard_keys:*without_a_key* [[text ? text : ""]] [[text]])
c_mutation(GD2 rpc/fields.c test_guard_keys:*look_like* [[               is_entry_name(entry->name, type, field);]] [[               true;]])
c_mutation(GD2 client/guard/fingerprint.c test_guard_keys:*maps_entries* [[if (n > 1 && lks_rpc_field_is_map(type, field))]] [[if (false)]])
c_mutation(GD2 client/guard/fingerprint.c test_guard_keys:*maps_entries* [[if (n > 1 && lks_rpc_field_is_map(type, field))]] [[if (n > 1)]])
c_mutation(GD2 client/guard/fingerprint.c test_guard_keys:*whole_request [[SHA256(bytes, path_len + len, ret);]] [[SHA256(bytes + path_len, len, ret);]])
c_mutation(GD2 client/guard/guard.c test_guards:*another_request* [[    if (!guard->key_alone)
]] [[    if (false)
]])

# Locks
c_mutation(GD3 client/guard/leave.c test_guards:*no_longer [[    if (locks)
        release(g);]] [[    if (locks)
        left(g);]])
c_mutation(GD3 client/guard/guard.c test_guards:*fences* [[        g->fences[i] = response->fences[i]->fence;]] [[        g->fences[i] = 1;]])
c_mutation(GD5 client/guard/guard.c test_guards:*told_in_time [[uint64_t usable = left - spare;]] [[uint64_t usable = left + spare;]])

# One effect
c_mutation(GD6 client/guard/leave.c test_guards:*byte_for_byte [[    if (attempt && guard_is_final(code, error->applied))]] [[    if (false)]])
c_mutation(GD7 client/guard/answer.c test_guards:*for_good* [[    case LKS_NOT_FOUND:
]] "")
c_mutation(GD7 client/guard/answer.c test_guards:*for_good* [[return applied == LKS_APPLIED_YES;]] [[return false;]])
c_mutation(GD7 client/guard/answer.c test_guards:*for_good* [[return applied == LKS_APPLIED_YES;]] [[return true;]])
c_mutation(GD7 client/guard/answer.c test_guards:*for_good* [[    lks_rpc_result_error(result, &answer->error);]] [[    result->applied = LOCKSTOCK__RPC__V1__APPLIED__APPLIED_NO;
    lks_rpc_result_error(result, &answer->error);]])
c_mutation(GD8 client/guard/leave.c test_guards:*too_long* [[if (code == LKS_OK && !fits(g, protobuf_c_message_get_packed_size(response))) {]] [[if (false) {]])
c_mutation(GD9 client/guard/leave.c test_guarded_hosts:*frozen* [[    if (code == LKS_OK && response->outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED) {]] [[    if (false) {]])
c_mutation(GD10 client/guard/leave.c test_guards:*stored_later [[        complete_later(g);]] [[        ;]])

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
c_mutation(GD23 client/guard/guard.c test_guard_enter:*are_released [[ || error_is_doubtful(error);]] [[;]])
c_mutation(GD23 client/guard/answer.c test_guard_enter:*without_a_result* [[    if (!stored) {]] [[    if (false) {]])
c_mutation(GD12 client/guard/guard.c test_guards:*refused_by_its_lock* [[    if (state != GUARD_ADMITTED)
        unwind(g);]] "")
c_mutation(GD13 client/guard/guard.c test_guards:*without_lockstockd* [[if (code != LKS_OK && guard->fail_open && error_is_away(error))]] [[if (false)]])
c_mutation(GD13 client/guard/answer.c test_guards:*without_lockstockd* [[away ? LKS_UNAVAILABLE : LKS_INTERNAL]] [[LKS_INTERNAL]])

# The ends of calls
c_mutation(GD14 host/calls.c test_guards_ends:*queue_of_a_lock_leaves* [[        lks_guard_cancel(r->context.guarded);]] [[        ;]])
c_mutation(GD14 client/guard/guard.c test_guards_ends:*queue_of_a_lock_is_given_back [[        once_fail(g->channel, g->guard->idempotency->scope, g->key, g->fence);]] [[        ;]])
c_mutation(GD14 client/guard/guard.c test_guards_ends:*begins_for* [[    if (state == GUARD_ADMITTED)
        unwind(g);]] "")
c_mutation(GD14 client/guard/guard.c test_guards_ends:*begins_before_locks* [[    pthread_mutex_unlock(&g->lock);
    unwind(g);
    return false;]] [[    pthread_mutex_unlock(&g->lock);
    return false;]])
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
c_mutation(GD20 client/guard/guard.c test_guarded_hosts:*over_tcp [[    request.key = g->key;
    request.attempt_token]] [[    request.key = g->attempt.token;
    request.attempt_token]])

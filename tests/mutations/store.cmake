# What the store keeps, whatever Redis answers or suffers.

# LOADING, BUSY, CLUSTERDOWN, MASTERDOWN, NOREPLICAS, MISCONF: UNAVAILABLE, NO, retry after
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"LOADING", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xLOADING", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"BUSY", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xBUSY", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"CLUSTERDOWN", ERRORS_DOWN, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xCLUSTERDOWN", ERRORS_DOWN, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"MASTERDOWN", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xMASTERDOWN", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"NOREPLICAS", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xNOREPLICAS", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])
c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"MISCONF", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 1000]]
  [[    {"xMISCONF", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 1000]])

c_mutation(T1 server/store/errors.c test_store_answers
  [[    {"ERR Script killed by user", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]]
  [[    {"xERR Script killed by user", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500]])

# OOM: RESOURCE_EXHAUSTED, NO; what gives back still works
c_mutation(T2 server/store/errors.c test_store_answers
  [[{"OOM", ERRORS_FAIL, LKS_RESOURCE_EXHAUSTED]] [[{"OOM", ERRORS_FAIL, LKS_UNAVAILABLE]])
c_mutation(T2 server/store/errors.c test_store_answers
  [[LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 1000]] [[LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, 1000]])

# connection refused, or no connection: UNAVAILABLE, NO, after a moment
c_mutation(T3 server/store/connection.c test_store_names:*late* [[    if (c->resolution) { /* the last attempt's question: its answer serves */]]
  [[    resolve_cancel(c->resolution);
    c->resolution = NULL;
    if (false) {]])
c_mutation(T3 server/store/connection.c test_store_names:*not_found* [[        drop_for(c, not_found, why);]] [[        (void)why;]])
c_mutation(T3 server/store/pipeline.c test_store_lost:*without_a_connection*
  [[return grace > c->deadline_ns ? c->deadline_ns : grace;]] [[return (void)grace, c->deadline_ns;]])
c_mutation(T3 server/store/pipeline.c test_store_lost:*stays_away
  [[return c->exposed ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO;]] [[return LKS_APPLIED_MAYBE;]])

# reply lost after sending: sent again within the deadline when the call may be repeated, else UNAVAILABLE, MAYBE
c_mutation(T4 server/store/pipeline.c test_store_lost:*repeats*
  [[else if (sent && !c->call.repeatable)]] [[else if (sent)]])
c_mutation(T4 server/store/pipeline.c test_store_lost:*repeats*
  [[else if (sent && !c->call.repeatable)]] [[else if (false)]])
c_mutation(T4 server/store/pipeline.c test_store_lost:*lost_sending* [[c->exposed = c->exposed || sent;]] "")
c_mutation(T4 server/store/pipeline.c test_store_lost:*kernel*
  [[else if (sent && !c->call.repeatable)]] [[else if (!c->call.repeatable)]])
c_mutation(T4 server/store/pipeline.c test_store_lost:*lost_sending*
  [[c->exposed ? LKS_APPLIED_MAYBE : row->applied]] [[row->applied]])

# deadline: NO before sending, MAYBE after
c_mutation(T5 server/store/pipeline.c test_store_pipeline
  [[.code = LKS_DEADLINE_EXCEEDED, .applied = LKS_APPLIED_MAYBE]]
  [[.code = LKS_DEADLINE_EXCEEDED, .applied = LKS_APPLIED_NO]])
c_mutation(T5 server/store/pipeline.c test_store_pipeline
  [[fail(p, c, LKS_DEADLINE_EXCEEDED, exposure(c), 0,]] [[fail(p, c, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE, 0,]])

# function missing: loaded again, unseen; once
c_mutation(T6 server/store/errors.c test_store_pipeline
  [[{"ERR Function not found", ERRORS_RELOAD]] [[{"ERR Function not found", ERRORS_FAIL]])
c_mutation(T6 server/store/pipeline.c test_store_pipeline
  [[row->action == ERRORS_RELOAD && !c->reloaded]] [[row->action == ERRORS_RELOAD]])
c_mutation(T6 server/store/pipeline.c test_store_pipeline [[p->options.on_missing(p->options.arg);]] "")

# MOVED, ASK, TRYAGAIN, READONLY: retried within the deadline, NO; a replica is left
c_mutation(T7 server/store/errors.c test_store_answers [[{"MOVED", ERRORS_MOVED]] [[{"MOVED", ERRORS_FAIL]])
c_mutation(T7 server/store/errors.c test_store_answers [[{"ASK", ERRORS_MOVING]] [[{"ASK", ERRORS_FAIL]])
c_mutation(T7 server/store/errors.c test_store_answers [[{"TRYAGAIN", ERRORS_RETRY]] [[{"TRYAGAIN", ERRORS_FAIL]])
c_mutation(T7 server/store/errors.c test_store_answers [[{"READONLY", ERRORS_ELSEWHERE]] [[{"READONLY", ERRORS_RETRY]])

# NOAUTH, WRONGPASS, NOPERM: INTERNAL, not ready; no secret in the log
c_mutation(T8 server/store/errors.c test_store_answers:*denied* [[{"NOAUTH", ERRORS_DENIED]] [[{"NOAUTH", ERRORS_FAIL]])
c_mutation(T8 server/store/errors.c test_store_answers:*not_permitted* [[{"NOPERM", ERRORS_FORBIDDEN]] [[{"NOPERM", ERRORS_DENIED]])
c_mutation(T8 server/store/errors.c test_store_answers
  [[{"WRONGPASS", ERRORS_DENIED, LKS_INTERNAL]] [[{"WRONGPASS", ERRORS_DENIED, LKS_UNAVAILABLE]])
c_mutation(T8 server/store/greeting.c test_store_greeting
  [[        fault = errors_fault(errors_find(reply->str, reply->len));]] [[        fault.text = reply->str;]])
c_mutation(T8 server/store/greeting.c test_store_greeting [[{select_words, judge_select}]] [[{select_words, judge_ok}]])

# an unknown error may have come after a write: INTERNAL, MAYBE; WRONGTYPE is told by the function
c_mutation(T9 server/store/errors.c test_store_answers
  [[.applied = LKS_APPLIED_MAYBE,]] [[.applied = LKS_APPLIED_NO,]])
c_mutation(T9 server/store/fcall.c test_store_answers
  [[value_is(&e[2], "NO") ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE]] [[LKS_APPLIED_MAYBE]])
c_mutation(T9 server/store/fcall.c test_store_answers
  [[value_is(&e[2], "NO") ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE]] [[LKS_APPLIED_NO]])

# calls under way are bounded, by number and bytes: RESOURCE_EXHAUSTED, NO
c_mutation(T10 server/store/pipeline.c test_store_pipeline [[p->in_flight >= p->options.in_flight_max || ]] "")
c_mutation(T10 server/server.c test_many_waits:*may_run [[(uint32_t)s->config->in_flight + OTHER_STORE_CALLS]] [[OTHER_STORE_CALLS]])
c_mutation(T10 server/store/pipeline.c test_store_pipeline [[ || p->bytes + c->bytes > BYTES_MAX]] "")
c_mutation(T10 server/store/pipeline.c test_store_pipeline
  [[LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 100]] [[LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, 100]])

# only calls of one function that allow it share an FCALL, and a short one; in Redis Cluster of one base
c_mutation(T11 server/store/batch.c test_store_pipeline [[if (p->call.weight > 0) {]] [[if (true) {]])
c_mutation(T11 server/store/batch.c test_store_pipeline [[!may_share(b->calls.first, p)]] [[false]])
c_mutation(T11 server/store/fcall.c test_store_pipeline:in_redis_cluster* [[return cluster ? 0 : n;]] [[return n;]])
c_mutation(T11 server/store/batch.c test_store_pipeline:what_is_elsewhere* [[(!a->alone || fcall_same_base(&a->call, &b->call)) &&]]
  [[true &&]])
c_mutation(T11 server/store/pipeline.c test_store_pipeline:what_is_elsewhere* [[c->alone = true;]] "")
c_mutation(T11 server/store/greeting.c test_store_pipeline [[strcmp(field(reply, "mode"), "cluster") == 0]] [[false]])
c_mutation(T11 server/store/fcall.c test_shared_fcalls [[if (!fcall_same_base(calls[i], calls[0]))]] [[if (false)]])
c_mutation(T11 server/store/pipeline.c test_store_pipeline:a_few_calls* [[p->fcalls >= (p->base ? 1 : FCALLS_ENOUGH) && ]] [[false && ]])
c_mutation(T11 server/store/pipeline.c test_store_pipeline:what_waits* [[if (reply && !row)]] [[if (false)]])
c_mutation(T11 server/store/pipeline.c test_store_pipeline:what_is_late* [[if (now_ns >= c->deadline_ns) {]] [[if (false) {]])
c_mutation(T11 server/store/pipeline.c test_store_pipeline:what_fills*
  [[ && p->queue.weight < STORE_WEIGHT_MAX]] "")
lua_mutation(T11 test_shared_fcalls [[bases[n] or bases[1], now]] [[bases[1], now]])
lua_mutation(T11 test_shared_fcalls [[if #place == 1 then ran = {ran} end]] "")
lua_mutation(T11 test_shared_fcalls [[if n == 1 then return ran or replies[1] end]] "")
c_mutation(T11 server/store/batch.c test_store_pipeline [[b->calls.weight + p->call.weight <= STORE_WEIGHT_MAX && ]] "")
c_mutation(T11 server/store/batch.c test_store_pipeline [[b->bytes + p->bytes <= BATCH_BYTES_MAX]] [[true]])

# a store that loses data by design, is too old, has another layout or another library is refused
c_mutation(T12 server/store/greeting.c test_store_greeting [[if (g->safety.danger && !g->allow_unsafe) {]] [[if (false) {]])
c_mutation(T12 server/store/greeting.c test_store_greeting [[if (g->safety.danger && !g->allow_unsafe) {]] [[if (g->safety.danger) {]])
c_mutation(T12 server/store/greeting.c test_store_greeting
  [[strtol(field(reply, "version"), NULL, 10) < VERSION_MIN]] [[false]])
c_mutation(T12 server/store/greeting.c test_store_greeting [[strcmp(field(reply, "role"), "master") != 0]] [[false]])
c_mutation(T12 server/store/greeting.c test_store_greeting [[    if (theirs == ours) {]] [[    if (true) {]])
c_mutation(T12 server/store/greeting.c test_store_greeting [[theirs > ours ? ]] [[theirs < ours ? ]])
c_mutation(T12 server/store/library.c test_store_redis:*altered* [[ && strcmp(code->str, l->text) == 0]] "")

# garbage, endless and unasked replies end the connection, not the server; silence is noticed
c_mutation(T13 server/store/adapter.c test_store_answers:*cut_off [[a->reply_bytes + unread > a->reply_bytes_max]] [[false]])
c_mutation(T13 server/store/adapter.c test_store_answers:a_reply_of_elements* [[    a->reply_bytes += bytes;]] "")
c_mutation(T13 server/store/adapter.c test_store_answers:a_greeting*
  [[.reply_bytes_max = GREETING_BYTES_MAX]] [[.reply_bytes_max = REPLY_BYTES_MAX]])
c_mutation(T13 server/store/connection.c test_store_subscription:*silent* [[    if (c->n == 0 && !c->pinged)]] [[    if (c->n == 0)]])
c_mutation(T13 server/store/subscription.c test_store_subscription:a_ping* [[ && !refuses_ping(reply))]] [[)]])
c_mutation(T13 server/calls/pass.c test_sweep:*another_shape* [[reply->element[1].type != STORE_STRING]] [[false]])
c_mutation(T13 server/calls/loss.c test_loss:*another_shape* [[ || reply->element[1].type != STORE_STRING)]] [[)]])
c_mutation(T13 server/store/slots.c test_store_slots:more_nodes* [[    if (lines > SLOTS_NODES_MAX)]] [[    if (false)]])
c_mutation(T13 server/store/probe.c test_store_answers:a_clock* [[s < 0 || s > seconds_max || ]] "")
c_mutation(T13 server/calls/quotas.c test_quotas:*without_end* [[        *sum = INT64_MAX;]] [[        ;]])
c_mutation(T13 server/store/adapter.c test_store_answers
  [[    if (elements > REPLY_ELEMENTS_MAX)
        return NULL;]] "")

# the data directory has one server; a dead one is waited out
c_mutation(T14 server/store/dirlock.c test_store_directory:*second_server*
  [[while (flock(dir_fd, LOCK_EX | LOCK_NB) != 0) {]] [[while (false) {]])
c_mutation(T14 server/store/dirlock.c test_store_directory:*lock_file_that_is_removed*
  [[while (flock(dir_fd, LOCK_EX | LOCK_NB) != 0) {]] [[while (flock(open_note(dir_fd, O_RDONLY), LOCK_EX | LOCK_NB) != 0) {]])
c_mutation(T14 server/store/embedded.c test_store_directory:a_moved_directory*
  [["/proc/self/fd/%d/%s", e->dir_fd, name);]] [["%s/%s", e->dir, name);]])
c_mutation(T14 server/store/dirlock.c test_store_directory:*waited_out
  [[int pid = read_note(dir_fd, &has_served);]] [[int pid = getpid();]])
c_mutation(T14 server/store/embedded.c test_store_embedded:*inherited
  [[close_range(STDERR_FILENO + 1, (unsigned)dir_fd - 1, 0);]] "")

# a killed server takes its redis-server along; an ended redis-server is started again
c_mutation(T15 server/store/embedded.c test_store_directory:*along [[prctl(PR_SET_PDEATHSIG, SIGKILL);]] "")
c_mutation(T15 server/store/embedded.c test_store_embedded:an_ended*started_again [[    if (may_serve_again(e, how)) {
        pause_then_spawn(e);]] [[    if (may_serve_again(e, how)) {]])
c_mutation(T15 server/store/embedded.c test_store_embedded:pauses_grow* [[        if (clock_now_ns() - e->serves_since_ns >= SERVED_WELL_MS * CLOCK_NS_PER_MS)
            e->failures = 0;]] [[        e->failures = 0;]])
c_mutation(T15 server/store/embedded.c test_store_embedded:pauses_grow* [[            e->failures = 0;]] [[            ;]])
c_mutation(T15 server/store/embedded.c test_store_disk:a_redis* [[    e->is_full = !has_room(e);]] [[    e->is_full = false;]])
c_mutation(T15 server/store/embedded.c test_store_disk:*later [[    if (!has_room(e)) {]] [[    if (false) {]])
c_mutation(T15 server/store/store.c test_store_disk:a_redis* [[    ret->fault = cause_of(s, ret->ready, ret->fault);
]] "")
c_mutation(T15 server/store/embedded.c test_store_embedded:a_redis_that_aborts* [[        if (WTERMSIG(how) == own[i])]] [[        if (false)]])
c_mutation(T15 server/store/embedded.c test_store_embedded:a_redis_that_is_killed* [[        if (WTERMSIG(how) == own[i])]] [[        if (true)]])
c_mutation(T15 server/store/embedded.c test_store_embedded:a_restarted_redis* [[(e->served ? UNSERVED_MAX : 1)]] [[1]])
c_mutation(T15 server/store/embedded.c test_store_embedded:a_restarted_redis* [[        e->unserved++;]] [[        e->unserved += e->served ? 0 : 1;]])

# what was answered survives kill -9, of redis-server and of lockstockd; a cut transaction never runs in half
c_mutation(T16 server/store/aof.c test_aof_tail [[if (!inside)
            *whole = a->at;]] [[*whole = a->at;]])
c_mutation(T16 server/store/aof.c test_aof_tail:*left_alone [[r == TORN && has_commands_behind(a) ? MALFORMED : r;]] [[TORN;]])
# damage in the middle is no torn end; what is cut is kept
c_mutation(T16 server/store/aof.c test_aof_tail:*in_the_middle* [[r == TORN && has_commands_behind(a) ? MALFORMED : r;]] [[r;]])
c_mutation(T16 server/store/aof.c test_aof_tail:*seen_everywhere [[n - HEAD_BYTES_MAX;]] [[n;]])
c_mutation(T16 server/store/aof.c test_aof_tail:*left_alone [[        if (begins ? inside : ends && !inside)
            return MALFORMED;]] [[        if (false)
            return MALFORMED;]])
c_mutation(T16 server/store/aof.c test_aof_tail [[end < a->size && (failure = keep(dir, name, a, end, copy)) != 0]] [[false]])
c_mutation(T16 server/store/aof.c test_aof_tail:*cannot_be_kept* [[(failure = keep(dir, name, a, end, copy)) != 0]] [[(keep(dir, name, a, end, copy)) < 0]])
c_mutation(T16 server/store/aof.c test_aof_tail:*cannot_be_kept* [[        unlinkat(dir_fd, copy, 0);]] [[        ;]])
c_mutation(T16 server/store/embedded.c test_store_embedded:damage_that_is_found* [[        e->options.on_broken(e->options.arg, STORE_FAULT(STORE_UNREACHABLE, e->not_mended.message));]] [[        pause_then_spawn(e);]])
c_mutation(T16 server/store/embedded.c test_store_embedded:*promised [["--aof-load-truncated", "no",]] "")
c_mutation(T16 server/store/embedded.c test_store_embedded:*promised
  [["--appendfsync", e->options.fsync,]] [["--appendfsync", "no",]])

# wake messages come in order; after a lost subscription the server is told to look again

# zeros at the end of the file, from a power loss, are cut off; those in a value stay
c_mutation(T16 server/store/aof.c test_aof_tail:*zeros* [[return a->at >= a->size ? TORN : MALFORMED;]] [[return feof(a->file) ? TORN : MALFORMED;]])
c_mutation(T16 server/store/aof.c test_aof_tail:*zeros* [[while (n > 0 && chunk[n - 1] == '\0') {]] [[while (false) {]])
c_mutation(T16 server/store/aof.c test_aof_tail:*zeros* [[    if (n > a->size - a->at - 2)
        return TORN;
]] "")

# a store without its files is no new one
c_mutation(T16 server/store/aof.c test_aof_tail:*missing_manifest* [[    if (!has_served && !has_data(dir))]] [[    if (!has_data(dir))]])
c_mutation(T16 server/store/aof.c test_aof_tail:*missing_manifest* [[    if (!has_served && !has_data(dir))]] [[    if (!has_served)]])
c_mutation(T16 server/store/aof.c test_aof_tail:*missing_manifest* [[found.st_size > 0;]] [[true;]])
c_mutation(T16 server/store/embedded.c test_store_embedded:a_store_without* [[    e->has_served = dirlock_has_served(e->dir_fd);]] [[    ;]])
c_mutation(T16 server/store/embedded.c test_store_embedded:files_that_are_gone* [[        e->has_served = true;]] [[        ;]])
c_mutation(T16 server/store/dirlock.c test_store_embedded:a_store_without* [[has_served ? SERVED : ""]] [[""]])

# the socket is made again at each start, and one that is missed is; the loop goes on while a file is mended
c_mutation(T17 server/store/shard.c test_store_subscription [[        subscription_renew(s->subscription, fault);]] [[        (void)0;]])

c_mutation(T18 server/store/embedded.c test_store_embedded:*removed_socket* [[    kill(e->pid, SIGTERM);
}

const char]] [[}

const char]])
c_mutation(T18 server/store/embedded.c test_store_embedded:*loop_goes_on*
  [[    uv_queue_work(e->options.loop, &e->mending, mend_in_thread, on_mended); /* fails only without a function */]]
  [[    mend_in_thread(&e->mending);
    on_mended(&e->mending, 0);]])
c_mutation(T18 server/store/embedded.c test_store_embedded:closing_stops* [[    atomic_store(&e->stops_mending, true);
]] "")
c_mutation(T18 server/store/embedded.c test_store_embedded:opening_stops* [[atomic_load(&e->stops_mending) && !is_told_to_stop(e);]] [[atomic_load(&e->stops_mending);]])
c_mutation(T18 server/store/embedded.c test_store_embedded:opening_stops* [[        stopped = is_told_to_stop(e);]] [[        stopped = false;]])
c_mutation(T18 server/server.c test_command:*takes_long* [[    pthread_sigmask(SIG_BLOCK, &held, &before);]] [[    pthread_sigmask(SIG_BLOCK, NULL, &before);]])
c_mutation(T18 server/store/aof.c test_aof_tail:*progress* [[    a->told = a->at;
]] "")
c_mutation(T18 server/store/aof.c test_aof_tail:*progress* [[    if (r == STOPPED)]] [[    if (false)]])
c_mutation(T18 server/store/embedded.c test_store_directory:*long_path*
  [["/proc/self/fd/%d/%s", e->dir_fd, name);]] [["%s/%s", e->dir, name);]])

# the primary that sentinels name
c_mutation(T19 server/store/sentinels.c test_store_sentinels:one_sentinel_of_three* [[        if (!is_agreed(s, &e->answer, now_ns))]] [[        if (false)]])
c_mutation(T19 server/store/sentinels.c test_store_sentinels:sentinels_that_others* [[n += e->of_url && counts]] [[n += counts]])
c_mutation(T19 server/store/sentinels.c test_store_sentinels:*newest_configuration*
  [[return !best || a->epoch > best->epoch;]] [[return !best;]])
c_mutation(T19 server/store/sentinels.c test_store_sentinels:*another_names*
  [[    add(s, host, port, false);]] [[    (void)host;]])
c_mutation(T19 server/store/sentinels.c test_store_sentinels:*answer_of_before* [[e->answer.asked_ns >= s->doubt_ns);]] [[true);]])
c_mutation(T19 server/store/sentinels.c test_store_sentinels:*has_moved* [[other->greeted && !other->leaves && ]] "")
c_mutation(T19 server/store/sentinels.c test_store_sentinels:*switch_of_another*
  [[ || strcmp(name, s->options.url->master) != 0)]] [[)]])
c_mutation(T19 server/store/connection.c test_store_sentinels:*lost_is_asked_for*
  [[c->due = c->options.waits_to_be_told && !c->told;]] [[c->due = false;]])
c_mutation(T19 server/store/greeting.c test_store_sentinels:*no_sentinel_is_not_asked*
  [[    } else if (g->sentinel != (strcmp(field(reply, "mode"), "sentinel") == 0)) {]] [[    } else if (false) {]])

# no answer before so many replicas have what it tells of
c_mutation(T20 server/store/pipeline.c test_store_confirm:*no_answer_comes* [[    if (!confirms) {]]
  [[    if (true) {]])
c_mutation(T20 server/store/confirm.c test_store_confirm:*too_few_confirmed*
  [[reply->integer >= (long long)replicas;]] [[reply->integer > 0;]])
c_mutation(T20 server/store/pipeline.c test_store_confirm:*asked_again* [[    if (c->call.repeatable)
        pause_call(p, c);
    else
        fail(p, c, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, 500, errors_fault(c->refusal));]] [[    if (false)
        pause_call(p, c);
    else
        fail(p, c, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, 500, errors_fault(c->refusal));]])
c_mutation(T20 server/store/confirm.c test_store_confirm:*share_one_question*
  [[        connection_command(link, ignore, NULL, published, strlen(published));]] [[        ;]])
c_mutation(T20 server/store/confirm.c test_store_confirm:without_that_write* [[ && !w.done ? &nobody : reply]] [[ && false ? &nobody : reply]])
c_mutation(T20 server/store/heard.c test_store_confirm:*ask_anew [[        if (enough)
]] "")
c_mutation(T20 server/store/heard.c test_store_confirm:*missed_with_the_connection* [[enough ? h->asked : h->n]] [[h->asked]])

# TLS to the store; a password that changes
c_mutation(T21 server/store/connection.c test_store_tls:*one_that_is_meant*
  [[by && by->server_name ? by->server_name : c->options.host]] [[c->options.host]])
c_mutation(T21 server/store/adapter.c test_store_tls:*also_large_ones* [[        sdsrange(a->context->obuf, (int)at, -1);]] [[        sdsclear(a->context->obuf);]])
c_mutation(T21 server/store/secrets.c test_store_tls:*password_that_changes*
  [[    secrets_clear(a);
    *a = (secrets)]] [[    if (a->passwords[0])
        return LKS_OK;
    *a = (secrets)]])
c_mutation(T21 server/store/secrets.c test_store_tls:*do_nothing* [[    if (f->password && of->password)]] [[    if (false)]])

# Redis Cluster: each call to the node that has its slot, by the newest claim; a slot that moves is waited for
c_mutation(T22 server/store/slots.c test_store_slots [[if (close && close > open + 1)]] [[if (false)]])
c_mutation(T22 server/store/pipeline.c test_store_cluster:moved* [[c->moves++ < MOVES_AT_ONCE]] [[false]])
c_mutation(T22 server/store/greeting.c test_store_cluster:another* [[strcmp(reply->str, g->id) != 0]] [[false]])
c_mutation(T22 server/store/greeting.c test_store_cluster:*meta* [[is_error(reply, "ASK ")]] [[false]])
c_mutation(T22 server/store/pipeline.c test_store_cluster:*are_loaded* [[        c->reloaded = false;]] "")
c_mutation(T22 server/services/walk.c test_walk [=[now[i] & w->here[i]]=] [=[now[i]]=])
c_mutation(T22 server/services/walk.c test_walk [[put(set, slot, !out);]] [[put(set, slot, true);]])
c_mutation(T22 server/services/walk.c test_walk [[ || (!out && from < least)]] "")
c_mutation(T22 server/services/walk.c test_walk [[bool goes_on = strcmp(node, w->node) == 0;]] [[bool goes_on = true;]])
c_mutation(T7 server/store/pipeline.c test_store_answers:without_time* [[    if (clock_in_ms(2 * PAUSE_MS) >= c->deadline_ns) {]] [[    if (false) {]])
c_mutation(T22 server/store/pipeline.c test_store_cluster:*end_its_move* [[            row = &stuck;]] [[            ;]])
c_mutation(T22 server/store/pipeline.c test_store_cluster:*end_its_move* [[        c->refusal = row;]] "")
c_mutation(T22 server/calls/pass.c test_sweep:*each_part [[enter_part(p, p->part.slot + 1U)]] [[enter_part(p, 65536)]])
c_mutation(T22 server/calls/loss.c test_loss:*each_part* [[from = part.slot + 1U)]] [[from = 65536)]])

c_mutation(T21 server/server.c test_store_away:*sighup [[ ||
        store_reload(s->store, &error) != LKS_OK) {]] [[) {]])

# another primary may lack what the one before granted
lua_mutation(T23 test_id_snowflake:*another_primary* [[write('HSET', base .. 'id:workers', 'floor', int(math]]
  [[write('HSET', base .. 'id:workers', 'none', int(math]])
lua_mutation(T23 test_id_snowflake:in_a_cluster* [[if is_another or not floor then]] [[if not floor then]])
lua_mutation(T23 test_id_snowflake:in_a_cluster* [[if is_another then write('SET', base .. 'generation', primary) end]] "")
lua_mutation(T23 test_id_snowflake:*same_primary* [[if known == generation then return {'OK', 0} end]] "")
c_mutation(T22 server/store/subscription.c test_store_subscription:a_node_of_a_cluster* [[s->greeting.cluster && !s->options.id]] [[false]])

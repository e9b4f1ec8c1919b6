# The command line.

# no two programs at once
c_mutation(CL1 cli/keeper.c test_cli_run:*what_its_program_started*
  [[        kill(-w->shared->group, SIGKILL);]] [[        (void)0;]])
c_mutation(CL1 cli/run.c test_cli_run:*keeper_that_is_frozen*
  [[        return keeper_certain_ns(r->keeper);]] [[        return UINT64_MAX;]])
c_mutation(CL1 cli/run.c test_cli_run:*keeper_that_is_frozen*
  [[        child_kill(&r->child, SIGKILL); /* what it has started */]] "")
c_mutation(CL1 cli/run.c test_cli_run:*taken_away* [[        child_kill(&r->child, SIGKILL);
        r->kill_ns = 0;]] [[        r->kill_ns = 0;]])
c_mutation(CL1 cli/run.c test_cli_run:*taken_away* [[        if (r->phase == RUNNING)
            stop(r);]] "")
c_mutation(CL1 cli/run.c test_cli_run:*though_the_program_is_done [[        else if (keeper_code(r->keeper) == EXIT_LOST)
            r->code = EXIT_LOST;
]] "")
c_mutation(CL1 cli/keeper.c test_cli_run:*long_lease* [[.renew_ms = RENEW_MS,]] "")

# codes and signals
c_mutation(CL2 cli/child.c test_cli_run:test_at_a_terminal [[!event->from_terminal]] [[true]])
c_mutation(CL2 cli/run.c test_cli_run:*signals_are_passed_on [[            child_signal(&r->child, &event);]] [[            (void)0;]])
c_mutation(CL2 cli/child.c test_cli_run:*exit_code_is* [[WIFSIGNALED(c->status) ? EXIT_SIGNAL + WTERMSIG(c->status) : ]] "")
c_mutation(CL2 cli/run.c test_cli_run:*signal_ends_the_wait
  [[            r->code = EXIT_SIGNAL + event.number;]] [[            continue;]])

# once, limit
c_mutation(CL3 cli/once.c test_cli_run:*result_is_kept* [[lks_once_return(attempt, code, r->kept, r->n_kept)]]
  [[lks_once_return(attempt, 0, r->kept, r->n_kept)]])
c_mutation(CL3 cli/once.c test_cli_run:*failed_for_now* [[ || code == AGAIN]] "")
c_mutation(CL3 cli/once.c test_cli_run:*failed_for_now* [[WIFSIGNALED(r->child.status) || ]] "")
c_mutation(CL3 cli/once.c test_cli_run:*above_128* [[WIFSIGNALED(r->child.status) || ]] [[code > EXIT_SIGNAL || ]])
c_mutation(CL3 cli/child.c test_cli_run:*may_end_in_peace [[    child_kill(c, SIGCONT);
]] "")
c_mutation(CL3 cli/once.c test_cli_run:*may_end_in_peace [[            } else if (now_ns >= kill_ns) {]] [[            } else {]])
c_mutation(CL3 cli/once.c test_cli_run:*goes_on_is_killed [[                child_kill(&r->child, SIGKILL);]] [[                (void)0;]])
c_mutation(CL3 cli/limit.c test_cli_run:*its_timeout [[c->timeout > 0 ? cli_ms(c->timeout) : CLI_TIMEOUT_MS]] [[CLI_TIMEOUT_MS]])
c_mutation(CL3 cli/limit.c test_cli_run:*only_as_often* [[    if (allowed)]] [[    if (true)]])

# settings, lists, codes
c_mutation(CL4 cli/rpc.c test_cli_rpc:*lists_are_whole [[        if (!next || !**next)]] [[        if (true)]])
c_mutation(CL4 cli/rpc.c test_cli_rpc:*lists_are_whole [[n_page == 1 || ]] "")
c_mutation(CL4 cli/rpc.c test_cli_rpc:*before_and_beside* [[request_init(&r, method->request) && take_request(c, &r)]]
  [[request_init(&r, method->request)]])
c_mutation(CL4 cli/request.c test_cli_rpc:*before_and_beside* [[        if (!given)
]] [[        if (!json_is_array(value))
]])
c_mutation(CL4 cli/request.c test_cli_rpc:*before_and_beside* [[field && !json_object_get(json, field->name) ? field->name : name]] [[name]])
c_mutation(CL4 cli/request.c test_cli_rpc:*before_and_beside* [[            failed = json_array_extend(given, value);]] [[            failed = 0;]])
c_mutation(CL4 cli/request.c test_cli_rpc:*field_is_given_once [[ && r->given & bit) {]] [[ && false) {]])
c_mutation(CL4 cli/request.c test_cli_rpc:*field_is_given_once [[field->label != PROTOBUF_C_LABEL_REPEATED && r->given]] [[r->given]])
c_mutation(CL4 cli/request.c test_cli_rpc:*said_in_one_line [[    return value && !json_is_null(value);]] [[    return value;]])
c_mutation(CL4 cli/request.c test_cli_rpc:*said_in_one_line [[    return !strchr(text, ',') ||]] [[    return true ||]])
c_mutation(CL4 cli/rpc.c test_cli_rpc:*nobody_holds* [[method == &lks_lock_force_release_method && removed_nothing(answer)]] [[false]])
c_mutation(CL4 cli/rpc.c test_cli_hands:*list_whose* [[        if (strcmp(*asked, *next) == 0)]] [[        if (false)]])
c_mutation(CL4 cli/limit.c test_cli_run:*names_the_flag [[        name_flag(&error);
]] "")
c_mutation(CL4 cli/main.c test_cli_hands:test_without_standard_files [[    standard_files_hold();]] "")
c_mutation(CL4 server/main.c test_cli_hands:*server_without* [[    standard_files_hold();]] "")
c_mutation(CL4 cli/status.c test_cli_hands:*url_with_quotes [["store", has_store]] [["store", !has_store]])
c_mutation(CL4 cli/follow.c test_cli_hands:*watched_in_json [[    lks_rpc_arena_free(arena);
    return code;
}

exit_code watch_command]] [[    return code;
}

exit_code watch_command]])
c_mutation(CL4 cli/answer.c test_cli_rpc:test_lock [[    return value > 1;]] [[    return false;]])
c_mutation(CL4 cli/answer.c test_cli_rpc:test_idempotency [["BEGIN_OUTCOME_REPLAY", ]] "")
c_mutation(CL4 cli/exits.c test_cli_rpc:test_stock [[    case LKS_NOT_FOUND:]] "")

# text
c_mutation(CL5 cli/words.c test_words:text_of_others* [[c < ' ' || c == 0x7f || ]] "")
c_mutation(CL5 cli/words.c test_words:text_of_others* [[    if (c == 0xc2 &&]] [[    if (false &&]])
c_mutation(CL5 cli/answer.c test_cli_rpc:*moves_no_terminal [[        words_printable(text, copy, size);]] [[        memcpy(copy, text, size);]])
c_mutation(CL5 cli/exits.c test_cli_run:*good_moves_no_terminal [[    words_printable(why, text, sizeof text);]]
  [[    snprintf(text, sizeof text, "%s", why);]])
c_mutation(CL5 cli/words.c test_words:width_is* [[            return blocks[i].columns;]] [[            return 1;]])

# doctor
c_mutation(CL6 cli/diagnosis.c test_diagnosis:clocks_that_differ_are_told [[difference > CLOCK_MS + within]] [[difference > CLOCK_MS]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:persistence_is_what_a_crash_loses [[    if (status->evicts)]] [[    if (false)]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:text_of_a_server_moves_no_terminal
  [[words_printable(text, one->text, sizeof one->text)]] [[strcpy(one->text, text)]])
c_mutation(CL6 cli/doctor.c test_cli_doctor:*nothing_and_evicts [[        [DIAGNOSIS_WARNING] = EXIT_REFUSED, [DIAGNOSIS_PROBLEM] = EXIT_REFUSED]]
  [[        [DIAGNOSIS_WARNING] = EXIT_REFUSED, [DIAGNOSIS_PROBLEM] = EXIT_DONE]])
c_mutation(CL6 server/store/safety.c test_cli_doctor:*on_disk_at_once [[    if (s.appends)]] [[    if (false)]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:*failover* [[!status->fails_over || status->wait_replicas > 0]] [[!status->fails_over]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:too_few* [[    if (n < status->wait_replicas)]] [[    if (false)]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:*lags* [[return r->silent_ms > LAG_MS || r->behind_bytes > LAG_BYTES;]] [[return r->behind_bytes > LAG_BYTES;]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:*lags* [[return r->silent_ms > LAG_MS || r->behind_bytes > LAG_BYTES;]] [[return r->silent_ms > LAG_MS;]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:min_replicas* [[p->min_replicas_to_write > 0 && p->min_replicas_max_lag_ms > 0]] [[p->min_replicas_to_write > 0]])
c_mutation(CL6 server/store/replication.c test_store_replicas:info* [[ && strstr(line, ",state=online,")]] "")
c_mutation(CL6 server/services/admin.c test_admin:each_primary* [[from->min_replicas_max_lag_s < 0 ? -1 : ]] "")
c_mutation(CL6 server/services/admin.c test_admin:settings_of* [[    status->wait_replicas = view.wait_replicas;
]] "")

# what a server sees of its store every second
c_mutation(CL6 server/store/probe.c test_cli_doctor:*frozen [[    if (p->looks >= p->patience && !p->silent) {]] [[    if (false) {]])
c_mutation(CL6 server/store/probe.c test_cli_doctor:*memory_is_full [[    p->refusal = refuses ? row : NULL;]] [[    p->refusal = NULL;]])
c_mutation(CL6 server/store/probe.c test_cli_doctor:*disk_is_full [[refuses && row->code == LKS_UNAVAILABLE;]] [[false;]])
c_mutation(CL6 server/conditions.c test_admin:what_is_wrong* [[    if (strcmp(now->text, text) == 0 && now->blocks == blocks)
        return false;]] "")
c_mutation(CL6 server/services/admin.c test_admin:what_is_wrong* [[        to->blocks = one.blocks;]] "")
c_mutation(CL6 cli/status.c test_cli_doctor:*disk_is_full [[(one->blocks && of_store)]] [[false]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:*could_not_say* [[ && error->code == LKS_OK) {]] [[ && false) {]])
c_mutation(CL6 cli/diagnosis.c test_diagnosis:nothing_is_well* [[status->fsync == LKS_FSYNC_ALWAYS && status->ready]] [[status->fsync == LKS_FSYNC_ALWAYS]])
c_mutation(CL6 server/server.c test_notify:a_certificate* [[at - CERTIFICATE_WARN_DAYS * DAY_S)]] [[at)]])
c_mutation(CL6 server/server.c test_notify:a_certificate_that_ends_while* [[    uv_timer_start(&s->certificates_timer, on_certificates_timer, CERTIFICATES_LOOK_MS, CERTIFICATES_LOOK_MS);
]] "")
c_mutation(CL6 server/server.c test_notify:who_listens_without* [[        if (!wires_is_encrypted(config->listen.of[i]))]] [[        if (false)]])
c_mutation(CL6 server/calls/peers.c test_peers:the_note* [[ || number(&reply->element[i]) <= p->since)]] [[)]])
c_mutation(CL6 server/calls/peers.c test_peers:what_one* [[len == 0 || their_len == 0 || same]] [[same]])
c_mutation(CL6 server/server.c test_cli_doctor:*servers_that_differ [[        peers_begin(s->peers);]] [[        ;]])

# completion
c_mutation(CL7 cli/grammar.c test_cli_completion:*methods [[        put(one->second, sizeof one->second, short_name);
        visit(arg, one);]] "")

# watch
c_mutation(CL8 cli/screen.c test_cli_terminal:*ends_of_the_table [[    if (ending && ending != SIGINT)]] [[    if (false)]])
c_mutation(CL8 cli/screen.c test_cli_terminal:*ends_of_the_table [[        fputs(leave, stdout);]] "")
c_mutation(CL8 cli/screen.c test_cli_terminal:*live_table [[is_over = key == 'q' || key == 'Q';]] [[is_over = false;]])
c_mutation(CL8 cli/screen.c test_cli_terminal:*live_table [[(int)words_fitting(line, columns)]] [[(int)strlen(line)]])
c_mutation(CL8 cli/screen.c test_cli_terminal:*too_long [[    if (drawn == rows)
        return;]] "")
c_mutation(CL8 cli/live.c test_cli_terminal:*too_long [[return n + more <= rows || n < beside ? n : beside;]] [[return n;]])
c_mutation(CL8 cli/live.c test_cli_terminal:*than_a_hundred [[return n + more <= rows ||]] [[return n <= rows ||]])
c_mutation(CL8 cli/live.c test_cli_terminal:*rows_in_json [[return error->code != LKS_OK ? exits_failed(error, true) : EXIT_DONE;]]
  [[return error ? EXIT_DONE : EXIT_OTHER;]])
c_mutation(CL8 cli/snapshot.c test_cli_terminal:*than_a_hundred [[*asking.page_token || i < page->n_locks;]] [[*asking.page_token;]])
c_mutation(CL8 cli/snapshot.c test_cli_terminal:*live_table [[.waiters = from->waiters};]] [[.waiters = 0};]])
c_mutation(CL8 cli/live.c test_cli_terminal:*rows_in_json [[        replace_by_null(&locks);]] [[        (void)0;]])

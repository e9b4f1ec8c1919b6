# What keeps files, addresses and settings from doing harm.

# a unix socket replaces a dead socket of this user, nothing else
c_mutation(F1 net/stream/address_bind.c test_address:*file_is_left* [[    if (!S_ISSOCK(found.st_mode))]] [[    if (false)]])
c_mutation(F1 net/stream/address_bind.c test_address:*file_is_left* [[lstat(path, &found) != 0)
        return errno]] [[stat(path, &found) != 0)
        return errno]])
c_mutation(F1 net/stream/address_bind.c test_address:*stale* [[        unlink(path);]] [[        ;]])
c_mutation(F1 net/stream/address_bind.c test_address:*stale* [[ && errno == ECONNREFUSED]] [[ || errno != ECONNREFUSED]])
c_mutation(F1 net/stream/address_bind.c test_address:*another_users* [[    if (found.st_uid != geteuid())
        return]] [[    if (false)
        return]])
c_mutation(F1 net/stream/address_bind.c test_address:*another_users* [[found.st_uid != geteuid() && found.st_uid != 0]] [[false]])
c_mutation(F1 net/stream/address_bind.c test_address:*others_may_write* [[(found.st_mode & S_IWOTH) && ]] [[false && ]])
c_mutation(F1 net/stream/address_bind.c test_address:*others_may_write* [[ && !(found.st_mode & S_ISVTX)]] "")
c_mutation(F1 net/stream/address_bind.c test_address:*stale* [[umask(S_IXUSR | S_IRWXG | S_IRWXO);]] [[umask(0);]])
c_mutation(F1 net/stream/address_bind.c test_address:*no_path* [[strlen(path) >= PATH_BYTES]] [[strlen(path) > PATH_BYTES]])

# the data directory is this user's alone, no link in it is followed, the data is closed to others
c_mutation(F2 server/store/dirlock.c test_store_directory:*not_followed [[ | O_NOFOLLOW | O_CLOEXEC, 0600);]] [[ | O_CLOEXEC, 0600);]])
c_mutation(F2 server/store/dirlock.c test_store_directory:*not_followed [[!S_ISREG(found.st_mode) || ]] "")
c_mutation(F2 server/store/dirlock.c test_store_directory:*directory_of_others*
  [[else if (found.st_mode & (S_IWGRP | S_IWOTH))]] [[else if (found.st_mode & S_IWOTH)]])
c_mutation(F2 server/store/dirlock.c test_store_directory:*directory_of_others*
  [[else if (found.st_mode & (S_IWGRP | S_IWOTH))]] [[else if (found.st_mode & S_IWGRP)]])
c_mutation(F2 server/store/dirlock.c test_store_directory:*directory_of_others*
  [[    else if (found.st_uid != geteuid())]] [[    else if (false)]])
c_mutation(F2 server/store/dirlock.c test_store_directory:*alone [[fd >= 0 && fchmod(fd, 0700) != 0]] [[fd >= 0 && false]])
c_mutation(F2 server/store/embedded.c test_store_directory:*alone [[    umask(S_IRWXG | S_IRWXO); /*]] [[    /*]])

# an address that cannot be served is told before anything is made or started
c_mutation(F3 server/server.c test_command:*bad_addresses* [[load_identity(&s, &s.failure) != LKS_OK || ]] "")
c_mutation(F3 server/check.c test_command:*without_a_start* [[        code = check_wires(config, starts, known, error);]] [[        ;]])
c_mutation(F3 server/check.c test_command:*without_a_start* [[    lks_code code = check_store(config, error);]] [[    lks_code code = LKS_OK;]])
c_mutation(F3 base/keys.c test_config [[(len = getline(&line, &room, file)) >= 0; number++)]] [[(len = getline(&line, &room, file)) >= 0;)]])
c_mutation(F3 server/main.c test_command:*store_that_is_broken* [[error->code == LKS_FAILED_PRECONDITION ? EXIT_AS_IT_IS : EXIT_TRY_AGAIN;]] [[EXIT_TRY_AGAIN;]])
c_mutation(F3 server/server.c test_command:*store_that_is_broken* [[view.embedded ? LKS_FAILED_PRECONDITION : LKS_UNAVAILABLE;]] [[LKS_UNAVAILABLE;]])
c_mutation(F3 base/keys.c test_config:a_nul* [[    if (!memchr(line, '\0', len))]] [[    if (true)]])
c_mutation(F8 server/store/secrets.c test_store_tls:*do_nothing* [[ || has_nul)]] [[)]])
c_mutation(F3 net/wires.c test_command:*bad_addresses* [[ address_check_unix(address, error);]] [[ LKS_OK;]])
c_mutation(F3 net/wires.c test_command:*bad_addresses* [[ address_check_tcp(address, starts, error);]] [[ LKS_OK;]])
c_mutation(F3 net/wires.c test_command:*bad_addresses* [[    if (scheme->encrypted && !has_certificate)]] [[    if (false)]])
c_mutation(F3 net/stream/address_bind.c test_address:*taken_port* [[    if (!starts)
        clear_port(found->ai_addr);]] "")
c_mutation(F3 server/check.c test_command:*bad_addresses* [[if (code == LKS_OK && is_given_before(config, i))]] [[if (false)]])
c_mutation(F3 net/stream/address_bind.c test_address:*taken_port* [[bind(fd, found->ai_addr, found->ai_addrlen) == 0;]] [[true;]])

# settings: a bool in three ways; what is wrong with a URL is said, without its password
c_mutation(F4 server/store/url.c test_store_url:an_error_says_how_a_url_is_written [[    if (strchr(end, '@'))]] [[    if (false)]])
c_mutation(F4 server/store/url.c test_store_url:an_error_says_how_a_url_is_written [[strstr(path, "@/"))]] [[false)]])
c_mutation(F4 server/store/url.c test_store_url:an_error_says_how_a_url_is_written [[strstr(text, ":") ?]] [[text ?]])

# what could be read in two ways is refused on every wire
c_mutation(F5 net/sink.h test_dispatch:*stands_twice* [[        who->twice = name;]] [[        ;]])
c_mutation(F5 net/sink.h test_dispatch:*stands_twice* [[who->says_ns : strcmp(name, "authorization") == 0 ?]] [[who->says_ns : true ?]])
c_mutation(F5 server/calls/dispatch.c test_dispatch:*stands_twice* [[    if (who->twice) /*]] [[    if (false) /*]])
c_mutation(F5 net/sp/frames.c test_frames:*stands_twice*
  [[credentials_take(&who, item->key, value_of]] [[if (i == 0) credentials_take(&who, item->key, value_of]])
c_mutation(F5 net/grpc/grpc_headers.c test_grpc:*stands_twice*
  [[        credentials_take(&who, field->name,]] [[        if (!who.says_authorization) credentials_take(&who, field->name,]])

# descriptors
c_mutation(F6 server/descriptors.c test_command:*descriptors* [[before != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0]] [[true]])
c_mutation(F6 server/descriptors.c test_command:*descriptors* [[(rlim_t)*connections + DESCRIPTORS_RESERVE)]] [[(rlim_t)*connections)]])
c_mutation(F6 server/descriptors.c test_command:*descriptors* [[limit.rlim_cur <= DESCRIPTORS_RESERVE]] [[limit.rlim_cur < DESCRIPTORS_RESERVE]])

# a service manager is told what becomes of the server, and no child of it speaks there
c_mutation(F7 server/notify.c test_notify [[snprintf(state, sizeof state, "READY=1\n");]] [[;]])
c_mutation(F7 server/notify.c test_notify [[if (ready && n->phase == STARTING)]] [[if (n->phase == STARTING)]])
c_mutation(F7 server/notify.c test_notify:*part_is_away* [[return n->reason[0] ? "ready, but " : "ready";]] [[return "ready";]])
c_mutation(F7 server/notify.c test_notify:*part_is_away* [[        if ((unsigned char)*c < ' ')]] [[        if (false)]])
c_mutation(F7 server/server.c test_notify:*tells_its_life* [[limit_ms + FLUSH_MS + STORE_END_MS]] [[FLUSH_MS + STORE_END_MS]])
c_mutation(F7 server/notify.c test_notify [[if (n && n->phase == SERVING) {]] [[if (n) {]])
c_mutation(F7 server/notify.c test_notify [[    copy_line(n->failure, failure);]] [[    if (failure)
        copy_line(n->failure, failure);]])
c_mutation(F7 server/notify.c test_notify [[(pid && strtoll(pid, NULL, 10) != getpid())]] [[false]])
c_mutation(F7 server/notify.c test_notify [[        send_text(n, "WATCHDOG=1");]] [[        ;]])
c_mutation(F7 server/notify.c test_notify [[n->to.sun_path[0] = '\0';]] [[;]])
c_mutation(F7 server/notify.c test_notify [[uv_timer_start(&n->timer, on_timer, RETRY_MS, n->beat_ms);]] [[;]])
c_mutation(F7 server/notify.c test_notify [[    unsetenv("NOTIFY_SOCKET");]] [[    ;]])
c_mutation(F7 server/notify.c test_notify [[    unsetenv("WATCHDOG_USEC");]] [[    ;]])
c_mutation(F7 server/notify.c test_notify [[    unsetenv("WATCHDOG_PID");]] [[    ;]])
c_mutation(F7 server/server.c test_notify [[notify_reloading(s->notify);]] [[;]])
c_mutation(F7 server/server.c test_notify [[notify_reloaded(s->notify, error.message);]] [[notify_reloaded(s->notify, NULL);]])
c_mutation(F7 server/server.c test_notify [[s->failure.code == LKS_OK ? NULL : s->failure.message]] [[NULL]])

# why something does not work is told in words
c_mutation(F8 server/store/connection.c test_notify:*store_that_is_away* [[snprintf(text, sizeof text, "%s: %s", what, why);]] [[snprintf(text, sizeof text, "%s", why);]])
c_mutation(F8 server/store/connection.c test_store_lost:*refused_connection* [[c->state == CONNECTING ? unreachable : ]] "")
c_mutation(F8 net/tls.c test_admission [[ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : ]] "")
c_mutation(F8 server/calls/identity.c test_admission [[                             strerror(errno));]] [[                             "");]])
c_mutation(F8 server/store/url.c test_store_url [["a %% in the %s that begins no %%2F, %%3F or the like is written %%25"]] [["bad: %s"]])
c_mutation(F8 server/store/secrets.c test_store_tls:*do_nothing* [["--store-certificate", "--store-key", "--store-ca"]] [["--store-key", "--store-certificate", "--store-ca"]])
c_mutation(F8 server/store/sentinels.c test_store_sentinels:each_reason* [[    if (strcmp(e->said, text) != 0)]] [[    if (e->said[0] == '\0')]])
c_mutation(F8 server/store/sentinels.c test_store_sentinels:each_reason* [[    if (strcmp(e->said, text) != 0)]] [[    if (true)]])
c_mutation(F8 server/store/sentinels.c test_store_sentinels:a_user_that_may_not* [[errors_find(reply->str, reply->len)->action == ERRORS_FORBIDDEN]] [[false]])
c_mutation(F8 server/store/sentinels.c test_store_sentinels:a_user_that_may_not* [[    note_refusal(e, reply);
    bool pair]] [[    bool pair]])

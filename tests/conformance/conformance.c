/* One suite for every wire: `conformance tcp` runs it over tcp://. A row of `wires` is all
 * that a wire adds. */
#include "conformance/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const wire wires[] = {
    {.name = "tcp", .scheme = "tcp", .driver = &sp_driver, .closes = true, .vectors = "sp"},
    {.name = "unix", .scheme = "unix", .driver = &sp_driver, .closes = true, .vectors = "unix"},
    {.name = "tls", .scheme = "tls", .driver = &sp_driver, .closes = true, .vectors = "sp"},
    {.name = "nng+tcp", .scheme = "nng+tcp", .driver = &sp_driver, .by_libnng = true, .closes = true, .vectors = "sp"},
    {.name = "ws", .scheme = "ws", .driver = &ws_driver, .closes = true, .vectors = "ws"},
    {.name = "wss", .scheme = "wss", .driver = &ws_driver, .closes = true, .vectors = "ws"},
    {.name = "grpc", .scheme = "grpc", .driver = &grpc_driver, .vectors = "grpc"},
    {.name = "grpcs", .scheme = "grpcs", .driver = &grpc_driver, .vectors = "grpc"},
    /* Unmodified REQ sockets of libnng on our engine. */
    {.name = "tcp-from-libnng", .scheme = "tcp", .driver = &nng_driver, .closes = true},
    {.name = "unix-from-libnng", .scheme = "unix", .driver = &nng_driver, .closes = true},
    {.name = "nng+ws-from-libnng", .scheme = "nng+ws", .driver = &nng_driver, .closes = true},
};

static int start(void **state)
{
    static const char *const args[] = {"--in-flight", "64", "--waiting", "160", NULL};

    (void)state;
    here.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    if (here.redis == NULL) {
        return -1;
    }
    here.server = suite_server(args);
    return here.server != NULL ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    int status = server_fixture_stop(here.server, 60000) ? 0 : -1;
    server_fixture_free(here.server);
    redis_fixture_free(here.redis);
    return status;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_answered),
        cmocka_unit_test(each_refusal_says_what_and_whether),
        cmocka_unit_test(a_namespace_is_a_world_of_its_own),
        cmocka_unit_test(answers_come_when_they_are_ready),
        cmocka_unit_test(big_messages_go_both_ways),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(who_waits_is_told_when_time_is_up),
        cmocka_unit_test(a_wait_ends_with_its_connection),
        cmocka_unit_test(a_cancelled_wait_is_withdrawn),
        cmocka_unit_test(who_waits_does_not_stop_who_runs),
        cmocka_unit_test(the_vectors_are_what_is_spoken),
        cmocka_unit_test(noise_harms_nobody),
        cmocka_unit_test(half_open_connections_harm_nobody),
        cmocka_unit_test(vanishing_peers_leave_nothing),
        cmocka_unit_test(a_store_that_hangs_is_a_deadline),
        cmocka_unit_test(a_store_that_is_away_is_unavailable),
        cmocka_unit_test(a_stopping_server_answers_and_refuses),
    };
    struct rlimit files;

    for (size_t i = 0; argc == 2 && i < sizeof wires / sizeof *wires; i++) {
        if (strcmp(argv[1], wires[i].name) == 0) {
            here.wire = &wires[i];
        }
    }
    if (here.wire == NULL) {
        fprintf(stderr, "usage: conformance WIRE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* the server's too, which inherits it */
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return cmocka_run_group_tests_name(argv[1], tests, start, stop);
}

/* The client's word against the servers': threads call two servers that lose replies
 * and connections all the time, and what each call was told is compared with what the
 * servers saw of it.
 *
 *   OK          some server saw it
 *   applied NO  none did, and none will
 *   no id       none saw it twice
 *   an id       it ends OK, however often it takes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/channel_fixture.h"

enum { THREADS = 16, CALLS = 150, CALLS_A_BREAK = 10 };

struct told {
    char id[32];
    bool repeatable;
    lks_error error;
};

struct caller {
    pthread_t thread;
    size_t number;
    lks_channel *channel;
    struct server **servers;
    struct told told[CALLS];
};

static void *call_and_break(void *arg)
{
    struct caller *caller = arg;

    for (size_t i = 0; i < CALLS; i++) {
        struct told *told = &caller->told[i];

        told->repeatable = i % 2 == 0;
        snprintf(told->id, sizeof told->id, "%zu-%zu", caller->number, i);
        run(caller->channel, told->repeatable ? &server_write : &server_plain, told->id,
            told->repeatable ? NULL : &(lks_call_options){.timeout_ms = 300 + 100 * (uint32_t)(i % 7)}, NULL,
            &told->error);
        if (i % CALLS_A_BREAK == 0)
            server_drop_connections(caller->servers[(i / CALLS_A_BREAK + caller->number) % 2]);
    }
    return NULL;
}

static void what_a_call_was_told_is_true(void **state)
{
    static struct caller callers[THREADS];
    struct server *servers[2] = {server_start(0), server_start(0)};
    size_t ok = 0, no = 0, maybe = 0;
    char urls[256];
    (void)state;

    snprintf(urls, sizeof urls, "%s,%s", server_url(servers[0]), server_url(servers[1]));
    lks_channel *channel = open_channel(urls, (lks_channel_options){.in_flight_max = 8});
    for (uint32_t i = 0; i < 6; i++) {
        server_add_fault(servers[i % 2], (server_fault){SERVER_DROPS_REPLY, 150 * i, 2});
        server_add_fault(servers[i % 2], (server_fault){SERVER_CLOSES, 100 * i + 50, 2});
    }
    for (size_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.number = i, .channel = channel, .servers = servers};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_and_break, &callers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    lks_channel_close(channel);
    assert_true(server_settle(servers[0]));
    assert_true(server_settle(servers[1]));

    for (size_t i = 0; i < THREADS * CALLS; i++) {
        const struct told *told = &callers[i / CALLS].told[i % CALLS];
        const lks_error *error = &told->error;
        int seen = server_count(servers[0], told->id) + server_count(servers[1], told->id);

        if (told->repeatable && error->code != LKS_OK)
            fail_msg("%s: %s %s", told->id, lks_code_name(error->code), error->message);
        if (!told->repeatable && seen > 1)
            fail_msg("%s was sent %d times", told->id, seen);
        if (error->code == LKS_OK && seen == 0)
            fail_msg("%s: OK, and nobody saw it", told->id);
        if (error->code != LKS_OK && error->applied == LKS_APPLIED_NO && seen != 0)
            fail_msg("%s: NO, and it was seen: %s", told->id, error->message);
        ok += error->code == LKS_OK;
        no += error->code != LKS_OK && error->applied == LKS_APPLIED_NO;
        maybe += error->code != LKS_OK && error->applied == LKS_APPLIED_MAYBE;
    }
    print_message("%zu OK, %zu NO, %zu MAYBE\n", ok, no, maybe);
    assert_int_equal(ok + no + maybe, THREADS * CALLS);
    assert_in_range(maybe, 1, THREADS * CALLS); /* else nothing was lost, and nothing shown */
    server_stop(servers[0]);
    server_stop(servers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_was_told_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

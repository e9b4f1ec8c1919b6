/* restart [waiters] [names]: how long what waits needs after a restart. Acquires (100,000) wait for names (one) on 8
 * channels. The program kills Redis, then lockstockd, and starts it again; then it releases the names, and each
 * waiter that is granted its lock releases it. Prints the seconds of each step, and the longest answer that another
 * caller got to an Inspect meanwhile. Exits with 1 unless each waiter is granted once. */
#include <lockstock/lockstock.h>
#include <lockstock/v1/admin.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/process.h"
#include "support/server_fixture.h"

enum { CHANNELS = 8, HOUR_MS = 3600000, TEXT_BYTES = 64, WITHIN_MS = 120000 };

static atomic_uint granted, failed;
static atomic_llong longest_ms;
static atomic_bool over;
static lks_channel *channels[CHANNELS], *prober;

/* ---- calls ------------------------------------------------------------------------ */

typedef struct waiter {
    char name[TEXT_BYTES], token[TEXT_BYTES];
    lks_channel *channel;
} waiter;

static void release(waiter *w)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = WITHIN_MS};
    lks_error error;

    request.group = w->name;
    request.token = w->token;
    if (lks_lock_release_start(w->channel, &request, &options, NULL, NULL, NULL, &error) != LKS_OK)
        atomic_fetch_add(&failed, 1);
}

static void on_acquired(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    waiter *w = arg;

    (void)error;
    if (code == LKS_OK && response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED && !atomic_load(&over)) {
        atomic_fetch_add(&granted, 1);
        release(w);
    } else {
        atomic_fetch_add(&failed, 1);
    }
}

static bool acquire(waiter *w, int64_t wait_ms)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    const lks_call_options options = {.timeout_ms = HOUR_MS};
    lks_error error;

    target.name = w->name;
    request.targets = targets;
    request.n_targets = 1;
    request.token = w->token;
    request.lease_ms = HOUR_MS;
    request.wait_ms = wait_ms;
    lks_code code = wait_ms > 0 ? lks_lock_acquire_start(w->channel, &request, &options, on_acquired, w, NULL, &error)
                                : lks_lock_acquire(w->channel, &request, &options, NULL, &error);
    if (code != LKS_OK)
        fprintf(stderr, "restart: %s\n", error.message);
    return code == LKS_OK;
}

/* ---- what others see -------------------------------------------------------------- */

static bool is_answered(void)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = WITHIN_MS};

    request.name = "another";
    return lks_lock_inspect(prober, &request, &options, NULL, NULL) == LKS_OK;
}

static void *probe(void *arg)
{
    while (!atomic_load(&over)) {
        long long began = process_now_ms();
        if (!is_answered())
            continue;
        long long took = process_now_ms() - began;
        if (took > atomic_load(&longest_ms))
            atomic_store(&longest_ms, took);
    }
    return arg;
}

/* Returns how many calls wait at the server; -1 while it does not answer. */
static long waiting(void)
{
    lks_get_metrics_request request = LKS_GET_METRICS_REQUEST_INIT;
    static const char line[] = "lockstock_calls{state=\"waiting\"} ";
    lks_get_metrics_response *response = NULL;
    long n = -1;

    if (lks_admin_get_metrics(prober, &request, NULL, &response, NULL) == LKS_OK) {
        char *text = strndup((const char *)response->text.data, response->text.len);
        const char *at = text ? strstr(text, line) : NULL;
        n = at ? strtol(at + strlen(line), NULL, 10) : -1;
        free(text);
        lks_get_metrics_response_free(response);
    }
    return n;
}

static bool await_waiting(long n)
{
    long long until = process_now_ms() + WITHIN_MS;

    while (waiting() != n && process_now_ms() < until)
        process_pause();
    return waiting() == n;
}

/* ---- steps ------------------------------------------------------------------------ */

static bool say(const char *step, long long began_ms, bool good)
{
    printf("%-44s %6.2f s, longest answer to another %6.3f s%s\n", step, (double)(process_now_ms() - began_ms) / 1e3,
           (double)atomic_exchange(&longest_ms, 0) / 1e3, good ? "" : ", NOT DONE");
    fflush(stdout);
    return good;
}

static waiter waiter_of(const char *kind, int i, int name)
{
    waiter w = {.channel = channels[i % CHANNELS]};

    snprintf(w.name, sizeof w.name, "name-%06d", name);
    snprintf(w.token, sizeof w.token, "%s-%025d", kind, i);
    return w;
}

static bool start_waiters(waiter *w, int n, int names)
{
    long long began = process_now_ms();
    bool good = true;

    for (int i = 0; i < names && good; i++) {
        waiter holder = waiter_of("holder", i, i);
        good = acquire(&holder, 0);
    }
    for (int i = 0; i < n && good; i++) {
        w[i] = waiter_of("waiter", i, i % names);
        good = acquire(&w[i], HOUR_MS);
    }
    return say("all wait", began, good && await_waiting(n));
}

static bool restart_redis(server_fixture *server, int n)
{
    long long began = process_now_ms();

    kill(server_fixture_redis_pid(server), SIGKILL);
    bool good = is_answered();
    return say("Redis is killed, and all wait again", began, good && await_waiting(n));
}

static bool restart_server(server_fixture *server, int n)
{
    long long began = process_now_ms();

    server_fixture_kill(server);
    bool good = server_fixture_restart(server);
    say("lockstockd is killed, and is ready again", began, good);
    return say("... and all wait again", began, good && await_waiting(n));
}

static bool hand_on(int n, int names)
{
    long long began = process_now_ms();

    for (int i = 0; i < names; i++) {
        waiter holder = waiter_of("holder", i, i);
        release(&holder);
    }
    while (atomic_load(&granted) + atomic_load(&failed) < (unsigned)n && process_now_ms() < began + WITHIN_MS)
        process_pause();
    return say("all are granted, one after another", began,
               atomic_load(&granted) == (unsigned)n && !atomic_load(&failed));
}

int main(int argc, char **argv)
{
    static const char *const args[] = {"--fsync=everysec",
                                       "--waiting=1000000",
                                       "--memory-bytes=2147483648",
                                       "--connections=1000",
                                       "--connections-per-address=1000",
                                       NULL};
    int n = argc > 1 ? atoi(argv[1]) : 100000, names = argc > 2 ? atoi(argv[2]) : 1;
    server_fixture *server = server_fixture_start(&(server_fixture_options){.args = args});
    const lks_channel_options options = {.waiting_max = 1000000, .queue_max = 1000000};
    waiter *w = n > 0 ? calloc((size_t)n, sizeof *w) : NULL;
    pthread_t thread;

    bool good = server && w && names > 0 && lks_channel_open(server_fixture_url(server), NULL, &prober, NULL) == LKS_OK;
    for (int i = 0; i < CHANNELS && good; i++)
        good = lks_channel_open(server_fixture_url(server), &options, &channels[i], NULL) == LKS_OK;
    if (!good || pthread_create(&thread, NULL, probe, NULL) != 0) {
        fprintf(stderr, "usage: restart [waiters] [names]\n");
        return 2;
    }
    good = start_waiters(w, n, names) && restart_redis(server, n) && restart_server(server, n) && hand_on(n, names);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < CHANNELS; i++)
        lks_channel_close(channels[i]);
    lks_channel_close(prober);
    server_fixture_free(server);
    free(w);
    return good ? 0 : 1;
}

/* wait_for_lock URLS FILE ID N: a client with N waiting Acquires of the lock "hot".
 * Each one granted enters the register in FILE, leaves it and releases. On SIGUSR1
 * every third that still waits is cancelled. Says "done GRANTED CANCELLED" when all
 * have ended, and exits 0 unless one ended in another way. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/lock.lks_client.h>

#include "fault/waiting_register.h"

enum { N_MAX = 150, LEASE_MS = 60000, WAIT_MS = 240000 };

typedef struct waiting {
    char token[64];
    lks_call *call;
} waiting;

static lks_channel *channel;
static waiting_register *shared;
static waiting all[N_MAX];
static int n_waiting;
static atomic_int n_ended, n_granted, n_cancelled, n_failed;

/* The main thread counts these. */
static void one_ended(void)
{
    if (atomic_fetch_add(&n_ended, 1) + 1 == n_waiting)
        kill(getpid(), SIGUSR2);
}

static void on_released(void *arg, lks_code code, const lks_release_response *response, const lks_error *error)
{
    (void)arg;
    (void)response;
    if (code != LKS_OK) {
        fprintf(stderr, "release: %s: %s\n", lks_code_name(code), error->message);
        atomic_fetch_add(&n_failed, 1);
    }
    one_ended();
}

static void enter_and_leave(uint64_t fence)
{
    if (atomic_fetch_add(&shared->holders, 1) != 0)
        atomic_fetch_add(&shared->overlaps, 1);
    if (atomic_exchange(&shared->fence, fence) >= fence)
        atomic_fetch_add(&shared->fences_back, 1);
    atomic_fetch_add(&shared->granted, 1);
    atomic_fetch_sub(&shared->holders, 1);
}

static void on_answer(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    waiting *w = arg;
    lks_release_request release = LKS_RELEASE_REQUEST_INIT;

    if (code == LKS_OK && response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED) {
        enter_and_leave(response->fences[0]->fence);
        atomic_fetch_add(&n_granted, 1);
        release.group = "hot";
        release.token = w->token;
        const lks_call_options options = {.timeout_ms = 60000};
        if (lks_lock_release_start(channel, &release, &options, on_released, NULL, NULL, NULL) == LKS_OK)
            return;
        atomic_fetch_add(&n_failed, 1);
    } else if (code == LKS_CANCELLED) {
        atomic_fetch_add(&n_cancelled, 1);
    } else {
        fprintf(stderr, "acquire: %s, outcome %d: %s\n", lks_code_name(code), response ? (int)response->outcome : 0,
                error->message);
        atomic_fetch_add(&n_failed, 1);
    }
    one_ended();
}

static void queue_up(const char *id, int i)
{
    lks_target target = LKS_TARGET_INIT;
    lks_target *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_error error;

    snprintf(all[i].token, sizeof all[i].token, "waiter-%s-%d-of-the-hot-lock", id, i);
    target.name = "hot";
    request.targets = targets;
    request.n_targets = 1;
    request.token = all[i].token;
    request.owner = "wait_for_lock";
    request.lease_ms = LEASE_MS;
    request.wait_ms = WAIT_MS;
    if (lks_lock_acquire_start(channel, &request, NULL, on_answer, &all[i], &all[i].call, &error) != LKS_OK) {
        fprintf(stderr, "start: %s\n", error.message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    sigset_t signals;
    int number = 0;

    if (argc != 5 || (n_waiting = atoi(argv[4])) < 1 || n_waiting > N_MAX || !(shared = waiting_register_map(argv[2])))
        return 2;
    /* Before the channel has threads, which then never take these. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (lks_channel_open(argv[1], NULL, &channel, NULL) != LKS_OK)
        return 2;
    for (int i = 0; i < n_waiting; i++)
        queue_up(argv[3], i);
    while (number != SIGUSR2) {
        sigwait(&signals, &number);
        for (int i = 0; number == SIGUSR1 && i < n_waiting; i += 3)
            lks_call_cancel(all[i].call);
    }
    for (int i = 0; i < n_waiting; i++)
        lks_call_free(all[i].call);
    lks_channel_close(channel);
    printf("done %d %d\n", atomic_load(&n_granted), atomic_load(&n_cancelled));
    return atomic_load(&n_failed) ? 1 : 0;
}

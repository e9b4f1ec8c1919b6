#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crowd.h"
#include "patience.h"
#include "shops.h"

enum { LOOK_MS = 2 };

typedef struct client {
    crowd *crowd;
    shop_side side;
    unsigned index;
    exact_shop *exact;
    atomic_size_t next; /* which of its buyers */
    atomic_bool failed;
} client;

static void wait_until(int64_t ms)
{
    struct timespec moment = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
}

static void *serve(void *arg)
{
    client *c = arg;
    naive_worker *naive = c->side == NAIVE ? naive_open(c->crowd, c->index) : NULL;

    if (c->side == NAIVE && !naive) {
        atomic_store(&c->failed, true);
        return NULL;
    }
    while (atomic_load(&c->crowd->opens_ms) == 0)
        clock_rest(LOOK_MS);
    for (size_t i; (i = atomic_fetch_add(&c->next, 1) * CLIENTS + c->index) < c->crowd->n_buyers;) {
        if (buyer_is_done(crowd_buyer(c->crowd, c->side, i)))
            continue;
        wait_until(crowd_arrival_ms(c->crowd, i));
        if (naive)
            naive_buy(naive, i);
        else
            exact_buy(c->exact, i);
    }
    naive_close(naive);
    return NULL;
}

int client_main(int argc, char **argv)
{
    client c = {.crowd = crowd_attach(CLIENT_CROWD_FD)};
    pthread_t threads[CLIENT_THREADS];
    lks_error error = {0};
    size_t n = 0;

    if (argc != 4 || !c.crowd) {
        fprintf(stderr, "show %s: only show starts this\n", CLIENT_FLAG);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* hiredis writes to a Redis that was killed */
    c.side = strcmp(argv[2], "0") == 0 ? NAIVE : EXACT;
    c.index = (unsigned)strtoul(argv[3], NULL, 10) % CLIENTS;
    if (c.side == EXACT && exact_open(c.crowd, c.index, true, &c.exact, &error) != LKS_OK) {
        fprintf(stderr, "show %s: %s: %s\n", CLIENT_FLAG, lks_code_name(error.code), error.message);
        return 1;
    }
    atomic_fetch_add(&c.crowd->ready, 1);
    while (n < CLIENT_THREADS && pthread_create(&threads[n], NULL, serve, &c) == 0)
        n++;
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    exact_close(c.exact);
    return n == CLIENT_THREADS && !atomic_load(&c.failed) ? 0 : 1;
}

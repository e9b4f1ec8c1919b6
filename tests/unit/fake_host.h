/* What the services that answer as told (lock_fake.h, helpers_fake.h) have in common: a
 * host on a port of its own, and a lock whose changes can be waited for. */
#ifndef LOCKSTOCK_TESTS_FAKE_HOST_H
#define LOCKSTOCK_TESTS_FAKE_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <lockstock/host.h>

typedef struct fake_host {
    lks_host *host;
    char url[64]; /* "nng+tcp://127.0.0.1:PORT" */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits by CLOCK_MONOTONIC */
} fake_host;

/* Serves them from now on, 8 calls at a time. The lock is there before the first call.
 * False, told on stderr, when it cannot: fake_host_close is due in any case. */
bool fake_host_open(fake_host *fake, const lks_rpc_service services[], size_t n);

/* Nothing may be held any more. */
void fake_host_close(fake_host *fake);

/* CLOCK_MONOTONIC: in nanoseconds, and that of a minute later. */
uint64_t fake_host_now_ns(void);
struct timespec fake_host_deadline(void);

#endif

/* Invariant: lock and changed outlive every call. */
#include "fake_host.h"

#include <stdio.h>

enum { AWAIT_S = 60 };

bool fake_host_open(fake_host *fake, const lks_rpc_service services[], size_t n)
{
    const lks_host_options options = {.threads = 8};
    pthread_condattr_t monotonic;
    uint16_t port = 0;
    lks_error error;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&fake->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&fake->lock, NULL);
    lks_code code = lks_host_open(&options, &fake->host, &error);
    for (size_t i = 0; code == LKS_OK && i < n; i++)
        code = lks_host_add(fake->host, &services[i], &error);
    if (code == LKS_OK)
        code = lks_host_listen(fake->host, "nng+tcp://127.0.0.1:0", &port, &error);
    if (code != LKS_OK) {
        fprintf(stderr, "fake_host: %s\n", error.message);
        return false;
    }
    snprintf(fake->url, sizeof fake->url, "nng+tcp://127.0.0.1:%u", port);
    return true;
}

void fake_host_close(fake_host *fake)
{
    lks_host_close(fake->host, 1000);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
}

uint64_t fake_host_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct timespec fake_host_deadline(void)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AWAIT_S;
    return until;
}

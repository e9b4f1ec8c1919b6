/* Asks Redis Sentinel for the primary. Loop thread only.
 *
 * Connects to all sentinels of a set, those of the URL and those that they name, asks each every second and
 * subscribes to +switch-master. The newest configuration (the highest epoch) of the last seconds counts, because a
 * sentinel that was cut off from the others does not know of a failover. If the primary gets a password, an address
 * counts only if most sentinels of the URL name it. */
#ifndef LOCKSTOCK_SERVER_STORE_SENTINELS_H
#define LOCKSTOCK_SERVER_STORE_SENTINELS_H

#include <stdint.h>

#include "store/login.h"
#include "store/types.h"
#include "store/url.h"

struct uv_loop_s;

typedef struct sentinels sentinels;

/* Callbacks run on the loop, never inside a function of this file. */
typedef struct sentinels_options {
    struct uv_loop_s *loop;
    const url *url;          /* hosts and master; this and the next three must outlive the sentinels */
    const login *as;         /* for the sentinels */
    const login *to_primary; /* with a password most sentinels of the URL must name the primary */
    const struct secrets_tls *tls;
    uint32_t connect_timeout_ms;
    /* Called with each answer to a question asked since sentinels_doubt, whether the primary has changed or not. */
    void (*on_primary)(void *arg, const char *host, uint16_t port);
    /* A sentinel has reported that this Redis is no longer the primary. */
    void (*on_demoted)(void *arg, const char *host, uint16_t port);
    /* Called now and then while no sentinel has named a primary since sentinels_doubt. */
    void (*on_unknown)(void *arg, store_fault fault);
    void *arg;
} sentinels_options;

/* Begins as after sentinels_doubt. */
sentinels *sentinels_open(const sentinels_options *options);

/* Names the last primary and its configuration; no other has the same text. Valid until the next on_primary. */
const char *sentinels_generation(const sentinels *sentinels);

/* How many sentinels are known, and how many of those answer. */
void sentinels_count(const sentinels *sentinels, unsigned *known, unsigned *answering);

/* The primary was lost: only answers to questions from now on count, and sentinels are asked often. */
void sentinels_doubt(sentinels *sentinels);

/* The primary serves. */
void sentinels_trust(sentinels *sentinels);

/* Calls nothing back any more but `closed`, on the loop. */
void sentinels_close(sentinels *sentinels, void (*closed)(void *arg), void *arg);

#endif

/* Asks Redis Sentinel for the primary. Loop thread only.
 *
 * Connects to all sentinels of a set, those of the URL and those that they name, asks each every second and
 * subscribes to +switch-master. The newest configuration (the highest epoch) of the last seconds counts, because a
 * sentinel that was cut off from the others does not know of a failover. If the primary gets a password, an address
 * counts only if most sentinels of the URL name it. */
#ifndef LOCKSTOCK_SERVER_STORE_SENTINELS_H
#define LOCKSTOCK_SERVER_STORE_SENTINELS_H

#include <stdint.h>

#include "store/types.h"
#include "store/url.h"

struct close_barrier;
struct uv_loop_s;

typedef struct sentinels sentinels;

/* Callbacks run on the loop, never inside a function of this file. */
typedef struct sentinels_options {
    struct uv_loop_s *loop;
    const url *url;          /* hosts and master; this and the next three must outlive the sentinels */
    const login *as;         /* for the sentinels */
    const login *to_primary; /* with a password: most sentinels of the URL must name the primary */
    const struct secrets_tls *tls;
    uint32_t connect_timeout_ms;
    /* Called with each answer to a question asked since sentinels_recheck, whether the primary has changed or not. */
    void (*on_primary)(void *arg, const char *host, uint16_t port);
    /* A sentinel has reported that this Redis is no longer the primary. */
    void (*on_demoted)(void *arg, const char *host, uint16_t port);
    /* Called repeatedly while no sentinel has named a primary since sentinels_recheck. */
    void (*on_unknown)(void *arg, store_fault fault);
    void *arg;
} sentinels_options;

/* Opens it; begins as after sentinels_recheck. */
sentinels *sentinels_open(const sentinels_options *options);

/* Returns a text that identifies the last primary and its configuration, and no other. Valid until the next
 * on_primary. */
const char *sentinels_generation(const sentinels *sentinels);

/* Counts the known sentinels, and those of them that answer. */
void sentinels_count(const sentinels *sentinels, unsigned *known, unsigned *answering);

/* The primary was lost: from now on only answers to new questions count, and sentinels are asked often. */
void sentinels_recheck(sentinels *sentinels);

/* The primary serves. */
void sentinels_confirm(sentinels *sentinels);

/* Closes it. From now on nothing is called back. `within` counts it until it has closed. */
void sentinels_close(sentinels *sentinels, struct close_barrier *within);

#endif

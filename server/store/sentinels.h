/* Which Redis is the primary, by the word of Redis Sentinel. Loop thread only.
 *
 * It connects to all sentinels of a set, those of the URL and those that they name, asks each every second and hears
 * their +switch-master. What counts is the newest configuration (the highest epoch) that any of them has told in the
 * last seconds: a sentinel that was cut off from the others does not know of a failover. Where the primary is shown a
 * password an address counts only when most sentinels of the URL have named it: one of them alone cannot ask for it. */
#ifndef LOCKSTOCK_SERVER_STORE_SENTINELS_H
#define LOCKSTOCK_SERVER_STORE_SENTINELS_H

#include <stdint.h>

#include "store/login.h"
#include "store/store.h"
#include "store/url.h"

struct uv_loop_s;

typedef struct sentinels sentinels;

/* Callbacks run on the loop, never inside a function of this file. */
typedef struct sentinels_options {
    struct uv_loop_s *loop;
    const url *url;                /* hosts and master; it must outlive it */
    const login *as;               /* to the sentinels; it must outlive it */
    const login *to_primary;       /* the same; with a password most sentinels of the URL have to name a primary */
    const struct secrets_tls *tls; /* the same */
    uint32_t connect_timeout_ms;
    /* The primary, by an answer to a question asked since sentinels_doubt. Told with each such answer, changed or not. */
    void (*on_primary)(void *arg, const char *host, uint16_t port);
    /* A sentinel has said that this one is the primary no more. */
    void (*on_demoted)(void *arg, const char *host, uint16_t port);
    /* Now and then while it is in doubt and nobody names a primary. */
    void (*on_unknown)(void *arg, store_fault fault);
    void *arg;
} sentinels_options;

/* Begins in doubt. */
sentinels *sentinels_open(const sentinels_options *options);

/* The primary that was told last, and the configuration in which it is one: another text for each that ever is.
 * Valid until the next is told. */
const char *sentinels_generation(const sentinels *sentinels);

/* How many are known, and how many of those answer. */
void sentinels_count(const sentinels *sentinels, unsigned *known, unsigned *answering);

/* Something is odd with the primary: only answers to what is asked from now on count, and it is asked often. */
void sentinels_doubt(sentinels *sentinels);

/* The primary serves. */
void sentinels_trust(sentinels *sentinels);

/* `closed` runs on the loop, last; nothing else from here on. */
void sentinels_close(sentinels *sentinels, void (*closed)(void *arg), void *arg);

#endif

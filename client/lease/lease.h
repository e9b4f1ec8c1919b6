/* A lease that is kept and is no lock: of an attempt of lks_once, or of an
 * lks_reservation. It is renewed on the channel's loop thread at each third of its length, or
 * of what is left of it when that is less, a call each time, and is known to be lost before it
 * can have ended. Embedded in what it is of, which lives until nobody refers to it: its owner,
 * the loop thread, a renewal under way. */
#ifndef LOCKSTOCK_CLIENT_LEASE_LEASE_H
#define LOCKSTOCK_CLIENT_LEASE_LEASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>

#include "client/loop/loop.h"
#include "base/heap.h"

#define LEASE_ALWAYS UINT32_MAX

struct lease;

typedef enum lease_answer {
    LEASE_RENEWED,
    LEASE_LOST,   /* a server says that it is not held any more */
    LEASE_UNKNOWN /* the call failed */
} lease_answer;

typedef struct lease_ops {
    /* Starts the call that renews, whose `done` calls lease_answered. */
    lks_code (*renew)(struct lease *lease, uint32_t timeout_ms, lks_error *error);
    /* When nobody refers to it any more; on any thread. */
    void (*free)(struct lease *lease);
} lease_ops;

struct lease {
    /* Constant once it has begun. */
    lks_channel *channel;
    const lease_ops *ops;
    uint32_t lease_ms;
    uint32_t keep_ms;
    uint64_t renew_until_ns;
    bool begun; /* the owner's */

    atomic_uint references;

    pthread_mutex_t lock;
    uint64_t lost_ns; /* from then on it counts as lost; under the lock */
    bool ended;       /* under the lock */

    /* The loop thread's. */
    loop_task start, stop;
    struct timer renewal;
    uint64_t first_ns; /* of the first renewal */
    uint64_t sent_ns;  /* of the renewal under way */
};

/* Before the lease is asked for: sees to it that nothing can go wrong once it is
 * granted. It is to be renewed for keep_ms (0 = not at all). The owner has the one
 * reference, and ends with lease_end. Fails as lks_call_start does, and then `ops->free`
 * does not run. */
lks_code lease_init(struct lease *lease, lks_channel *channel, const lease_ops *ops, uint32_t lease_ms,
                    uint32_t keep_ms, lks_error *error);

/* The lease has left_ms to run, from when sent_ns was. */
void lease_begin(struct lease *lease, uint64_t sent_ns, int64_t left_ms);

/* Loop thread: what became of a renewal. error counts with LEASE_UNKNOWN. */
void lease_answered(struct lease *lease, lease_answer answer, int64_t left_ms, const lks_error *error);

/* Thread-safe. */
bool lease_is_lost(struct lease *lease);

/* Gives the owner's reference up; no renewal starts any more. */
void lease_end(struct lease *lease);

#endif

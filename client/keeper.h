/* Keeps a lease that is no lock: an attempt of lks_once, an lks_reservation. It is
 * renewed on the channel's driver thread at each third of its length, a call each time,
 * and is known to be lost before it can have ended. Embedded in what it keeps, which
 * lives until nobody refers to it: its owner, the driver, a renewal under way. */
#ifndef LOCKSTOCK_CLIENT_KEEPER_H
#define LOCKSTOCK_CLIENT_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>

#include "inbox.h"
#include "timers.h"

#define KEEPER_ALWAYS UINT32_MAX

struct keeper;

typedef enum keeper_answer {
    KEEPER_RENEWED,
    KEEPER_LOST,   /* a server says that it is not held any more */
    KEEPER_UNKNOWN /* the call failed */
} keeper_answer;

typedef struct keeper_ops {
    /* Starts the call that renews, whose `done` calls keeper_answered. */
    lks_code (*renew)(struct keeper *keeper, uint32_t timeout_ms, lks_error *error);
    /* When nobody refers to it any more; on any thread. */
    void (*free)(struct keeper *keeper);
} keeper_ops;

struct keeper {
    /* Constant once it has begun. */
    lks_channel *channel;
    const keeper_ops *ops;
    uint32_t lease_ms;
    uint32_t keep_ms;
    uint64_t renew_until_ns;
    bool begun; /* the owner's */

    atomic_uint references;

    pthread_mutex_t lock;
    uint64_t lost_ns; /* from then on it counts as lost; under the lock */
    bool ended;       /* under the lock */

    /* The driver's. */
    inbox_item start, stop;
    struct timer renewal;
    uint64_t first_ns; /* of the first renewal */
    uint64_t sent_ns;  /* of the renewal under way */
};

/* Before the lease is asked for: sees to it that nothing can go wrong once it is
 * granted. It is to be renewed for keep_ms (0 = not at all). The owner has the one
 * reference, and ends with keeper_end. Fails as lks_call_start does, and then `ops->free`
 * does not run. */
lks_code keeper_init(struct keeper *keeper, lks_channel *channel, const keeper_ops *ops, uint32_t lease_ms,
                     uint32_t keep_ms, lks_error *error);

/* The lease has left_ms to run, from when sent_ns was. */
void keeper_begin(struct keeper *keeper, uint64_t sent_ns, int64_t left_ms);

/* Driver: what became of a renewal. error counts with KEEPER_UNKNOWN. */
void keeper_answered(struct keeper *keeper, keeper_answer answer, int64_t left_ms, const lks_error *error);

/* Thread-safe. */
bool keeper_is_lost(struct keeper *keeper);

/* Gives the owner's reference up; no renewal starts any more. */
void keeper_end(struct keeper *keeper);

#endif

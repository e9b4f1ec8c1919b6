/* Holds (lockstock/hold.h), for hold.c, the locks of threads, and semaphores. */
#ifndef LOCKSTOCK_CLIENT_LEASE_HOLD_H
#define LOCKSTOCK_CLIENT_LEASE_HOLD_H

#include <lockstock/hold.h>

#include "client/lease/grant.h"

/* What is acquired, and how. Constant; must outlive its holds. */
struct hold_spec {
    lks_channel *channel;
    const char *group, *owner;
    const char *const *names;
    size_t n_names;
    int64_t capacity;
    uint32_t lease_ms, renew_ms, max_hold_ms;
    lks_lock_lost *on_lost;
    void *arg;
};

struct lks_hold {
    struct grant grant; /* first */
    const struct hold_spec *spec;
    lks_lock_mode mode;
    int64_t permits;
    uint32_t wait_ms;
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
    lks_hold_done *done; /* NULL = a thread waits */
    lks_hold_released *released;
    void *arg;
    unsigned count; /* how often the holding thread must unlock it; used by that thread only */

    /* Set by the chain, constant once it is settled. */
    lks_lock_result result;
    uint64_t fences[]; /* of the names */
};

/* Fills in the defaults of a spec, except for the owner, and checks it. LKS_INVALID_ARGUMENT: it is invalid. */
lks_code hold_check(struct hold_spec *spec, lks_error *error);

/* Copies a spec into `to`, and what it points to into hold_spec_bytes(from) bytes at `at`. Without an owner it gets
 * "host/pid". */
size_t hold_spec_bytes(const struct hold_spec *from);
void hold_spec_copy(struct hold_spec *to, const struct hold_spec *from, void *at);

/* Acquires on this thread. The error and *ret are set with every result; a hold that is not acquired is freed. */
lks_lock_result hold_take(const struct hold_spec *spec, lks_lock_mode mode, int64_t permits, uint32_t wait_ms,
                          lks_hold **ret, lks_error *error);

/* Releases on this thread and frees. Releases in the background on threads that run callbacks, and for a hold that was
 * lost. Codes as for lks_mutex_unlock. */
lks_code hold_give_back(lks_hold *hold, lks_error *error);

/* The default owner of a lock: "host/pid". */
enum { HOLD_OWNER_BYTES = 128 };
void hold_own_name(char owner[HOLD_OWNER_BYTES + 1]);

/* The lease_kind.watch of every lease of locks. */
lks_code hold_watch(lks_channel *channel, struct lease_watch *watch, lks_error *error);

/* The hold whose on_lost the calling thread runs; NULL: none. */
lks_hold *hold_reporting(void);

/* Waits until no on_lost of a hold of the spec runs. Not inside one. */
void hold_quiesce(const struct hold_spec *spec);

/* Sets *error to LKS_ABORTED: the lock had been lost. */
lks_code hold_set_lost(lks_error *error);

#endif

/* Keeps the leases of locks, of attempts of lks_once, of guards and of reservations. One thread of the process, the
 * keeper, renews all of them and reports lost ones. It starts with the first lease that is expected and ends a second
 * after the last one ended.
 *
 *   EXPECTED --begin--> HELD <--renewed, failed--- RENEWING
 *                         \----renewal is due-----> /
 *   HELD, RENEWING --refused by a server, or expired--> LOST
 *   any --end--> ENDED
 *
 * A lost lease never counts as held again. The functions are thread-safe and, except lease_quiesce, do not block. A
 * lease is a member of the object that it belongs to. */
#ifndef LOCKSTOCK_CLIENT_LEASE_LEASE_H
#define LOCKSTOCK_CLIENT_LEASE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/call.h>
#include <lockstock/channel.h>
#include <lockstock/lease.h>

#include "base/heap.h"

#define LEASE_ALWAYS UINT64_MAX

struct lease;

/* One renewal call. */
struct lease_batch {
    uint64_t sent_ns;
    size_t n;
    struct lease_renewal {
        struct lease *lease;
        int64_t left_ms; /* set by the answer; 0: the lease is lost */
    } renewals[];
};

/* A call that is answered when a lease may have been taken away. */
struct lease_watch {
    struct lease_set *set; /* NULL: no lease is left */
    lks_call *call;
};

typedef struct lease_kind {
    size_t batch_max; /* the most leases of one channel in one call */
    /* Starts the call that renews the batch; its completion sets each left_ms and calls lease_answered. Runs under the
     * keeper's lock: it must not call functions of this header. */
    lks_code (*renew)(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error);
    /* Starts a watch; its completion calls lease_watched. Runs as `renew` does. NULL: leases of this kind are not taken
     * away. */
    lks_code (*watch)(lks_channel *channel, struct lease_watch *watch, lks_error *error);
    /* Runs once on the keeper's thread when a lease is lost that has not ended. It must not block. NULL: not
     * reported. */
    void (*lost)(struct lease *lease, lks_loss_reason reason);
    /* Runs after the last lease_drop, when no renewal and no `lost` uses the lease any more, on any thread, perhaps
     * under the keeper's lock. */
    void (*free)(struct lease *lease);
} lease_kind;

typedef enum lease_state { LEASE_EXPECTED, LEASE_HELD, LEASE_RENEWING, LEASE_LOST, LEASE_ENDED } lease_state;

struct lease {
    /* Constant after lease_expect. */
    const lease_kind *kind;
    lks_channel *channel;
    uint32_t lease_ms;
    uint32_t renew_ms; /* renewed at least this often; 0 = each third of the lease */
    uint64_t keep_ms;  /* how long the lease is renewed; 0 = not at all */

    atomic_uint references;

    /* Under the keeper's lock. */
    struct lease_set *set; /* NULL: it has no timers */
    lease_state state;
    uint64_t lost_ns; /* from then on it counts as lost */
    uint64_t renew_until_ns;
    struct timer renewal, loss;
    lks_loss_reason reason; /* the reason if the lease is lost because it was not renewed */
    size_t batch_max;       /* the most leases in the call that renews it */
};

/* Call it before the lease is requested: reserves memory and starts the thread, so that nothing can fail once the lease
 * is granted. The caller sets kind, channel, lease_ms, renew_ms and keep_ms, and owns one reference. Ends with
 * lease_end and lease_drop. LKS_RESOURCE_EXHAUSTED; LKS_FAILED_PRECONDITION in a forked child. */
lks_code lease_expect(struct lease *lease, lks_error *error);

/* The lease was granted and has left_ms to run, counted from sent_ns, when the request was sent. */
void lease_begin(struct lease *lease, uint64_t sent_ns, int64_t left_ms);

/* The answer to a renewal; error: the call failed, else NULL. Frees the batch. */
void lease_answered(struct lease_batch *batch, const lks_error *error);

/* The answer to a watch; error: the call failed, else NULL. Frees it. */
void lease_watched(struct lease_watch *watch, const lks_error *error);

/* After it returns no renewal starts and `lost` does not begin. Returns whether the lease was lost by then. */
bool lease_end(struct lease *lease);

/* Add and drop a reference. The owner drops its reference after lease_end. */
void lease_ref(struct lease *lease);
void lease_drop(struct lease *lease);

/* The time until it counts as lost unless it is renewed; 0: it is lost, or this is a forked child. */
uint64_t lease_left_ns(const struct lease *lease);

bool lease_is_lost(const struct lease *lease);

/* The lease whose `lost` the calling thread runs; NULL: none. */
struct lease *lease_reporting(void);

/* Waits until no `lost` of a lease for which `is_of(lease, arg)` holds is running. Not inside `lost`. */
void lease_quiesce(bool (*is_of)(const struct lease *lease, const void *arg), const void *arg);

/* LKS_FAILED_PRECONDITION in a forked child, in which no lease is kept. */
lks_code lease_check_process(lks_error *error);

#endif

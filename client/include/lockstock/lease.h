/* The common part of mutexes, read-write locks and semaphores: a lease, which is renewed while it is held, and whose
 * loss is reported.
 *
 * One thread of the process, the keeper, renews all leases at a third of their length, and those of many locks in one
 * call. It starts with the first lease that is requested and ends a second after the last one ended. Lease times are
 * counted on this process' monotonic clock from when the request that began or renewed the lease was sent, so that a
 * holder never trusts its lease longer than the server does: a lock counts as lost one tenth of its lease (1 s at most)
 * before that time is over. If a process may freeze or a clock may fail, the protected resource must check the fence,
 * which refuses late writes of a former holder.
 *
 * Close the channel after its locks were freed. A process that ends releases nothing: its locks end with their leases.
 * A child of fork must exec; until then every function returns LKS_FAILED_PRECONDITION there, nothing is held, and the
 * child neither renews nor releases the parent's locks. A thread that ends without unlocking leaves its locks held, and
 * renewed until max_hold_ms. */
#ifndef LOCKSTOCK_LEASE_H
#define LOCKSTOCK_LEASE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of an attempt to lock. Only 0 means that the caller holds the lock; with other results *error says why. If
 * an earlier try of the call was not answered, BUSY and TIMED_OUT are returned after a Release of what that try may
 * still take; error->applied is MAYBE if no server answers the Release within 1 s, and then it continues in the
 * background. */
typedef enum lks_lock_result {
    LKS_LOCK_ACQUIRED = 0,
    LKS_LOCK_BUSY,      /* others hold the lock, and the timeout was 0 */
    LKS_LOCK_TIMED_OUT, /* others held the lock until the timeout */
    LKS_LOCK_LOST,      /* this thread held it, lost it, and has not unlocked it yet */
    LKS_LOCK_FAILED     /* the call failed: error->code; a grant that arrives late is released */
} lks_lock_result;

typedef enum lks_loss_reason {
    LKS_LOSS_UNRENEWED, /* no server renewed it in time */
    LKS_LOSS_TAKEN,     /* a server reported that it is not held any more */
    LKS_LOSS_MAX_HOLD   /* it was not renewed any more because max_hold_ms had passed */
} lks_loss_reason;

typedef struct lks_lock_loss {
    const char *group; /* valid until the callback returns, like name */
    const char *name;
    uint64_t fence; /* identifies the lost acquisition */
    lks_loss_reason reason;
} lks_lock_loss;

/* Runs once for each acquisition that is lost before it is unlocked, on the keeper
 * thread: it must not block, because no other lease is renewed while it runs. It may unlock the lost lock (the Release
 * is sent in the background, and the thread that held the lock must still unlock it); locking anything, and freeing the
 * lock, is refused. It does not begin after the unlock, and does not run after the free. */
typedef void lks_lock_lost(void *arg, const lks_lock_loss *loss);

typedef struct lks_lock_options {
    const char *group; /* the group of the name; NULL or "" = the name itself; copied */
    const char *owner; /* reported as the holder, at most 128 bytes; NULL = "host/pid"; copied */
    uint32_t lease_ms; /* 10..86,400,000; 0 = 30,000 */
    /* Renewed at least this often, so that the loss of a lock that was taken away is detected within this time; 0 =
     * a third of the lease, which is also the longest. */
    uint32_t renew_ms;
    /* After this time it is not renewed any more, so that it is lost within one further lease; 0 = no limit. */
    uint32_t max_hold_ms;
    lks_lock_lost *on_lost; /* NULL = none. For a lock that one thread takes several times: that of the first time */
    void *arg;
} lks_lock_options;

#ifdef __cplusplus
}
#endif

#endif

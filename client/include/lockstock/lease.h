/* What mutexes, read-write locks and semaphores have in common: a lease, which is
 * kept while it is held, or is known to be lost.
 *
 * One thread a process, the watchdog, renews all leases at a third of their length,
 * those of locks many in one call. It starts with the first lease that is requested and
 * ends a second after the last one was given back. Lease times are counted on this process'
 * monotonic clock from when the request that began or renewed the lease was sent, so
 * that a holder never believes in its lease longer than the server does: a lock counts
 * as lost one tenth of its lease (1 s at most) before that time is over. What must
 * not be done by two even if a process is frozen or a clock runs wild is guarded by
 * the fence, which the protected resource checks.
 *
 * The channel must be closed after the locks on it were freed. A process that ends
 * gives nothing back: its locks end with their leases. A child of fork must exec;
 * until then every function returns LKS_FAILED_PRECONDITION there, nothing is held,
 * and the parent's locks are neither renewed nor released by it. A thread that ends
 * without unlocking leaves its locks held, and renewed until max_hold_ms. */
#ifndef LOCKSTOCK_LEASE_H
#define LOCKSTOCK_LEASE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an attempt to lock ended. Only 0 means that the caller holds it; with anything else *error says why. If an
 * earlier try of the call was not answered, BUSY and TIMED_OUT come after the Release of what that try may still take;
 * error->applied is MAYBE if no server answers the Release within 1 s. Then it continues in the background. */
typedef enum lks_lock_result {
    LKS_LOCK_ACQUIRED = 0,
    LKS_LOCK_BUSY,      /* others hold it, and the timeout was 0 */
    LKS_LOCK_TIMED_OUT, /* others held it until the timeout */
    LKS_LOCK_LOST,      /* this thread held it, lost it, and has not unlocked it yet */
    LKS_LOCK_FAILED     /* the call failed: error->code; should a grant arrive after all, it is given back */
} lks_lock_result;

typedef enum lks_loss_reason {
    LKS_LOSS_UNRENEWED, /* no server renewed it in time */
    LKS_LOSS_TAKEN,     /* a server says that it is not held any more */
    LKS_LOSS_MAX_HOLD   /* max_hold_ms was over, so that it was not renewed any more */
} lks_loss_reason;

typedef struct lks_lock_loss {
    const char *group; /* valid until the callback returns, like name */
    const char *name;
    uint64_t fence; /* which acquisition was lost */
    lks_loss_reason reason;
} lks_lock_loss;

/* Runs once for each acquisition that is lost before it is unlocked, on the watchdog
 * thread: it must not block, for no other lease is renewed while it runs. Unlocking
 * what was lost is legal in it (the Release goes out in the background, and the thread
 * that held it still has its own unlock to do); locking anything, and freeing the lock,
 * is refused. It does not begin after the unlock, and does not run after the free. */
typedef void lks_lock_lost(void *arg, const lks_lock_loss *loss);

typedef struct lks_lock_options {
    const char *group;      /* what the name lives in; NULL or "" = the name itself; copied */
    const char *owner;      /* reported as the holder, at most 128 bytes; NULL = "host/pid"; copied */
    uint32_t lease_ms;      /* 10..86,400,000; 0 = 30,000 */
    uint32_t renew_ms;      /* renewed at least this often, so that a lock taken away is noticed within this time;
                               0 = a third of the lease, which is also the longest */
    uint32_t max_hold_ms;   /* after this it is not renewed any more, so that it is lost within one
                               further lease; 0 = no limit */
    lks_lock_lost *on_lost; /* NULL = none. Of a lock taken several times by one thread: of the first time */
    void *arg;
} lks_lock_options;

#ifdef __cplusplus
}
#endif

#endif

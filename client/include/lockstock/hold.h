/* Locks without a waiting thread: a hold is one grant of one or several locks, and belongs to no thread. It is acquired
 * and released with callbacks, is renewed like every lease (lease.h), and excludes mutexes and read-write locks of the
 * same group and name.
 *
 *     static void granted(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error)
 *     {
 *         if (result == LKS_LOCK_ACQUIRED)
 *             work(arg, lks_hold_fence(hold, 0));
 *         ...
 *     }
 *
 *     const char *const names[] = {"door"};
 *     const lks_hold_options options = {.names = names, .n_names = 1, .wait_ms = 2000};
 *     code = lks_hold_acquire(channel, &options, granted, arg, &hold, &error);
 *
 * Callbacks run once, on the channel's completion thread, never inside the function that starts the operation; a
 * callback that lks_hold_cancel causes runs inside lks_hold_cancel. They must not block. The channel must be closed
 * after its holds were released or freed. All functions are thread-safe, but a hold must not be used while another
 * thread releases or frees it. */
#ifndef LOCKSTOCK_HOLD_H
#define LOCKSTOCK_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>
#include <lockstock/v1/lock.lks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_hold lks_hold;

/* Everything that it points to is copied. */
typedef struct lks_hold_options {
    const char *const *names; /* each 1..128 bytes, once: all or none are acquired */
    size_t n_names;           /* at least 1 */
    const char *group;        /* the group of the names; NULL or "" = the only name itself */
    const char *owner;        /* reported as the holder, at most 128 bytes; NULL = "host/pid" */
    lks_lock_mode mode;       /* 0 = LKS_LOCK_MODE_EXCLUSIVE */
    int64_t permits;          /* for LKS_LOCK_MODE_PERMIT, as is capacity */
    int64_t capacity;
    uint32_t lease_ms;      /* 10..86,400,000; 0 = 30,000 */
    uint32_t renew_ms;      /* as in lks_lock_options */
    uint32_t max_hold_ms;   /* as in lks_lock_options */
    uint32_t wait_ms;       /* how long it may wait in the server's queue; 0 = not at all */
    uint32_t timeout_ms;    /* for everything, including retries; 0 = the channel's, after wait_ms */
    lks_lock_lost *on_lost; /* with the first name and its fence; NULL = none */
    void *arg;              /* of on_lost */
} lks_hold_options;

/* `hold` is that of lks_hold_acquire. LKS_LOCK_ACQUIRED: it is held; any other result: it is not, and *error says why,
 * as for lks_mutex_lock. error is valid until the callback returns. */
typedef void lks_hold_done(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error);

/* Starts to acquire. *ret is set before `done` can run; release it (once held) or free it. On failure nothing
 * was started and `done` does not run: LKS_INVALID_ARGUMENT (no name, several without a group, a lease out of range),
 * LKS_RESOURCE_EXHAUSTED (memory, a thread, the channel's queue is full), LKS_FAILED_PRECONDITION (in a forked child),
 * LKS_CANCELLED (the channel is closing). If the channel is closed before an answer came, `done` gets LKS_LOCK_FAILED
 * and LKS_CANCELLED. Does not block. */
lks_code lks_hold_acquire_sized(lks_channel *channel, const lks_hold_options *options, size_t options_bytes,
                                lks_hold_done *done, void *arg, lks_hold **ret, lks_error *error);

static inline lks_code lks_hold_acquire(lks_channel *channel, const lks_hold_options *options, lks_hold_done *done,
                                        void *arg, lks_hold **ret, lks_error *error)
{
    return lks_hold_acquire_sized(channel, options, sizeof(lks_hold_options), done, arg, ret, error);
}

/* Cancels acquiring: unless `done` has run or is about to, runs it now, on this thread, with LKS_LOCK_FAILED and
 * LKS_CANCELLED. A grant that still arrives is released in the background. Does not block. */
void lks_hold_cancel(lks_hold *hold);

/* code and error are those of lks_mutex_unlock. */
typedef void lks_hold_released(void *arg, lks_code code, const lks_error *error);

/* Releases a hold and frees it, except in a forked child. `done` may be NULL. LKS_OK: `done` runs when a server has
 * answered, or has not answered within timeout_ms (0 = the channel's, which is also the longest); then the Release
 * continues in the background, for a day at most. With another code `done` does not run, and the Release could not be
 * started: the locks end with their lease. LKS_FAILED_PRECONDITION, in a forked child: nothing is done or freed. Does
 * not block. */
lks_code lks_hold_release(lks_hold *hold, uint32_t timeout_ms, lks_hold_released *done, void *arg, lks_error *error);

/* True unless it is held and its lease is valid. Does not block, sends nothing. */
bool lks_hold_is_lost(const lks_hold *hold);

/* How long it cannot count as lost even without a renewal, in whole milliseconds. 0 when it is lost, or less is left.
 * Does not block, sends nothing. */
uint32_t lks_hold_left_ms(const lks_hold *hold);

/* The fence of the i-th name, greater than that of every earlier holder; 0 when it was not acquired or there is no i-th
 * name. */
uint64_t lks_hold_fence(const lks_hold *hold, size_t i);

/* Frees a hold, and releases it in the background if it is held. Must not be called before `done` has run, nor inside
 * on_lost. Takes NULL. */
void lks_hold_free(lks_hold *hold);

#ifdef __cplusplus
}
#endif

#endif

/* A semaphore over processes and machines: at most `capacity` permits are held at a time. Each acquisition is a
 * separate permit object that belongs to no thread: another thread may release it, and it is not reentrant (a thread
 * that acquires twice takes permits twice). It is renewed by the keeper and may be lost, like every lease (lease.h).
 *
 *     LKS_PERMIT lks_permit *permit = NULL;
 *     if (lks_semaphore_acquire(semaphore, 1, 2000, &permit, &error) == LKS_LOCK_ACQUIRED)
 *         work();
 *
 * All functions are safe to call from all threads. */
#ifndef LOCKSTOCK_SEMAPHORE_H
#define LOCKSTOCK_SEMAPHORE_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/lease.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_semaphore lks_semaphore;
typedef struct lks_permit lks_permit;

/* As lks_mutex_new. `capacity` is 1..2^53-1, and must be the same for all users of the name while anyone holds a permit
 * or waits for one. */
lks_code lks_semaphore_new_sized(lks_channel *channel, const char *name, int64_t capacity,
                                 const lks_lock_options *options, size_t options_bytes, lks_semaphore **ret,
                                 lks_error *error);

static inline lks_code lks_semaphore_new(lks_channel *channel, const char *name, int64_t capacity,
                                         const lks_lock_options *options, lks_semaphore **ret, lks_error *error)
{
    return lks_semaphore_new_sized(channel, name, capacity, options, sizeof(lks_lock_options), ret, error);
}

/* Takes `permits` (1..capacity) together, or none; blocks like lks_mutex_lock. On LKS_LOCK_ACQUIRED *ret is set; the
 * caller releases it. LKS_LOCK_FAILED with LKS_FAILED_PRECONDITION: another capacity is in use. */
lks_lock_result lks_semaphore_acquire(lks_semaphore *semaphore, int64_t permits, uint32_t timeout_ms, lks_permit **ret,
                                      lks_error *error);

/* Releases and frees it. Blocks until the server has answered, except on threads that run callbacks. Codes as for
 * lks_mutex_unlock; LKS_FAILED_PRECONDITION, in a forked child: nothing is done or freed. Takes NULL. */
lks_code lks_permit_release(lks_permit *permit, lks_error *error);

/* Whether it was lost, so that others may hold its permits. As lks_mutex_is_lost. */
bool lks_permit_is_lost(const lks_permit *permit);

/* Its fence, which is also passed to on_lost; never 0. */
uint64_t lks_permit_fence(const lks_permit *permit);

/* As lks_mutex_free; its permits must have been released. */
lks_code lks_semaphore_free(lks_semaphore *semaphore);

/* The scoped form: releases *permit, if it is not NULL, and sets it to NULL. */
void lks_permit_cleanup(lks_permit **permit);

#if defined(__GNUC__)
#define LKS_PERMIT __attribute__((cleanup(lks_permit_cleanup)))
#endif

#ifdef __cplusplus
}
#endif

#endif

/* What tests of the lock library share: a LockService that answers as told, a channel
 * to it, mutexes in one line, and a witness of losses. Main thread only, but for
 * see_loss. */
#ifndef LOCKSTOCK_TESTS_MUTEX_FIXTURE_H
#define LOCKSTOCK_TESTS_MUTEX_FIXTURE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

#include "unit/fake_service.h"

/* LEASE_MS is for what must not be lost however busy the machine is. */
enum { LEASE_MS = 6000, SHORT_MS = 2000 };

extern fake_service *fake;
extern lks_channel *channel;

int setup(void **state);
int teardown(void **state);

/* What was seen of losses. */
struct witness {
    pthread_mutex_t lock;
    pthread_cond_t told;
    size_t times;
    /* The last. */
    char name[40];
    uint64_t fence;
    lks_loss_reason reason;
    /* What is tried in the callback, and what came of it. */
    lks_mutex *unlocks, *locks, *frees, *other;
    lks_code unlocked, unlocked_other, freed;
    lks_lock_result locked;
};

#define WITNESS_INIT                                                        \
    {                                                                       \
        .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER \
    }

/* An on_lost whose arg is a witness. */
void see_loss(void *arg, const lks_lock_loss *loss);

size_t times_told(struct witness *witness);

/* Blocks until it was told of a loss; fails the test after so many seconds. */
void await_loss_for(struct witness *witness, int seconds);
void await_loss(struct witness *witness);

/* lease_ms 0 is the default; witness may be NULL. These fail the test when they cannot. */
lks_mutex *new_mutex(const char *name, uint32_t lease_ms, struct witness *witness);
lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct witness *witness);
void unlock_and_free(lks_mutex *mutex, lks_code code);

/* Of a lock whose loss is nothing to the test. */
void unlock_held_or_lost(lks_mutex *mutex);

/* n locked mutexes "lock-0"...; to be freed with free_mutexes, which wants them held. */
lks_mutex **new_locked_mutexes(size_t n, uint32_t lease_ms, struct witness *witness);
void free_mutexes(lks_mutex **mutexes, size_t n);

uint64_t now_ns(void);

/* Blocks until so long after an instant: what is tested takes that time. */
void let_pass(uint64_t from_ns, uint64_t ms);

#endif

/* What tests of the lock library share: mutexes in one line, and a witness of losses. Main thread only, but for
 * see_loss. */
#ifndef LOCKSTOCK_TESTS_MUTEX_FIXTURE_H
#define LOCKSTOCK_TESTS_MUTEX_FIXTURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "unit/helpers_fixture.h"

/* LEASE_MS is for what must not be lost however busy the machine is. */
enum { LEASE_MS = 6000, SHORT_MS = 2000 };

/* What was seen of losses; zero at first. */
struct witness {
    atomic_size_t times;
    /* The last. */
    char name[40];
    uint64_t fence;
    lks_loss_reason reason;
};

/* An on_lost whose arg is a witness. */
void see_loss(void *arg, const lks_lock_loss *loss);

/* Blocks until a loss was reported; ctest ends the test if that never happens. */
void await_loss(const struct witness *witness);

/* lease_ms 0 is the default; witness may be NULL. These fail the test when they cannot. */
lks_mutex *new_mutex(const char *name, uint32_t lease_ms, struct witness *witness);
lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct witness *witness);
void lock(lks_mutex *mutex);
void unlock_and_free(lks_mutex *mutex, lks_code code);

/* For a lock whose loss does not matter to the test. */
void free_held_or_lost(lks_mutex *mutex);

/* n locked mutexes "lock-0"...; to be freed with free_mutexes, which wants them held. */
lks_mutex **new_locked_mutexes(size_t n, uint32_t lease_ms, struct witness *witness);
void free_mutexes(lks_mutex **mutexes, size_t n);

/* Blocks until so long after an instant of clock_now_ns: what is tested takes that time. */
void let_pass(uint64_t from_ns, uint64_t ms);

#endif

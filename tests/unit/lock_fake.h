/* A LockService that grants everything and answers as told, for tests of the lock
 * library: what it was asked, in which calls, and what becomes of a holder whose
 * server is slow, dumb or says no. All functions are thread-safe. */
#ifndef LOCKSTOCK_TESTS_LOCK_FAKE_H
#define LOCKSTOCK_TESTS_LOCK_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/v1/lock.lks.h>

typedef enum fake_method { FAKE_ACQUIRE, FAKE_RENEW, FAKE_RELEASE, FAKE_METHODS } fake_method;

/* One lock that was asked for, renewed or released. */
typedef struct fake_event {
    fake_method method;
    size_t call; /* the how many-th of its method, from 0 */
    char group[40], name[40], token[40], owner[160];
    lks_lock_mode mode;
    int64_t permits, capacity, lease_ms, wait_ms;
    uint64_t at_ns; /* when it came */
} fake_event;

/* How it answers; all 0 = it grants, renews and releases. */
typedef struct fake_manner {
    lks_acquire_outcome acquired; /* 0 = ACQUIRED */
    lks_release_outcome released; /* 0 = RELEASED */
    lks_code fails[FAKE_METHODS]; /* calls of the method, with this code */
    lks_applied applied;          /* of those; 0 = NO */
    uint32_t fail_times;          /* so many of those calls, then no more; 0 = all */
    uint32_t retry_after_ms;      /* told with those */
    bool holds[FAKE_METHODS];     /* answers them only in another manner */
    uint32_t acquire_delay_ms;    /* answers late */
    const char *lost;             /* group whose renewal says LOST */
    const char *poison;           /* group that makes a Renew fail that it is in */
    size_t leases_max;            /* of one Renew, more fail; 0 = 256 */
} fake_manner;

typedef struct lock_fake lock_fake;

/* NULL when it cannot. */
lock_fake *lock_fake_start(void);

/* Answers what it holds, ends. Takes NULL. */
void lock_fake_stop(lock_fake *fake);

/* "nng+tcp://127.0.0.1:PORT" */
const char *lock_fake_url(const lock_fake *fake);

/* From now on. What it holds is looked at again. */
void lock_fake_behave(lock_fake *fake, fake_manner manner);

/* Calls of a method so far. */
size_t lock_fake_calls(lock_fake *fake, fake_method method);

/* Events of a method and group so far; NULL = of all groups. */
size_t lock_fake_seen(lock_fake *fake, fake_method method, const char *group);

/* Blocks until there are `n` of those; false after a minute. */
bool lock_fake_await(lock_fake *fake, fake_method method, const char *group, size_t n);

/* The i-th of those, from 0; there must be one. */
fake_event lock_fake_event(lock_fake *fake, fake_method method, const char *group, size_t i);

#endif

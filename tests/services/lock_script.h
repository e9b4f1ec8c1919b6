/* LockService as a script: each call of a test is one line, and what it answers
 * is one line of text in the contract's own words, to be compared as such.
 *
 *     says(acquire("T1", "a b:S"), "ACQUIRED");
 *     says(acquire("T2", "a"), "BUSY a held by T1");
 *
 * "T1" is short for a token of 16 bytes and is also its holder's owner. Targets
 * are words: name (EXCLUSIVE), name:S, name:P<permits>/<capacity>. All is in the
 * group "g". A call that fails says its code, applied and message. Text lives
 * until the harness is reset. Main thread only. */
#ifndef LOCKSTOCK_TESTS_LOCK_SCRIPT_H
#define LOCKSTOCK_TESTS_LOCK_SCRIPT_H

#include "lockstock/v1/lock.lks.h"
#include "services/script.h"

/* The lease of acquire and renew. Tests stay hundreds of seconds away from its
 * end, on either side, so that the time they take themselves is of no matter. */
enum { LEASE_MS = 1000000 };

/* The last response of each kind, for what the line does not say. */
extern const lks_acquire_response *acquired;
extern const lks_renew_response *renewed;
extern const lks_inspect_response *inspected;

/* "ACQUIRED", "ACQUIRED again", "BUSY a held by T1", "TOKEN_SPENT" */
const char *acquire(const char *token, const char *targets);
const char *acquire_for(const char *token, const char *targets, int64_t lease_ms);

/* The request of acquire, valid until the next one; and what its answer says. */
const lks_acquire_request *acquire_request(const char *token, const char *targets, int64_t lease_ms, int64_t wait_ms);
const char *acquire_line(const lks_acquire_response *response);

/* The fence that the last acquire was given for its first target. */
uint64_t fence(void);

/* names are words, "" = all. "RENEWED", "LOST" */
const char *renew(const char *token, const char *names);
const char *renew_for(const char *token, const char *names, int64_t lease_ms);

/* "RELEASED", "RELEASED again", "NOT_HELD", "NOT_HELD a=RELEASED b=NOT_HELD" */
const char *release(const char *token, const char *names);

/* "FREE", "EXCLUSIVE T1", "SHARED T1 T2", "PERMIT/5 T1=2 T2=1" */
const char *inspect(const char *name);

/* The holders removed: "T1 T2" */
const char *force_release(const char *name);

/* "OK 7", "STALE 7" */
const char *check_fence(const char *resource, uint64_t value);

/* What the register held before: "7" */
const char *reset_fence(const char *resource, uint64_t value);

#endif

/* A grant: something that a chain of calls obtains from a server and that a lease keeps. It is the first member of a
 * hold of locks, an attempt of lks_once, an entry and a reservation. Each answer decides which call comes next.
 *
 *   ASKING --grant_settle: the caller gets the result--> SETTLED
 *      \-----grant_cancel: the caller gave up----------> CANCELLED
 *
 * A chain that was CANCELLED gives back what it obtains. */
#ifndef LOCKSTOCK_CLIENT_LEASE_GRANT_H
#define LOCKSTOCK_CLIENT_LEASE_GRANT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/call.h>

#include "client/lease/lease.h"

typedef enum grant_state { GRANT_ASKING, GRANT_SETTLED, GRANT_CANCELLED } grant_state;

struct grant {
    struct lease lease; /* its references are those of the whole object: the owner's, and one for each call under way */
    bool waits;         /* a thread waits, and calls run on it, which is fastest; constant while a call is under way */
    _Atomic grant_state state;
    uint64_t until_ns; /* for all calls together; CLOCK_NEVER: each call has the channel's timeout */
    uint64_t sent_ns;  /* of the request that began or confirmed the lease */

    pthread_mutex_t lock;
    lks_call *call; /* the call that a cancel ends; under the lock */
};

/* The answer to a call of a chain: on the completion thread, or in grant_call when the grant waits. `response` is NULL
 * unless code is LKS_OK. */
typedef void grant_next(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error);

/* timeout_ms of the whole chain; 0 = the channel's for each call. The lease's constant fields must be set. Fails as
 * lease_expect does; then only grant_fini must be called. */
lks_code grant_init(struct grant *grant, bool waits, uint32_t timeout_ms, lks_error *error);

/* For the lease's `free`. */
void grant_fini(struct grant *grant);

typedef enum grant_call_kind {
    GRANT_TAKES,     /* a cancel ends it; it fails with CANCELLED if the grant is already cancelled */
    GRANT_CONTINUES, /* a cancel does not end it */
    GRANT_GIVES_BACK /* like GRANT_CONTINUES, in the background, also when the grant waits */
} grant_call_kind;

/* Makes the next call of the chain. If the call cannot start, this function fails, and `next` does not run. */
lks_code grant_start(struct grant *grant, grant_call_kind kind, const lks_rpc_method *method,
                     const ProtobufCMessage *request, const lks_call_options *options, grant_next *next,
                     lks_error *error);

/* Does the same; `next` also gets the error of a call that cannot start. */
void grant_call(struct grant *grant, grant_call_kind kind, const lks_rpc_method *method,
                const ProtobufCMessage *request, const lks_call_options *options, grant_next *next);

/* The timeout of a call: the rest of the chain's time, but `most_ms` at most; most_ms 0: the channel's timeout. */
uint32_t grant_timeout_ms(const struct grant *grant, uint64_t most_ms);

/* How long the call that ends a grant is tried: as long as the lease, because work whose result is not stored is done
 * again; least_ms at least. */
uint32_t grant_end_timeout_ms(const struct grant *grant, uint32_t least_ms);

/* Sets and returns the timeout of the call that ends the grant, which is from now on that of the chain: timeout_ms, the
 * channel's at most; 0: grant_end_timeout_ms. */
uint32_t grant_begin_end(struct grant *grant, uint32_t timeout_ms);

/* The timeout of the chain's first call, in which the server waits for wait_ms; 0 = the channel's default. */
uint32_t grant_first_timeout_ms(const struct grant *grant, uint32_t wait_ms);

/* Returns true once: the caller must get the result. False: it was cancelled. */
bool grant_settle(struct grant *grant);

/* Returns true once, unless the grant is settled: the caller then reports *error, which is CANCELLED. */
bool grant_cancel(struct grant *grant, lks_error *error);

/* Whether an answer came so late that the lease, counted from the sending, may have ended, so that a renewal must
 * confirm it. Then sets sent_ns for the renewal. */
bool grant_needs_confirmation(struct grant *grant);

#endif

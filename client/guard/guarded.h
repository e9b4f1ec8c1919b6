/* A call with guards around it. Entering (guard.c) and leaving (leave.c) are chains of asynchronous calls; what
 * the caller is told instead of the handler's answer is an `answer` (answer.c).
 *
 *   ENTERING --Check, Begin, Acquire--> ADMITTED --leave: Release, Complete or Fail--> LEFT
 *       \--a guard refuses, or cancel--> REFUSED                                                        */
#ifndef LOCKSTOCK_CLIENT_GUARD_GUARDED_H
#define LOCKSTOCK_CLIENT_GUARD_GUARDED_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/call.h>
#include <lockstock/guard.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>

#include "client/guard/keys.h"
#include "client/lease/lease.h"

enum { GUARD_LIMIT_KEY_MAX = 128, GUARD_CALL_KEY_MAX = 255, GUARD_NAME_MAX = 128 };

/* What the caller is told. Neither `body` nor `outcome`: the error, or, without a code, what the handler said. */
typedef struct guard_answer {
    lks_error error;
    int outcome;   /* of the response's field; 0 = none */
    uint8_t *body; /* the packed response of an earlier call; NULL = none */
    size_t body_len;
    bool replays; /* `body` counts, which may be empty */
} guard_answer;

typedef enum guard_state { GUARD_ENTERING, GUARD_ADMITTED, GUARD_REFUSED } guard_state;

/* One guard's lease; `granted` is the chain's own. */
struct guard_lease {
    struct lease lease;
    lks_guarded *of;
    bool granted, ended;
    uint64_t sent_ns; /* of the request that began or confirmed it */
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
};

struct lks_guarded {
    /* Constant. */
    lks_channel *channel;
    const lks_rpc_guard *guard;
    const lks_rpc_method *method;
    uint64_t deadline_ns;
    bool unanswered_before; /* lks_guard_enter's */
    char *limit_key, *key;  /* NULL without the guard; key: of the idempotency guard */
    char *names[GUARD_NAMES_MAX];
    size_t n_names;
    uint8_t fingerprint[GUARD_FINGERPRINT_BYTES];

    atomic_uint references; /* the owner's, one a lease, one a call under way */

    pthread_mutex_t lock;
    guard_state state; /* under the lock */
    bool cancelled;    /* under the lock */
    lks_call *call;    /* of the entering chain, when a cancel is to end it; under the lock */
    lks_guard_done *done;
    void *arg;

    /* The chain's. */
    struct guard_lease attempt, locks;
    int64_t number; /* of the attempt */
    uint64_t fence;
    uint64_t fences[GUARD_NAMES_MAX];
    guard_answer answer;      /* under the lock while entering */
    lks_stored_result result; /* of the handler; its body is malloc's */
    atomic_uint leaving;      /* calls that lks_guard_leave waits for */
};

void guarded_ref(lks_guarded *guarded);
void guarded_unref(lks_guarded *guarded);

/* ---- leases.c ---- */

/* Before anything is sent: sees to it that nothing can go wrong once a lease is granted. Fails as lks_call_start
 * does; what was made so far is to be ended. */
lks_code guarded_expect(lks_guarded *guarded, lks_error *error);

/* Ends a lease's renewals, once; also of a guard that there is not. */
void guarded_end(struct guard_lease *lease);

/* The requests that keep the leases, and what is left of the locks' one by the answer, 0: it is lost. All point into
 * guarded. */
lks_extend_request guarded_extend(const lks_guarded *guarded);
lks_lease guarded_renewal(lks_guarded *guarded);
int64_t guarded_renewed_ms(const lks_renew_response *response);

/* The group that the locks are in. */
const char *guarded_group(const lks_guarded *guarded);

/* ---- guard.c ---- */

/* What may be used until the call's deadline, `most` at most, so that its answer still comes in time. 0: nothing. */
uint32_t guarded_usable_ms(const lks_guarded *guarded, uint64_t most);

/* Releases the locks in the background. */
void guarded_release(const lks_guarded *guarded);

/* ---- answer.c ---- */

/* "buyer_id", "order.id and order.shop": paths as a text names them. */
void guard_paths(const char *const *paths, char *text, size_t size);

/* The error that a guard's call which failed becomes: of the guard's making, not the caller's. */
void guard_failed(const char *guard, const lks_error *why, lks_error *error);

/* Makes an answer of what an attempt stored: the response, or the error. LKS_RESOURCE_EXHAUSTED as its error: no
 * memory. LKS_INTERNAL: stored is NULL, or cannot be read. */
void guard_replay(const lks_stored_result *stored, guard_answer *answer);

/* The result of a handler as it is stored: a response's bytes, or its error. *body is to be freed; false: no memory. */
bool guard_store(lks_code code, const ProtobufCMessage *response, const lks_error *error, uint8_t **body, size_t *len);

/* Whether a handler that failed so has answered for good: a repeat gets the same. */
bool guard_is_final(lks_code code, lks_applied applied);

#endif

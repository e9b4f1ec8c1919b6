/* A call with guards around it. Entering (guard.c) and leaving (leave.c) are asynchronous operations of liblockstock's
 * public interface (lockstock/entry.h); an `answer` (answer.c) is what the caller gets instead of the handler's answer.
 *
 *   ENTERING --> ADMITTED --lks_guarded_leave--> LEAVING
 *       \--a guard refuses, or lks_guard_cancel--> REFUSED */
#ifndef HOST_GUARD_GUARDED_H
#define HOST_GUARD_GUARDED_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/entry.h>
#include <lockstock/guard.h>

#include "host/guard/keys.h"

enum { GUARD_LIMIT_KEY_MAX = 128, GUARD_CALL_KEY_MAX = 255, GUARD_NAME_MAX = 128 };

/* What the caller gets. Neither `replays` nor `outcome`: the error, or, without a code, what the handler answered. */
typedef struct guard_answer {
    lks_error error;
    int outcome;   /* of the response's field; 0 = none */
    bool replays;  /* `body` counts, which may be empty */
    uint8_t *body; /* the packed response of an earlier call; NULL = none */
    size_t body_len;
} guard_answer;

typedef enum guard_state { GUARD_ENTERING, GUARD_ADMITTED, GUARD_LEAVING, GUARD_REFUSED } guard_state;

struct lks_guarded {
    /* Constant. */
    lks_channel *channel;
    const lks_rpc_guard *guard;
    const lks_rpc_method *method;
    uint64_t deadline_ns;
    bool unanswered_before; /* lks_guarded_enter's */
    char *limit_key, *key;  /* NULL without the guard; key: of the idempotency guard */
    char *names[GUARD_NAMES_MAX];
    size_t n_names;
    uint8_t fingerprint[GUARD_FINGERPRINT_BYTES];

    atomic_uint references; /* the owner's, one for the operation under way */

    /* Under the lock until it is ADMITTED or REFUSED. */
    pthread_mutex_t lock;
    guard_state state;
    lks_entry *entry; /* NULL: not started, left, or admitted because nobody could be asked */
    guard_answer answer;

    lks_guard_done *done;
    void *arg;
};

void guarded_ref(lks_guarded *guarded);
void guarded_unref(lks_guarded *guarded);

/* How much time is left until the call's deadline, so that its answer still arrives in time; at least 1. */
uint32_t guarded_usable_ms(const lks_guarded *guarded);

/* ---- answer.c ---- */

/* "buyer_id", "order.id and order.shop": paths as a text names them. */
void guard_paths(const char *const *paths, char *text, size_t size);

/* That of the guard's parts; "": each has its own. */
const char *guard_group(const lks_rpc_guard *guard);

/* The error that a failed call of the guards becomes: their fault, not the caller's. */
void guard_failed(const lks_rpc_guard *guard, const lks_error *why, lks_error *error);

/* Makes an answer of what an attempt stored: the response, or the error. LKS_RESOURCE_EXHAUSTED as its error: no
 * memory. LKS_INTERNAL: it cannot be read. */
void guard_replay(const lks_stored_result *stored, guard_answer *answer);

/* The result of a handler as it is stored: a response's bytes, or its error. *body is to be freed; false: no memory. */
bool guard_store(lks_code code, const ProtobufCMessage *response, const lks_error *error, uint8_t **body, size_t *len);

/* Whether the answer of a handler that failed so is final: a repeat gets the same. */
bool guard_is_final(lks_code code, lks_applied applied);

#endif

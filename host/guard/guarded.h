/* A call with guards around it. Entering (guard.c) and leaving (leave.c) are asynchronous operations of liblockstock's
 * public interface (lockstock/entry.h); an `answer` (answer.c) replaces the handler's answer.
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

/* The answer to the caller. Without `replays` and `outcome`: the error, or, if its code is LKS_OK, the answer of the
 * handler. */
typedef struct guard_answer {
    lks_error error;
    int outcome;   /* the value of the response's outcome field; 0 = none */
    bool replays;  /* the answer is `body`, which may be empty */
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

    atomic_uint references; /* the owner's, and one for the operation under way */

    /* Under the lock until it is ADMITTED or REFUSED. */
    pthread_mutex_t lock;
    guard_state state;
    lks_entry *entry; /* NULL: not started, left, or admitted because no server could be asked */
    guard_answer answer;

    lks_guard_done *done;
    void *arg;
};

void guarded_ref(lks_guarded *guarded);
void guarded_unref(lks_guarded *guarded);

/* The time for guards, such that the answer still arrives before the call's deadline; at least 1. */
uint32_t guarded_usable_ms(const lks_guarded *guarded);

/* ---- answer.c ---- */

/* Writes paths for a message: "buyer_id", "order.id and order.shop". */
void guard_paths(const char *const *paths, char *text, size_t size);

/* The group of the guard's parts; "": each has its own. */
const char *guard_group(const lks_rpc_guard *guard);

/* Converts the error of a failed call of the guards to one that blames the server, not the caller. */
void guard_failed(const lks_rpc_guard *guard, const lks_error *why, lks_error *error);

/* Makes an answer from the stored result of an attempt: the response, or the error. Its error is LKS_RESOURCE_EXHAUSTED
 * when out of memory, LKS_INTERNAL when the result cannot be read. */
void guard_replay(const lks_stored_result *stored, guard_answer *answer);

/* Packs the result of a handler to store it: the response, or the error. The caller frees *body. False: out of
 * memory. */
bool guard_store(lks_code code, const ProtobufCMessage *response, const lks_error *error, uint8_t **body, size_t *len);

/* Whether the failure of a handler is final, so that a repeated call gets the same answer. */
bool guard_is_final(lks_code code, lks_applied applied);

#endif

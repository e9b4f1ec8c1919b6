/* Faults of the store, and what Redis' error replies mean for a call. */
#ifndef LOCKSTOCK_SERVER_STORE_ERRORS_H
#define LOCKSTOCK_SERVER_STORE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "store/types.h"

struct redisReply;

#define STORE_FAULT(word, text) ((store_fault){LKS_REASON_##word, (text)})

enum { KEPT_FAULT_BYTES = 640 };

/* A fault with a copy of its text; zeroed: none. */
typedef struct kept_fault {
    lks_reason reason;
    char text[KEPT_FAULT_BYTES];
} kept_fault;

/* Copies the fault, which may be the kept one. Returns whether its text is new. */
bool fault_keep(kept_fault *kept, store_fault fault);

/* Returns the kept fault. Valid until the next fault_keep. */
store_fault fault_of(const kept_fault *kept);

/* What the store does about an error reply. */
typedef enum errors_action {
    ERRORS_FAIL,      /* the call ends with the row's code */
    ERRORS_DOWN,      /* FAIL, and another node may know the owner of the slot */
    ERRORS_FORBIDDEN, /* FAIL; other calls may be permitted */
    ERRORS_DENIED,    /* FAIL, and the connection cannot be used */
    ERRORS_RETRY,     /* the call is sent again after a pause, within its deadline */
    ERRORS_MOVING,    /* RETRY; the reply names the slot that moves */
    ERRORS_MOVED,     /* RETRY at the node that the reply names, at once if it is known */
    ERRORS_ELSEWHERE, /* RETRY on another connection */
    ERRORS_RELOAD     /* the function library is loaded again, and the call sent again once */
} errors_action;

#define ERRORS_SLOT_MOVES \
    "the group's slot is moving to another node of the store, and cannot be used until it has moved"

typedef struct errors_row {
    const char *prefix; /* the reply's first words */
    errors_action action;
    lks_code code;
    lks_applied applied;
    uint32_t retry_after_ms;
    lks_reason reason;
    const char *message; /* for the caller; Redis' own text may quote arguments */
} errors_row;

/* Returns the row of an error reply; for one that is not listed, INTERNAL and MAYBE. Static, never NULL. Pure. */
const errors_row *errors_find(const char *text, size_t len);

store_fault errors_fault(const errors_row *row);

/* Returns the fault of an error reply; of another reply STORE_MISFIT with this text. */
store_fault errors_of_reply(const struct redisReply *reply, const char *otherwise);

#endif

/* What Redis' error replies mean for a call. */
#ifndef LOCKSTOCK_SERVER_STORE_ERRORS_H
#define LOCKSTOCK_SERVER_STORE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define STORE_FAULT(word, text) ((store_fault){LKS_REASON_##word, (text)})

/* What the store does about it, beside ending the call or not. */
typedef enum errors_action {
    ERRORS_FAIL,      /* the call ends with the row's code */
    ERRORS_DOWN,      /* the same, and another node may know who serves the slot */
    ERRORS_FORBIDDEN, /* the same; others may be permitted */
    ERRORS_DENIED,    /* the same, and the connection is of no use: not ready */
    ERRORS_RETRY,     /* the call is sent again after a pause, within its deadline */
    ERRORS_MOVING,    /* the same, and the reply names the slot that moves */
    ERRORS_MOVED,     /* the same, at the node that the reply names, at once where that is known */
    ERRORS_ELSEWHERE, /* the same, on another connection */
    ERRORS_RELOAD     /* the function library is loaded again, then the call sent again, once */
} errors_action;

#define ERRORS_SLOT_MOVES "the group's slot is moving to another node of the store, and is not used until it has moved"

typedef struct errors_row {
    const char *prefix; /* the reply's first words */
    errors_action action;
    lks_code code;
    lks_applied applied;
    uint32_t retry_after_ms;
    lks_reason reason;
    const char *message; /* for the caller: never Redis' own text, which may quote arguments */
} errors_row;

/* The row for an error reply's text; for one that is not listed, INTERNAL and
 * MAYBE. Never NULL, static. Pure. */
const errors_row *errors_find(const char *text, size_t len);

/* What a row says. */
store_fault errors_fault(const errors_row *row);

#endif

/* The current faults of the server: one list for the log, GetStatus, the health service and the service manager. Loop
 * thread only. */
#ifndef LOCKSTOCK_SERVER_CONDITIONS_H
#define LOCKSTOCK_SERVER_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/reason.h>

/* What a condition is about. There is at most one condition for each. */
typedef enum condition_about {
    CONDITION_STORE,
    CONDITION_LOCK_STORE,
    CONDITION_CERTIFICATE,
    CONDITION_SERVERS,
    CONDITION_DATA, /* lasts until the server ends */
    CONDITIONS
} condition_about;

enum { CONDITION_TEXT_BYTES = 640 };

typedef struct condition {
    const char *about;               /* "store", "lock-store", "certificate", "servers", "data"; static */
    char text[CONDITION_TEXT_BYTES]; /* for people; empty: no fault */
    lks_reason reason;               /* NONE: no reason word */
    bool blocks;                     /* calls cannot be served during it */
    int64_t since_ms;                /* since 1970 */
} condition;

/* Owned by the caller; conditions_init initializes it. */
typedef struct conditions {
    condition of[CONDITIONS];
    bool ready;
} conditions;

/* At first the store is not connected, so no call can be served. Not logged. */
void conditions_init(conditions *c);

/* Sets the condition that holds at the start, until conditions_set. Not logged. */
void conditions_expect(conditions *c, condition_about about, const char *text);

/* Sets or ends a condition. text: the fault; NULL: none. reason: the word for the log. Returns true, after logging it,
 * if this is a change: a new fault, another text or another `blocks`, or an end. */
bool conditions_set(conditions *c, condition_about about, bool blocks, lks_reason reason, const char *text);

/* Whether calls can be served. Sets *reason, if not NULL, to the text of a current fault, a blocking one first; NULL:
 * no fault. Valid until the next change. */
bool conditions_ready(const conditions *c, const char **reason);

/* Copies the i-th current fault; returns false if there are fewer. */
bool conditions_look(const conditions *c, size_t i, condition *ret);

#endif

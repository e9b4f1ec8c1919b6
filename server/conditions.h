/* The current faults of the server: one list for the log, GetStatus, the health service and the service manager. Loop
 * thread only. */
#ifndef LOCKSTOCK_SERVER_CONDITIONS_H
#define LOCKSTOCK_SERVER_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/reason.h>

/* At most one thing is wrong with each at a time. */
typedef enum condition_about {
    CONDITION_STORE,
    CONDITION_LOCK_STORE,
    CONDITION_CERTIFICATE,
    CONDITION_SERVERS,
    CONDITIONS
} condition_about;

enum { CONDITION_TEXT_BYTES = 640 };

typedef struct condition {
    const char *about;               /* "store", "lock-store", "certificate", "servers"; static */
    char text[CONDITION_TEXT_BYTES]; /* for people; empty: nothing is wrong */
    lks_reason reason;               /* NONE: there is no word for it */
    bool blocks;                     /* calls cannot be served while it lasts */
    int64_t since_ms;                /* since 1970 */
} condition;

/* The caller's; conditions_init makes it. */
typedef struct conditions {
    condition of[CONDITIONS];
    bool ready;
} conditions;

/* Nothing is known of the store yet, so nothing can be served; that is not logged. */
void conditions_init(conditions *c);

/* At the start: what is so until it is told otherwise. Not logged. */
void conditions_expect(conditions *c, condition_about about, const char *text);

/* text: what is wrong; NULL: nothing is. reason: as a word, for the log. Returns whether that is new, and then has
 * logged it: a beginning once, another text, an end. */
bool conditions_set(conditions *c, condition_about about, bool blocks, lks_reason reason, const char *text);

/* Whether calls can be served. *reason, if not NULL: what is wrong, what blocks first; NULL: nothing. Valid until
 * the next change. */
bool conditions_ready(const conditions *c, const char **reason);

/* The i-th thing that is wrong; false: there is none. */
bool conditions_look(const conditions *c, size_t i, condition *ret);

#endif

/* A sink's callers and their shares of a budget that the test leads: for engines and frames, which
 * only make them, ask them and lose them. */
#ifndef LOCKSTOCK_TESTS_FAKE_SINK_H
#define LOCKSTOCK_TESTS_FAKE_SINK_H

#include "net/sink.h"

/* The events since fake_callers_reset. */
typedef struct fake_callers_seen {
    size_t opened, lost;
    unsigned last_lost; /* the number of a caller, from 1 */
    size_t shares_opened, shares_closed;
    size_t held;   /* bytes of all shares */
    size_t n_held; /* callers that are held */
} fake_callers_seen;
extern fake_callers_seen fake_callers;

/* Its callers; what it does with calls is the test's to add. */
extern const sink fake_sink;

/* on_lost, unless it is NULL, runs whenever a caller is lost. */
void fake_callers_reset(void (*on_lost)(void));

/* In the order of their beginning, from 1. */
unsigned fake_caller_number(const caller *c);

/* Sets whether its calls queue; the caller is informed when they stop. */
void fake_caller_queues(caller *c, bool queues);

/* From now on every share is somebody's; or none is. */
void fake_budget_has_principals(bool has);

/* From now on no share takes more. */
void fake_budget_is_full(bool full);

#endif

/* Deletes groups whose keys have all expired. One server of the ensemble does it: the first of the live servers. */
#ifndef LOCKSTOCK_SERVER_QUORUM_SWEEP_GROUPS_H
#define LOCKSTOCK_SERVER_QUORUM_SWEEP_GROUPS_H

#include "quorum/quorum_parts.h"

typedef struct group_sweep group_sweep;

/* Begins a walk over all groups every quorum_options.sweep_ms. */
group_sweep *group_sweep_new(quorum *q);

/* Closes the timer with the barrier. */
void group_sweep_close(group_sweep *s, close_barrier *barrier);

/* Call it after group_sweep_close, when the barrier has closed the timer. */
void group_sweep_free(group_sweep *s);

#endif

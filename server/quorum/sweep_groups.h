/* Deletes groups whose keys have all expired. One server of the ensemble does it: the first of the live servers. */
#ifndef LOCKSTOCK_SERVER_QUORUM_SWEEP_GROUPS_H
#define LOCKSTOCK_SERVER_QUORUM_SWEEP_GROUPS_H

#include "quorum/quorum_parts.h"

typedef struct group_sweep group_sweep;

/* Begins a walk over all groups every quorum_options.sweep_ms. */
group_sweep *group_sweep_new(quorum *q);

/* Begins one now, unless one is under way. */
void group_sweep_begin(group_sweep *s);

void group_sweep_free(group_sweep *s);

#endif

/* Rivals that are external programs. */
#ifndef LOCKSTOCK_BENCH_RIVAL_OUTSIDE_H
#define LOCKSTOCK_BENCH_RIVAL_OUTSIDE_H

#include "rival.h"

bool rival_outside(const rival *r, const place *p, double warm_up, double seconds, measure *m);

/* Returns why a rival cannot run here, or NULL. */
const char *rival_missing(const rival *r, const place *p);

#endif

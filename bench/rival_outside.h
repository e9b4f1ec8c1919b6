/* Rivals that are programs of others. */
#ifndef LOCKSTOCK_BENCH_RIVAL_OUTSIDE_H
#define LOCKSTOCK_BENCH_RIVAL_OUTSIDE_H

#include "rival.h"

bool rival_outside(const rival *r, const place *p, double warm_up, double seconds, measure *m);

#endif

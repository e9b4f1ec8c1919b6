/* Measures a rival. */
#ifndef LOCKSTOCK_BENCH_RIVAL_RUN_H
#define LOCKSTOCK_BENCH_RIVAL_RUN_H

#include "rival.h"

/* Prepares and runs a rival for a time, or for a number of calls if calls > 0 (external programs always for a time),
 * and adds to *m. Returns false after printing an error. */
bool rival_run(rival *r, const place *p, double warm_up, double seconds, uint64_t calls, measure *m);

#endif

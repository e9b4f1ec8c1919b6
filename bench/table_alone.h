/* Rows of the table that are no ratio of slices that take turns: each starts a place of its own. */
#ifndef LOCKSTOCK_BENCH_TABLE_ALONE_H
#define LOCKSTOCK_BENCH_TABLE_ALONE_H

#include <stdbool.h>

#include "options.h"

enum { TABLE_NOTE_BYTES = 120 };

/* Fills in a value for each of o->rounds, and a note on them. False: said on standard error. */
typedef bool table_alone(const bench_options *o, double *values, char note[TABLE_NOTE_BYTES]);

/* Answers a second of an open loop at ten times the capacity, by the capacity. The note: how many times the
 * capacity came of it, where this machine cannot call as often. */
bool table_overload(const bench_options *o, double *values, char note[TABLE_NOTE_BYTES]);

/* How many bytes lockstockd grows by, for each of 20,000 Acquires that come to wait. */
bool table_parked(const bench_options *o, double *values, char note[TABLE_NOTE_BYTES]);

#endif

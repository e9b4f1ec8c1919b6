/* Runs operations of a scenario against a server. A closed loop has a fixed number of operations at once; each that
 * ends starts another. An open loop starts operations on a schedule, independently of answers, and measures latencies
 * from the scheduled time, so that a slow server does not lower the load (no coordinated omission). */
#ifndef LOCKSTOCK_BENCH_DRIVE_H
#define LOCKSTOCK_BENCH_DRIVE_H

#include "scenario.h"

/* Runs operations as the options say and measures them; a rate above 0 is operations a second. Returns false after
 * printing an error if the channels cannot be opened. */
bool drive_run(const bench_options *o, world *w, measure *m);

/* For scenarios: calls a method with the timeout of the run plus wait_ms. */
lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error);

/* Returns the next serial of this process. */
uint64_t drive_next_serial(void);

/* Writes tag and serial as a text of 36 bytes, the length of a UUID. */
void drive_make_id(char id[ID_BYTES], uint64_t tag, uint64_t serial);

#endif

/* `lockstock-bench scale`: prints what sizing needs (docs/sizing.md): the CPU of each kind of call, what several
 * servers on one Redis do, and the memory of each thing. */
#ifndef LOCKSTOCK_BENCH_SCALE_H
#define LOCKSTOCK_BENCH_SCALE_H

#include "report.h"

/* Prints Markdown and appends to the results. Returns false after printing an error. */
bool scale_run(const bench_options *o, json_t *results);

#endif

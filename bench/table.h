/* The tables of lockstock-bench, as Markdown. */
#ifndef LOCKSTOCK_BENCH_TABLE_H
#define LOCKSTOCK_BENCH_TABLE_H

#include "report.h"

/* `lockstock-bench table`: the figures of docs/performance.md with their targets. Measures the rows of --rows, or all.
 * Returns false if a row could not be measured. */
bool table_run(const bench_options *o, json_t *results);

/* `lockstock-bench scale`: what sizing needs (docs/sizing.md): the CPU of each kind of call, what several servers on
 * one Redis do, and the memory of each thing. Returns false after printing an error. */
bool scale_run(const bench_options *o, json_t *results);

#endif

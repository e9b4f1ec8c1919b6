/* `lockstock-bench table`: the figures that docs/performance.md promises, each with its target, as Markdown. */
#ifndef LOCKSTOCK_BENCH_TABLE_H
#define LOCKSTOCK_BENCH_TABLE_H

#include "report.h"

/* Measures the rows that --rows names, or all. False: a row could not be measured. */
bool table_run(const bench_options *o, json_t *results);

#endif

/* `lockstock-bench table`: prints the figures of docs/performance.md with their targets, as Markdown. */
#ifndef LOCKSTOCK_BENCH_TABLE_H
#define LOCKSTOCK_BENCH_TABLE_H

#include "report.h"

/* Measures the rows of --rows, or all. Returns false if a row could not be measured. */
bool table_run(const bench_options *o, json_t *results);

#endif

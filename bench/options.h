/* What the command line asks for. Every flag is one row of one table (options.c). */
#ifndef LOCKSTOCK_BENCH_OPTIONS_H
#define LOCKSTOCK_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "setting.h"

enum { OPTIONS_SCENARIOS_MAX = 32 };

typedef struct bench_options {
    const char *scenarios[OPTIONS_SCENARIOS_MAX];
    size_t n_scenarios;
    bool table;     /* the one scenario was `table` */
    long in_flight; /* 0: each row of the table has its own */
    long connections;
    long items;
    long calls; /* 0: as many as fit into `seconds` */
    long rounds;
    long timeout_ms;
    double seconds, warm_up;
    double rate;        /* 0: closed loop */
    bool rate_is_times; /* of the capacity, which is measured first */
    const char *wire, *server, *store, *fsync, *lockstockd, *json, *rows;
    bool compare, sync, plot;
} bench_options;

typedef enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG } options_action;

/* Fills in *ret; what it points to is argv's, or static. OPTIONS_WRONG: the error is printed. */
options_action options_parse(int argc, char **argv, bench_options *ret);

/* Every flag. */
extern const setting bench_flags[];
extern const size_t bench_flags_len;

/* Prints usage and every flag; the caller adds the scenarios. */
void options_print_help(void);

#endif

/* The flags of lockstock-bench. */
#ifndef LOCKSTOCK_BENCH_OPTIONS_H
#define LOCKSTOCK_BENCH_OPTIONS_H

#include "base/options.h"

enum { OPTIONS_SCENARIOS_MAX = 32, OPTIONS_SERVERS_MAX = 64 };

typedef struct bench_options {
    const char *scenarios[OPTIONS_SCENARIOS_MAX];
    size_t n_scenarios;
    bool table;        /* `lockstock-bench table` */
    bool scale;        /* `lockstock-bench scale` */
    int64_t in_flight; /* rows of the table have their own */
    int64_t connections;
    int64_t servers; /* that are started */
    int64_t items;
    int64_t calls; /* 0: measure for `seconds` */
    int64_t rounds;
    int64_t timeout_ms;
    double seconds, warm_up;
    double rate;        /* 0: closed loop */
    bool rate_is_times; /* of the capacity, which is measured first */
    const char *wire, *server, *store, *fsync, *lockstockd, *json, *rows;
    bool compare, sync, plot;
} bench_options;

typedef enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_INVALID } options_action;

/* Fills in *ret, whose texts are those of argv or static. Returns OPTIONS_INVALID after printing an error. */
options_action options_parse(int argc, char **argv, bench_options *ret);

/* All flags. */
extern const option bench_flags[];
extern const size_t bench_flags_len;

/* Prints usage and all flags; the caller prints the scenarios. */
void options_print_help(void);

#endif

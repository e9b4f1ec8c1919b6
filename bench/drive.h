/* Runs operations of a scenario against a server and records each call. An operation is one or several calls, one
 * after another. A closed loop has a fixed number of operations at once; each that ends starts another. An open loop
 * starts operations on a schedule, independently of answers, and measures latencies from the scheduled time, so that
 * a slow server does not lower the load (no coordinated omission). */
#ifndef LOCKSTOCK_BENCH_DRIVE_H
#define LOCKSTOCK_BENCH_DRIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

#include "measure.h"

enum { DRIVE_STEPS_MAX = 2, DRIVE_OUTCOMES_MAX = 16, DRIVE_SCENARIOS_MAX = 24, DRIVE_ID_BYTES = 37 };

struct scenario;

/* A running operation. Only the thread that starts it, or the completion thread of the channel, uses it at a time. */
typedef struct op {
    const struct scenario *scenario;
    struct lane *lane;
    struct world *world;
    unsigned slot;   /* 0..in_flight - 1 */
    uint64_t serial; /* unique in this process */
    uint64_t turn;   /* selects the thing that it uses: the slot; the serial if there are more things than slots */
    char id[DRIVE_ID_BYTES]; /* made from the serial: an order id, token or key */
    int step;                /* its current call */
    uint64_t fence;
    const lks_call_options *call_options;
    lks_channel *channel;
    uint64_t began_ns;   /* or the time at which it was due */
    uint64_t started_ns; /* differs from began_ns if an open loop is late */
    lks_code code;       /* the code of its last call */
    lks_applied applied;
    int outcome;
    bool more, handed; /* handed: it got the lock from another holder */
    struct op *next_free;
} op;

/* Counts of all calls of a run, also outside the measured time. */
typedef struct tally {
    uint64_t ok[DRIVE_SCENARIOS_MAX][DRIVE_STEPS_MAX][DRIVE_OUTCOMES_MAX];
    uint64_t started, in_doubt, not_ok; /* calls; in_doubt: may have been applied */
    lks_error first;                    /* the first error */
} tally;

typedef struct drive_options {
    const struct scenario *scenario;
    struct world *world;
    const place *place;
    unsigned in_flight, connections;
    uint64_t operations; /* 0: for a time */
    double warm_up, seconds;
    double rate; /* 0: closed loop */
    uint32_t timeout_ms;
    bool sync; /* a thread for each running operation */
} drive_options;

/* Runs the operations and adds to *m and *all. Returns false after printing an error if the channels cannot be
 * opened. */
bool drive_run(const drive_options *options, measure *m, tally *all);

/* For scenarios: calls a method with the timeout of the run plus wait_ms. scenario_answered receives the answer,
 * with --sync before drive_call returns. It is not called if drive_call returns an error. */
lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error);

/* For scenarios: a call has ended. more: the operation has another call. */
void drive_ended(op *o, lks_code code, int outcome, bool more, const lks_error *error);

/* Returns the next serial of this process. */
uint64_t drive_next_serial(void);

/* Writes tag and serial as a text of 36 bytes, the length of a UUID. */
void drive_make_id(char id[DRIVE_ID_BYTES], uint64_t tag, uint64_t serial);

#endif

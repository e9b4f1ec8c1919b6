/* Drives operations of a scenario against a server and records what became of each call.
 *
 * Closed loop: so many operations under way, and each that ends begins another. Open loop: one
 * begins at each moment of a fixed schedule whatever the answers do, and its latency counts from
 * that moment, so that a server that stands still is not asked less often for it (no coordinated
 * omission). An operation is one call or several, one after the other. */
#ifndef LOCKSTOCK_BENCH_DRIVE_H
#define LOCKSTOCK_BENCH_DRIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

#include "measure.h"

enum { DRIVE_STEPS_MAX = 2, DRIVE_OUTCOMES_MAX = 16, DRIVE_SCENARIOS_MAX = 24, DRIVE_ID_BYTES = 37 };

struct scenario;

/* One operation under way. Only the thread that starts it, or the channel's completion thread, has it
 * at a time. */
typedef struct op {
    const struct scenario *scenario;
    struct lane *lane;
    struct world *world;
    unsigned slot;           /* 0..in flight - 1: whose own thing it uses */
    uint64_t serial;         /* of the operation: no other of this run has it */
    char id[DRIVE_ID_BYTES]; /* made of it: order, token or key */
    int step;                /* which of its calls is under way */
    uint64_t fence;
    const lks_call_options *call_options;
    lks_channel *channel;
    uint64_t began_ns;   /* or was due */
    uint64_t started_ns; /* the same but in an open loop that is late itself */
    lks_code code;       /* how its call ended */
    lks_applied applied;
    int outcome;
    bool more, handed; /* the one lock came to it from another */
    struct op *next_free;
} op;

/* Of all calls of a run, those outside the measured time too. */
typedef struct tally {
    uint64_t ok[DRIVE_SCENARIOS_MAX][DRIVE_STEPS_MAX][DRIVE_OUTCOMES_MAX];
    uint64_t started, in_doubt, not_ok; /* calls; in_doubt: may have been applied */
    lks_error first;                    /* of those that failed */
} tally;

typedef struct drive_options {
    const struct scenario *scenario;
    struct world *world;
    const place *place;
    unsigned in_flight, connections;
    uint64_t operations; /* 0: by time */
    double warm_up, seconds;
    double rate; /* 0: closed loop */
    uint32_t timeout_ms;
    bool sync; /* a thread for each operation under way */
} drive_options;

/* Runs it. False: the channels could not be opened, and the error is printed. Else it adds to *m and *all, which are to be
 * added to what they are. */
bool drive_run(const drive_options *options, measure *m, tally *all);

/* For a scenario: calls a method as its stubs do, with wait_ms more than the run's timeout. Where each operation has a
 * thread it waits. The answer comes to scenario_answered, before it returns then; not at all when it fails. */
lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error);

/* For a scenario's callback: its call ended. `more`: with another call of the operation to come. */
void drive_ended(op *o, lks_code code, int outcome, bool more, const lks_error *error);

/* The number of a unit-wide order: serial of the next operation of this process. */
uint64_t drive_next_serial(void);

/* tag and serial as text of 36 bytes, the length of a UUID. */
void drive_make_id(char id[DRIVE_ID_BYTES], uint64_t tag, uint64_t serial);

#endif

/* The scenarios that can be measured, and how they are driven. */
#ifndef LOCKSTOCK_BENCH_SCENARIO_H
#define LOCKSTOCK_BENCH_SCENARIO_H

#include "measure.h"

enum { THING_BYTES = 32, CHECK_BYTES = 160, ID_BYTES = 37 };

/* The things (items, names, keys) that the operations of a run use. Each run makes its own. */
typedef struct world {
    const struct scenario *scenario;
    const place *place;
    lks_channel *channel; /* for preparing and checking */
    uint64_t tag;
    unsigned n_things;
    char (*things)[THING_BYTES];
    atomic_int holders;        /* of the hot lock */
    atomic_uint overlaps;      /* how often it had two */
    atomic_uint last;          /* the slot of its last holder, from 1 */
    atomic_ullong ids;         /* received */
    char checked[CHECK_BYTES]; /* what world_agrees compared; empty: nothing */
} world;

/* An operation: one or several calls, one after another. Only one thread uses it at a time: the one that starts it, or
 * the completion thread of the channel. */
typedef struct op {
    const struct scenario *scenario;
    world *world;
    struct lane *lane; /* for the driver */
    unsigned slot;     /* 0..in_flight - 1 */
    uint64_t serial;   /* unique in this process */
    uint64_t turn;     /* selects the thing that it uses: the slot; the serial if there are more things than slots */
    char id[ID_BYTES]; /* made from the serial: an order id, token or key */
    int step;          /* its current call */
    uint64_t fence;
    uint64_t began_ns; /* of an open loop: when it was due */
    lks_code code;     /* the code of its last call */
    lks_applied applied;
    int outcome;
    bool more, handed; /* more: it has another call; handed: it got the lock from another holder */
} op;

/* A call of an operation. */
typedef struct scenario_step {
    lks_code (*start)(op *o, lks_error *error);
    void (*seen)(op *o, const void *response); /* NULL: only the outcome matters */
    const ProtobufCEnumDescriptor *outcomes;   /* NULL: the response has no outcome */
    size_t outcome_at;                         /* offset in the response */
    int next_if;                               /* the outcome that leads to the next step; 0: none */
} scenario_step;

typedef struct scenario {
    const char *name, *what;
    unsigned things; /* 0: as many as --in-flight, or --items */
    int64_t on_hand; /* of each item; 0: no items */
    bool sold_out;   /* items with none on hand */
    scenario_step steps[STEPS_MAX];
    bool (*prepare)(world *w, lks_error *error); /* NULL: only items */
    /* Checks that the state agrees with what the callers saw, and writes both to w->checked. NULL: nothing to check. */
    bool (*check)(world *w, const tally *all);
    int variant; /* an algorithm, a kind of id, or how long an Acquire waits */
} scenario;

extern const scenario scenarios[];
extern const unsigned n_scenarios;

/* Returns NULL if there is no scenario of that name. */
const scenario *scenario_find(const char *name);

/* Returns the scenario of an operation: mix has several. */
const scenario *scenario_of(const world *w, uint64_t serial);

/* Makes the things of a run, whose number the options say. Returns false after printing an error. Call world_close in
 * any case. */
bool world_open(world *w, const scenario *s, const bench_options *o, const place *p);
void world_close(world *w);

/* Checks the state after all runs in this world. */
bool world_agrees(world *w, const tally *all);

/* ---- the driver, drive.c ------------------------------------------------------------ */

/* Runs operations as the options say and measures them; a rate above 0 is operations a second. Returns false after
 * printing an error if the channels cannot be opened. */
bool drive_run(const bench_options *o, world *w, measure *m);

/* Measures the operations a second of a closed loop, for the time of the options, and adds its calls to *all. */
bool drive_capacity(const bench_options *o, world *w, tally *all, double *ret);

/* For scenarios: calls a method with the timeout of the run plus wait_ms. */
lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error);

/* Returns the next serial of this process. */
uint64_t drive_next_serial(void);

/* Writes tag and serial as a text of 36 bytes, the length of a UUID. */
void drive_make_id(char id[ID_BYTES], uint64_t tag, uint64_t serial);

#endif

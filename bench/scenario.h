/* What can be measured: each scenario is one row of one table. */
#ifndef LOCKSTOCK_BENCH_SCENARIO_H
#define LOCKSTOCK_BENCH_SCENARIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "drive.h"

enum { THING_BYTES = 32, CHECK_BYTES = 160 };

/* What the operations of a run use: as many things (items, names, keys), made anew for each run, so that runs on one
 * store do not meet. */
typedef struct world {
    const struct scenario *scenario;
    lks_channel *channel; /* for preparing and checking */
    uint64_t tag;
    unsigned n_things;
    char (*things)[THING_BYTES];
    atomic_int holders;   /* of the one lock */
    atomic_uint overlaps; /* how often there were two */
    atomic_uint last;     /* whose slot had it last, from 1 */
    atomic_ullong ids;    /* that were given */
} world;

/* One call of an operation. */
typedef struct scenario_step {
    lks_code (*start)(op *o, lks_error *error);
    void (*seen)(op *o, const void *response); /* NULL: nothing but the outcome is looked at */
    const ProtobufCEnumDescriptor *outcomes;   /* NULL: the answer has none */
    size_t outcome_at;                         /* offset in the response */
    int goes_on;                               /* the outcome after which the next step follows; 0: none */
} scenario_step;

typedef struct scenario {
    const char *name, *what;
    unsigned things; /* 0: as many as are in flight, or --items */
    int64_t on_hand; /* of each item; 0: there are no items */
    bool sold_out;   /* there are, with none on hand */
    scenario_step steps[DRIVE_STEPS_MAX];
    bool (*prepare)(world *w, lks_error *error); /* NULL: nothing to do but items */
    /* Whether what the callers saw agrees with what there is now; writes both. NULL: nothing to check. */
    bool (*check)(world *w, const tally *all, char text[CHECK_BYTES]);
    int variant; /* an algorithm, a kind of id */
} scenario;

extern const scenario scenarios[];
extern const unsigned n_scenarios;

/* NULL: there is none of that name. */
const scenario *scenario_find(const char *name);
unsigned scenario_number(const scenario *s);

/* Makes the things of a run. False: printed to standard error. world_close in any case. */
bool world_open(world *w, const scenario *s, const place *p, unsigned n_things);
void world_close(world *w);

/* For the driver: an operation begins (`mix` chooses which); its call was answered. */
void scenario_begin(op *o);
void scenario_answered(op *o, lks_code code, const ProtobufCMessage *response, const lks_error *error);

/* How often a step of a scenario had that outcome. */
uint64_t tally_of(const tally *all, const scenario *s, int step, int outcome);

#endif

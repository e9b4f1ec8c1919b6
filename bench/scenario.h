/* What can be measured: each scenario is one row of one table, and a file of its service starts its
 * calls as the generated stubs do. */
#ifndef LOCKSTOCK_BENCH_SCENARIO_H
#define LOCKSTOCK_BENCH_SCENARIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "drive.h"

enum { THING_BYTES = 32, CHECK_BYTES = 160 };

/* What the operations of a run use: as many things (items, names, keys), made anew for each run, so
 * that runs on one store do not meet. */
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

typedef struct scenario {
    const char *name, *what;
    unsigned things;                                          /* 0: as many as are in flight, or --items */
    int64_t on_hand;                                          /* of each item; below 0: it has none */
    const ProtobufCEnumDescriptor *outcomes[DRIVE_STEPS_MAX]; /* of each call; NULL: there is none */
    lks_code (*start)(op *o, lks_error *error);               /* the call of o->step */
    bool (*prepare)(world *w, lks_error *error);              /* NULL: nothing to do but items */
    /* Whether what the callers saw agrees with what there is now; says both. NULL: nothing to check. */
    bool (*check)(world *w, const tally *all, char text[CHECK_BYTES]);
    int variant; /* the service's own: an algorithm, a kind of id */
} scenario;

extern const scenario scenarios[];
extern const unsigned n_scenarios;

/* NULL: there is none of that name. */
const scenario *scenario_find(const char *name);
unsigned scenario_number(const scenario *s);

/* Makes the things of a run. False: said on standard error. world_close in any case. */
bool world_open(world *w, const scenario *s, const place *p, unsigned n_things);
void world_close(world *w);

/* For the driver: an operation begins. `mix` chooses which. */
void scenario_begin(op *o);
uint64_t scenario_tag(const world *w);

/* The thing of an operation: of its slot. */
char *scenario_thing(const op *o);

/* How often a step of a scenario had that outcome. */
uint64_t tally_of(const tally *all, const scenario *s, int step, int outcome);

/* ---- one file a service; starts and checks ------------------------------------------ */

lks_code start_deduct(op *o, lks_error *error);
lks_code start_reserve(op *o, lks_error *error);
bool check_stock(world *w, const tally *all, char text[CHECK_BYTES]);
lks_code start_lock(op *o, lks_error *error);
lks_code start_hot_lock(op *o, lks_error *error);
bool check_lock(world *w, const tally *all, char text[CHECK_BYTES]);
lks_code start_begin(op *o, lks_error *error);
bool check_begin(world *w, const tally *all, char text[CHECK_BYTES]);
lks_code start_check(op *o, lks_error *error);
lks_code start_check_denied(op *o, lks_error *error);
bool check_denied(world *w, const tally *all, char text[CHECK_BYTES]);
lks_code start_next(op *o, lks_error *error);
lks_code start_decode(op *o, lks_error *error);
bool prepare_ids(world *w, lks_error *error);
bool check_ids(world *w, const tally *all, char text[CHECK_BYTES]);

#endif

/* The scenarios that can be measured. */
#ifndef LOCKSTOCK_BENCH_SCENARIO_H
#define LOCKSTOCK_BENCH_SCENARIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "drive.h"

enum { THING_BYTES = 32, CHECK_BYTES = 160 };

/* The things (items, names, keys) that the operations of a run use. Each run makes its own. */
typedef struct world {
    const struct scenario *scenario;
    lks_channel *channel; /* for preparing and checking */
    uint64_t tag;
    unsigned n_things;
    char (*things)[THING_BYTES];
    atomic_int holders;   /* of the hot lock */
    atomic_uint overlaps; /* how often it had two */
    atomic_uint last;     /* the slot of its last holder, from 1 */
    atomic_ullong ids;    /* received */
} world;

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
    scenario_step steps[DRIVE_STEPS_MAX];
    bool (*prepare)(world *w, lks_error *error); /* NULL: only items */
    /* Checks that the state agrees with what the callers saw, and describes both. NULL: nothing to check. */
    bool (*check)(world *w, const tally *all, char text[CHECK_BYTES]);
    int variant; /* an algorithm or a kind of id */
} scenario;

extern const scenario scenarios[];
extern const unsigned n_scenarios;

/* Returns NULL if there is no scenario of that name. */
const scenario *scenario_find(const char *name);
unsigned scenario_number(const scenario *s);

/* Makes the things of a run. Returns false after printing an error. Call world_close in any case. */
bool world_open(world *w, const scenario *s, const place *p, unsigned n_things);
void world_close(world *w);

/* For the driver: an operation begins (mix chooses its scenario), or its call was answered. */
void scenario_begin(op *o);
void scenario_answered(op *o, lks_code code, const ProtobufCMessage *response, const lks_error *error);

/* Returns how often a step had an outcome. */
uint64_t tally_of(const tally *all, const scenario *s, int step, int outcome);

#endif

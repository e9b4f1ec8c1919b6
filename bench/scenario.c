/* Invariant: `scenarios` is the only list of them. */
#include "scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define OUTCOMES(name) &lockstock__v1__##name##_outcome__descriptor
static const int64_t plenty = 1000000000000;

const scenario scenarios[] = {
    {"deduct", "Deduct, each caller its own item", 0, plenty, {OUTCOMES(deduct)}, start_deduct, NULL, check_stock, 0},
    {"deduct-hot", "Deduct, all of one item", 1, plenty, {OUTCOMES(deduct)}, start_deduct, NULL, check_stock, 0},
    {"sold-out", "Deduct of one item that is sold out", 1, 0, {OUTCOMES(deduct)}, start_deduct, NULL, check_stock, 0},
    {"reserve",
     "Reserve, then Confirm",
     0,
     plenty,
     {OUTCOMES(reserve), OUTCOMES(confirm)},
     start_reserve,
     NULL,
     check_stock,
     0},
    {"lock",
     "Acquire, then Release, each caller its own name",
     0,
     -1,
     {OUTCOMES(acquire), OUTCOMES(release)},
     start_lock,
     NULL,
     check_lock,
     0},
    {"lock-hot",
     "Acquire, then Release, all of one name, who waits in its queue",
     1,
     -1,
     {OUTCOMES(acquire), OUTCOMES(release)},
     start_hot_lock,
     NULL,
     check_lock,
     0},
    {"begin",
     "Begin of a new key, then Complete",
     0,
     -1,
     {OUTCOMES(begin), OUTCOMES(complete)},
     start_begin,
     NULL,
     check_begin,
     0},
    {"check-fixed",
     "Check, FIXED_WINDOW",
     0,
     -1,
     {OUTCOMES(check)},
     start_check,
     NULL,
     NULL,
     LKS_ALGORITHM_FIXED_WINDOW},
    {"check-log", "Check, SLIDING_LOG", 0, -1, {OUTCOMES(check)}, start_check, NULL, NULL, LKS_ALGORITHM_SLIDING_LOG},
    {"check-window",
     "Check, SLIDING_WINDOW",
     0,
     -1,
     {OUTCOMES(check)},
     start_check,
     NULL,
     NULL,
     LKS_ALGORITHM_SLIDING_WINDOW},
    {"check-bucket",
     "Check, TOKEN_BUCKET",
     0,
     -1,
     {OUTCOMES(check)},
     start_check,
     NULL,
     NULL,
     LKS_ALGORITHM_TOKEN_BUCKET},
    {"check-denied",
     "Check of one key that is over its limit",
     1,
     -1,
     {OUTCOMES(check)},
     start_check_denied,
     NULL,
     check_denied,
     LKS_ALGORITHM_FIXED_WINDOW},
    {"ids", "Next, SNOWFLAKE", 1, -1, {NULL}, start_next, prepare_ids, check_ids, LKS_ID_KIND_SNOWFLAKE},
    {"ids-uuid", "Next, UUID_V7", 1, -1, {NULL}, start_next, NULL, check_ids, LKS_ID_KIND_UUID_V7},
    {"ids-sequence", "Next, SEQUENCE", 1, -1, {NULL}, start_next, NULL, check_ids, LKS_ID_KIND_SEQUENCE},
    {"decode", "Decode, which needs no store", 1, -1, {NULL}, start_decode, NULL, NULL, 0},
    {"mix",
     "4 deduct, 2 reserve, 2 lock, 1 begin, 1 check-bucket of ten",
     0,
     plenty,
     {NULL},
     NULL,
     NULL,
     check_stock,
     0},
};
const unsigned n_scenarios = sizeof scenarios / sizeof scenarios[0];
_Static_assert(sizeof scenarios / sizeof scenarios[0] <= DRIVE_SCENARIOS_MAX, "a tally has no room for them");

static const char *const mixed[] = {"deduct", "deduct", "reserve", "lock", "check-bucket",
                                    "deduct", "deduct", "reserve", "lock", "begin"};
enum { N_MIXED = sizeof mixed / sizeof mixed[0] };

const scenario *scenario_find(const char *name)
{
    for (unsigned i = 0; i < n_scenarios; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}

unsigned scenario_number(const scenario *s)
{
    return (unsigned)(s - scenarios);
}

uint64_t tally_of(const tally *all, const scenario *s, int step, int outcome)
{
    return all->ok[scenario_number(s)][step][outcome];
}

/* ---- things -------------------------------------------------------------------- */

static bool put_items(world *w, lks_error *error)
{
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;

    item.on_hand = w->scenario->on_hand;
    for (unsigned i = 0; i < w->n_things; i++) {
        item.sku = w->things[i];
        if (lks_stock_put_item(w->channel, &item, NULL, NULL, error) != LKS_OK)
            return false;
    }
    return true;
}

bool world_open(world *w, const scenario *s, const place *p, unsigned n_things)
{
    static const lks_channel_options options = {.timeout_ms = 30000};
    lks_error error = {0};

    *w = (world){.scenario = s, .n_things = s->things > 0 ? s->things : n_things};
    w->things = measure_alloc(w->n_things, sizeof *w->things);
    bool opened = getrandom(&w->tag, sizeof w->tag, 0) == (ssize_t)sizeof w->tag;
    for (unsigned i = 0; i < w->n_things; i++)
        snprintf(w->things[i], sizeof w->things[i], "%016" PRIx64 "-%u", w->tag, i);
    opened = opened && lks_channel_open(p->url, &options, &w->channel, &error) == LKS_OK &&
             (s->on_hand < 0 || put_items(w, &error)) && (!s->prepare || s->prepare(w, &error));
    if (!opened)
        fprintf(stderr, "lockstock-bench: %s: %s: %s\n", s->name, lks_code_name(error.code), error.message);
    return opened;
}

void world_close(world *w)
{
    lks_channel_close(w->channel);
    free(w->things);
    w->channel = NULL;
    w->things = NULL;
}

/* ---- for the driver ------------------------------------------------------------ */

void scenario_begin(op *o)
{
    static _Atomic(const scenario *) found[N_MIXED];

    o->scenario = o->world->scenario;
    if (o->scenario->start)
        return;
    size_t at = o->serial % N_MIXED;
    const scenario *s = atomic_load_explicit(&found[at], memory_order_relaxed);
    if (!s) {
        s = scenario_find(mixed[at]);
        atomic_store_explicit(&found[at], s, memory_order_relaxed);
    }
    o->scenario = s;
}

uint64_t scenario_tag(const world *w)
{
    return w->tag;
}

char *scenario_thing(const op *o)
{
    return o->world->things[o->slot % o->world->n_things];
}

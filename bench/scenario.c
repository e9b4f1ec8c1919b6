#include "scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    MINUTE_MS = 60000,
    LIMIT = 100000,
    LOG_LIMIT = 1000, /* for a SLIDING_LOG, which stores each call */
    PERIOD_MS = 1000,
    DENIED_PERIOD_MS = 3600000,
    BODY_BYTES = 100
};

/* Returns how often a step had an outcome. */
static uint64_t tally_of(const tally *all, const scenario *s, int step, int outcome)
{
    return all->ok[s - scenarios][step][outcome];
}

static char *thing(const op *o)
{
    return o->world->things[o->turn % o->world->n_things];
}

/* ---- stock ---------------------------------------------------------------------- */

#define ONE_UNIT(request)                              \
    lks_line line = LKS_LINE_INIT, *lines[] = {&line}; \
    line.sku = thing(o);                               \
    line.quantity = 1;                                 \
    (request).order_id = o->id;                        \
    (request).lines = lines;                           \
    (request).n_lines = 1;                             \
    (request).fresh = true

static lks_code deduct(op *o, lks_error *error)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    ONE_UNIT(request);
    return drive_call(o, &lks_stock_deduct_method, &request, 0, error);
}

static lks_code reserve(op *o, lks_error *error)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;

    ONE_UNIT(request);
    request.hold_ms = MINUTE_MS;
    return drive_call(o, &lks_stock_reserve_method, &request, 0, error);
}

static lks_code confirm(op *o, lks_error *error)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;

    request.group = thing(o);
    request.order_id = o->id;
    return drive_call(o, &lks_stock_confirm_method, &request, 0, error);
}

/* The items have sold as many units as the callers were told. Calls in doubt may have been applied. */
static bool check_stock(world *w, const tally *all)
{
    uint64_t told = 0, sold = 0;
    lks_error error;

    for (unsigned i = 0; i < n_scenarios; i++) {
        if (scenarios[i].steps[0].start == deduct)
            told += tally_of(all, &scenarios[i], 0, LKS_DEDUCT_OUTCOME_DEDUCTED);
        if (scenarios[i].steps[1].start == confirm)
            told += tally_of(all, &scenarios[i], 1, LKS_CONFIRM_OUTCOME_CONFIRMED);
    }
    for (unsigned i = 0; i < w->n_things; i++) {
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        lks_get_item_response *response = NULL;
        request.sku = w->things[i];
        if (lks_stock_get_item(w->channel, &request, NULL, &response, &error) != LKS_OK) {
            snprintf(w->checked, CHECK_BYTES, "cannot read an item: %.100s", error.message);
            return false;
        }
        sold += (uint64_t)response->item->sold;
        lks_get_item_response_free(response);
    }
    snprintf(w->checked, CHECK_BYTES, "sold %" PRIu64 ", told %" PRIu64 ", in doubt %" PRIu64, sold, told,
             all->in_doubt);
    return sold >= told && sold <= told + all->in_doubt;
}

/* ---- locks ------------------------------------------------------------------------ */

static lks_code acquire(op *o, lks_error *error)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};

    target.name = thing(o);
    request.targets = targets;
    request.n_targets = 1;
    request.token = o->id;
    request.lease_ms = MINUTE_MS;
    request.wait_ms = o->scenario->variant;
    return drive_call(o, &lks_lock_acquire_method, &request, (uint32_t)o->scenario->variant, error);
}

static void acquired(op *o, const void *message)
{
    const lks_acquire_response *response = message;

    if (response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED && o->world->n_things == 1) {
        if (atomic_fetch_add(&o->world->holders, 1) > 0)
            atomic_fetch_add(&o->world->overlaps, 1);
        o->handed = atomic_exchange(&o->world->last, o->slot + 1) != o->slot + 1;
    }
}

static lks_code release(op *o, lks_error *error)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = thing(o);
    request.token = o->id;
    if (o->world->n_things == 1)
        atomic_fetch_sub(&o->world->holders, 1);
    return drive_call(o, &lks_lock_release_method, &request, 0, error);
}

/* All acquired locks were released, and the hot lock never had two holders. */
static bool check_lock(world *w, const tally *all)
{
    uint64_t taken = tally_of(all, w->scenario, 0, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    uint64_t released = tally_of(all, w->scenario, 1, LKS_RELEASE_OUTCOME_RELEASED);
    unsigned overlaps = atomic_load(&w->overlaps);

    snprintf(w->checked, CHECK_BYTES, "acquired %" PRIu64 ", released %" PRIu64 ", held by two %u times", taken,
             released, overlaps);
    return overlaps == 0 && released <= taken && released + all->not_ok >= taken;
}

/* ---- keys, limits, ids ---------------------------------------------------------------- */

static lks_code begin(op *o, lks_error *error)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = thing(o);
    request.key = request.attempt_token = o->id;
    request.lease_ms = request.retain_ms = MINUTE_MS;
    return drive_call(o, &lks_idempotency_begin_method, &request, 0, error);
}

static void begun(op *o, const void *message)
{
    const lks_begin_response *response = message;

    o->fence = response->fence;
}

static lks_code complete(op *o, lks_error *error)
{
    static uint8_t body[BODY_BYTES];
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;

    request.scope = thing(o);
    request.key = o->id;
    request.fence = o->fence;
    request.code = 200;
    request.body = (ProtobufCBinaryData){.data = body, .len = sizeof body};
    return drive_call(o, &lks_idempotency_complete_method, &request, 0, error);
}

/* All keys are new: each Begin executes, and each Complete is stored. */
static bool check_begin(world *w, const tally *all)
{
    uint64_t executed = tally_of(all, w->scenario, 0, LKS_BEGIN_OUTCOME_EXECUTE);
    uint64_t stored = tally_of(all, w->scenario, 1, LKS_COMPLETE_OUTCOME_STORED);

    snprintf(w->checked, CHECK_BYTES, "executed %" PRIu64 ", stored %" PRIu64, executed, stored);
    return stored <= executed && stored + all->not_ok >= executed;
}

/* A scenario with one thing has a key that is over its limit. */
static lks_code check(op *o, lks_error *error)
{
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    bool denied = o->scenario->things == 1;

    limit.algorithm = (lks_algorithm)o->scenario->variant;
    limit.limit = denied ? 1 : limit.algorithm == LKS_ALGORITHM_SLIDING_LOG ? LOG_LIMIT : LIMIT;
    limit.period_ms = denied ? DENIED_PERIOD_MS : PERIOD_MS;
    rule.key = thing(o);
    lks_rule_set_limit(&rule, &limit);
    request.rules = rules;
    request.n_rules = 1;
    return drive_call(o, &lks_rate_limit_check_method, &request, 0, error);
}

/* The limit is one an hour, and the run may cross the end of an hour. */
static bool check_denied(world *w, const tally *all)
{
    uint64_t allowed = tally_of(all, w->scenario, 0, LKS_CHECK_OUTCOME_ALLOWED);

    snprintf(w->checked, CHECK_BYTES, "allowed %" PRIu64 ", denied %" PRIu64, allowed,
             tally_of(all, w->scenario, 0, LKS_CHECK_OUTCOME_DENIED));
    return allowed <= 2;
}

static lks_next_request next_of(const world *w, char *name)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;

    request.kind = (lks_id_kind)w->scenario->variant;
    if (request.kind == LKS_ID_KIND_SEQUENCE)
        request.name = name;
    return request;
}

static lks_code next(op *o, lks_error *error)
{
    lks_next_request request = next_of(o->world, thing(o));

    return drive_call(o, &lks_id_next_method, &request, 0, error);
}

static void got_ids(op *o, const void *message)
{
    const lks_next_response *response = message;

    atomic_fetch_add_explicit(&o->world->ids, response->n_ids + response->n_uuids, memory_order_relaxed);
}

/* A new store grants no worker for 3 s; the error says for how long. */
static bool prepare_ids(world *w, lks_error *error)
{
    lks_next_request request = next_of(w, w->things[0]);

    do {
        if (lks_id_next(w->channel, &request, NULL, NULL, error) == LKS_OK)
            return true;
    } while (error->code == LKS_UNAVAILABLE && error->retry_after_ms > 0 &&
             program_pause((double)error->retry_after_ms / 1e3));
    return false;
}

static bool check_ids(world *w, const tally *all)
{
    uint64_t ok = tally_of(all, w->scenario, 0, 0), ids = atomic_load(&w->ids);

    snprintf(w->checked, CHECK_BYTES, "answers %" PRIu64 ", ids %" PRIu64, ok, ids);
    return ok == ids;
}

static lks_code decode(op *o, lks_error *error)
{
    lks_decode_request request = LKS_DECODE_REQUEST_INIT;

    request.id = (int64_t)(o->serial | 1) << 22;
    return drive_call(o, &lks_id_decode_method, &request, 0, error);
}

/* ---- the table ------------------------------------------------------------------------ */

#define PLENTY 1000000000000
/* A step whose response has an outcome. */
#define STEP(name, ...)                                                     \
    {                                                                       \
        .outcomes = &lockstock__v1__##name##_outcome__descriptor,           \
        .outcome_at = offsetof(lks_##name##_response, outcome), __VA_ARGS__ \
    }
#define DEDUCT .steps = {STEP(deduct, .start = deduct)}, .check = check_stock
#define RESERVE STEP(reserve, .start = reserve, .next_if = LKS_RESERVE_OUTCOME_RESERVED)
#define ACQUIRE STEP(acquire, .start = acquire, .seen = acquired, .next_if = LKS_ACQUIRE_OUTCOME_ACQUIRED)
#define LOCK(wait_ms) .steps = {ACQUIRE, STEP(release, .start = release)}, .check = check_lock, .variant = (wait_ms)
#define BEGIN STEP(begin, .start = begin, .seen = begun, .next_if = LKS_BEGIN_OUTCOME_EXECUTE)
#define CHECK(algorithm) .steps = {STEP(check, .start = check)}, .variant = LKS_ALGORITHM_##algorithm
#define NEXT(kind) \
    .things = 1, .steps = {{.start = next, .seen = got_ids}}, .check = check_ids, .variant = LKS_ID_KIND_##kind

enum { AT_DEDUCT, AT_RESERVE = 3, AT_LOCK, AT_BEGIN = 6, AT_BUCKET = 10 }; /* in the table; of mix */

/* clang-format off */
const scenario scenarios[] = {
    [AT_DEDUCT] = {"deduct", "Deduct, each caller its own item", .on_hand = PLENTY, DEDUCT},
    {"deduct-hot", "Deduct, all of one item", .things = 1, .on_hand = PLENTY, DEDUCT},
    {"sold-out", "Deduct of one item that is sold out", .things = 1, .sold_out = true, DEDUCT},
    [AT_RESERVE] = {"reserve", "Reserve, then Confirm", .on_hand = PLENTY, .steps = {RESERVE, STEP(confirm, .start = confirm)},
     .check = check_stock},
    [AT_LOCK] = {"lock", "Acquire, then Release, each caller its own name", LOCK(0)},
    {"lock-hot", "Acquire, then Release, all of one name, who waits in its queue", .things = 1, LOCK(MINUTE_MS)},
    [AT_BEGIN] = {"begin", "Begin of a new key, then Complete", .steps = {BEGIN, STEP(complete, .start = complete)},
     .check = check_begin},
    {"check-fixed", "Check, FIXED_WINDOW", CHECK(FIXED_WINDOW)},
    {"check-log", "Check, SLIDING_LOG", CHECK(SLIDING_LOG)},
    {"check-window", "Check, SLIDING_WINDOW", CHECK(SLIDING_WINDOW)},
    [AT_BUCKET] = {"check-bucket", "Check, TOKEN_BUCKET", CHECK(TOKEN_BUCKET)},
    {"check-denied", "Check of one key that is over its limit", .things = 1, CHECK(FIXED_WINDOW), .check = check_denied},
    {"ids", "Next, SNOWFLAKE", NEXT(SNOWFLAKE), .prepare = prepare_ids},
    {"ids-uuid", "Next, UUID_V7", NEXT(UUID_V7)},
    {"ids-sequence", "Next, SEQUENCE", NEXT(SEQUENCE)},
    {"decode", "Decode, which needs no store", .things = 1, .steps = {{.start = decode}}},
    {"mix", "4 deduct, 2 reserve, 2 lock, 1 begin, 1 check-bucket of ten", .on_hand = PLENTY, .check = check_stock},
};
/* clang-format on */
const unsigned n_scenarios = sizeof scenarios / sizeof scenarios[0];
_Static_assert(sizeof scenarios / sizeof scenarios[0] <= SCENARIOS_MAX, "a tally has no room for them");

const scenario *scenario_find(const char *name)
{
    for (unsigned i = 0; i < n_scenarios; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}

const scenario *scenario_of(const world *w, uint64_t serial)
{
    static const unsigned char mixed[] = {AT_DEDUCT, AT_DEDUCT, AT_RESERVE, AT_LOCK, AT_BUCKET,
                                          AT_DEDUCT, AT_DEDUCT, AT_RESERVE, AT_LOCK, AT_BEGIN};

    return w->scenario->steps[0].start ? w->scenario : &scenarios[mixed[serial % sizeof mixed]];
}

/* ---- a world ------------------------------------------------------------------------------ */

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

bool world_open(world *w, const scenario *s, const bench_options *o, const place *p)
{
    static const lks_channel_options options = {.timeout_ms = 30000};
    int64_t n = s->things > 0 ? s->things : o->items > 0 ? o->items : o->in_flight;
    bool has_items = s->on_hand > 0 || s->sold_out;
    lks_error error = {0};

    *w = (world){.scenario = s, .place = p, .n_things = (unsigned)n};
    w->things = program_alloc(w->n_things, sizeof *w->things);
    bool opened = getrandom(&w->tag, sizeof w->tag, 0) == (ssize_t)sizeof w->tag;
    for (unsigned i = 0; i < w->n_things; i++)
        snprintf(w->things[i], sizeof w->things[i], "%016" PRIx64 "-%u", w->tag, i);
    opened = opened && lks_channel_open(p->url[0], &options, &w->channel, &error) == LKS_OK &&
             (!has_items || put_items(w, &error)) && (!s->prepare || s->prepare(w, &error));
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

bool world_agrees(world *w, const tally *all)
{
    return !w->scenario->check || w->scenario->check(w, all);
}

/* What a thread does: orders from their beginning to their end, with repeats of each step, adjustments, looks; now
 * and then a lock and a limit, which have calls of their own among the others. Invariant: an order is its thread's
 * alone, so only what becomes of the items depends on the others. */
#include "sequential.h"

#include <stdio.h>
#include <string.h>

enum {
    PERCENT = 100,
    QUANTITY_MAX = 97,
    CROWD_MAX = 6,
    SELDOM_THERE = 400,
    LOCK_LEASE_MS = 3600000,
    CHECK_PERIOD_MS = 86400000,
    TIMEOUT_MS = 120000
};

typedef struct trader {
    sequential *all;
    uint64_t seed;
    size_t left;
    bool has_back; /* units came back just now, through this channel */
    int back_channel, back_group, back_sku;
    op made[SEQ_GROUPS]; /* the last order that was; n_lines 0: none */
} trader;

/* xorshift64*: each thread its own. */
static uint32_t below(trader *t, uint32_t n)
{
    t->seed ^= t->seed >> 12;
    t->seed ^= t->seed << 25;
    t->seed ^= t->seed >> 27;
    return (uint32_t)((t->seed * UINT64_C(2685821657736338717)) >> 33) % n;
}

static bool chance(trader *t, uint32_t percent)
{
    return below(t, PERCENT) < percent;
}

static int some_channel(trader *t)
{
    return (int)below(t, SEQ_CHANNELS);
}

/* For what gives units back, and for repeats. */
static int channel_of_change(trader *t, int group)
{
    return group == 0 ? some_channel(t) : some_channel(t) | 1;
}

static const op *call_at(trader *t, int channel, const op *asked)
{
    if (t->left > 0)
        t->left--;
    return sequential_call(t->all, channel, asked);
}

/* A repeat is looked up, wherever it comes. NULL after a fault. */
static const op *maybe_again(trader *t, op asked, const op *first)
{
    asked.fresh = false;
    return first && chance(t, 30) ? call_at(t, channel_of_change(t, asked.group), &asked) : first;
}

static void gave_back(trader *t, int channel, int group, int sku)
{
    t->has_back = true;
    t->back_channel = channel;
    t->back_group = group;
    t->back_sku = sku;
}

/* ---- the steps of an order ------------------------------------------------------- */

static int draw_sku(trader *t)
{
    uint32_t roll = below(t, PERCENT);

    return roll < 80 ? SEQ_SCARCE : roll < 90 ? SEQ_PLENTY : SEQ_LIMITED;
}

static op draw_order(trader *t)
{
    op o = {.kind = chance(t, 60) ? OP_DEDUCT : OP_RESERVE,
            .group = (int)below(t, SEQ_GROUPS),
            .order = (uint32_t)atomic_fetch_add(&t->all->n_orders, 1),
            .buyer = 1 + (int)below(t, MODEL_BUYERS - 1),
            .n_lines = chance(t, 85) ? 1 : 2 + (int)below(t, MODEL_SKUS - 1)};
    int sku = draw_sku(t);

    if (t->has_back) { /* what is told at once of what this thread has just put back */
        sku = t->back_sku;
        o.group = t->back_group;
        o.n_lines = 1;
    }
    o.fresh = o.group == 1 || t->has_back || chance(t, 80);
    for (int i = 0; i < o.n_lines; i++)
        o.lines[i] = (op_line){.sku = (sku + i) % MODEL_SKUS, .quantity = 1 + below(t, QUANTITY_MAX)};
    return o;
}

/* It is sold out: more come for it at once, and one whose order was made asks again. */
static void crowd(trader *t, int channel, const op *refused)
{
    op more = *refused, again = t->made[refused->group];
    const op *told = refused;

    for (uint32_t n = 1 + below(t, CROWD_MAX); n > 0 && told; n--) {
        more.order = (uint32_t)atomic_fetch_add(&t->all->n_orders, 1);
        more.lines[0].quantity = refused->lines[0].quantity + below(t, 3);
        told = call_at(t, channel, &more);
        if (told && op_had_effect(told))
            return;
        if (told && again.n_lines > 0 && again.group == 0 && chance(t, 20))
            told = call_at(t, channel, &again);
    }
}

/* Sold or held; NULL: neither, or a fault. */
static const op *make(trader *t, op *order)
{
    int channel = t->has_back ? t->back_channel : some_channel(t);
    const op *first, *both[2];

    t->has_back = false;
    if (order->group == 1 && channel % SEQ_SERVERS == 0 && order->lines[0].sku == SEQ_SCARCE)
        order->lines[0].quantity += SELDOM_THERE; /* this server hears of changes by asking only, and sells little */
    if (order->group == 0 && chance(t, 20)) {
        order->fresh = false;
        sequential_race(t->all, channel, order, both);
        t->left -= t->left > 1 ? 2 : t->left;
        return both[0] && (op_had_effect(both[0]) || op_had_effect(both[1])) ? both[0] : NULL;
    }
    first = call_at(t, channel, order);
    if (first && !op_had_effect(first) && order->fresh && order->n_lines == 1 && chance(t, 60))
        crowd(t, channel, order);
    else if (first && !op_had_effect(first) && chance(t, 30)) {
        order->fresh = false;
        first = call_at(t, channel_of_change(t, order->group), order);
    }
    if (!first || !op_had_effect(first))
        return NULL;
    order->fresh = false;
    t->made[order->group] = *order;
    return maybe_again(t, *order, first);
}

static const op *step(trader *t, op_kind kind, const op *order, int channel)
{
    op asked = {.kind = kind, .group = order->group, .order = order->order};
    const op *first = call_at(t, channel, &asked);

    return maybe_again(t, asked, first);
}

/* Of each line a part, or all that is left. */
static void take_back(trader *t, const op *order)
{
    int channel = channel_of_change(t, order->group);
    op asked = {.kind = OP_RETURN,
                .group = order->group,
                .order = order->order,
                .back = (uint32_t)atomic_fetch_add(&t->all->n_returns, 1),
                .n_lines = chance(t, 60) ? 0 : order->n_lines};

    for (int i = 0; i < asked.n_lines; i++)
        asked.lines[i] =
            (op_line){.sku = order->lines[i].sku, .quantity = 1 + below(t, (uint32_t)order->lines[i].quantity)};
    const op *first = call_at(t, channel, &asked);
    if (maybe_again(t, asked, first) && op_had_effect(first))
        gave_back(t, channel, order->group, order->lines[0].sku);
}

static void run_order(trader *t)
{
    op order = draw_order(t);
    bool held = order.kind == OP_RESERVE;
    int channel = channel_of_change(t, order.group);

    if (order.group == 0 && !t->has_back &&
        chance(t, 6)) { /* cancelled before it comes: then it is none that was never sent */
        order.fresh = false;
        if (!step(t, OP_CANCEL, &order, channel))
            return;
    }
    if (!make(t, &order))
        return;
    if (held && chance(t, 40)) {
        if (step(t, OP_CANCEL, &order, channel))
            gave_back(t, channel, order.group, order.lines[0].sku);
        return;
    }
    if (held && !step(t, OP_CONFIRM, &order, channel))
        return;
    if (chance(t, 10) && !step(t, OP_CANCEL, &order, channel))
        return;
    if (chance(t, 75))
        take_back(t, &order);
    if (chance(t, 30))
        take_back(t, &order);
}

/* ---- other calls ------------------------------------------------------------------ */

static void adjust(trader *t)
{
    int group = (int)below(t, SEQ_GROUPS);
    int channel = channel_of_change(t, group);
    int64_t quantity = 1 + below(t, QUANTITY_MAX);
    op asked = {.kind = OP_ADJUST,
                .group = group,
                .order = (uint32_t)atomic_fetch_add(&t->all->n_orders, 1),
                .n_lines = 1,
                .lines = {{.sku = SEQ_SCARCE, .quantity = chance(t, 60) ? quantity : -quantity}}};
    const op *first = call_at(t, channel, &asked);

    if (maybe_again(t, asked, first) && op_had_effect(first) && asked.lines[0].quantity > 0)
        gave_back(t, channel, group, SEQ_SCARCE);
}

static void look(trader *t)
{
    const op asked = {
        .kind = OP_GET_ITEM, .group = (int)below(t, SEQ_GROUPS), .n_lines = 1, .lines = {{.sku = draw_sku(t)}}};

    call_at(t, some_channel(t), &asked);
}

/* One holder at a time, by what the holders know, and fences that rise. */
static void hold(trader *t, size_t lock)
{
    sequential *s = t->all;
    const lks_call_options options = {.timeout_ms = TIMEOUT_MS};
    char name[] = {(char)('x' + lock), '\0'};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_error error;
    lks_channel *channel = s->channels[some_channel(t)];

    target.name = name;
    request.targets = targets;
    request.n_targets = 1;
    request.lease_ms = LOCK_LEASE_MS;
    if (lks_lock_acquire(channel, &request, &options, &response, &error) != LKS_OK) {
        sequential_fault(s, "Acquire: %s", error.message);
        return;
    }
    if (response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED) {
        lks_release_request release = LKS_RELEASE_REQUEST_INIT;
        int64_t fence = (int64_t)response->fences[0]->fence;
        if (atomic_fetch_add(&s->holders[lock], 1) != 0)
            sequential_fault(s, "two hold lock %s", name);
        if (atomic_exchange(&s->fences[lock], fence) >= fence)
            sequential_fault(s, "the fence of lock %s did not rise", name);
        atomic_fetch_sub(&s->holders[lock], 1);
        release.group = response->group;
        release.token = response->token;
        if (lks_lock_release(channel, &release, &options, NULL, &error) != LKS_OK)
            sequential_fault(s, "Release: %s", error.message);
    }
    lks_acquire_response_free(response);
}

/* No more are allowed than the limit, whoever asks where. */
static void check(trader *t)
{
    sequential *s = t->all;
    const lks_call_options options = {.timeout_ms = TIMEOUT_MS};
    char key[] = "k";
    lks_limit limit = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_check_response *response = NULL;
    lks_error error;

    limit.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    limit.limit = SEQ_LIMIT;
    limit.period_ms = CHECK_PERIOD_MS;
    lks_rule_set_limit(&rule, &limit);
    rule.key = key;
    request.rules = rules;
    request.n_rules = 1;
    if (lks_rate_limit_check(s->channels[some_channel(t)], &request, &options, &response, &error) != LKS_OK) {
        sequential_fault(s, "Check: %s", error.message);
        return;
    }
    atomic_fetch_add(&s->n_checks, 1);
    if (response->outcome == LKS_CHECK_OUTCOME_ALLOWED)
        atomic_fetch_add(&s->n_allowed, 1);
    lks_check_response_free(response);
}

void *sequential_run(void *arg)
{
    const sequential_worker *w = arg;
    trader t = {.all = w->all, .seed = w->seed, .left = w->all->calls_each};

    while (t.left > 0 && atomic_load(&t.all->n_faults) == 0) {
        uint32_t roll = t.has_back ? PERCENT : below(&t, PERCENT);
        if (roll < 10)
            adjust(&t);
        else if (roll < 25)
            look(&t);
        else if (roll < 29)
            hold(&t, below(&t, SEQ_LOCKS));
        else if (roll < 33)
            check(&t);
        else
            run_order(&t);
    }
    return NULL;
}

/* Invariant: what an order is, by its record, follows from what its thread was told
 * and from nothing else. */
#include "reservations.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_MS = 3600000, SHORT_MS = 10, WAITING = 8, PERCENT = 100, QUANTITY_MAX = 2 };

static const char *const groups[STORM_GROUPS] = {"east", "north", "west"};
static const char *const goods[STORM_GOODS] = {"limited", "plenty", "scarce"};
enum { LIMITED, PLENTY, SCARCE };

const char *storm_group(int group)
{
    return groups[group];
}

const char *storm_good(int index)
{
    return goods[index];
}

int64_t storm_limit(int index)
{
    return index == LIMITED ? STORM_LIMIT : 0;
}

void storm_fault(storm *s, const char *format, ...)
{
    va_list arguments;

    pthread_mutex_lock(&s->mutex);
    if (atomic_fetch_add(&s->n_faults, 1) == 0) {
        va_start(arguments, format);
        vsnprintf(s->fault, sizeof s->fault, format, arguments);
        va_end(arguments);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* xorshift64*: each thread its own, so that a seed gives each its part again. */
static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(2685821657736338717)) >> 33) % n;
}

static bool chance(uint64_t *state, uint32_t percent)
{
    return random_below(state, PERCENT) < percent;
}

static void draw_order(storm *s, order *o, uint64_t *seed)
{
    *o = (order){.group = (int)random_below(seed, STORM_GROUPS),
                 .buyer = (int)random_below(seed, (uint32_t)s->n_buyers),
                 .is_adjustment = chance(seed, 5)};
    int first = (int)random_below(seed, STORM_GOODS);
    o->n_lines = o->is_adjustment ? 1 : 1 + (int)random_below(seed, STORM_LINES);
    for (int i = 0; i < o->n_lines; i++)
        o->lines[i] =
            (order_line){.good = (first + i) % STORM_GOODS, .quantity = 1 + (int32_t)random_below(seed, QUANTITY_MAX)};
    if (o->is_adjustment) {
        o->lines[0].good = SCARCE;
        o->lines[0].quantity = chance(seed, 70) ? 10 : -8;
    }
}

bool storm_open(storm *s, size_t n, uint64_t seed)
{
    uint64_t state = seed | 1;

    *s = (storm){.n_orders = n, .n_buyers = n / 15 + 1, .orders = calloc(n, sizeof *s->orders)};
    pthread_mutex_init(&s->mutex, NULL);
    if (!s->orders)
        return false;
    for (size_t i = 0; i < n; i++)
        draw_order(s, &s->orders[i], &state);
    for (int g = 0; g < STORM_GROUPS; g++) {
        s->goods[g][LIMITED].initial = s->goods[g][PLENTY].initial = (int64_t)n * QUANTITY_MAX;
        s->goods[g][SCARCE].initial = (int64_t)n / 60;
    }
    return true;
}

void storm_close(storm *s)
{
    free(s->orders);
    pthread_mutex_destroy(&s->mutex);
}

/* ---- a worker ------------------------------------------------------------------ */

typedef struct worker {
    storm *storm;
    uint64_t seed;
    size_t waiting[WAITING]; /* orders whose hold is to end before they go on */
    size_t n_waiting;
} worker;

/* Leaves an effect to the other threads, in place of an older one. */
static void offer(storm *s, uint64_t *seed, size_t index, const effect *e)
{
    pthread_mutex_lock(&s->mutex);
    size_t at = s->n_ring < STORM_REPEATS ? s->n_ring++ : random_below(seed, STORM_REPEATS);
    s->ring[at] = (repeat){.order = index, .effect = *e};
    pthread_mutex_unlock(&s->mutex);
}

static void repeat_another(storm *s, uint64_t *seed)
{
    repeat r = {0};

    pthread_mutex_lock(&s->mutex);
    bool found = s->n_ring > 0;
    if (found)
        r = s->ring[random_below(seed, (uint32_t)s->n_ring)];
    pthread_mutex_unlock(&s->mutex);
    if (found)
        effect_repeat(s, r.order, &r.effect, (int)random_below(seed, STORM_SERVERS));
}

/* What the answer makes of the order. */
static void follow(storm *s, size_t index, const effect *e)
{
    order *o = &s->orders[index];
    const told *t = &e->first;

    switch (e->kind) {
    case EFFECT_RESERVE:
        if (t->outcome == LKS_RESERVE_OUTCOME_RESERVED) {
            o->state = LKS_ORDER_STATE_RESERVED;
            o->ends = e->hold_ms < LONG_MS;
        } else if ((t->outcome == LKS_RESERVE_OUTCOME_CANCELLED) != o->buried) {
            storm_fault(s, "o%zu: Reserve is told %s, and was %s before", index,
                        lks_reserve_outcome_name((lks_reserve_outcome)t->outcome),
                        o->buried ? "cancelled" : "not cancelled");
        }
        break;
    case EFFECT_DEDUCT:
        if (t->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
            o->state = LKS_ORDER_STATE_CONFIRMED;
        break;
    case EFFECT_CONFIRM:
        if (t->outcome == LKS_CONFIRM_OUTCOME_CONFIRMED)
            o->state = LKS_ORDER_STATE_CONFIRMED;
        else if (o->ends && (t->outcome == LKS_CONFIRM_OUTCOME_EXPIRED || t->outcome == LKS_CONFIRM_OUTCOME_SOLD_OUT))
            o->state = LKS_ORDER_STATE_EXPIRED;
        else if (t->outcome != LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER || o->state != LKS_ORDER_STATE_UNSPECIFIED)
            storm_fault(s, "o%zu: Confirm is told %s in state %s", index,
                        lks_confirm_outcome_name((lks_confirm_outcome)t->outcome),
                        lks_order_state_name((lks_order_state)o->state));
        break;
    case EFFECT_EXTEND:
        if (t->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED) {
            o->ends = e->hold_ms < LONG_MS;
        } else if (t->outcome == LKS_EXTEND_HOLD_OUTCOME_EXPIRED &&
                   (o->ends || (e->hold_ms < LONG_MS && (e->uncertain || s->is_lossy)))) {
            /* A short hold may be over when the lost answer is asked for again. */
            o->ends = true;
            o->state = LKS_ORDER_STATE_EXPIRED;
        } else {
            storm_fault(s, "o%zu: ExtendHold is told %s in state %s", index,
                        lks_extend_hold_outcome_name((lks_extend_hold_outcome)t->outcome),
                        lks_order_state_name((lks_order_state)o->state));
        }
        break;
    case EFFECT_CANCEL:
        if (t->outcome == LKS_CANCEL_OUTCOME_UNKNOWN_ORDER && o->state == LKS_ORDER_STATE_UNSPECIFIED)
            o->buried = true;
        else if (t->outcome == LKS_CANCEL_OUTCOME_CANCELLED &&
                 (t->state == LKS_ORDER_STATE_CANCELLED || (o->ends && t->state == LKS_ORDER_STATE_EXPIRED)))
            o->state = t->state;
        else if (t->outcome != LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED || o->state != LKS_ORDER_STATE_CONFIRMED)
            storm_fault(s, "o%zu: Cancel is told %s, order %s, in state %s", index,
                        lks_cancel_outcome_name((lks_cancel_outcome)t->outcome),
                        lks_order_state_name((lks_order_state)t->state),
                        lks_order_state_name((lks_order_state)o->state));
        break;
    case EFFECT_RETURN: {
        bool all = true;
        for (int i = 0; i < o->n_lines && t->outcome == LKS_RETURN_OUTCOME_RETURNED; i++) {
            bool rest = e->back[0] + e->back[1] + e->back[2] == 0;
            o->returned[i] = rest ? o->lines[i].quantity : o->returned[i] + e->back[i];
            all = all && o->returned[i] == o->lines[i].quantity;
        }
        if (t->outcome == LKS_RETURN_OUTCOME_RETURNED && all)
            o->state = LKS_ORDER_STATE_RETURNED;
        else if (t->outcome == LKS_RETURN_OUTCOME_UNKNOWN_ORDER)
            storm_fault(s, "o%zu: Return does not know it", index);
        break;
    }
    default:
        break;
    }
}

/* Sends an effect, now and then twice at once, and repeats it, now and then. */
static void perform(worker *w, size_t index, effect e)
{
    storm *s = w->storm;
    order *o = &s->orders[index];
    int server = (int)random_below(&w->seed, STORM_SERVERS);

    e.number = (unsigned)o->n_effects;
    if (chance(&w->seed, 12)) {
        told both[2];
        effect_race(s, index, &e, both);
        e.first = both[0];
    } else {
        e.first = effect_send(s, index, &e, server);
    }
    atomic_fetch_add(&s->outcomes[e.kind][e.first.outcome & 7], 1);
    o->effects[o->n_effects++] = e;
    follow(s, index, &e);
    if (told_effect(&e, &e.first)) {
        if (chance(&w->seed, 15))
            effect_repeat(s, index, &e, 1 - server);
        if (chance(&w->seed, 25))
            offer(s, &w->seed, index, &e);
    }
    if (chance(&w->seed, 20))
        repeat_another(s, &w->seed);
}

static void give_back(worker *w, size_t index)
{
    order *o = &w->storm->orders[index];
    effect e = {.kind = EFFECT_RETURN};

    if (o->state != LKS_ORDER_STATE_CONFIRMED || !chance(&w->seed, 40))
        return;
    int line = (int)random_below(&w->seed, (uint32_t)o->n_lines);
    e.back[line] = o->lines[line].quantity + (chance(&w->seed, 10) ? 1 : 0);
    if (o->n_lines > 1 || chance(&w->seed, 50))
        perform(w, index, e);
    if (o->state == LKS_ORDER_STATE_CONFIRMED && chance(&w->seed, 50))
        perform(w, index, (effect){.kind = EFFECT_RETURN});
}

static void reserve(worker *w, size_t index, int32_t hold_ms)
{
    perform(w, index, (effect){.kind = EFFECT_RESERVE, .hold_ms = hold_ms});
}

static bool stands(worker *w, size_t index)
{
    return w->storm->orders[index].state == LKS_ORDER_STATE_RESERVED;
}

/* What an order does first; false when it goes on later, after its hold. */
static bool begin(worker *w, size_t index)
{
    uint32_t way = random_below(&w->seed, PERCENT);
    int32_t brief = SHORT_MS + (int32_t)random_below(&w->seed, 3 * SHORT_MS);

    if (way < 5) {
        perform(w, index, (effect){.kind = EFFECT_DEDUCT});
        give_back(w, index);
    } else if (way < 10) {
        perform(w, index, (effect){.kind = EFFECT_CANCEL});
        reserve(w, index, LONG_MS);
    } else if (way < 45) {
        if (way < 13)
            perform(w, index, (effect){.kind = EFFECT_CONFIRM});
        reserve(w, index, LONG_MS);
        if (stands(w, index))
            perform(w, index, (effect){.kind = EFFECT_CONFIRM, .reacquire = chance(&w->seed, 20)});
        give_back(w, index);
        if (w->storm->orders[index].state == LKS_ORDER_STATE_CONFIRMED && way > 40)
            perform(w, index, (effect){.kind = EFFECT_CANCEL});
    } else if (way < 58) {
        reserve(w, index, LONG_MS);
        if (stands(w, index))
            perform(w, index, (effect){.kind = EFFECT_CANCEL});
    } else if (way < 65) {
        reserve(w, index, brief);
        if (stands(w, index))
            perform(w, index, (effect){.kind = EFFECT_EXTEND, .hold_ms = LONG_MS});
        if (stands(w, index))
            perform(w, index, (effect){.kind = EFFECT_CONFIRM});
    } else if (way < 68) {
        reserve(w, index, LONG_MS);
        if (stands(w, index))
            perform(w, index, (effect){.kind = EFFECT_EXTEND, .hold_ms = brief});
    } else {
        reserve(w, index, brief);
        return way < 76 || !stands(w, index); /* the former are left to themselves */
    }
    return true;
}

static void go_on(worker *w, size_t index)
{
    uint32_t way = random_below(&w->seed, PERCENT);

    if (way < 80)
        perform(w, index, (effect){.kind = EFFECT_CONFIRM, .reacquire = way < 45});
    else
        perform(w, index, (effect){.kind = EFFECT_CANCEL});
    give_back(w, index);
    atomic_fetch_add(&w->storm->done, 1);
}

/* A reader may see it from when it was sent, and must from when it was told. */
static void adjust(worker *w, size_t index)
{
    const order *o = &w->storm->orders[index];
    good *g = &w->storm->goods[o->group][o->lines[0].good];
    long long units = llabs((long long)o->lines[0].quantity);
    bool adds = o->lines[0].quantity > 0;

    atomic_fetch_add(adds ? &g->adds_sent : &g->takes_sent, units);
    perform(w, index, (effect){.kind = EFFECT_ADJUST});
    if (o->effects[0].first.code == LKS_OK)
        atomic_fetch_add(adds ? &g->adds_done : &g->takes_done, units);
    else
        atomic_fetch_sub(adds ? &g->adds_sent : &g->takes_sent, units);
}

void *storm_worker(void *arg)
{
    storm *s = arg;
    worker w = {.storm = s};
    size_t index;

    while (atomic_load(&s->n_faults) == 0 && (index = atomic_fetch_add(&s->taken, 1)) < s->n_orders) {
        if (w.seed == 0)
            w.seed = (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
        if (s->orders[index].is_adjustment) {
            adjust(&w, index);
        } else if (!begin(&w, index)) {
            if (w.n_waiting == WAITING) {
                go_on(&w, w.waiting[0]);
                memmove(w.waiting, w.waiting + 1, --w.n_waiting * sizeof *w.waiting);
            }
            w.waiting[w.n_waiting++] = index;
            continue;
        }
        atomic_fetch_add(&s->done, 1);
    }
    for (size_t i = 0; i < w.n_waiting; i++)
        go_on(&w, w.waiting[i]);
    return NULL;
}

/* ---- a reader ------------------------------------------------------------------ */

static void check_item(storm *s, int group, const lks_item *item, const long long (*before)[2])
{
    int index = 0;

    while (index < STORM_GOODS && strcmp(item->sku, goods[index]) != 0)
        index++;
    if (index == STORM_GOODS) {
        storm_fault(s, "an item %s", item->sku);
        return;
    }
    good *g = &s->goods[group][index];
    int64_t on_hand = item->available + item->reserved + item->sold;
    int64_t least = g->initial + before[index][0] - atomic_load(&g->takes_sent);
    int64_t most = g->initial + atomic_load(&g->adds_sent) - before[index][1];
    if (item->available < 0 || item->reserved < 0 || item->sold < 0 || on_hand < least || on_hand > most)
        storm_fault(s, "%s/%s: available %lld, reserved %lld, sold %lld; on hand are %lld to %lld", groups[group],
                    item->sku, (long long)item->available, (long long)item->reserved, (long long)item->sold,
                    (long long)least, (long long)most);
}

void *storm_reader(void *arg)
{
    reader *r = arg;
    storm *s = r->storm;

    while (!atomic_load(&s->over)) {
        int group = (int)random_below(&r->seed, STORM_GROUPS);
        long long before[STORM_GOODS][2];
        const char *skus[STORM_GOODS];
        lks_batch_get_items_request request = LKS_BATCH_GET_ITEMS_REQUEST_INIT;
        lks_batch_get_items_response *response = NULL;
        lks_error error;

        for (int i = 0; i < STORM_GOODS; i++) {
            before[i][0] = atomic_load(&s->goods[group][i].adds_done);
            before[i][1] = atomic_load(&s->goods[group][i].takes_done);
            skus[i] = goods[i];
        }
        request.group = groups[group];
        request.n_skus = STORM_GOODS;
        request.skus = skus;
        lks_code code = lks_stock_batch_get_items(s->channels[r->server], &request, &s->options, &response, &error);
        if (code != LKS_OK) {
            if (!s->is_lossy)
                storm_fault(s, "BatchGetItems: %s: %s", lks_code_name(code), error.message);
            continue;
        }
        if (response->n_items != STORM_GOODS)
            storm_fault(s, "%zu items of %s", response->n_items, groups[group]);
        for (size_t i = 0; i < response->n_items; i++)
            check_item(s, group, response->items[i], (const long long(*)[2])before);
        lks_batch_get_items_response_free(response);
        atomic_fetch_add(&s->reads, 1);
    }
    return NULL;
}

/* ---- after the storm ----------------------------------------------------------- */

static void look_at(storm *s, size_t index, int server)
{
    const order *o = &s->orders[index];
    char id[STORM_ID_MAX];
    lks_get_order_request request = LKS_GET_ORDER_REQUEST_INIT;
    lks_get_order_response *response = NULL;
    lks_error error;

    snprintf(id, sizeof id, "o%zu", index);
    request.group = groups[o->group];
    request.order_id = id;
    lks_code code = lks_stock_get_order(s->channels[server], &request, &s->options, &response, &error);
    if (code == LKS_NOT_FOUND) {
        if (o->state != LKS_ORDER_STATE_UNSPECIFIED)
            storm_fault(s, "%s: not found, and is in state %d", id, (int)o->state);
        return;
    }
    if (code != LKS_OK) {
        storm_fault(s, "%s: %s: %s", id, lks_code_name(code), error.message);
        return;
    }
    const lks_order *got = response->order;
    /* Nobody was told of the end of a hold that was left to itself. */
    lks_order_state expected = o->state == LKS_ORDER_STATE_RESERVED && o->ends ? LKS_ORDER_STATE_EXPIRED
                               : o->buried                                     ? LKS_ORDER_STATE_CANCELLED
                                                                               : o->state;
    if (got->state != expected)
        storm_fault(s, "%s: in state %d, expected %d", id, (int)got->state, (int)expected);
    for (size_t i = 0; i < got->n_lines; i++)
        if (got->lines[i]->quantity != o->lines[i].quantity || got->lines[i]->returned != o->returned[i])
            storm_fault(s, "%s: line %zu: %lld, returned %lld, expected %d and %d", id, i,
                        (long long)got->lines[i]->quantity, (long long)got->lines[i]->returned, o->lines[i].quantity,
                        o->returned[i]);
    lks_get_order_response_free(response);
}

void *storm_checker(void *arg)
{
    storm *s = arg;
    size_t index;

    while (atomic_load(&s->n_faults) == 0 && (index = atomic_fetch_add(&s->taken, 1)) < s->n_orders) {
        order *o = &s->orders[index];
        for (int i = 0; i < o->n_effects; i++)
            if (told_effect(&o->effects[i], &o->effects[i].first))
                effect_repeat(s, index, &o->effects[i], 1 - o->effects[i].server);
        if (!o->is_adjustment)
            look_at(s, index, (int)(index % STORM_SERVERS));
    }
    return NULL;
}

/* Invariant: what is compared with a first answer was sent with the same ids and the
 * same content. */
#include "reservations.h"

#include <stdio.h>
#include <string.h>

#include "support/process.h"

enum { PATIENCE_MS = 240000 };

/* A request and the memory that it points into. */
typedef struct asked {
    union {
        lks_reserve_request reserve;
        lks_deduct_request deduct;
        lks_confirm_request confirm;
        lks_extend_hold_request extend;
        lks_cancel_request cancel;
        lks_return_request back;
        lks_adjust_request adjust;
    } as;
    lks_line lines[STORM_LINES], *at[STORM_LINES];
    char order_id[STORM_ID_MAX], return_id[STORM_ID_MAX], buyer[STORM_ID_MAX];
} asked;

/* The lines with a quantity; all of the order when `quantities` is NULL. */
static size_t fill_lines(asked *a, const order *o, const int32_t *quantities)
{
    size_t n = 0;

    for (int i = 0; i < o->n_lines; i++) {
        int32_t quantity = quantities ? quantities[i] : o->lines[i].quantity;
        if (quantity == 0)
            continue;
        a->lines[n] = (lks_line)LKS_LINE_INIT;
        a->lines[n].sku = storm_good(o->lines[i].good);
        a->lines[n].quantity = quantity;
        a->at[n] = &a->lines[n];
        n++;
    }
    return n;
}

static lks_code start(storm *s, size_t index, const effect *e, lks_channel *channel, bool fresh, lks_call **call,
                      lks_error *error)
{
    const order *o = &s->orders[index];
    const lks_call_options *options = &s->options;
    const char *group = storm_group(o->group);
    asked a = {0};

    snprintf(a.order_id, sizeof a.order_id, "o%zu", index);
    snprintf(a.return_id, sizeof a.return_id, "o%zu.%u", index, e->number);
    snprintf(a.buyer, sizeof a.buyer, "b%d", o->buyer);
    switch (e->kind) {
    case EFFECT_RESERVE:
        a.as.reserve = (lks_reserve_request)LKS_RESERVE_REQUEST_INIT;
        a.as.reserve.group = group;
        a.as.reserve.order_id = a.order_id;
        a.as.reserve.buyer_id = a.buyer;
        a.as.reserve.n_lines = fill_lines(&a, o, NULL);
        a.as.reserve.lines = a.at;
        a.as.reserve.hold_ms = e->hold_ms;
        a.as.reserve.fresh = fresh && !o->buried; /* what was cancelled before it came was sent */
        return lks_stock_reserve_start(channel, &a.as.reserve, options, NULL, NULL, call, error);
    case EFFECT_DEDUCT:
        a.as.deduct = (lks_deduct_request)LKS_DEDUCT_REQUEST_INIT;
        a.as.deduct.group = group;
        a.as.deduct.order_id = a.order_id;
        a.as.deduct.buyer_id = a.buyer;
        a.as.deduct.n_lines = fill_lines(&a, o, NULL);
        a.as.deduct.lines = a.at;
        a.as.deduct.fresh = fresh && !o->buried;
        return lks_stock_deduct_start(channel, &a.as.deduct, options, NULL, NULL, call, error);
    case EFFECT_CONFIRM:
        a.as.confirm = (lks_confirm_request)LKS_CONFIRM_REQUEST_INIT;
        a.as.confirm.group = group;
        a.as.confirm.order_id = a.order_id;
        a.as.confirm.reacquire_if_expired = e->reacquire;
        return lks_stock_confirm_start(channel, &a.as.confirm, options, NULL, NULL, call, error);
    case EFFECT_EXTEND:
        a.as.extend = (lks_extend_hold_request)LKS_EXTEND_HOLD_REQUEST_INIT;
        a.as.extend.group = group;
        a.as.extend.order_id = a.order_id;
        a.as.extend.hold_ms = e->hold_ms;
        return lks_stock_extend_hold_start(channel, &a.as.extend, options, NULL, NULL, call, error);
    case EFFECT_CANCEL:
        a.as.cancel = (lks_cancel_request)LKS_CANCEL_REQUEST_INIT;
        a.as.cancel.group = group;
        a.as.cancel.order_id = a.order_id;
        return lks_stock_cancel_start(channel, &a.as.cancel, options, NULL, NULL, call, error);
    case EFFECT_RETURN:
        a.as.back = (lks_return_request)LKS_RETURN_REQUEST_INIT;
        a.as.back.group = group;
        a.as.back.order_id = a.order_id;
        a.as.back.return_id = a.return_id;
        a.as.back.n_lines = fill_lines(&a, o, e->back);
        a.as.back.lines = a.at;
        return lks_stock_return_start(channel, &a.as.back, options, NULL, NULL, call, error);
    default:
        a.as.adjust = (lks_adjust_request)LKS_ADJUST_REQUEST_INIT;
        a.as.adjust.group = group;
        a.as.adjust.sku = storm_good(o->lines[0].good);
        a.as.adjust.delta = o->lines[0].quantity;
        a.as.adjust.adjustment_id = a.order_id;
        return lks_stock_adjust_start(channel, &a.as.adjust, options, NULL, NULL, call, error);
    }
}

static void note_lines(told *t, lks_line_stock *const *lines, size_t n)
{
    for (size_t i = 0; i < n && i < STORM_LINES; i++)
        t->left[i] = (int32_t)lines[i]->available;
}

static void note_order(told *t, const lks_order *o)
{
    if (!o)
        return;
    t->state = o->state;
    for (size_t i = 0; i < o->n_lines && i < STORM_LINES; i++)
        t->returned[i] = (int32_t)o->lines[i]->returned;
}

static void note(told *t, effect_kind kind, const lks_call *call)
{
    switch (kind) {
    case EFFECT_RESERVE: {
        const lks_reserve_response *r = lks_stock_reserve_response(call);
        t->outcome = (int)r->outcome;
        t->replayed = r->replayed;
        note_lines(t, r->lines, r->n_lines);
        break;
    }
    case EFFECT_DEDUCT: {
        const lks_deduct_response *r = lks_stock_deduct_response(call);
        t->outcome = (int)r->outcome;
        t->replayed = r->replayed;
        note_lines(t, r->lines, r->n_lines);
        break;
    }
    case EFFECT_CONFIRM: {
        const lks_confirm_response *r = lks_stock_confirm_response(call);
        t->outcome = (int)r->outcome;
        t->replayed = r->replayed;
        note_order(t, r->order);
        break;
    }
    case EFFECT_EXTEND:
        t->outcome = (int)lks_stock_extend_hold_response(call)->outcome;
        break;
    case EFFECT_CANCEL: {
        const lks_cancel_response *r = lks_stock_cancel_response(call);
        t->outcome = (int)r->outcome;
        t->replayed = r->replayed;
        note_order(t, r->order);
        break;
    }
    case EFFECT_RETURN: {
        const lks_return_response *r = lks_stock_return_response(call);
        t->outcome = (int)r->outcome;
        t->replayed = r->replayed;
        note_order(t, r->order);
        break;
    }
    default: {
        const lks_adjust_response *r = lks_stock_adjust_response(call);
        t->replayed = r->replayed;
        t->left[0] = (int32_t)r->item->available;
        t->left[1] = (int32_t)r->item->reserved;
        t->left[2] = (int32_t)r->item->sold;
        t->version = r->item->version;
        break;
    }
    }
}

/* The answer of a call that was started, or the failure to start it. */
static told finish(effect_kind kind, lks_code code, lks_call *call, lks_error *error)
{
    told t = {0};

    if (code == LKS_OK) {
        code = lks_call_wait(call, error);
        if (code == LKS_OK)
            note(&t, kind, call);
        lks_call_free(call);
    }
    t.code = code;
    return t;
}

/* Whether asking again brings the answer. */
static bool may_pass(lks_code code)
{
    return code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED || code == LKS_RESOURCE_EXHAUSTED;
}

/* Asks on until there is an answer. A refused Adjust is one. */
static told settle(storm *s, size_t index, effect *e, int server, told t, lks_error *error)
{
    long long end = process_now_ms() + PATIENCE_MS;

    while (may_pass(t.code) && process_now_ms() < end && atomic_load(&s->n_faults) == 0) {
        lks_call *call = NULL;
        e->uncertain = true;
        process_pause();
        lks_code code = start(s, index, e, s->channels[server], false, &call, error);
        t = finish(e->kind, code, call, error);
    }
    if (t.code != LKS_OK && !(e->kind == EFFECT_ADJUST && t.code == LKS_FAILED_PRECONDITION))
        storm_fault(s, "o%zu kind %d: %s: %s", index, (int)e->kind, lks_code_name(t.code), error->message);
    return t;
}

static told send_once(storm *s, size_t index, effect *e, int server, bool fresh)
{
    lks_error error = {0};
    lks_call *call = NULL;
    lks_code code = start(s, index, e, s->channels[server], fresh, &call, &error);

    return settle(s, index, e, server, finish(e->kind, code, call, &error), &error);
}

told effect_send(storm *s, size_t index, effect *e, int server)
{
    told t = send_once(s, index, e, server, true);

    e->server = server;
    if (t.code == LKS_OK && t.replayed && !e->uncertain && !s->is_lossy)
        storm_fault(s, "o%zu kind %d: the first answer says replayed", index, (int)e->kind);
    return t;
}

bool told_effect(const effect *e, const told *t)
{
    if (t->code != LKS_OK)
        return false;
    switch (e->kind) {
    case EFFECT_RESERVE:
        return t->outcome == LKS_RESERVE_OUTCOME_RESERVED;
    case EFFECT_DEDUCT:
        return t->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED;
    case EFFECT_CONFIRM:
        return t->outcome == LKS_CONFIRM_OUTCOME_CONFIRMED;
    case EFFECT_EXTEND:
        return t->outcome == LKS_EXTEND_HOLD_OUTCOME_EXTENDED;
    case EFFECT_CANCEL: /* an unknown order is buried */
        return t->outcome == LKS_CANCEL_OUTCOME_CANCELLED || t->outcome == LKS_CANCEL_OUTCOME_UNKNOWN_ORDER;
    case EFFECT_RETURN:
        return t->outcome == LKS_RETURN_OUTCOME_RETURNED;
    default:
        return true;
    }
}

/* Whether `again` is the first answer again: of an order too, which has gone on since. */
static bool same(effect_kind kind, const told *first, const told *again)
{
    if (kind == EFFECT_EXTEND) /* tells what the hold is now */
        return again->code == LKS_OK && again->outcome != LKS_EXTEND_HOLD_OUTCOME_UNKNOWN_ORDER;
    return again->code == LKS_OK && again->replayed && again->outcome == first->outcome &&
           again->state == first->state && again->version == first->version &&
           memcmp(again->left, first->left, sizeof again->left) == 0 &&
           memcmp(again->returned, first->returned, sizeof again->returned) == 0;
}

static void compare(storm *s, size_t index, const effect *e, const told *again)
{
    const told *first = &e->first;

    char texts[2][160];
    const told *both[] = {first, again};
    for (int i = 0; i < 2; i++)
        snprintf(texts[i], sizeof texts[i], "%s outcome %d%s, left %d %d %d, state %d, returned %d %d %d",
                 lks_code_name(both[i]->code), both[i]->outcome, both[i]->replayed ? " replayed" : "", both[i]->left[0],
                 both[i]->left[1], both[i]->left[2], (int)both[i]->state, both[i]->returned[0], both[i]->returned[1],
                 both[i]->returned[2]);
    if (!same(e->kind, first, again))
        storm_fault(s, "o%zu kind %d: first %s; again %s", index, (int)e->kind, texts[0], texts[1]);
}

void effect_repeat(storm *s, size_t index, effect *e, int server)
{
    effect again = *e;
    told t = send_once(s, index, &again, server, false);

    atomic_fetch_add(&s->repeats, 1);
    compare(s, index, e, &t);
}

void effect_race(storm *s, size_t index, effect *e, told ret[2])
{
    lks_call *calls[2] = {NULL, NULL};
    lks_code codes[2];
    lks_error errors[2] = {{0}, {0}};

    for (int i = 0; i < 2; i++)
        codes[i] = start(s, index, e, s->channels[i], false, &calls[i], &errors[i]);
    for (int i = 0; i < 2; i++)
        ret[i] = finish(e->kind, codes[i], calls[i], &errors[i]);
    for (int i = 0; i < 2; i++)
        ret[i] = settle(s, index, e, i, ret[i], &errors[i]);
    e->server = 0;
    atomic_fetch_add(&s->races, 1);

    bool effects[2] = {told_effect(e, &ret[0]), told_effect(e, &ret[1])};
    if (effects[1] && (!effects[0] || ret[0].replayed)) {
        told first = ret[1];
        ret[1] = ret[0];
        ret[0] = first;
    }
    if (!effects[0] || !effects[1] || e->kind == EFFECT_EXTEND)
        return;
    effect won = *e;
    won.first = ret[0];
    compare(s, index, &won, &ret[1]);
    if (ret[0].replayed && !e->uncertain && !s->is_lossy)
        storm_fault(s, "o%zu kind %d: both of two at once say replayed", index, (int)e->kind);
}

/* Invariant: what is written down of a call began before it was sent, and ended after it was told. */

#include "sequential.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { TIMEOUT_MS = 120000, LONG_MS = 3600000, ID_BYTES = 32 };

const char *const sequential_groups[SEQ_GROUPS] = {"g", "h"};

bool sequential_open(sequential *s, size_t n_threads, size_t calls_each)
{
    enum { OVER = 32 }; /* a thread looks after a whole order whether it has calls left */

    *s = (sequential){.calls_each = calls_each, .room = n_threads * (calls_each + OVER)};
    s->ops = calloc(s->room, sizeof *s->ops);
    return s->ops && pthread_mutex_init(&s->mutex, NULL) == 0;
}

void sequential_close(sequential *s)
{
    free(s->ops);
    pthread_mutex_destroy(&s->mutex);
}

void sequential_fault(sequential *s, const char *format, ...)
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

bool op_had_effect(const op *o)
{
    static const int effect[] = {[OP_DEDUCT] = LKS_DEDUCT_OUTCOME_DEDUCTED,
                                 [OP_RESERVE] = LKS_RESERVE_OUTCOME_RESERVED,
                                 [OP_CONFIRM] = LKS_CONFIRM_OUTCOME_CONFIRMED,
                                 [OP_CANCEL] = LKS_CANCEL_OUTCOME_CANCELLED,
                                 [OP_RETURN] = LKS_RETURN_OUTCOME_RETURNED,
                                 [OP_ADJUST] = 0,
                                 [OP_GET_ITEM] = -1};

    return o->code == LKS_OK && !o->replayed && o->outcome == effect[o->kind];
}

/* ---- sending ------------------------------------------------------------------- */

/* A request and the memory that it points into. */
typedef struct request_memory {
    lks_line lines[MODEL_SKUS], *at[MODEL_SKUS];
    char order_id[ID_BYTES], return_id[ID_BYTES];
} request_memory;

static lks_code start_other(lks_channel *channel, const op *o, request_memory *a, lks_call **call, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = TIMEOUT_MS};
    const char *group = sequential_groups[o->group];

    switch (o->kind) {
    case OP_RETURN: {
        lks_return_request request = LKS_RETURN_REQUEST_INIT;
        request.group = group;
        request.order_id = a->order_id;
        request.return_id = a->return_id;
        request.lines = a->at;
        request.n_lines = (size_t)o->n_lines;
        return lks_stock_return_start(channel, &request, &options, NULL, NULL, call, error);
    }
    case OP_ADJUST: {
        lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
        request.group = group;
        request.sku = a->lines[0].sku;
        request.delta = a->lines[0].quantity;
        request.adjustment_id = a->order_id;
        return lks_stock_adjust_start(channel, &request, &options, NULL, NULL, call, error);
    }
    default: {
        lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
        request.group = group;
        request.sku = a->lines[0].sku;
        return lks_stock_get_item_start(channel, &request, &options, NULL, NULL, call, error);
    }
    }
}

static lks_code start(lks_channel *channel, const op *o, lks_call **call, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = TIMEOUT_MS};
    const char *group = sequential_groups[o->group];
    size_t n = (size_t)o->n_lines;
    request_memory a;

    snprintf(a.order_id, sizeof a.order_id, "%c%u", o->kind == OP_ADJUST ? 'a' : 'o', o->order);
    snprintf(a.return_id, sizeof a.return_id, "r%u", o->back);
    for (size_t i = 0; i < n; i++) {
        a.lines[i] = (lks_line)LKS_LINE_INIT;
        a.lines[i].sku = model_skus[o->lines[i].sku];
        a.lines[i].quantity = o->lines[i].quantity;
        a.at[i] = &a.lines[i];
    }
    switch (o->kind) {
    case OP_DEDUCT: {
        lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
        request.group = group;
        request.order_id = a.order_id;
        request.buyer_id = model_buyers[o->buyer];
        request.lines = a.at;
        request.n_lines = n;
        request.fresh = o->fresh;
        return lks_stock_deduct_start(channel, &request, &options, NULL, NULL, call, error);
    }
    case OP_RESERVE: {
        lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
        request.group = group;
        request.order_id = a.order_id;
        request.buyer_id = model_buyers[o->buyer];
        request.lines = a.at;
        request.n_lines = n;
        request.fresh = o->fresh;
        request.hold_ms = LONG_MS;
        return lks_stock_reserve_start(channel, &request, &options, NULL, NULL, call, error);
    }
    case OP_CONFIRM: {
        lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;
        request.group = group;
        request.order_id = a.order_id;
        return lks_stock_confirm_start(channel, &request, &options, NULL, NULL, call, error);
    }
    case OP_CANCEL: {
        lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;
        request.group = group;
        request.order_id = a.order_id;
        return lks_stock_cancel_start(channel, &request, &options, NULL, NULL, call, error);
    }
    default:
        return start_other(channel, o, &a, call, error);
    }
}

/* ---- writing down -------------------------------------------------------------- */

static void add(op *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(op *o, const char *format, ...)
{
    size_t len = strlen(o->told);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(o->told + len, sizeof o->told - len, format, arguments);
    va_end(arguments);
}

static void note_lines(op *o, lks_line_stock *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(o, "%s%s:%lld", i > 0 ? " " : "", lines[i]->sku, (long long)lines[i]->available);
}

static void note_order(op *o, const lks_order *order)
{
    if (!order) {
        add(o, "none");
        return;
    }
    add(o, "%s %s", lks_order_state_name(order->state), order->buyer_id);
    for (size_t i = 0; i < order->n_lines; i++)
        add(o, " %s:%lld:%lld", order->lines[i]->sku, (long long)order->lines[i]->quantity,
            (long long)order->lines[i]->returned);
}

static void note_item(op *o, const lks_item *item)
{
    o->available = item->available;
    o->reserved = item->reserved;
    o->sold = item->sold;
    o->version = item->version;
    add(o, "%s", item->sku);
}

#define NOTE(method, ...)                                                              \
    do {                                                                               \
        const lks_##method##_response *response = lks_stock_##method##_response(call); \
        __VA_ARGS__                                                                    \
    } while (0)

static void note(op *o, const lks_call *call)
{
    switch (o->kind) {
    case OP_DEDUCT:
        NOTE(deduct, o->outcome = (int)response->outcome; o->replayed = response->replayed;
             note_lines(o, response->lines, response->n_lines););
        break;
    case OP_RESERVE:
        NOTE(reserve, o->outcome = (int)response->outcome; o->replayed = response->replayed;
             note_lines(o, response->lines, response->n_lines););
        break;
    case OP_CONFIRM:
        NOTE(confirm, o->outcome = (int)response->outcome; o->replayed = response->replayed;
             note_order(o, response->order););
        break;
    case OP_CANCEL:
        NOTE(cancel, o->outcome = (int)response->outcome; o->replayed = response->replayed;
             note_order(o, response->order););
        break;
    case OP_RETURN:
        NOTE(return, o->outcome = (int)response->outcome; o->replayed = response->replayed;
             note_order(o, response->order););
        break;
    case OP_ADJUST:
        NOTE(adjust, o->replayed = response->replayed; note_item(o, response->item););
        break;
    default:
        NOTE(get_item, note_item(o, response->item););
    }
}

/* What these calls may fail with: Adjust takes more than there is, a Deduct was cancelled before it came. */
static bool may_fail_with(const op *o, lks_code code)
{
    return code == LKS_FAILED_PRECONDITION && (o->kind == OP_ADJUST || o->kind == OP_DEDUCT);
}

static void begin(sequential *s, op *o, int channel, lks_call **call)
{
    lks_error error;

    o->server = channel % SEQ_SERVERS;
    o->begin_ns = clock_now_ns();
    if (start(s->channels[channel], o, call, &error) != LKS_OK)
        sequential_fault(s, "a call of kind %d cannot be made: %s", (int)o->kind, error.message);
}

static void finish(sequential *s, op *o, lks_call *call)
{
    lks_error error;

    if (!call)
        return;
    o->code = lks_call_wait(call, &error);
    o->end_ns = clock_now_ns();
    if (o->code == LKS_OK)
        note(o, call);
    else if (!may_fail_with(o, o->code))
        sequential_fault(s, "a call of kind %d about o%u: %s", (int)o->kind, o->order, error.message);
    lks_call_free(call);
}

static op *record(sequential *s, const op *asked)
{
    size_t i = atomic_fetch_add(&s->n_ops, 1);

    if (i >= s->room) {
        atomic_store(&s->n_ops, s->room);
        sequential_fault(s, "more calls than there is room for");
        return NULL;
    }
    s->ops[i] = *asked;
    return &s->ops[i];
}

const op *sequential_call(sequential *s, int channel, const op *asked)
{
    op *o = record(s, asked);
    lks_call *call = NULL;

    if (!o)
        return NULL;
    begin(s, o, channel, &call);
    finish(s, o, call);
    return atomic_load(&s->n_faults) > 0 ? NULL : o;
}

void sequential_race(sequential *s, int channel, const op *asked, const op *ret[2])
{
    op *both[2];
    lks_call *calls[2] = {NULL, NULL};

    ret[0] = ret[1] = NULL;
    for (int i = 0; i < 2; i++)
        if (!(both[i] = record(s, asked)))
            return;
    for (int i = 0; i < 2; i++)
        begin(s, both[i], (channel + i) % SEQ_CHANNELS, &calls[i]);
    for (int i = 0; i < 2; i++)
        finish(s, both[i], calls[i]);
    if (atomic_load(&s->n_faults) > 0)
        return;
    for (int i = 0; i < 2; i++)
        ret[i] = both[i];
}

/* StockService: its table, and Deduct and Reserve. Invariant: a request that reaches the store has valid names and
 * quantities and no sku twice; the functions check only what depends on the state. */
#include <string.h>

#include "services/stock.h"
#include "services/stock_claims.h"

/* ---- lines ---- */

/* A quick check; check_line, which takes longer, finds the error. */
static bool is_good(lks_line *const *lines, size_t i)
{
    size_t len = strlen(lines[i]->sku);
    bool good = len >= 1 && len <= SERVICE_NAME_BYTES_MAX && lines[i]->quantity >= 1 &&
                lines[i]->quantity <= SERVICE_QUANTITY_MAX;

    for (size_t j = 0; j < i && good; j++)
        good = strcmp(lines[i]->sku, lines[j]->sku) != 0;
    return good;
}

static void check_line(plan *p, lks_line *const *lines, size_t i)
{
    if (is_good(lines, i))
        return;
    plan_check_name(p, plan_path(p, "lines[%zu].sku", i), lines[i]->sku);
    for (size_t j = 0; j < i; j++)
        if (strcmp(lines[i]->sku, lines[j]->sku) == 0)
            plan_invalid(p, "lines[%zu].sku: the same as lines[%zu].sku", i, j);
    plan_check_range(p, plan_path(p, "lines[%zu].quantity", i), lines[i]->quantity, 1, SERVICE_QUANTITY_MAX);
}

void stock_check_lines(plan *p, lks_line *const *lines, size_t n)
{
    int64_t sum = 0;

    if (n > SERVICE_BATCH_MAX)
        plan_invalid(p, "lines: must be at most %d", SERVICE_BATCH_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        check_line(p, lines, i);
        if (lines[i]->quantity > SERVICE_QUANTITY_MAX - sum)
            plan_invalid(p, "lines[%zu].quantity: the sum of the quantities is over 2^53-1", i);
        else
            sum += lines[i]->quantity;
    }
}

/* ---- Deduct and Reserve ---- */

/* The common parts of the two requests. */
typedef struct order_request {
    const char *group, *order_id, *buyer_id;
    lks_line *const *lines;
    size_t n;
    const ProtobufCEnumDescriptor *outcomes;
    int done, sold_out, buyer_limit; /* values of `outcomes` */
} order_request;

static order_request of_deduct(const lks_deduct_request *request)
{
    return (order_request){.group = request->group,
                           .order_id = request->order_id,
                           .buyer_id = request->buyer_id,
                           .lines = request->lines,
                           .n = request->n_lines,
                           .outcomes = &lockstock__v1__deduct_outcome__descriptor,
                           .done = LKS_DEDUCT_OUTCOME_DEDUCTED,
                           .sold_out = LKS_DEDUCT_OUTCOME_SOLD_OUT,
                           .buyer_limit = LKS_DEDUCT_OUTCOME_BUYER_LIMIT};
}

static order_request of_reserve(const lks_reserve_request *request)
{
    return (order_request){.group = request->group,
                           .order_id = request->order_id,
                           .buyer_id = request->buyer_id,
                           .lines = request->lines,
                           .n = request->n_lines,
                           .outcomes = &lockstock__v1__reserve_outcome__descriptor,
                           .done = LKS_RESERVE_OUTCOME_RESERVED,
                           .sold_out = LKS_RESERVE_OUTCOME_SOLD_OUT,
                           .buyer_limit = LKS_RESERVE_OUTCOME_BUYER_LIMIT};
}

/* ---- the order in buckets ---- */

static transfer_step order_pulled(answer *a, transfer *t)
{
    const transfer_step next = transfer_pull(a, t);

    if (next != TRANSFER_DONE)
        return next;
    t->result = TRANSFER_SHORT;
    return claims_end(t);
}

/* If its bucket refuses an order, the other buckets may help. */
static transfer_step order_replied(answer *a, transfer *t)
{
    transfer_order *o = &t->order;

    if (a->n_replies == 0 || (t->n_buckets > 0 && answer_says(a->replies[0], "SOLD_OUT") &&
                              stock_is_sold_out(a->plan, t->group, o, &o->remembered))) {
        t->result = TRANSFER_REMEMBERED;
        return TRANSFER_DONE;
    }
    if (t->n_buckets == 0)
        return TRANSFER_DONE;
    if (answer_says(a->replies[0], "CLAIM"))
        return claims_begin(a, t);
    if (answer_says(a->replies[0], "SOLD_OUT"))
        return transfer_need(t, stock_bucket_of(o->id, t->n_buckets), o->skus, o->n, o->quantities, 0, order_pulled);
    if (!answer_says(a->replies[0], "UNKNOWN_SKU") || o->asked_again)
        return TRANSFER_DONE;
    o->asked_again = true;
    return transfer_update(t);
}

/* ---- prepare ---- */

/* Checks an order and keeps it for the transfer. Returns false if the answer is already known, or after an error. */
static bool take_order(plan *p, const order_request *r, bool fresh)
{
    transfer *t = transfer_in(p);

    plan_check_name(p, "order_id", r->order_id);
    plan_check_name_or_empty(p, "buyer_id", r->buyer_id);
    if (r->n == 0)
        plan_invalid(p, "lines: must not be empty");
    stock_check_lines(p, r->lines, r->n);
    if (plan_failed(p))
        return false;
    t->order.id = r->order_id;
    t->order.buyer = r->buyer_id;
    transfer_set_lines(p->arena, &t->order, r->n);
    for (size_t i = 0; i < r->n; i++) {
        t->order.skus[i] = r->lines[i]->sku;
        t->order.quantities[i] = r->lines[i]->quantity;
    }
    t->replied = order_replied;
    return !fresh || !stock_is_sold_out(p, r->group, &t->order, &t->order.remembered);
}

static void start_order(plan *p, const plan_function *function, const order_request *r)
{
    transfer_call(p, function, r->group, r->n == 1 ? r->lines[0]->sku : NULL, r->order_id, r->n);
    plan_weighs(p, 1 + r->n / STOCK_LINES_OF_WEIGHT);
}

static void add_lines(plan *p, lks_line *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        plan_arg_text(p, lines[i]->sku);
        plan_arg_int(p, lines[i]->quantity);
    }
}

void deduct_prepare(const lks_deduct_request *request, plan *p)
{
    const order_request r = of_deduct(request);

    if (!take_order(p, &r, request->fresh))
        return;
    const int64_t claimed_at = claims_claimed_at(transfer_in(p));
    start_order(p, claimed_at ? &fn_stock_deduct_claimed : &fn_stock_deduct, &r);
    if (claimed_at)
        args_stock_deduct_claimed(p, .id = r.order_id, .buyer = r.buyer_id, .claimed_at = claimed_at);
    else
        args_stock_deduct(p, .id = r.order_id, .buyer = r.buyer_id);
    add_lines(p, r.lines, r.n);
}

void reserve_prepare(const lks_reserve_request *request, plan *p)
{
    const order_request r = of_reserve(request);

    plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    if (!take_order(p, &r, request->fresh))
        return;
    const int64_t claimed_at = claims_claimed_at(transfer_in(p));
    start_order(p, claimed_at ? &fn_stock_reserve_claimed : &fn_stock_reserve, &r);
    if (claimed_at)
        args_stock_reserve_claimed(p, .id = r.order_id, .buyer = r.buyer_id, .hold_ms = request->hold_ms,
                                   .claimed_at = claimed_at);
    else
        args_stock_reserve(p, .id = r.order_id, .buyer = r.buyer_id, .hold_ms = request->hold_ms);
    add_lines(p, r.lines, r.n);
}

/* ---- finish ---- */

typedef struct order_answer {
    int outcome;
    bool replayed;
    bool any_buyer; /* the refusal does not depend on the buyer */
    int64_t hold_ms;
    lks_line_stock **lines;
    size_t n_lines;
} order_answer;

static void set_line(lks_line_stock *line, const char *sku, int64_t available)
{
    line->sku = sku;
    line->available = available;
}

lks_line_stock **stock_read_lines(answer *a, const store_value *reply, size_t from, size_t n, bool with_places,
                                  lks_line *const *lines, size_t n_lines)
{
    lks_line_stock **read = answer_messages(a, &lockstock__v1__line_stock__descriptor, n);

    for (size_t i = 0; i < n && a->error.code == LKS_OK; i++) {
        const size_t place = with_places ? (size_t)answer_int(a, reply, from++) : i;
        if (place >= n_lines)
            answer_at(a, reply, answer_count(a, reply));
        else
            set_line(read[i], lines[place]->sku, answer_int(a, reply, from++));
    }
    return read;
}

/* Reads the reply of functions/stock.lua, which refers to lines by their places in the request. */
static order_answer read_reply(answer *a, const order_request *r)
{
    const store_value *reply = a->replies[0];
    const size_t count = answer_count(a, reply);
    order_answer s = {.replayed = answer_says(reply, "AGAIN")};
    const bool is_new = answer_is_numbers(reply);
    size_t head = 2, each = 1;

    s.outcome = is_new || s.replayed ? r->done : answer_enum(a, reply, 0, r->outcomes);
    for (size_t i = 0; is_new && i < r->n; i++)
        a->units += (uint64_t)r->lines[i]->quantity;
    if (s.replayed) {
        s.hold_ms = answer_int(a, reply, 1);
    } else if (is_new) {
        head = 0;
    } else if (count > 1) {
        s.any_buyer = answer_int(a, reply, 1) != 0;
        each = 2;
    }
    s.n_lines = count > head ? (count - head) / each : 0;
    if (s.outcome == r->done && s.n_lines != r->n)
        answer_at(a, reply, count);
    s.lines = stock_read_lines(a, reply, head, s.n_lines, each == 2, r->lines, r->n);
    return s;
}

/* Reads the lines for which all buckets together have too few units. */
static order_answer read_short(answer *a, const order_request *r, const bucket_look *look)
{
    order_answer s = {.outcome = r->sold_out, .any_buyer = look_item(look, 0, 0)->limit == 0};

    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, r->n);
    for (size_t i = 0; i < r->n; i++)
        if (look_total(look, i) < r->lines[i]->quantity)
            set_line(s.lines[s.n_lines++], r->lines[i]->sku, look_total(look, i));
    return s;
}

/* Reads {'OVER', {place, available...}...}. */
static order_answer read_over_limit(answer *a, const order_request *r)
{
    const store_value *reply = a->replies[0];
    order_answer s = {.outcome = r->buyer_limit, .n_lines = answer_count(a, reply) - 1};

    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, s.n_lines);
    for (size_t i = 0; i < s.n_lines; i++) {
        const store_value *line = answer_at(a, reply, 1 + i);
        size_t place = (size_t)answer_int(a, line, 0);
        if (place < r->n)
            set_line(s.lines[i], r->lines[place]->sku, answer_int(a, line, 1));
    }
    return s;
}

static order_answer read_remembered(answer *a, const order_request *r, int64_t available)
{
    order_answer s = {.outcome = r->sold_out, .n_lines = 1};

    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, 1);
    set_line(s.lines[0], r->lines[0]->sku, available);
    return s;
}

static order_answer read_order(answer *a, const order_request *r)
{
    const transfer *t = transfer_of(a);
    order_answer s;

    if (t->result == TRANSFER_REMEMBERED)
        return read_remembered(a, r, t->order.remembered);
    if (t->result == TRANSFER_OVER_LIMIT)
        return read_over_limit(a, r);
    s = t->result == TRANSFER_SHORT ? read_short(a, r, &t->look) : read_reply(a, r);
    if (a->error.code == LKS_OK && r->n == 1 && s.n_lines == 1)
        stock_learn(a, r->group, r->lines[0]->sku, s.outcome == r->sold_out && s.any_buyer, s.lines[0]->available,
                    t->result == TRANSFER_SHORT ? t->look.since_ns : a->plan->asked_ns);
    return s;
}

void deduct_finish(const lks_deduct_request *request, answer *a, lks_deduct_response *response)
{
    const order_request r = of_deduct(request);
    const order_answer s = read_order(a, &r);

    response->outcome = (lks_deduct_outcome)s.outcome;
    response->replayed = s.replayed;
    response->lines = s.lines;
    response->n_lines = s.n_lines;
}

void reserve_finish(const lks_reserve_request *request, answer *a, lks_reserve_response *response)
{
    const order_request r = of_reserve(request);
    const order_answer s = read_order(a, &r);

    response->outcome = (lks_reserve_outcome)s.outcome;
    response->replayed = s.replayed;
    if (s.outcome == LKS_RESERVE_OUTCOME_RESERVED) {
        response->hold_ms = s.replayed ? s.hold_ms : request->hold_ms;
        /* The hold of a repeated order may have ended. */
        answer_lasting_alarm(a, a->plan->calls[0].base, fn_stock_expire.name,
                             response->hold_ms > 0 ? response->hold_ms : -1);
    }
    response->lines = s.lines;
    response->n_lines = s.n_lines;
}

/* ---- the table ---- */

/* Every finish runs when the transfer is DONE. */
#define STOCK_PAIR(...) SERVICE_PAIR_IF(transfer_finished(request, a), __VA_ARGS__)
LKS_STOCK_METHODS(STOCK_PAIR)

static const service_method methods[] = {LKS_STOCK_METHODS(SERVICE_ROW)};

const service stock_service = {.n_methods = sizeof methods / sizeof methods[0],
                               .methods = methods,
                               .open = stock_open,
                               .close = stock_close,
                               .on_store_call = stock_on_store_call};

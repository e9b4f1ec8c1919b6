/* StockService: its table, and where orders begin: Deduct and Reserve. Invariant: a
 * request that reaches the store is valid by itself (names, quantities, no sku twice), so
 * that the functions check only what depends on the state. */
#include <stdio.h>
#include <string.h>

#include "services/stock_buckets.h"

/* ---- lines ---- */

/* Its fields are named, which takes time, only where there is something to say about them. */
static bool is_good(lks_line *const *lines, size_t i)
{
    size_t len = strlen(lines[i]->sku);
    bool good = len >= 1 && len <= SERVICE_NAME_BYTES_MAX && lines[i]->quantity >= 1 &&
                lines[i]->quantity <= SERVICE_QUANTITY_MAX;

    for (size_t j = 0; j < i && good; j++)
        good = strcmp(lines[i]->sku, lines[j]->sku) != 0;
    return good;
}

/* One line, and whether its sku stands in an earlier one. */
static void check_line(plan *p, lks_line *const *lines, size_t i)
{
    char field[48];

    if (is_good(lines, i))
        return;
    snprintf(field, sizeof field, "lines[%zu].sku", i);
    plan_check_name(p, field, lines[i]->sku);
    for (size_t j = 0; j < i; j++)
        if (strcmp(lines[i]->sku, lines[j]->sku) == 0)
            plan_invalid(p, "%s: the same as lines[%zu].sku", field, j);
    snprintf(field, sizeof field, "lines[%zu].quantity", i);
    plan_check_range(p, field, lines[i]->quantity, 1, SERVICE_QUANTITY_MAX);
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

/* All but the call itself. False: it is refused without asking the store. */
static bool check_order(plan *p, const char *group, const char *order_id, const char *buyer_id, lks_line *const *lines,
                        size_t n, bool fresh)
{
    plan_check_name(p, "order_id", order_id);
    plan_check_name_or_empty(p, "buyer_id", buyer_id);
    if (n == 0)
        plan_invalid(p, "lines: must not be empty");
    stock_check_lines(p, lines, n);
    return !fresh || !stock_is_known_sold_out(p, group, lines, n, &stock_kept_of(p)->known);
}

static void start_order(plan *p, const plan_function *function, const char *group, const char *order_id,
                        lks_line *const *lines, size_t n)
{
    stock_call(p, function, group, n == 1 ? lines[0]->sku : NULL, order_id, n);
    plan_weighs(p, 1 + n / STOCK_LINES_OF_WEIGHT);
}

/* What the store says of an order: server/functions/stock.lua. */
typedef struct said {
    int outcome;
    bool replayed;
    bool anybody; /* is refused, whoever buys */
    int64_t hold_ms;
    lks_line_stock **lines;
    size_t n_lines;
} said;

/* An order that is asked for. */
typedef struct ordered {
    const char *group, *order_id, *buyer_id;
    lks_line *const *lines;
    size_t n;
    const ProtobufCEnumDescriptor *outcomes;
    int done, sold_out, buyer_limit; /* of these: the one of which all lines are told; SOLD_OUT; BUYER_LIMIT */
} ordered;

static void tell_line(lks_line_stock *line, const char *sku, int64_t available)
{
    line->sku = sku;
    line->available = available;
}

/* Lines are told by their places in the request. */
static said read_order(answer *a, const ordered *o)
{
    const store_value *reply = a->replies[0];
    size_t count = answer_count(a, reply);
    said s = {.replayed = answer_says(reply, "AGAIN")};
    bool is_new = answer_is_numbers(reply);
    size_t head = 2;
    size_t each = 1;

    s.outcome = is_new || s.replayed ? o->done : answer_enum(a, reply, 0, o->outcomes);
    if (s.replayed) {
        s.hold_ms = answer_int(a, reply, 1);
    } else if (is_new) {
        head = 0;
    } else if (count > 1) {
        s.anybody = answer_int(a, reply, 1) != 0;
        each = 2;
    }
    s.n_lines = count > head ? (count - head) / each : 0;
    if (s.outcome == o->done && s.n_lines != o->n)
        answer_at(a, reply, count);
    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, s.n_lines);
    for (size_t i = 0; i < s.n_lines && a->error.code == LKS_OK; i++) {
        size_t at = head + each * i;
        size_t place = each == 1 ? i : (size_t)answer_int(a, reply, at++);
        if (place >= o->n)
            answer_at(a, reply, count);
        else
            tell_line(s.lines[i], o->lines[place]->sku, answer_int(a, reply, at));
    }
    return s;
}

/* What all buckets together have too little of. */
static said read_short(answer *a, const ordered *o, const buckets *b)
{
    said s = {.outcome = o->sold_out, .anybody = buckets_seen(b, 0, 0)->limit == 0};

    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, o->n);
    for (size_t i = 0; i < o->n; i++)
        if (b->total[i] < o->lines[i]->quantity)
            tell_line(s.lines[s.n_lines++], o->lines[i]->sku, b->total[i]);
    return s;
}

/* {'OVER', {place, available...}...} */
static said read_over(answer *a, const ordered *o)
{
    const store_value *reply = a->replies[0];
    said s = {.outcome = o->buyer_limit, .n_lines = answer_count(a, reply) - 1};

    s.lines = answer_messages(a, &lockstock__v1__line_stock__descriptor, s.n_lines);
    for (size_t i = 0; i < s.n_lines; i++) {
        const store_value *line = answer_at(a, reply, 1 + i);
        size_t place = (size_t)answer_int(a, line, 0);
        if (place < o->n)
            tell_line(s.lines[i], o->lines[place]->sku, answer_int(a, line, 1));
    }
    return s;
}

/* Of an order of one line that the store has just answered. */
static void learn(answer *a, const ordered *o, const said *s, uint64_t asked_ns)
{
    if (a->error.code == LKS_OK && o->n == 1 && s->n_lines == 1)
        stock_learn(a, o->group, o->lines[0]->sku, s->outcome == o->sold_out && s->anybody, s->lines[0]->available,
                    asked_ns);
}

/* After a look for skus that a bucket does not know: it gets those that the pool has. */
static bool found_skus(answer *a, buckets *b)
{
    return buckets_settle(a, b) || buckets_go_on(a, b, stock_ask_again);
}

/* A bucket has refused an order. True: others may help, and the bucket is asked again. */
static bool others_help(answer *a, const ordered *o, buckets *b)
{
    const char **skus = memory_in(a->arena, o->n * sizeof *skus);
    int64_t *wanted = memory_in(a->arena, o->n * sizeof *wanted);

    for (size_t i = 0; i < o->n; i++) {
        skus[i] = o->lines[i]->sku;
        wanted[i] = o->lines[i]->quantity;
    }
    if (answer_says(a->replies[0], "CLAIM"))
        return buckets_claim(a, b, o->order_id, o->buyer_id, o->lines, o->n);
    if (answer_says(a->replies[0], "SOLD_OUT"))
        return buckets_pull(a, b, stock_bucket_of(o->order_id, b->n), skus, wanted, o->n);
    if (!answer_says(a->replies[0], "UNKNOWN_SKU"))
        return false;
    if (stock_asks_group(a))
        return true;
    if (b->looked)
        return false;
    b->looked = true;
    b->skus = skus;
    b->n_skus = o->n;
    return buckets_look(a, b, found_skus);
}

/* In finish. False: there is no answer yet. */
static bool is_told(answer *a, const ordered *o, said *ret)
{
    stock_kept *kept = a->plan->kept;
    buckets *b = &kept->buckets;

    if (stock_goes_on(a))
        return false;
    if (b->is_short) {
        if (buckets_unclaim(a, b))
            return false;
        *ret = read_short(a, o, b);
        learn(a, o, ret, b->asked_ns);
        return true;
    }
    if (b->is_over) {
        *ret = read_over(a, o);
        return true;
    }
    /* Known when it came; or what its bucket says is known of all of them. */
    bool known = a->n_replies == 0 || (b->n > 0 && answer_says(a->replies[0], "SOLD_OUT") &&
                                       stock_is_known_sold_out(a->plan, o->group, o->lines, o->n, &kept->known));
    if (known) {
        *ret = (said){.outcome = o->sold_out};
        ret->lines = stock_known_line(a, o->lines[0]->sku, &ret->n_lines);
        return true;
    }
    if (b->n > 0 && others_help(a, o, b))
        return false;
    *ret = read_order(a, o);
    learn(a, o, ret, a->plan->asked_ns);
    return true;
}

static void add_lines(plan *p, lks_line *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        plan_arg_text(p, lines[i]->sku);
        plan_arg_int(p, lines[i]->quantity);
    }
}

static void deduct_prepare(const lks_deduct_request *request, plan *p)
{
    if (!check_order(p, request->group, request->order_id, request->buyer_id, request->lines, request->n_lines,
                     request->fresh))
        return;
    int64_t claimed_at = stock_kept_of(p)->buckets.claimed_at;
    start_order(p, claimed_at ? &fn_stock_deduct_claimed : &fn_stock_deduct, request->group, request->order_id,
                request->lines, request->n_lines);
    if (claimed_at)
        args_stock_deduct_claimed(p, .id = request->order_id, .buyer = request->buyer_id, .claimed_at = claimed_at);
    else
        args_stock_deduct(p, .id = request->order_id, .buyer = request->buyer_id);
    add_lines(p, request->lines, request->n_lines);
}

static void deduct_finish(const lks_deduct_request *request, answer *a, lks_deduct_response *response)
{
    const ordered o = {.group = request->group,
                       .order_id = request->order_id,
                       .buyer_id = request->buyer_id,
                       .lines = request->lines,
                       .n = request->n_lines,
                       .outcomes = &lockstock__v1__deduct_outcome__descriptor,
                       .done = LKS_DEDUCT_OUTCOME_DEDUCTED,
                       .sold_out = LKS_DEDUCT_OUTCOME_SOLD_OUT,
                       .buyer_limit = LKS_DEDUCT_OUTCOME_BUYER_LIMIT};
    said s;

    if (!is_told(a, &o, &s))
        return;
    response->outcome = (lks_deduct_outcome)s.outcome;
    response->replayed = s.replayed;
    response->lines = s.lines;
    response->n_lines = s.n_lines;
}

static void reserve_prepare(const lks_reserve_request *request, plan *p)
{
    plan_check_range(p, "hold_ms", request->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    if (!check_order(p, request->group, request->order_id, request->buyer_id, request->lines, request->n_lines,
                     request->fresh))
        return;
    int64_t claimed_at = stock_kept_of(p)->buckets.claimed_at;
    start_order(p, claimed_at ? &fn_stock_reserve_claimed : &fn_stock_reserve, request->group, request->order_id,
                request->lines, request->n_lines);
    if (claimed_at)
        args_stock_reserve_claimed(p, .id = request->order_id, .buyer = request->buyer_id, .hold_ms = request->hold_ms,
                                   .claimed_at = claimed_at);
    else
        args_stock_reserve(p, .id = request->order_id, .buyer = request->buyer_id, .hold_ms = request->hold_ms);
    add_lines(p, request->lines, request->n_lines);
}

static void reserve_finish(const lks_reserve_request *request, answer *a, lks_reserve_response *response)
{
    const ordered o = {.group = request->group,
                       .order_id = request->order_id,
                       .buyer_id = request->buyer_id,
                       .lines = request->lines,
                       .n = request->n_lines,
                       .outcomes = &lockstock__v1__reserve_outcome__descriptor,
                       .done = LKS_RESERVE_OUTCOME_RESERVED,
                       .sold_out = LKS_RESERVE_OUTCOME_SOLD_OUT,
                       .buyer_limit = LKS_RESERVE_OUTCOME_BUYER_LIMIT};
    said s;

    if (!is_told(a, &o, &s))
        return;
    response->outcome = (lks_reserve_outcome)s.outcome;
    response->replayed = s.replayed;
    if (s.outcome == LKS_RESERVE_OUTCOME_RESERVED) {
        response->hold_ms = s.replayed ? s.hold_ms : request->hold_ms;
        /* A hold of before may be no more. */
        answer_lasting_alarm(a, fn_stock_expire.name, response->hold_ms > 0 ? response->hold_ms : -1);
    }
    response->lines = s.lines;
    response->n_lines = s.n_lines;
}

/* ---- the table ---- */

LKS_STOCK_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_STOCK_METHODS(SERVICE_ROW)};

const service stock_service = {.n_methods = sizeof methods / sizeof methods[0],
                               .methods = methods,
                               .open = stock_open,
                               .close = stock_close,
                               .on_store_call = stock_on_store_call};

/* ---- further rounds ---- */

void stock_ask_again(const ProtobufCMessage *request, plan *p)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (methods[i].method == p->method)
            methods[i].prepare(request, p);
    buckets_plan_sent(p);
}

/* For readers, which cannot give back themselves: in the places of their calls, what can. */
static void expire_first(const ProtobufCMessage *request, plan *p)
{
    stock_ask_again(request, p);
    const plan_function *instead = plan_calls(p, &fn_stock_list_namespace) ? &fn_stock_expire_listed : &fn_stock_expire;
    for (size_t i = 0; i < p->n_calls; i++)
        p->calls[i].function = instead->name;
}

bool stock_goes_on(answer *a)
{
    bool more = plan_calls(a->plan, &fn_stock_expire) || plan_calls(a->plan, &fn_stock_expire_listed);
    service_next *next = stock_ask_again;
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;

    if (b->step) {
        bucket_step *step = b->step;
        b->step = NULL;
        return step(a, b);
    }
    if (stock_is_elsewhere(a))
        return true;
    for (size_t i = 0; i < a->n_replies && !more; i++) {
        more = answer_says(a->replies[i], "MORE");
        if (more && a->plan->method->effect == LKS_RPC_EFFECT_READ)
            next = expire_first;
    }
    if (more)
        answer_again(a, next);
    return more;
}

/* The order of all calls. Effects stand in the order of the ledger; `p` effects have happened at place p. When one
 * of them happened is known within its call: not before the call began, nor before an earlier effect's call began;
 * not after it ended, nor after a later effect's call ended. So a call may stand at those places that may have been
 * the present while it was under way. Invariant: nothing here is told a call's neighbours but by those times and the
 * ledger. */
#include "sequential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000, KINDS = OP_ADJUST + 1 };
#define TRY_NS UINT64_C(1500000000) /* client/call/call.c */
#define STALE_NS UINT64_C(20000000) /* docs/stock.md, "Sold out, from memory" */

typedef struct effect {
    op *op;
    int64_t moves[MODEL_SKUS]; /* units of each sku, by the ledger */
    size_t entries;
    uint64_t not_before_ns; /* of this one and all before it, the latest beginning */
    uint64_t not_after_ns;  /* of this one and all behind it, the earliest end */
} effect;

/* What gave units back, or may have, through a server. */
typedef struct change {
    uint64_t end_ns;
    size_t place; /* behind it; of all that ended by then the last */
} change;

typedef struct witness {
    sequential *all;
    int group;
    size_t n_ops;   /* of all groups */
    op **of[KINDS]; /* by order, Return or adjustment: who was told of the effect */
    effect *effects;
    size_t n, room;
    change *changes[SEQ_SERVERS];
    size_t n_changes[SEQ_SERVERS];
    model_group *model;
    int64_t versions[MODEL_SKUS];
} witness;

static const char *const kind_names[] = {"Deduct", "Reserve", "Confirm", "Cancel", "Return", "Adjust", "GetItem"};

/* ---- who was told of an effect --------------------------------------------------- */

static uint32_t id_of(const op *o)
{
    return o->kind == OP_RETURN ? o->back : o->order;
}

/* Deduct and Reserve make an order. */
static op_kind effect_kind(op_kind kind)
{
    return kind == OP_RESERVE ? OP_DEDUCT : kind;
}

/* The client sends a call again when its answer has not come for as long as that: then the first answer that it has may
 * say that it is one again. */
static bool may_be_first(const op *o)
{
    return o->replayed && o->end_ns - o->begin_ns >= TRY_NS;
}

static bool may_be_effect(const op *o)
{
    op first = *o;

    first.replayed = false;
    return may_be_first(o) && op_had_effect(&first);
}

static bool collect(witness *w)
{
    sequential *s = w->all;

    for (size_t k = 0; k < KINDS; k++)
        if (!(w->of[k] = calloc(s->room, sizeof *w->of[k])))
            return false;
    for (size_t i = 0; i < w->n_ops; i++) {
        op *o = &s->ops[i];
        if (o->group != w->group || !op_had_effect(o))
            continue;
        op **place = &w->of[effect_kind(o->kind)][id_of(o)];
        if (*place)
            sequential_fault(s, "two calls were told that %s of o%u was theirs", kind_names[o->kind], o->order);
        *place = o;
    }
    for (size_t i = 0; i < w->n_ops; i++) {
        op *o = &s->ops[i];
        op **place = o->group == w->group && may_be_effect(o) ? &w->of[effect_kind(o->kind)][id_of(o)] : NULL;
        if (place && (!*place || ((*place)->replayed && (*place)->begin_ns > o->begin_ns)))
            *place = o;
    }
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < s->room; i++)
            if (w->of[k][i])
                w->of[k][i]->is_effect = true;
    return true;
}

/* ---- the ledger ---------------------------------------------------------------- */

static bool kind_of_entry(const lks_ledger_entry *e, op_kind *ret)
{
    switch (e->kind) {
    case LKS_LEDGER_KIND_DEDUCTED:
    case LKS_LEDGER_KIND_RESERVED:
        *ret = OP_DEDUCT;
        return true;
    case LKS_LEDGER_KIND_CONFIRMED:
        *ret = OP_CONFIRM;
        return true;
    case LKS_LEDGER_KIND_CANCELLED:
        *ret = OP_CANCEL;
        return true;
    case LKS_LEDGER_KIND_RETURNED:
        *ret = OP_RETURN;
        return true;
    case LKS_LEDGER_KIND_ADJUSTED:
        *ret = OP_ADJUST;
        return true;
    default:
        return false;
    }
}

static int sku_of(const char *name)
{
    for (int i = 0; i < MODEL_SKUS; i++)
        if (strcmp(model_skus[i], name) == 0)
            return i;
    return 0;
}

static void take_entry(witness *w, const lks_ledger_entry *e)
{
    op_kind kind;
    unsigned long id = e->order_id[0] ? strtoul(e->order_id + 1, NULL, 10) : 0;

    if (e->kind == LKS_LEDGER_KIND_PUT)
        return;
    op *o = kind_of_entry(e, &kind) && id < w->all->room ? w->of[kind][id] : NULL;
    if (!o) {
        sequential_fault(w->all, "the ledger has %d of %s, of which no call was told", (int)e->kind, e->order_id);
        return;
    }
    if (w->n == 0 || w->effects[w->n - 1].op != o) {
        if (w->n == w->room) /* some effect stands in it twice */
            sequential_fault(w->all, "the ledger has more effects than calls were told of");
        else
            w->effects[w->n++] = (effect){.op = o};
    }
    w->effects[w->n - 1].moves[sku_of(e->sku)] += e->quantity;
    w->effects[w->n - 1].entries++;
}

static bool read_ledger(witness *w)
{
    sequential *s = w->all;
    char after[64] = "";
    size_t got = PAGE;

    w->room = w->n_ops;
    if (!(w->effects = calloc(w->room + 1, sizeof *w->effects)))
        return false;
    while (got == PAGE && atomic_load(&s->n_faults) == 0) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        lks_read_ledger_response *page = NULL;
        lks_error error;
        request.group = sequential_groups[w->group];
        request.after = after;
        request.limit = PAGE;
        if (lks_stock_read_ledger(s->channels[0], &request, NULL, &page, &error) != LKS_OK) {
            sequential_fault(s, "ReadLedger: %s", error.message);
            return false;
        }
        got = page->n_entries;
        for (size_t i = 0; i < got; i++)
            take_entry(w, page->entries[i]);
        if (got > 0)
            snprintf(after, sizeof after, "%s", page->entries[got - 1]->id);
        lks_read_ledger_response_free(page);
    }
    return atomic_load(&s->n_faults) == 0;
}

/* Every effect of which a call was told stands in the ledger, once, and not before one that was over when it began. */
static void time_effects(witness *w)
{
    uint64_t latest = 0, earliest = UINT64_MAX;
    size_t told = 0;

    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < w->all->room; i++)
            told += w->of[k][i] != NULL;
    if (told != w->n)
        sequential_fault(w->all, "calls were told of %zu effects, the ledger has %zu", told, w->n);
    for (size_t i = 0; i < w->n; i++) {
        const op *o = w->effects[i].op;
        if (o->begin_ns > latest)
            latest = o->begin_ns;
        w->effects[i].not_before_ns = latest;
        if (o->end_ns < latest)
            sequential_fault(w->all, "%s of o%u had ended when one before it in the ledger began", kind_names[o->kind],
                             o->order);
    }
    for (size_t i = w->n; i-- > 0;) {
        if (w->effects[i].op->end_ns < earliest)
            earliest = w->effects[i].op->end_ns;
        w->effects[i].not_after_ns = earliest;
    }
}

/* ---- where a call may stand ---------------------------------------------------- */

/* The first place that may still have been the present at that time. */
static size_t first_place(const witness *w, uint64_t begin_ns)
{
    size_t low = 0, high = w->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->effects[middle].not_after_ns >= begin_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The last place that may have been the present already. */
static size_t last_place(const witness *w, uint64_t end_ns)
{
    size_t low = 0, high = w->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->effects[middle].not_before_ns <= end_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int by_end(const void *a, const void *b)
{
    const change *x = a, *y = b;

    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static bool collect_changes(witness *w)
{
    for (size_t k = 0; k < SEQ_SERVERS; k++)
        if (!(w->changes[k] = calloc(w->n + 1, sizeof *w->changes[k])))
            return false;
    for (size_t i = 0; i < w->n; i++) {
        const op *o = w->effects[i].op;
        if (o->kind == OP_CANCEL || o->kind == OP_RETURN || o->kind == OP_ADJUST)
            w->changes[o->server][w->n_changes[o->server]++] = (change){.end_ns = o->end_ns, .place = i + 1};
    }
    for (size_t k = 0; k < SEQ_SERVERS; k++) {
        qsort(w->changes[k], w->n_changes[k], sizeof *w->changes[k], by_end);
        for (size_t i = 1; i < w->n_changes[k]; i++)
            if (w->changes[k][i].place < w->changes[k][i - 1].place)
                w->changes[k][i].place = w->changes[k][i - 1].place;
    }
    return true;
}

/* Behind what gave units back through the server, and had ended by then. */
static size_t behind_changes(const witness *w, int server, uint64_t begin_ns)
{
    const change *changes = w->changes[server];
    size_t low = 0, high = w->n_changes[server];

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (changes[middle].end_ns < begin_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? changes[low - 1].place : 0;
}

static bool may_be_from_memory(const op *o)
{
    return (o->kind == OP_DEDUCT || o->kind == OP_RESERVE) && o->fresh && o->n_lines == 1 &&
           o->lines[0].sku != SEQ_LIMITED && o->code == LKS_OK && o->outcome == LKS_DEDUCT_OUTCOME_SOLD_OUT;
}

static void find_places(const witness *w, op *o)
{
    o->first = first_place(w, o->begin_ns);
    o->last = last_place(w, o->end_ns);
    if (may_be_from_memory(o)) {
        size_t older = first_place(w, o->begin_ns > STALE_NS ? o->begin_ns - STALE_NS : 0);
        size_t changed = behind_changes(w, o->server, o->begin_ns);
        o->first = older > changed ? older : changed;
    }
    if (o->first > o->last)
        sequential_fault(w->all, "%s of o%u fits nowhere", kind_names[o->kind], o->order);
}

/* ---- the model ------------------------------------------------------------------- */

static model_order order_asked(const op *o)
{
    model_order asked = {
        .how = o->kind == OP_DEDUCT ? MODEL_DEDUCT : MODEL_RESERVE, .buyer = o->buyer, .n = o->n_lines};

    for (int i = 0; i < o->n_lines; i++)
        asked.lines[i] = (model_line){.sku = o->lines[i].sku, .quantity = o->lines[i].quantity};
    return asked;
}

static bool is_item(const witness *w, const op *o)
{
    const model_item *item = &w->model->items[o->lines[0].sku];

    return o->available == item->available && o->reserved == item->reserved && o->sold == item->sold &&
           o->version == w->versions[o->lines[0].sku];
}

/* What the model answers, in the numbers of the call's own enum. */
static int ask_model(witness *w, const op *o, char *told, bool *replayed)
{
    model_line lines[MODEL_SKUS] = {{0}};
    int id = (int)o->order;

    *replayed = false;
    switch (o->kind) {
    case OP_DEDUCT:
    case OP_RESERVE:
        return (int)model_make_order(w->model, id, order_asked(o), told);
    case OP_CONFIRM:
        return (int)model_confirm(w->model, id, false, told, replayed);
    case OP_CANCEL:
        return (int)model_cancel(w->model, id, told, replayed);
    default:
        for (int i = 0; i < o->n_lines; i++)
            lines[i] = (model_line){.sku = o->lines[i].sku, .quantity = o->lines[i].quantity};
        return (int)model_take_back(w->model, id, lines, o->n_lines, told);
    }
}

/* The effect at place p happens to the model, and its call was told so. */
static void apply(witness *w, const effect *e)
{
    char told[MODEL_TEXT_BYTES] = "";
    const op *o = e->op;
    bool replayed = false, same;
    int64_t before[MODEL_SKUS], moved = 0;

    for (int i = 0; i < MODEL_SKUS; i++) {
        before[i] = w->model->items[i].available + 2 * w->model->items[i].reserved + 4 * w->model->items[i].sold;
        w->versions[i] += e->moves[i] != 0;
        moved += e->moves[i] != 0;
    }
    if (o->kind == OP_ADJUST) {
        w->model->items[o->lines[0].sku].available += o->lines[0].quantity;
        same = w->model->items[o->lines[0].sku].available >= 0 && is_item(w, o);
    } else {
        int outcome = ask_model(w, o, told, &replayed);
        same = outcome == o->outcome && !replayed && strcmp(told, o->told) == 0;
    }
    if (!same || (size_t)moved != e->entries)
        sequential_fault(w->all, "%s of o%u was told %d %s (%lld v%lld); the model, where it stands in the ledger: %s",
                         kind_names[o->kind], o->order, o->outcome, o->told, (long long)o->available,
                         (long long)o->version, told);
    for (int i = 0; i < MODEL_SKUS; i++) {
        const model_item *item = &w->model->items[i];
        bool has_moved = item->available + 2 * item->reserved + 4 * item->sold != before[i];
        if (has_moved != (e->moves[i] != 0))
            sequential_fault(w->all, "the ledger has other lines of %s of o%u", kind_names[o->kind], o->order);
    }
    e->op->placed = true;
}

static bool order_fits(const witness *w, const op *o)
{
    const model_order *order = &w->model->orders[o->order];
    const model_order asked = order_asked(o);
    char told[MODEL_TEXT_BYTES] = "";

    if (o->code != LKS_OK)
        return order->how == MODEL_CANCELLED_FIRST;
    if (o->replayed) {
        model_first_lines(order, told);
        return o->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED && model_same_order(order, &asked) &&
               strcmp(told, o->told) == 0;
    }
    if (o->kind == OP_RESERVE && o->outcome == LKS_RESERVE_OUTCOME_CANCELLED)
        return order->how == MODEL_CANCELLED_FIRST;
    return order->how == MODEL_NONE && (int)model_refusal(w->model, &asked, told) == o->outcome &&
           strcmp(told, o->told) == 0;
}

/* Whether the model gives the same answer at this place to a call that changed nothing; a Cancel that found no order
 * leaves its mark, which nobody but the order's own thread can see. */
static bool fits(witness *w, const op *o)
{
    char told[MODEL_TEXT_BYTES] = "";
    bool replayed;

    if (o->kind == OP_DEDUCT || o->kind == OP_RESERVE)
        return order_fits(w, o);
    if (o->kind == OP_GET_ITEM)
        return is_item(w, o);
    const op *first = o->kind < OP_RETURN ? NULL : w->of[o->kind][id_of(o)];
    if (o->replayed && first) /* the first answer, numbers and all */
        return first->placed && strcmp(first->told, o->told) == 0 && first->available == o->available &&
               first->reserved == o->reserved && first->sold == o->sold && first->version == o->version;
    if (o->kind == OP_ADJUST)
        return o->code != LKS_OK && w->model->items[o->lines[0].sku].available + o->lines[0].quantity < 0;
    const model_order order = w->model->orders[o->order];
    if (order.state == LKS_ORDER_STATE_RESERVED && o->kind != OP_RETURN)
        return false; /* it would have changed something */
    model_item items[MODEL_SKUS];
    memcpy(items, w->model->items, sizeof items);
    int outcome = ask_model(w, o, told, &replayed);
    bool same = outcome == o->outcome && (replayed == o->replayed || may_be_first(o)) && strcmp(told, o->told) == 0;
    if (!same || o->kind == OP_RETURN) {
        memcpy(w->model->items, items, sizeof items);
        w->model->orders[o->order] = order;
    }
    return same;
}

/* ---- the walk ------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const op *x = *(op *const *)a, *y = *(op *const *)b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static void not_placed(const witness *w, const op *o, size_t p)
{
    const model_item *item = &w->model->items[o->lines[0].sku];

    sequential_fault(
        w->all,
        "%s of o%u (fresh %d, %lld of %s, server %d) was told %d again %d %s (%lld v%lld), which fits nowhere "
        "from place %zu to %zu; at the last there are %lld v%lld",
        kind_names[o->kind], o->order, o->fresh, (long long)o->lines[0].quantity, model_skus[o->lines[0].sku],
        o->server, o->outcome, o->replayed, o->told, (long long)o->available, (long long)o->version, o->first, p,
        (long long)item->available, (long long)w->versions[o->lines[0].sku]);
}

/* Those of `list` that fit here are placed; gives how many are left. */
static size_t place_here(witness *w, op **list, size_t n, size_t p)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        op *o = list[i];
        o->placed = fits(w, o);
        if (o->placed && may_be_from_memory(o))
            w->all->seen.older += p < first_place(w, o->begin_ns);
        if (!o->placed && p == o->last)
            not_placed(w, o, p);
        if (!o->placed)
            list[left++] = o;
    }
    return left;
}

static void walk(witness *w, op **others, size_t n)
{
    size_t next = 0, open = 0; /* others[0..open) are being placed; they never are more than were begun */

    for (size_t p = 0; p <= w->n && atomic_load(&w->all->n_faults) == 0; p++) {
        if (p > 0)
            apply(w, &w->effects[p - 1]);
        while (next < n && others[next]->first == p)
            others[open++] = others[next++];
        open = place_here(w, others, open, p);
    }
}

static void count(witness *w)
{
    sequential *s = w->all;

    s->seen.effects += w->n;
    for (size_t i = 0; i < w->n_ops; i++) {
        const op *o = &s->ops[i];
        bool sold_out = o->group == w->group && (o->kind == OP_DEDUCT || o->kind == OP_RESERVE) && o->code == LKS_OK &&
                        o->outcome == LKS_DEDUCT_OUTCOME_SOLD_OUT;
        s->seen.sold_out += sold_out;
        s->seen.fresh_sold_out += sold_out && o->fresh;
        s->seen.replays += o->group == w->group && o->replayed;
    }
}

static void judge(witness *w)
{
    op **others = calloc(w->n_ops + 1, sizeof *others);
    size_t n = 0;

    w->model = calloc(1, sizeof *w->model);
    if (!others || !w->model || !collect(w) || !read_ledger(w) || !collect_changes(w)) {
        sequential_fault(w->all, "out of memory");
        goto cleanup;
    }
    time_effects(w);
    for (int i = 0; i < MODEL_SKUS; i++) {
        w->model->items[i] = (model_item){.exists = true,
                                          .available = w->all->on_hand[i],
                                          .limit = i == SEQ_LIMITED ? SEQ_BUYER_LIMIT : 0,
                                          .life = 1,
                                          .count = 1};
        w->versions[i] = w->all->versions[w->group][i];
    }
    for (size_t i = 0; i < w->n_ops; i++)
        if (w->all->ops[i].group == w->group && !w->all->ops[i].is_effect) {
            others[n++] = &w->all->ops[i];
            find_places(w, &w->all->ops[i]);
        }
    qsort(others, n, sizeof *others, by_place);
    walk(w, others, n);
    count(w);
cleanup:
    free(others);
    free(w->model);
}

static void judge_group(sequential *s, int group)
{
    witness w = {.all = s, .group = group, .n_ops = atomic_load(&s->n_ops)};

    judge(&w);
    for (size_t k = 0; k < KINDS; k++)
        free(w.of[k]);
    for (size_t k = 0; k < SEQ_SERVERS; k++)
        free(w.changes[k]);
    free(w.effects);
}

void sequential_judge(sequential *s)
{
    for (int i = 0; i < SEQ_GROUPS && atomic_load(&s->n_faults) == 0; i++)
        judge_group(s, i);
}

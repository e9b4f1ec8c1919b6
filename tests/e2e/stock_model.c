/* Written from docs/stock.md, not from the functions. */
#include "e2e/stock_model.h"

#include <stdio.h>
#include <string.h>

const char *const model_skus[MODEL_SKUS] = {"a", "b:b", "c"};
const char *const model_buyers[MODEL_BUYERS] = {"", "bob", "eve"};

/* What a unit does to available, reserved, sold, and the buyer's count. */
typedef struct move {
    int available, reserved, sold, held;
} move;

static const move SELL = {-1, 0, 1, 1}, HOLD = {-1, 1, 0, 1}, CONFIRM = {0, -1, 1, 0}, GIVE_BACK = {1, -1, 0, -1},
                  TAKE_BACK = {1, 0, -1, -1};

static void apply(model_group *g, const model_order *order, const model_line *line, int64_t quantity, move by)
{
    model_item *item = &g->items[line->sku];

    if (!item->exists || item->life != line->life)
        return;
    item->available += by.available * quantity;
    item->reserved += by.reserved * quantity;
    item->sold += by.sold * quantity;
    if (item->limit > 0 && item->count == line->count)
        item->held[order->buyer] += by.held * quantity;
}

static void apply_all(model_group *g, const model_order *order, move by)
{
    for (int i = 0; i < order->n; i++)
        apply(g, order, &order->lines[i], order->lines[i].quantity, by);
}

static const char *state_name(lks_order_state state)
{
    static const char *const names[] = {"?", "RESERVED", "CONFIRMED", "CANCELLED", "EXPIRED", "RETURNED"};

    return names[state];
}

void model_order_text(const model_order *order, lks_order_state state, char *text)
{
    int len = snprintf(text, MODEL_TEXT_BYTES, "%s %s", state_name(state), model_buyers[order->buyer]);

    for (int i = 0; i < order->n; i++)
        len += snprintf(text + len, MODEL_TEXT_BYTES - (size_t)len, " %s:%lld:%lld", model_skus[order->lines[i].sku],
                        (long long)order->lines[i].quantity, (long long)order->lines[i].returned);
}

/* As it was when it had just been confirmed. */
static void confirmed_text(model_order order, char *text)
{
    for (int i = 0; i < order.n; i++)
        order.lines[i].returned = 0;
    model_order_text(&order, LKS_ORDER_STATE_CONFIRMED, text);
}

bool model_same_order(const model_order *a, const model_order *b)
{
    int matches = 0;

    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            matches += a->lines[i].sku == b->lines[j].sku && a->lines[i].quantity == b->lines[j].quantity;
    return a->how == b->how && a->buyer == b->buyer && a->n == b->n && matches == a->n;
}

static lks_deduct_outcome outcome_of_line(const model_item *item, int buyer, int64_t quantity)
{
    if (!item->exists)
        return LKS_DEDUCT_OUTCOME_UNKNOWN_SKU;
    if (item->limit > 0 && item->held[buyer] + quantity > item->limit)
        return LKS_DEDUCT_OUTCOME_BUYER_LIMIT;
    return item->available < quantity ? LKS_DEDUCT_OUTCOME_SOLD_OUT : LKS_DEDUCT_OUTCOME_DEDUCTED;
}

static void tell(char *told, int sku, int64_t available)
{
    size_t len = strlen(told);

    snprintf(told + len, MODEL_TEXT_BYTES - len, "%s%s:%lld", len > 0 ? " " : "", model_skus[sku],
             (long long)available);
}

lks_deduct_outcome model_refusal(const model_group *g, const model_order *asked, char *told)
{
    static const lks_deduct_outcome gravest_first[] = {LKS_DEDUCT_OUTCOME_UNKNOWN_SKU, LKS_DEDUCT_OUTCOME_BUYER_LIMIT,
                                                       LKS_DEDUCT_OUTCOME_SOLD_OUT};

    told[0] = '\0';
    for (size_t rank = 0; rank < sizeof gravest_first / sizeof gravest_first[0]; rank++) {
        for (int i = 0; i < asked->n; i++) {
            const model_item *item = &g->items[asked->lines[i].sku];
            if (outcome_of_line(item, asked->buyer, asked->lines[i].quantity) == gravest_first[rank])
                tell(told, asked->lines[i].sku, item->exists ? item->available : 0);
        }
        if (told[0] != '\0')
            return gravest_first[rank];
    }
    return LKS_DEDUCT_OUTCOME_DEDUCTED;
}

lks_deduct_outcome model_make_order(model_group *g, int id, model_order asked, char *told)
{
    lks_deduct_outcome refusal = model_refusal(g, &asked, told);

    if (refusal != LKS_DEDUCT_OUTCOME_DEDUCTED)
        return refusal;
    for (int i = 0; i < asked.n; i++) {
        model_line *line = &asked.lines[i];
        line->life = g->items[line->sku].life;
        line->count = g->items[line->sku].count;
        line->returned = 0;
        apply(g, &asked, line, line->quantity, asked.how == MODEL_DEDUCT ? SELL : HOLD);
        line->left = g->items[line->sku].available;
        tell(told, line->sku, line->left);
    }
    asked.state = asked.how == MODEL_DEDUCT ? LKS_ORDER_STATE_CONFIRMED : LKS_ORDER_STATE_RESERVED;
    g->orders[id] = asked;
    return LKS_DEDUCT_OUTCOME_DEDUCTED;
}

void model_first_lines(const model_order *order, char *told)
{
    told[0] = '\0';
    for (int i = 0; i < order->n; i++)
        tell(told, order->lines[i].sku, order->lines[i].left);
}

/* What keeps an expired order from its stock; CONFIRMED when nothing does. */
static lks_confirm_outcome barred(const model_group *g, const model_order *order)
{
    lks_confirm_outcome outcome = LKS_CONFIRM_OUTCOME_CONFIRMED;

    for (int i = 0; i < order->n; i++) {
        const model_item *item = &g->items[order->lines[i].sku];
        int64_t quantity = order->lines[i].quantity;
        if (item->exists && item->limit > 0 && (order->buyer == 0 || item->held[order->buyer] + quantity > item->limit))
            return LKS_CONFIRM_OUTCOME_EXPIRED;
        if (!item->exists || item->available < quantity)
            outcome = LKS_CONFIRM_OUTCOME_SOLD_OUT;
    }
    return outcome;
}

lks_confirm_outcome model_confirm(model_group *g, int id, bool reacquire, char *told, bool *replayed)
{
    model_order *order = &g->orders[id];

    *replayed = order->state == LKS_ORDER_STATE_CONFIRMED || order->state == LKS_ORDER_STATE_RETURNED;
    strcpy(told, "none");
    if (order->how == MODEL_NONE)
        return LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER;
    model_order_text(order, order->state, told);
    if (order->state == LKS_ORDER_STATE_CANCELLED)
        return LKS_CONFIRM_OUTCOME_CANCELLED;
    if (order->state == LKS_ORDER_STATE_EXPIRED) {
        lks_confirm_outcome outcome = reacquire ? barred(g, order) : LKS_CONFIRM_OUTCOME_EXPIRED;
        if (outcome != LKS_CONFIRM_OUTCOME_CONFIRMED)
            return outcome;
        for (int i = 0; i < order->n; i++) {
            order->lines[i].life = g->items[order->lines[i].sku].life;
            order->lines[i].count = g->items[order->lines[i].sku].count;
        }
        apply_all(g, order, SELL);
    } else if (order->state == LKS_ORDER_STATE_RESERVED) {
        apply_all(g, order, CONFIRM);
    }
    if (!*replayed)
        order->state = LKS_ORDER_STATE_CONFIRMED;
    confirmed_text(*order, told);
    return LKS_CONFIRM_OUTCOME_CONFIRMED;
}

lks_cancel_outcome model_cancel(model_group *g, int id, char *told, bool *replayed)
{
    model_order *order = &g->orders[id];

    strcpy(told, "none");
    *replayed = order->how == MODEL_CANCELLED_FIRST;
    if (order->how == MODEL_NONE || *replayed) {
        *order = (model_order){.how = MODEL_CANCELLED_FIRST, .state = LKS_ORDER_STATE_CANCELLED};
        return LKS_CANCEL_OUTCOME_UNKNOWN_ORDER;
    }
    model_order_text(order, order->state, told);
    if (order->state == LKS_ORDER_STATE_CONFIRMED || order->state == LKS_ORDER_STATE_RETURNED)
        return LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED;
    *replayed = order->state == LKS_ORDER_STATE_CANCELLED;
    if (order->state == LKS_ORDER_STATE_RESERVED)
        apply_all(g, order, GIVE_BACK);
    order->state = LKS_ORDER_STATE_CANCELLED;
    model_order_text(order, order->state, told);
    return LKS_CANCEL_OUTCOME_CANCELLED;
}

/* What of a line comes back; -1: more than is left of it. */
static int64_t coming_back(const model_line *line, const model_line *lines, int n)
{
    int64_t left = line->quantity - line->returned;

    for (int i = 0; i < n; i++)
        if (lines[i].sku == line->sku)
            return lines[i].quantity <= left ? lines[i].quantity : -1;
    return n == 0 ? left : 0;
}

lks_return_outcome model_take_back(model_group *g, int id, const model_line *lines, int n, char *told)
{
    model_order *order = &g->orders[id];
    int64_t back[MODEL_SKUS], sum = 0;
    bool too_many = order->state != LKS_ORDER_STATE_CONFIRMED, whole = true;
    int known = 0;

    strcpy(told, "none");
    if (order->how == MODEL_NONE)
        return LKS_RETURN_OUTCOME_UNKNOWN_ORDER;
    for (int i = 0; i < order->n; i++) {
        back[i] = coming_back(&order->lines[i], lines, n);
        too_many |= back[i] < 0;
        sum += back[i];
        for (int j = 0; j < n; j++)
            known += lines[j].sku == order->lines[i].sku;
    }
    if (too_many || sum == 0 || known < n) {
        model_order_text(order, order->state, told);
        return LKS_RETURN_OUTCOME_TOO_MANY;
    }
    for (int i = 0; i < order->n; i++) {
        if (back[i] > 0)
            apply(g, order, &order->lines[i], back[i], TAKE_BACK);
        order->lines[i].returned += back[i];
        whole &= order->lines[i].returned == order->lines[i].quantity;
    }
    if (whole)
        order->state = LKS_ORDER_STATE_RETURNED;
    model_order_text(order, order->state, told);
    return LKS_RETURN_OUTCOME_RETURNED;
}

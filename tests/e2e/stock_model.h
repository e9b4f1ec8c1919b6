/* What the contract says StockService answers, in memory: a group of items and orders.
 * Invariant: a request that is answered with an effect has had it here as well, and any
 * other has changed nothing. Knows no Redis; instants are ms of a clock that the test moves. */
#ifndef LOCKSTOCK_TESTS_STOCK_MODEL_H
#define LOCKSTOCK_TESTS_STOCK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstock/v1/stock.lks.h"

enum { MODEL_SKUS = 3, MODEL_BUYERS = 3 };
#ifndef MODEL_ORDERS /* a test may need more */
#define MODEL_ORDERS 40
#endif
enum { MODEL_TEXT_BYTES = 512 };

extern const char *const model_skus[MODEL_SKUS];
extern const char *const model_buyers[MODEL_BUYERS]; /* the first is nobody, "" */

typedef struct model_item {
    bool exists;
    int64_t available, reserved, sold, limit, held[MODEL_BUYERS];
    int life, count; /* which item of the sku it is; which of its buyers' counts */
} model_item;

typedef struct model_line {
    int sku, life, count;
    int64_t quantity, returned, left;
} model_line;

/* The method that made it; CANCELLED_FIRST: a Cancel that found nothing. */
typedef enum model_how { MODEL_NONE, MODEL_DEDUCT, MODEL_RESERVE, MODEL_CANCELLED_FIRST } model_how;

typedef struct model_order {
    model_how how;
    lks_order_state state;
    int buyer, n;
    model_line lines[MODEL_SKUS];
} model_order;

typedef struct model_group {
    model_item items[MODEL_SKUS];
    model_order orders[MODEL_ORDERS];
    int lives;
} model_group;

/* "STATE buyer sku:quantity:returned ...", the order with its lines. */
void model_order_text(const model_order *order, lks_order_state state, char *text);

/* Whether both are orders for the same of the same buyer. */
bool model_same_order(const model_order *a, const model_order *b);

/* What stands in the way of a new order, and the lines told, "sku:available ..."; DEDUCTED: nothing. */
lks_deduct_outcome model_refusal(const model_group *g, const model_order *asked, char *told);

/* A new order, sold or held until end_ms: the outcome (the numbers of Deduct's and
 * Reserve's are the same), and the lines told. */
lks_deduct_outcome model_make_order(model_group *g, int id, model_order asked, char *told);

/* What a repeat of its request is told. */
void model_first_lines(const model_order *order, char *told);

/* Each tells the order with the outcome; "none" where there is none. */
lks_confirm_outcome model_confirm(model_group *g, int id, bool reacquire, char *told, bool *replayed);
lks_cancel_outcome model_cancel(model_group *g, int id, char *told, bool *replayed);

/* n 0: all that is left. */
lks_return_outcome model_take_back(model_group *g, int id, const model_line *lines, int n, char *told);

#endif

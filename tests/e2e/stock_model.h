/* What the contract says StockService answers, in memory: a group of items and orders.
 * Invariant: a request that is answered with an effect has had it here as well, and any
 * other has changed nothing. Knows no Redis; instants are ms of a clock that the test moves. */
#ifndef LOCKSTOCK_TESTS_STOCK_MODEL_H
#define LOCKSTOCK_TESTS_STOCK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstock/v1/stock.lks.h"

enum { MODEL_SKUS = 3, MODEL_BUYERS = 3, MODEL_ADJUSTMENTS = 20, MODEL_RETURNS = 30 };
#ifndef MODEL_ORDERS /* a test may need more */
#define MODEL_ORDERS 40
#endif
enum { MODEL_TEXT_BYTES = 512 };

extern const char *const model_skus[MODEL_SKUS];
extern const char *const model_buyers[MODEL_BUYERS]; /* the first is nobody, "" */

typedef enum model_window { MODEL_OPEN, MODEL_NOT_OPEN, MODEL_CLOSED } model_window;

typedef struct model_item {
    bool exists, touched; /* touched: its version is another one */
    int64_t available, reserved, sold, limit, held[MODEL_BUYERS], version;
    int life, count; /* which item of the sku it is; which of its buyers' counts */
    model_window window;
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
    int64_t end_ms;
    bool in_ledger; /* the end of its hold is */
    model_line lines[MODEL_SKUS];
} model_order;

typedef struct model_adjustment {
    bool exists;
    int sku;
    int64_t delta, available, reserved, sold;
} model_adjustment;

typedef struct model_return {
    bool exists;
    int order, n;
    model_line lines[MODEL_SKUS];
    char answer[MODEL_TEXT_BYTES];
} model_return;

typedef struct model_group {
    model_item items[MODEL_SKUS];
    model_order orders[MODEL_ORDERS];
    model_adjustment adjustments[MODEL_ADJUSTMENTS];
    model_return returns[MODEL_RETURNS];
    int lives;
} model_group;

/* "STATE buyer sku:quantity:returned ...", the order with its lines. */
void model_order_text(const model_order *order, lks_order_state state, char *text);

/* Whether both are orders for the same of the same buyer. */
bool model_same_order(const model_order *a, const model_order *b);

/* Whether an item of a new order wants to know the buyer. */
bool model_needs_buyer(const model_group *g, const model_order *asked);

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

/* The state an order is in, CONFIRMED for one that was returned: what ExtendHold says of it. */
lks_extend_hold_outcome model_extend(model_group *g, int id, int64_t end_ms);

/* Ends the holds that are over at now_ms. */
void model_expire(model_group *g, int64_t now_ms);

/* The next hold to end; -1 = none. */
int64_t model_next_end(const model_group *g);

/* Forgets all that has an end: orders but those that hold, adjustments, returns. */
void model_forget(model_group *g);

#endif

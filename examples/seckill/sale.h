/* A flash sale: goods, the orders that buyers send for them, and what became of both. An order is one unit of one good
 * for one buyer. Its id is the same each time it is sent, so that asking again never buys twice. */
#ifndef SECKILL_SALE_H
#define SECKILL_SALE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/v1/stock.lks_client.h>

enum { SALE_GOODS_MAX = 16, SALE_ID_MAX = 48 };

typedef enum order_state {
    ORDER_UNUSED,  /* never sent */
    ORDER_UNKNOWN, /* sent, and no answer yet */
    ORDER_SOLD,
    ORDER_REFUSED,
    ORDER_WRONG, /* an unexpected answer */
} order_state;

typedef struct sale_order {
    struct flash_sale *sale;
    char id[SALE_ID_MAX];
    char buyer[SALE_ID_MAX];
    size_t good;
    order_state state;
    bool replayed;   /* the answer had been given before */
    unsigned sends;  /* by us; the channel may have sent it more often */
    lks_error error; /* of the last send */
} sale_order;

typedef struct flash_sale {
    char run[24]; /* in every id: no two runs share an order */
    char group[SALE_ID_MAX];
    size_t n_goods;
    char skus[SALE_GOODS_MAX][SALE_ID_MAX];
    int64_t stock; /* of each good */
    size_t n_buyers;
    size_t n_orders;        /* n_buyers for each good: a buyer who is refused may try the next */
    sale_order *orders;     /* buyer b's order for its k-th choice is orders[k * n_buyers + b] */
    int64_t patience_ms;    /* how long to ask again for an order without an answer */
    atomic_size_t answered; /* orders with an answer */
} flash_sale;

typedef struct sale_plan {
    size_t n_goods;
    int64_t stock;
    size_t n_buyers;
    int64_t patience_ms;
} sale_plan;

/* The result for one good, from the records of the server. */
typedef struct good_result {
    int64_t sold, left;
    size_t orders; /* distinct orders in the ledger */
    bool exact;
} good_result;

typedef struct sale_result {
    good_result goods[SALE_GOODS_MAX];
    size_t sold, refused, replayed, unsettled; /* orders, as the buyers were told */
    /* Each buyer is in one: bought (some of them by a later choice than the first), told sold out of all that it
     * asked for, or without an answer. */
    size_t bought, by_later_choice, told_sold_out, no_answer;
    bool exact;
    char why[160]; /* the first error */
} sale_result;

/* Puts new goods on sale. On success the caller closes with sale_close. */
lks_code sale_open(lks_channel *channel, const sale_plan *plan, flash_sale *ret, lks_error *error);
void sale_close(flash_sale *sale);

/* The order orders[index] before it is sent. It uses run, n_buyers and n_goods of `sale`, and points to it. */
sale_order sale_order_at(flash_sale *sale, size_t index);

/* The request that sends `order`; it points into the order and into the two others. */
lks_deduct_request order_request(sale_order *order, lks_line *line, lks_line **lines);

/* Records the answer to a send. After a failed call the order stays unknown. */
void order_answered(sale_order *order, lks_code code, const lks_deduct_response *response, const lks_error *error);

/* Sends the order once, and blocks; end_ms is a time of sale_now_ms. */
void order_send(sale_order *order, lks_channel *channel, int64_t end_ms);

/* Rests before the order is sent again, as long as its error advises. False, at once: it has an answer, or it is too
 * late. */
bool order_rests(const sale_order *order, int64_t end_ms);

/* Both send the orders of all buyers, and again those without an answer, until each has one or the patience is over.
 * By threads a buyer who is refused tries the next good. False with `why` when there are too few threads. */
bool sell_by_threads(flash_sale *sale, lks_channel *channel, sale_result *result);
bool sell_by_async(flash_sale *sale, lks_channel *channel, sale_result *result);

/* Compares what the buyers were told with each item, each order and the whole ledger, as `channel` reports them.
 * Fails only when they cannot be read. */
lks_code sale_check(flash_sale *sale, lks_channel *channel, sale_result *result, lks_error *error);

/* Milliseconds of CLOCK_MONOTONIC, and a sleep of that many. */
int64_t sale_now_ms(void);
void sale_rest(int64_t ms);

#endif

/* A flash sale: goods, the orders that buyers send for them, and the result. An order is one unit of one good for one
 * buyer. It has the same id each time it is sent, so a repeat never buys twice. */
#ifndef SECKILL_SALE_H
#define SECKILL_SALE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/v1/stock.lks_client.h>

enum { SALE_GOODS_MAX = 2, SALE_ID_MAX = 48 };

typedef enum order_state {
    ORDER_UNUSED,  /* never sent */
    ORDER_UNKNOWN, /* sent; no answer yet */
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
    bool replayed;   /* an earlier send had this answer */
    unsigned sends;  /* the channel may have sent it more often */
    lks_error error; /* of the last send */
} sale_order;

/* Its maker sets the first four members. */
typedef struct flash_sale {
    size_t n_goods;
    int64_t stock; /* of each good */
    size_t n_buyers;
    int64_t patience_ms; /* how long to repeat an order without an answer */
    char run[24];        /* part of every id, so that no two runs share an order */
    char group[SALE_ID_MAX];
    char skus[SALE_GOODS_MAX][SALE_ID_MAX];
    size_t n_orders;        /* n_buyers for each good: a refused buyer may try the next good */
    sale_order *orders;     /* buyer b's order for its k-th choice is orders[k * n_buyers + b] */
    atomic_size_t answered; /* orders with an answer */
} flash_sale;

/* The result for one good, from the records of the server. */
typedef struct good_result {
    int64_t sold, left;
    size_t orders; /* distinct orders in the ledger */
    bool exact;
} good_result;

typedef struct sale_result {
    good_result goods[SALE_GOODS_MAX];
    size_t sold, refused, unsettled; /* orders, by their answers */
    size_t by_later_choice;          /* sold orders that were not their buyer's first */
    bool exact;
    char why[160]; /* the first error */
} sale_result;

/* Puts new goods on sale. The caller must call sale_close in any case. */
lks_code sale_open(flash_sale *sale, lks_channel *channel, lks_error *error);
void sale_close(flash_sale *sale);

/* Returns orders[index] as it is before it is sent. Uses run, n_buyers and n_goods of `sale`, and points to it. */
sale_order sale_order_at(flash_sale *sale, size_t index);

/* Returns the request of an order. It points to all three arguments. */
lks_deduct_request order_request(sale_order *order, lks_line *line, lks_line **lines);

/* Records the answer to a send. After a failed call the order stays unknown. */
void order_answered(sale_order *order, lks_code code, const lks_deduct_response *response, const lks_error *error);

/* Sends the order once, and waits for the answer until end_ms at most, a time of sale_now_ms. */
void order_send(sale_order *order, lks_channel *channel, int64_t end_ms);

/* Sleeps before the order is sent again, for as long as its error advises. Returns false at once if it has an answer,
 * or if it is too late. */
bool order_rests(const sale_order *order, int64_t end_ms);

/* Both send the orders of all buyers, and repeat those without an answer, until each has one or patience_ms is over. By
 * threads, a refused buyer tries the next good. Return false, with `why`, if there are too few threads. */
bool sell_by_threads(flash_sale *sale, lks_channel *channel, sale_result *result);
bool sell_by_async(flash_sale *sale, lks_channel *channel, sale_result *result);

/* Compares the answers with each item, each order and the whole ledger, read through `channel`. Fails only if they
 * cannot be read. */
lks_code sale_check(flash_sale *sale, lks_channel *channel, sale_result *result, lks_error *error);

/* Returns milliseconds of CLOCK_MONOTONIC; sleeps for milliseconds. */
int64_t sale_now_ms(void);
void sale_rest(int64_t ms);

#endif

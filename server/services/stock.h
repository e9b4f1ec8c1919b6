/* Shared by the files of StockService. stock.c has the table. */
#ifndef LOCKSTOCK_SERVER_STOCK_H
#define LOCKSTOCK_SERVER_STOCK_H

#include "lockstock/v1/stock.lks.h"
#include "services/stock_transfer.h"

enum { STOCK_REASON_BYTES_MAX = 256, STOCK_HOLD_MIN_MS = 10 };
/* Lines sold, and items read, per unit of weight. An order of which only the id is known may have the maximum number of
 * lines. */
enum { STOCK_LINES_OF_WEIGHT = 8, STOCK_ITEMS_OF_WEIGHT = 16, STOCK_ORDER_WEIGHT = 6 };
#define STOCK_HOLD_MAX_MS (30LL * 24 * 3600 * 1000)

/* Checks each line and the sum of the quantities. */
void stock_check_lines(plan *p, lks_line *const *lines, size_t n);

/* Reads n lines of a reply from `from` on: the available units of each; with_places: after the place of the line in the
 * request, otherwise they are all lines of the request. Fails if a place is invalid. */
lks_line_stock **stock_read_lines(answer *a, const store_value *reply, size_t from, size_t n, bool with_places,
                                  lks_line *const *lines, size_t n_lines);

/* stock_refusals.c: this server's memory of sold-out items. The service's open, close and on_store_call: */
void *stock_open(const service_options *options);
void stock_close(void *state);
void stock_on_store_call(void *state, const store_call *call);

/* Whether this server remembers that an order of one line would be refused with SOLD_OUT. */
bool stock_is_sold_out(const plan *p, const char *group, const transfer_order *order, int64_t *ret_available);

/* In finish: learns from the store's reply to an order of one line. sold_out: it was refused with SOLD_OUT, independent
 * of the buyer. */
void stock_learn(const answer *a, const char *group, const char *sku, bool sold_out, int64_t available,
                 uint64_t asked_ns);

LKS_STOCK_METHODS(SERVICE_DECLARE)

#endif

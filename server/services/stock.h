/* What the files of StockService share: stock.c holds the table, the others the
 * handlers of a kind of thing each. Private to stock*.c. */
#ifndef LOCKSTOCK_SERVER_STOCK_H
#define LOCKSTOCK_SERVER_STOCK_H

#include "lockstock/v1/stock.lks.h"
#include "services/stock_transfer.h"

enum { STOCK_REASON_BYTES_MAX = 256, STOCK_HOLD_MIN_MS = 10 };
/* Lines that are sold, and items that are read, by a unit of weight. An order that only its
 * id is known of may have as many lines as one can have. */
enum { STOCK_LINES_OF_WEIGHT = 8, STOCK_ITEMS_OF_WEIGHT = 16, STOCK_ORDER_WEIGHT = 6 };
#define STOCK_HOLD_MAX_MS (30LL * 24 * 3600 * 1000)

/* Each line by itself, and the sum of the quantities. */
void stock_check_lines(plan *p, lks_line *const *lines, size_t n);

/* The item that a function gave as `view` (functions/stock_base.lua). Text is not copied. */
lks_item *stock_item(answer *a, const store_value *view, const char *group, const char *sku);

/* stock_refusals.c: what this server remembers of items that are sold out. The service's open, close and on_store_call: */
void *stock_open(const service_options *options);
void stock_close(void *state);
void stock_on_store_call(void *state, const store_call *call);

/* Whether this server remembers that an order of one line would be refused with SOLD_OUT. */
bool stock_is_sold_out(const plan *p, const char *group, const transfer_order *order, int64_t *ret_available);

/* In finish: what the store has just replied to an order of one line. sold_out: it was refused with SOLD_OUT, whoever buys. */
void stock_learn(const answer *a, const char *group, const char *sku, bool sold_out, int64_t available,
                 uint64_t asked_ns);

/* stock_items.c */
void put_item_prepare(const lks_put_item_request *request, plan *p);
void put_item_finish(const lks_put_item_request *request, answer *a, lks_put_item_response *response);
void get_item_prepare(const lks_get_item_request *request, plan *p);
void get_item_finish(const lks_get_item_request *request, answer *a, lks_get_item_response *response);
void batch_get_items_prepare(const lks_batch_get_items_request *request, plan *p);
void batch_get_items_finish(const lks_batch_get_items_request *request, answer *a,
                            lks_batch_get_items_response *response);
void adjust_prepare(const lks_adjust_request *request, plan *p);
void adjust_finish(const lks_adjust_request *request, answer *a, lks_adjust_response *response);
void delete_item_prepare(const lks_delete_item_request *request, plan *p);
void delete_item_finish(const lks_delete_item_request *request, answer *a, lks_delete_item_response *response);

/* stock_orders.c */
void confirm_prepare(const lks_confirm_request *request, plan *p);
void confirm_finish(const lks_confirm_request *request, answer *a, lks_confirm_response *response);
void extend_hold_prepare(const lks_extend_hold_request *request, plan *p);
void extend_hold_finish(const lks_extend_hold_request *request, answer *a, lks_extend_hold_response *response);
void cancel_prepare(const lks_cancel_request *request, plan *p);
void cancel_finish(const lks_cancel_request *request, answer *a, lks_cancel_response *response);
void return_prepare(const lks_return_request *request, plan *p);
void return_finish(const lks_return_request *request, answer *a, lks_return_response *response);
void get_order_prepare(const lks_get_order_request *request, plan *p);
void get_order_finish(const lks_get_order_request *request, answer *a, lks_get_order_response *response);

/* stock_list.c */
void list_items_prepare(const lks_list_items_request *request, plan *p);
void list_items_finish(const lks_list_items_request *request, answer *a, lks_list_items_response *response);

/* stock_ledger.c */
void read_ledger_prepare(const lks_read_ledger_request *request, plan *p);
void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response);
void trim_ledger_prepare(const lks_trim_ledger_request *request, plan *p);
void trim_ledger_finish(const lks_trim_ledger_request *request, answer *a, lks_trim_ledger_response *response);

#endif

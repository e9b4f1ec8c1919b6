/* What the files of StockService share: stock.c holds the table, the others the
 * handlers of a kind of thing each. Private to stock*.c. */
#ifndef LOCKSTOCK_SERVER_STOCK_H
#define LOCKSTOCK_SERVER_STOCK_H

#include "lockstock/v1/stock.lks.h"
#include "services/service.h"

/* Zeroed memory of the arena; NULL makes the call fail. */
void *stock_alloc(answer *a, size_t size);

/* The item that a function gave as `view` (functions/stock.lua). NULL when out of
 * memory, with the call failed. */
lks_item *stock_item(answer *a, const store_value *view, char *group);

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

/* stock_list.c */
void list_items_prepare(const lks_list_items_request *request, plan *p);
void list_items_finish(const lks_list_items_request *request, answer *a, lks_list_items_response *response);

/* stock_ledger.c */
void read_ledger_prepare(const lks_read_ledger_request *request, plan *p);
void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response);
void trim_ledger_prepare(const lks_trim_ledger_request *request, plan *p);
void trim_ledger_finish(const lks_trim_ledger_request *request, answer *a, lks_trim_ledger_response *response);

#endif

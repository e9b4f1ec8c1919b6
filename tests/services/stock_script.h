/* Words in which tests of StockService are written: one function a request, one check a promise. A request that fails
 * returns NULL and leaves its error in `err`. */
#ifndef LOCKSTOCK_TESTS_STOCK_SCRIPT_H
#define LOCKSTOCK_TESTS_STOCK_SCRIPT_H

#include "lockstock/v1/stock.lks.h"
#include "services/script.h"

/* ---- requests; text is not copied ---- */

lks_put_item_request put_request(const char *group, const char *sku, int64_t on_hand);
const lks_item *put(const lks_put_item_request *request);
const lks_item *put_item(const char *group, const char *sku, int64_t on_hand);
const lks_item *put_in(const char *group, const char *sku, int64_t on_hand, int32_t buckets);

/* An order that lives in that bucket of SCRIPT_BUCKETS; each call another one. */
enum { SCRIPT_BUCKETS = 4 };
const char *order_in(unsigned bucket);

const lks_item *put_limited(const char *group, const char *sku, int64_t on_hand, int64_t per_buyer_limit);
const lks_item *get_item(const char *group, const char *sku);
const lks_adjust_response *adjust(const char *group, const char *sku, int64_t delta, const char *id);
bool delete_item(const char *group, const char *sku);

/* `lines` is "sku:quantity ..."; skus without spaces. */
const lks_deduct_response *deduct(const char *group, const char *order_id, const char *buyer_id, const char *lines);
const lks_reserve_response *reserve(const char *group, const char *order_id, const char *buyer_id, const char *lines,
                                    int64_t hold_ms);
const lks_confirm_response *confirm(const char *group, const char *order_id, bool reacquire_if_expired);
const lks_extend_hold_response *extend_hold(const char *group, const char *order_id, int64_t hold_ms);
const lks_cancel_response *cancel(const char *group, const char *order_id, const char *reason);
/* lines "" = all that is left. */
const lks_return_response *take_back(const char *group, const char *return_id, const char *order_id, const char *lines);
const lks_order *get_order(const char *group, const char *order_id);
const lks_read_ledger_response *read_ledger(const char *group, const char *after, int32_t limit);
bool trim_ledger(const char *group, const char *up_to);

/* Changes a number of an item of group "g" in the store, as no function would. Places as in
 * server/functions/stock_base.lua. */
enum item_number { ITEM_AVAILABLE = 1, ITEM_RESERVED = 9 };
void change_item(const char *sku, enum item_number number, int64_t value);

/* "sku:quantity ..." as lines; the next call overwrites them. */
lks_line **lines_of(const char *lines, size_t *n);

/* ---- checks ---- */

/* line_of an answer, and behind it of what it tells of the lines "sku:available ...", or its order as order_text gives
 * it: "DEDUCTED again a:8 b:0", "CONFIRMED SOLD bob a:2:0". */
const char *answer_line(const void *response);
#define answers(response, expected) says(answer_line(response), expected)
void expect_item(const char *group, const char *sku, int64_t available, int64_t sold);
void expect_stock(const char *group, const char *sku, int64_t available, int64_t reserved, int64_t sold);

/* "STATE buyer sku:quantity:returned ..." of an order; "none" of NULL. */
const char *order_text(const lks_order *order);

void expect_order(const char *group, const char *order_id, const char *order);

/* The ms after which the last call asks for stock_expire; -1 when it does not. */
int64_t lasting_alarm_ms(void);

/* Runs stock_expire of the group as a server's lasting alarm would; gives the ms it replies. */
int64_t ring_lasting_alarm(const char *group);

/* What a step of the sweep finds from this cursor on, a line each: OK, the next cursor ("": the end), and what is overdue. */
const char *overdue(const char *cursor);

/* "KIND sku quantity order" of each entry, one a line. */
const char *ledger_text(const lks_read_ledger_response *response);

#endif

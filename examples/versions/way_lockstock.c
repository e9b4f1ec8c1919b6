/* An item's version changes with every change of it, and is never used twice: a write that names the version which was
 * looked at is refused when anything came between. */
#include <stdio.h>

#include <lockstock/v1/stock.lks_client.h>

#include "way.h"

static const char lamp[] = "lamp";

bool lockstock_fill(lks_channel *channel, const char *group, lks_error *error)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;

    request.group = group;
    request.sku = lamp;
    request.on_hand = LAMPS;
    return lks_stock_put_item(channel, &request, NULL, NULL, error) == LKS_OK;
}

static bool look(lks_channel *channel, const char *group, int64_t *available, int64_t *version, lks_error *error)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;

    request.group = group;
    request.sku = lamp;
    if (lks_stock_get_item(channel, &request, NULL, &response, error) != LKS_OK)
        return false;
    *available = response->item->available;
    *version = response->item->version;
    lks_get_item_response_free(response);
    return true;
}

bool lockstock_left(lks_channel *channel, const char *group, int64_t *ret, lks_error *error)
{
    int64_t version;

    return look(channel, group, ret, &version, error);
}

purchase buy_by_item_version(buyer *b)
{
    for (;; b->retries++) {
        lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
        int64_t available = 0;
        if (!look(b->channel, b->group, &available, &request.expected_version, &b->error))
            return FAILED;
        if (available == 0)
            return SOLD_OUT;
        meeting_wait(b->looked);
        request.group = b->group;
        request.sku = lamp;
        request.delta = -1;
        lks_code code = lks_stock_adjust(b->channel, &request, NULL, NULL, &b->error);
        if (code != LKS_ABORTED)
            return code == LKS_OK ? BOUGHT : FAILED;
        b->error.code = LKS_OK; /* somebody was faster */
    }
}

purchase buy_by_deduct(buyer *b)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_response *response = NULL;
    char order[32];

    snprintf(order, sizeof order, "order-%d", b->number);
    line.sku = lamp;
    line.quantity = 1;
    request.group = b->group;
    request.order_id = order;
    request.lines = lines;
    request.n_lines = 1;
    meeting_wait(b->looked);
    if (lks_stock_deduct(b->channel, &request, NULL, &response, &b->error) != LKS_OK)
        return FAILED;
    purchase came = response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED ? BOUGHT : SOLD_OUT;
    lks_deduct_response_free(response);
    return came;
}

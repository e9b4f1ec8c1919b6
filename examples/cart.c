/* Sells a cart of two goods, whole or not at all. */
#include <lockstock/lockstock.h>
#include <stdio.h>

static lks_code put(lks_channel *channel, const char *sku, int64_t on_hand, int64_t per_buyer_limit, lks_error *error)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    request.group = "shop"; /* goods that are sold together share a group */
    request.sku = sku;
    request.on_hand = on_hand;
    request.per_buyer_limit = per_buyer_limit;
    return lks_stock_put_item(channel, &request, NULL, NULL, error);
}

static lks_code buy(lks_channel *channel, const char *order_id, lks_error *error)
{
    lks_line phone = LKS_LINE_INIT, cover = LKS_LINE_INIT, *lines[] = {&phone, &cover};
    phone.sku = "phone";
    phone.quantity = 1;
    cover.sku = "cover";
    cover.quantity = 2;
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    request.group = "shop";
    request.order_id = order_id;
    request.buyer_id = "bob";
    request.n_lines = 2;
    request.lines = lines;
    lks_deduct_response *response;
    lks_code code = lks_stock_deduct(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    if (response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
        printf("%s: sold%s\n", order_id, response->replayed ? " before" : "");
    else if (response->outcome == LKS_DEDUCT_OUTCOME_BUYER_LIMIT)
        printf("%s: enough of %s\n", order_id, response->lines[0]->sku);
    else
        printf("%s: not to be had, %lld of %s\n", order_id, (long long)response->lines[0]->available,
               response->lines[0]->sku);
    lks_deduct_response_free(response);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_error error;
    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK) {
        if ((code = put(channel, "phone", 5, 1, &error)) == LKS_OK &&
            (code = put(channel, "cover", 50, 0, &error)) == LKS_OK &&
            (code = buy(channel, "order-1", &error)) == LKS_OK && (code = buy(channel, "order-1", &error)) == LKS_OK)
            code = buy(channel, "order-2", &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    return code != LKS_OK;
}

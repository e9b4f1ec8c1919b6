#include <lockstock/v1/stock.lks_client.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    lks_deduct_request order = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_response *sold = NULL;
    lks_error error;

    item.sku = line.sku = "phone";
    item.on_hand = 500;
    line.quantity = 1;
    order.order_id = "order-1"; /* the same in every retry, so that it sells once */
    order.n_lines = 1;
    order.lines = lines;
    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) == LKS_OK &&
        lks_stock_put_item(channel, &item, NULL, NULL, &error) == LKS_OK &&
        lks_stock_deduct(channel, &order, NULL, &sold, &error) == LKS_OK)
        printf("%s\n", lks_deduct_outcome_name(sold->outcome)); /* DEDUCTED, SOLD_OUT, ... */
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
    lks_deduct_response_free(sold);
    lks_channel_close(channel);
    return error.code != LKS_OK;
}

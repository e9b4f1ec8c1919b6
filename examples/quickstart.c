#include <lockstock/v1/stock.lks_client.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_error error;
    if (lks_channel_open(argc > 1 ? argv[1] : "nng+tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;

    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    item.sku = "phone";
    item.on_hand = 500;
    lks_code code = lks_stock_put_item(channel, &item, NULL, NULL, &error);

    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    line.sku = "phone";
    line.quantity = 1;
    lks_deduct_request order = LKS_DEDUCT_REQUEST_INIT;
    order.group = "phone"; /* an item put without a group is in its own */
    order.order_id = "order-1"; /* the same in every retry: it sells once */
    order.n_lines = 1;
    order.lines = lines;
    lks_deduct_response *sold = NULL;
    if (code == LKS_OK && (code = lks_stock_deduct(channel, &order, NULL, &sold, &error)) == LKS_OK)
        printf("%s\n", sold->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED ? "yours" : "sold out");
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);

    lks_deduct_response_free(sold);
    lks_channel_close(channel);
    return code != LKS_OK;
}

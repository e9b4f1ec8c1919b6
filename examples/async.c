#include <lockstock/lockstock.h>
#include <stdio.h>

enum { BUYERS = 10 };

/* Runs on the channel's completion thread, and nowhere else: it may count without a lock. */
static void on_answer(void *arg, lks_code code, const lks_deduct_response *response, const lks_error *error)
{
    int *sold = arg;

    if (code != LKS_OK)
        fprintf(stderr, "%s, applied %s: %s\n", lks_code_name(code), lks_applied_name(error->applied), error->message);
    else if (response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
        ++*sold;
}

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_call *calls[BUYERS] = {NULL};
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    lks_deduct_request order = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    char order_id[32];
    int sold = 0;

    item.sku = line.sku = "ticket";
    item.on_hand = 3;
    line.quantity = 1;
    order.order_id = order_id;
    order.n_lines = 1;
    order.lines = lines;
    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, NULL) != LKS_OK ||
        lks_stock_put_item(channel, &item, NULL, NULL, NULL) != LKS_OK)
        return 1;
    for (int i = 0; i < BUYERS; i++) {
        snprintf(order_id, sizeof order_id, "ticket-%d", i); /* the request is copied */
        lks_stock_deduct_start(channel, &order, NULL, on_answer, &sold, &calls[i], NULL);
    }
    for (int i = 0; i < BUYERS; i++) {
        if (calls[i])
            lks_call_wait(calls[i], NULL); /* until on_answer returned */
        lks_call_free(calls[i]);
    }
    printf("%d sold\n", sold);
    return lks_channel_close(channel) != LKS_OK;
}

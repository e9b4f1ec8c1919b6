/* Holds stock while the buyer pays, then sells it, or gives it back at the end of the block.
 *
 *     reservation [URL] */
#include <lockstock/lockstock.h>
#include <stdbool.h>
#include <stdio.h>

static void buy(lks_channel *channel, const char *order_id, int64_t quantity, bool pays)
{
    const lks_reservation_line line = {.sku = "seat", .quantity = quantity};
    const lks_reservation_order order = {
        .order_id = order_id, .lines = &line, .n_lines = 1, .hold_ms = 10000, .keep_ms = 300000};
    LKS_RESERVATION lks_reservation *reservation = NULL; /* cancelled at the end, unless it was confirmed */
    lks_error error;

    if (lks_reservation_make(channel, &order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED) {
        printf("%s: %s\n", order_id, error.message);
        return;
    }
    if (!pays) {
        printf("%s: not paid\n", order_id);
        return;
    }
    if (lks_reservation_confirm(reservation, true, &error) == LKS_CONFIRM_OUTCOME_CONFIRMED)
        printf("%s: sold\n", order_id);
    else
        printf("%s: paid, and not sold: give the money back (%s)\n", order_id, error.message);
}

int main(int argc, char **argv)
{
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    lks_channel *channel;
    lks_error error;

    item.sku = "seat";
    item.on_hand = 2;
    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK ||
        lks_stock_put_item(channel, &item, NULL, NULL, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    buy(channel, "alice", 2, false);
    buy(channel, "bob", 1, true);
    buy(channel, "carol", 2, true);
    lks_channel_close(channel);
    return 0;
}

/* The endpoint of a flash sale: a limit for each buyer, one effect for each order, and the stock, all in one call. */
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <string.h>

/* The work: here the order would be paid. */
static const char *pay(const char *order)
{
    static char receipt[64];

    snprintf(receipt, sizeof receipt, "receipt of %s", order);
    return receipt;
}

static lks_enter_outcome order(lks_channel *channel, const char *buyer, const char *order_id, lks_error *error)
{
    lks_limit five_a_minute = LKS_LIMIT_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_guard_once once = LKS_GUARD_ONCE_INIT;
    lks_guard_limits limits = LKS_GUARD_LIMITS_INIT;
    lks_guard_stock stock = LKS_GUARD_STOCK_INIT;
    lks_enter_request request = LKS_ENTER_REQUEST_INIT;
    lks_leave_request end = LKS_LEAVE_REQUEST_INIT;
    lks_entry *entry;

    once.scope = "order";
    once.key = order_id;
    five_a_minute.algorithm = LKS_ALGORITHM_SLIDING_WINDOW;
    five_a_minute.limit = 5;
    five_a_minute.period_ms = 60000;
    rule.key = buyer;
    lks_rule_set_limit(&rule, &five_a_minute);
    limits.n_rules = 1;
    limits.rules = rules;
    line.sku = "lamp";
    line.quantity = 1;
    stock.order_id = order_id;
    stock.buyer_id = buyer;
    stock.n_lines = 1;
    stock.lines = lines;
    stock.hold_ms = 60000; /* until it is paid; if this process dies, the stock is free again after that */
    request.group = "lamp";
    request.once = &once;
    request.limits = &limits;
    request.stock = &stock;
    request.wait_ms = 2000; /* a second click waits for the result of the first */
    lks_enter_outcome outcome = lks_enter(channel, &request, &entry, error);
    if (outcome == LKS_ENTER_OUTCOME_ENTERED) {
        const char *receipt = pay(order_id);
        end.kind = LKS_LEAVE_KIND_COMPLETE;
        end.body.data = (uint8_t *)(uintptr_t)receipt;
        end.body.len = strlen(receipt);
        if (lks_leave(entry, &end, error) == LKS_LEAVE_OUTCOME_LEFT)
            printf("sold: %s\n", receipt);
        return outcome;
    }
    if (outcome == LKS_ENTER_OUTCOME_REPLAY) {
        const lks_stored_result *result = lks_entry_answer(entry)->result;
        printf("sold before: %.*s\n", (int)result->body.len, (const char *)result->body.data);
    } else {
        printf("%s\n", error->message);
    }
    if (outcome != LKS_ENTER_OUTCOME_UNSPECIFIED)
        lks_entry_free(entry);
    return outcome;
}

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_put_item_request lamps = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    lamps.sku = "lamp";
    lamps.on_hand = 1;
    const bool good = lks_stock_put_item(channel, &lamps, NULL, NULL, &error) == LKS_OK &&
                      order(channel, "ann", "order-1", &error) == LKS_ENTER_OUTCOME_ENTERED &&
                      order(channel, "ann", "order-1", &error) == LKS_ENTER_OUTCOME_REPLAY &&
                      order(channel, "bob", "order-2", &error) == LKS_ENTER_OUTCOME_OUT_OF_STOCK;
    if (!good)
        fprintf(stderr, "%s\n", error.message);
    lks_channel_close(channel);
    return good ? 0 : 1;
}

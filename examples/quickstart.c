#include <lockstock/lockstock.h>
#include <stdio.h>

static lks_once_verdict charge(void *order, lks_once_attempt *attempt)
{
    printf("charging %s\n", (const char *)order);
    lks_once_return(attempt, 0, "paid", 4);
    return LKS_ONCE_STORE;
}

static lks_code run(lks_channel *channel, lks_error *error)
{
    /* Lock: renewed until the end of the block. */
    lks_mutex *report = NULL;
    if (lks_mutex_new(channel, "report", NULL, &report, error) != LKS_OK)
        return error->code;
    {
        LKS_MUTEX_GUARD held = lks_mutex_guard_take(report, 2000, error);
        puts(held.result == LKS_LOCK_ACQUIRED ? "locked" : error->message);
    }
    lks_mutex_free(report);

    /* Sell: the same order sells once, however often it is sent. */
    lks_put_item_request item = LKS_PUT_ITEM_REQUEST_INIT;
    lks_deduct_request order = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    char id[] = "order-1";
    lks_deduct_response *sold = NULL;
    item.sku = line.sku = "phone";
    item.on_hand = 500;
    line.quantity = 1;
    order.order_id = id;
    order.n_lines = 1;
    order.lines = lines;
    if (lks_stock_put_item(channel, &item, NULL, NULL, error) != LKS_OK ||
        lks_stock_deduct(channel, &order, NULL, &sold, error) != LKS_OK)
        return error->code;
    puts(lks_deduct_outcome_name(sold->outcome)); /* DEDUCTED, SOLD_OUT, ... */
    lks_deduct_response_free(sold);

    /* Once: the second caller gets the first one's result. */
    const lks_once_options once = {.scope = "pay", .key = id, .wait_ms = 2000};
    lks_once_result *result = NULL;
    if (lks_once_run(channel, &once, charge, id, &result, error) == LKS_ONCE_FAILED)
        return error->code;
    printf("%.*s\n", (int)result->body_len, (const char *)result->body);
    lks_once_result_free(result);

    /* Limit: 5 a minute. */
    lks_limit five = LKS_LIMIT_INIT;
    five.algorithm = LKS_ALGORITHM_SLIDING_WINDOW;
    five.limit = 5;
    five.period_ms = 60000;
    const lks_limiter_rule rule = {.limit = &five};
    lks_limiter *limiter = NULL;
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1};
    if (lks_limiter_new(channel, &options, &limiter, error) != LKS_OK)
        return error->code;
    puts(lks_limiter_allow(limiter, "alice", 1, NULL, error) ? "go on" : "too often");
    lks_limiter_free(limiter);
    return error->code;
}

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_error error;

    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK)
        code = run(channel, &error);
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    lks_channel_close(channel);
    return code != LKS_OK;
}

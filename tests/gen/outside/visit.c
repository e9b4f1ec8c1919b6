/* Serves a shop and buys in it: the generated skeleton, the network, the generated
 * stubs, synchronous and not. */
#include <stdio.h>
#include <string.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "google/protobuf/timestamp.lks.h"
#include "money/v1/money.lks.h"
#include "shop.lks_client.h"
#include "shop.lks_server.h"

enum { SINCE = 1700000000 };

static lks_code my_ask(void *self, lks_rpc_context *context, const shop_ask_request *request,
                       shop_ask_response *response, lks_error *error)
{
    if (strcmp(request->goods, "tea") != 0)
        return lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "goods: not sold here");
    response->price = lks_rpc_arena_alloc(context->arena, sizeof *response->price);
    if (!response->price)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *response->price = (money_v1_price)MONEY_V1_PRICE_INIT;
    response->price->cents = *(const int64_t *)self;
    response->price->since = lks_rpc_arena_alloc(context->arena, sizeof *response->price->since);
    if (!response->price->since)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *response->price->since = (google_protobuf_timestamp)GOOGLE_PROTOBUF_TIMESTAMP_INIT;
    response->price->since->seconds = SINCE;
    return LKS_OK;
}

static void take_answer(void *arg, lks_code code, const shop_ask_response *response, const lks_error *error)
{
    (void)error;
    *(int64_t *)arg = code == LKS_OK ? response->price->cents : -1;
}

/* Returns what was not as it should be, NULL = nothing. */
static const char *visit(lks_channel *channel, lks_error *error)
{
    char tea[] = "tea", gold[] = "gold";
    shop_ask_request request = SHOP_ASK_REQUEST_INIT;
    shop_ask_response *response = NULL;
    request.goods = tea;
    if (shop_shop_ask(channel, &request, NULL, &response, error) != LKS_OK)
        return error->message;
    int64_t cents = response->price->since->seconds == SINCE ? response->price->cents : -1;
    shop_ask_response_free(response);
    if (cents != 250)
        return "another price";

    int64_t taken = 0;
    lks_call *call = NULL;
    if (shop_shop_ask_start(channel, &request, NULL, take_answer, &taken, &call, error) != LKS_OK)
        return error->message;
    lks_code code = lks_call_wait(call, error);
    bool typed = code == LKS_OK && shop_shop_ask_response(call)->price->cents == 250;
    lks_call_free(call);
    if (!typed || taken != 250)
        return "another price from the callback";

    request.goods = gold;
    code = shop_shop_ask(channel, &request, NULL, NULL, error);
    return code == LKS_NOT_FOUND && error->origin == LKS_ORIGIN_PEER ? NULL : "gold was sold";
}

int main(void)
{
    static const shop_shop_handlers handlers = SHOP_SHOP_HANDLERS(my_);
    int64_t cents = 250;
    lks_rpc_service service = shop_shop_service(&handlers, &cents);
    lks_host *host = NULL;
    lks_channel *channel = NULL;
    lks_error error = {0};
    uint16_t port = 0;
    char url[64];
    const char *failure = error.message;
    if (lks_host_open(NULL, &host, &error) == LKS_OK && lks_host_add(host, &service, &error) == LKS_OK &&
        lks_host_listen(host, "nng+tcp://127.0.0.1:0", &port, &error) == LKS_OK &&
        snprintf(url, sizeof url, "nng+tcp://127.0.0.1:%u", port) > 0 &&
        lks_channel_open(url, NULL, &channel, &error) == LKS_OK)
        failure = visit(channel, &error);
    printf("lockstock %s: %s\n", LOCKSTOCK_VERSION, !failure ? "bought tea" : failure);
    lks_channel_close(channel);
    lks_host_close(host, 1000);
    return !failure ? 0 : 1;
}

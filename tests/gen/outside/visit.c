/* Serves one call from itself, and makes one that nobody answers. */
#include <stdio.h>
#include <string.h>

#include <lockstock/lockstock.h>

#include "money/v1/money.lks.h"
#include "shop.lks_client.h"
#include "shop.lks_server.h"

static money_v1_price price = MONEY_V1_PRICE_INIT;

static lks_code my_ask(void *self, lks_rpc_context *context, const shop_ask_request *request,
                       shop_ask_response *response, lks_error *error)
{
    (void)context;
    if (strcmp(request->goods, "tea") != 0) {
        return lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "goods: not sold here");
    }
    price.cents = *(const int64_t *)self;
    response->price = &price;
    return LKS_OK;
}

static const shop_shop_handlers handlers = SHOP_SHOP_HANDLERS(my_);

int main(void)
{
    int64_t cents = 250;
    lks_rpc_service service = shop_shop_service(&handlers, &cents);
    lks_rpc_context context = {.method = &shop_shop_ask_method};
    shop_ask_request request = SHOP_ASK_REQUEST_INIT;
    shop_ask_response response = SHOP_ASK_RESPONSE_INIT;
    lks_error error;
    char goods[] = "tea";
    request.goods = goods;
    lks_code code = service.bindings[0].handle(&service, &context, &request.base, &response.base, &error);
    if (code != LKS_OK || response.price->cents != 250) {
        printf("served %s\n", lks_code_name(code));
        return 1;
    }

    lks_channel *channel = NULL;
    lks_call_options options = {.timeout_ms = 100};
    code = lks_channel_open("nng+tcp://127.0.0.1:1", NULL, &channel, &error);
    if (code != LKS_OK) {
        printf("opened: %s: %s\n", lks_code_name(code), error.message);
        return 1;
    }
    shop_ask_response *answer = NULL;
    code = shop_shop_ask(channel, &request, &options, &answer, &error);
    shop_ask_response_free(answer);
    lks_channel_close(channel);
    if (code != LKS_UNAVAILABLE && code != LKS_DEADLINE_EXCEEDED) {
        printf("called: %s\n", lks_code_name(code));
        return 1;
    }
    printf("lockstock %s: %s\n", LOCKSTOCK_VERSION, shop_shop_ask_method.path);
    return 0;
}

// The same from C++17: each public header, a service and its stubs.
#include <cinttypes>
#include <cstdio>
#include <string>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "google/protobuf/timestamp.lks.h"
#include "money/v1/money.lks.h"
#include "shop.lks_client.h"
#include "shop.lks_server.h"

namespace {

std::string metadata_of(const lks_rpc_context *context, const std::string &key)
{
    for (size_t i = 0; i < context->n_metadata; i++) {
        const lks_rpc_metadata &entry = context->metadata[i];
        if (key == entry.key)
            return {entry.value.data, entry.value.len};
    }
    return {};
}

struct shop {
    int64_t cents;
};

lks_code my_ask(void *self, lks_rpc_context *context, const shop_ask_request *request, shop_ask_response *response,
                lks_error *error)
{
    if (std::string(request->goods) != "tea")
        return lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "goods: not sold here");
    response->price = static_cast<money_v1_price *>(lks_rpc_arena_alloc(context->arena, sizeof *response->price));
    *response->price = MONEY_V1_PRICE_INIT;
    response->price->cents = static_cast<shop *>(self)->cents;
    if (metadata_of(context, "voucher") == "half")
        response->price->cents /= 2;
    return LKS_OK;
}

const shop_shop_handlers handlers = SHOP_SHOP_HANDLERS(my_);

int64_t ask(lks_channel *channel, const char *goods, lks_error *error)
{
    const lks_metadata voucher = {"voucher", "half", 4};
    lks_call_options options = {};
    options.metadata = &voucher;
    options.n_metadata = 1;
    shop_ask_request request = SHOP_ASK_REQUEST_INIT;
    request.goods = goods;
    shop_ask_response *response = nullptr;
    if (shop_shop_ask(channel, &request, &options, &response, error) != LKS_OK)
        return -1;
    const int64_t cents = response->price->cents;
    shop_ask_response_free(response);
    return cents;
}

} // namespace

int main()
{
    shop tea = {250};
    const lks_rpc_service service = shop_shop_service(&handlers, &tea);
    lks_host_options options = {};
    options.threads = 1;
    lks_host *host = nullptr;
    lks_channel *channel = nullptr;
    lks_error error = {};
    uint16_t port = 0;
    if (lks_host_open(&options, &host, &error) != LKS_OK || lks_host_add(host, &service, &error) != LKS_OK ||
        lks_host_listen(host, "tcp://127.0.0.1:0", &port, &error) != LKS_OK ||
        lks_channel_open(("tcp://127.0.0.1:" + std::to_string(port)).c_str(), nullptr, &channel, &error) != LKS_OK) {
        std::printf("%s\n", error.message);
        return 1;
    }
    const int64_t cents = ask(channel, "tea", &error);
    const int64_t gold = ask(channel, "gold", &error);
    std::printf("C++: tea for %" PRId64 ", gold: %s\n", cents, lks_code_name(error.code));
    const bool right = cents == 125 && gold == -1 && error.code == LKS_NOT_FOUND;
    lks_channel_close(channel);
    lks_host_close(host, 1000);
    return right ? 0 : 1;
}

/* shop_client [URL]: sends a delivery and an order twice, and orders that are refused. */
#include <inttypes.h>
#include <stdio.h>

#include <lockstock/lockstock.h>

#include "shop.lks_client.h"

static lks_code add_stock(lks_channel *channel, const char *delivery, lks_error *error)
{
    shop_v1_add_stock_request request = SHOP_V1_ADD_STOCK_REQUEST_INIT;
    shop_v1_add_stock_response *response = NULL;

    request.delivery_id = delivery;
    request.sku = "lamp";
    request.quantity = 2;
    lks_code code = shop_v1_shop_add_stock(channel, &request, NULL, &response, error);
    if (code == LKS_OK)
        printf("%s: %" PRId64 " left\n", delivery, response->left);
    shop_v1_add_stock_response_free(response);
    return code;
}

static lks_code buy(lks_channel *channel, const char *order, const char *buyer, int64_t quantity, lks_error *error)
{
    static const char *const words[] = {"?", "bought", "sold out", "too many", "it runs", "another order's", "busy"};
    shop_v1_buy_request request = SHOP_V1_BUY_REQUEST_INIT;
    shop_v1_buy_response *response = NULL;

    request.order_id = order;
    request.buyer_id = buyer;
    request.sku = "lamp";
    request.quantity = quantity;
    lks_code code = shop_v1_shop_buy(channel, &request, NULL, &response, error);
    if (code == LKS_OK)
        printf("%s: %s\n", order, words[response->outcome]);
    shop_v1_buy_response_free(response);
    return code;
}

static lks_code status(lks_channel *channel, lks_error *error)
{
    shop_v1_status_request request = SHOP_V1_STATUS_REQUEST_INIT;
    shop_v1_status_response *response = NULL;

    request.sku = "lamp";
    lks_code code = shop_v1_shop_status(channel, &request, NULL, &response, error);
    if (code == LKS_OK)
        printf("%" PRId64 " left, %" PRId64 " sold in %" PRId64 " orders\n", response->left, response->sold,
               response->orders);
    shop_v1_status_response_free(response);
    return code;
}

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_error error = {0};

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7800", NULL, &channel, &error) == LKS_OK &&
        add_stock(channel, "delivery-1", &error) == LKS_OK && add_stock(channel, "delivery-1", &error) == LKS_OK &&
        buy(channel, "order-1", "ann", 2, &error) == LKS_OK && buy(channel, "order-1", "ann", 2, &error) == LKS_OK &&
        buy(channel, "order-1", "bob", 1, &error) == LKS_OK && buy(channel, "order-2", "bob", 1, &error) == LKS_OK)
        status(channel, &error);
    if (error.code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
    lks_channel_close(channel);
    return error.code != LKS_OK;
}

/* Does not compile unless HANDLER is defined: golden.v1.ShopService has a method
 * Return, for which there is no function. */
#include "shop/v1/shop.lks_server.h"

static lks_code my_buy_now(void *self, lks_rpc_context *context, const shop_v1_buy_request *request,
                           shop_v1_buy_response *response, lks_error *error)
{
    (void)self, (void)context, (void)request, (void)response;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "buy_now");
}

static lks_code my_buy_all(void *self, lks_rpc_context *context, const shop_v1_buy_all_request *request,
                           shop_v1_buy_response *response, lks_error *error)
{
    (void)self, (void)context, (void)request, (void)response;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "buy_all");
}

#ifdef HANDLER
static lks_code my_return(void *self, lks_rpc_context *context, const shop_v1_return_request *request,
                          cmn_receipt *response, lks_error *error)
{
    (void)self, (void)context, (void)request, (void)response;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "return");
}
#endif

static lks_code my_take_back(void *self, lks_rpc_context *context, const shop_v1_take_back_request *request,
                             shop_v1_buy_response *response, lks_error *error)
{
    (void)self, (void)context, (void)request, (void)response;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "take_back");
}

static lks_code my_delete(void *self, lks_rpc_context *context, const cmn_page *request, shop_v1_order_line *response,
                          lks_error *error)
{
    (void)self, (void)context, (void)request, (void)response;
    return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "delete");
}

const shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(my_);

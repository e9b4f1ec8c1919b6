/* The code generated from golden/shop/v1/shop.proto works: stubs hand
 * calls to the client library (here a fake), skeletons hand them to handlers, each
 * as the type it is. */

#include <errno.h>

#include <google/protobuf/descriptor.pb-c.h>

#include "names/v1/names.lks.h"
#include "shop/v1/shop.lks_client.h"
#include "shop/v1/shop.lks_server.h"
#include "test.h"

/* ---- the client library, faked: it records and answers at once ---------------- */

static struct fake {
    lks_channel *channel;
    const lks_rpc_method *method;
    const ProtobufCMessage *request;
    const lks_call_options *options;
    lks_call_done *done;
    lks_call_function *function;
    void *arg;
    lks_call **ret;
    lks_error *error;
    bool wants_response;
    size_t options_bytes;
    lks_code code;
    ProtobufCMessage *response;
    ProtobufCMessage *freed;
} fake;

lks_code lks_call_run_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *request,
                            const lks_call_options *options, size_t options_bytes, ProtobufCMessage **ret,
                            lks_error *error)
{
    fake.channel = channel;
    fake.method = method;
    fake.request = request;
    fake.options = options;
    fake.options_bytes = options_bytes;
    fake.error = error;
    fake.wants_response = ret;
    if (fake.code == LKS_OK && ret)
        *ret = fake.response;
    return fake.code;
}

lks_code lks_call_start_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *request,
                              const lks_call_options *options, size_t options_bytes, lks_call_done *done,
                              lks_call_function *function, void *arg, lks_call **ret, lks_error *error)
{
    fake.channel = channel;
    fake.method = method;
    fake.request = request;
    fake.options = options;
    fake.options_bytes = options_bytes;
    fake.done = done;
    fake.function = function;
    fake.arg = arg;
    fake.ret = ret;
    fake.error = error;
    return fake.code;
}

const ProtobufCMessage *lks_call_response(const lks_call *call)
{
    assert_ptr_equal(call, &fake);
    return fake.response;
}

void lks_message_free(ProtobufCMessage *message)
{
    fake.freed = message;
}

static int reset(void **state)
{
    fake = (struct fake){0};
    return 0;
}

static lks_channel *const channel = (lks_channel *)&fake;

/* ---- stubs ------------------------------------------------------------------- */

TEST(sync_stub_returns_the_typed_response)
{
    shop_v1_buy_request request = SHOP_V1_BUY_REQUEST_INIT;
    shop_v1_buy_response response = SHOP_V1_BUY_RESPONSE_INIT, *ret = NULL;
    lks_call_options options = {.timeout_ms = 5};
    lks_error error;
    fake.response = &response.base;

    assert_int_equal(shop_v1_shop_buy_now(channel, &request, &options, &ret, &error), LKS_OK);
    assert_ptr_equal(ret, &response);
    assert_ptr_equal(fake.channel, channel);
    assert_ptr_equal(fake.method, &shop_v1_shop_buy_now_method);
    assert_ptr_equal(fake.request, &request);
    assert_ptr_equal(fake.options, &options);
    assert_int_equal(fake.options_bytes, sizeof(lks_call_options));
    assert_ptr_equal(fake.error, &error);

    shop_v1_buy_response_free(ret);
    assert_ptr_equal(fake.freed, &response);
}

TEST(sync_stub_that_fails_leaves_ret)
{
    shop_v1_return_request request = SHOP_V1_RETURN_REQUEST_INIT;
    cmn_receipt before = CMN_RECEIPT_INIT, *ret = &before;
    fake.code = LKS_UNAVAILABLE;

    assert_int_equal(shop_v1_shop_return(channel, &request, NULL, &ret, NULL), LKS_UNAVAILABLE);
    assert_ptr_equal(ret, &before);
}

TEST(sync_stub_may_ignore_the_response)
{
    shop_v1_return_request request = SHOP_V1_RETURN_REQUEST_INIT;

    assert_int_equal(shop_v1_shop_return(channel, &request, NULL, NULL, NULL), LKS_OK);
    assert_false(fake.wants_response);
}

typedef struct delivered {
    int times;
    lks_code code;
    const cmn_receipt *response;
    const lks_error *error;
} delivered;

static shop_v1_shop_return_done take_receipt;

static void take_receipt(void *arg, lks_code code, const cmn_receipt *response, const lks_error *error)
{
    delivered *taken = arg;
    *taken = (delivered){taken->times + 1, code, response, error};
}

TEST(started_call_runs_the_typed_callback)
{
    shop_v1_return_request request = SHOP_V1_RETURN_REQUEST_INIT;
    cmn_receipt receipt = CMN_RECEIPT_INIT;
    delivered taken = {0};
    lks_call *call = NULL;
    lks_error error = {.code = LKS_ABORTED};

    assert_int_equal(shop_v1_shop_return_start(channel, &request, NULL, take_receipt, &taken, &call, &error), LKS_OK);
    assert_ptr_equal(fake.method, &shop_v1_shop_return_method);
    assert_ptr_equal(fake.ret, &call);
    assert_ptr_equal(fake.error, &error);

    fake.done(fake.function, fake.arg, LKS_OK, &receipt.base, &error);
    assert_int_equal(taken.times, 1);
    assert_int_equal(taken.code, LKS_OK);
    assert_ptr_equal(taken.response, &receipt);
    assert_ptr_equal(taken.error, &error);

    fake.done(fake.function, fake.arg, LKS_ABORTED, NULL, &error);
    assert_int_equal(taken.code, LKS_ABORTED);
    assert_null(taken.response);
}

TEST(started_call_needs_no_callback)
{
    shop_v1_return_request request = SHOP_V1_RETURN_REQUEST_INIT;
    cmn_receipt receipt = CMN_RECEIPT_INIT;
    fake.response = &receipt.base;

    assert_int_equal(shop_v1_shop_return_start(channel, &request, NULL, NULL, NULL, NULL, NULL), LKS_OK);
    assert_null(fake.done);
    assert_null(fake.function);
    assert_ptr_equal(shop_v1_shop_return_response((lks_call *)&fake), &receipt);
}

/* ---- skeleton ---------------------------------------------------------------- */

typedef struct shop {
    const lks_rpc_method *called;
} shop;

#define HANDLER(name, Name, request_type, response_type, method_constant)                          \
    static lks_code shop_##name(void *self, lks_rpc_context *context, const request_type *request, \
                                response_type *response, lks_error *error)                         \
    {                                                                                              \
        assert_ptr_equal(context->method, &(method_constant));                                     \
        assert_ptr_equal(request->base.descriptor, (method_constant).request);                     \
        assert_ptr_equal(response->base.descriptor, (method_constant).response);                   \
        ((shop *)self)->called = &(method_constant);                                               \
        return lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, #Name);                           \
    }
SHOP_V1_SHOP_METHODS(HANDLER)

#define METHOD(name, Name, request_type, response_type, method_constant) &(method_constant),
static const lks_rpc_method *const methods[] = {SHOP_V1_SHOP_METHODS(METHOD)};

TEST_WITH(skeleton_calls_the_handler_of_each_method, NULL, NULL)
{
    static const shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(shop_);
    static const char *const names[] = {"BuyNow", "BuyAll", "Return", "Delete", "TakeBack"};
    shop self = {0};
    lks_rpc_service service = shop_v1_shop_service(&handlers, &self);

    assert_string_equal(service.name, "shop.v1.ShopService");
    assert_int_equal(service.n_bindings, 5);
    for (size_t i = 0; i < service.n_bindings; i++) {
        const lks_rpc_method *method = service.bindings[i].method;
        lks_rpc_context context = {.method = method};
        ProtobufCMessage *request = calloc(1, method->request->sizeof_message);
        ProtobufCMessage *response = calloc(1, method->response->sizeof_message);
        lks_error error;
        assert_non_null(request);
        assert_non_null(response);
        protobuf_c_message_init(method->request, request);
        protobuf_c_message_init(method->response, response);

        assert_int_equal(service.bindings[i].handle(&service, &context, request, response, &error), LKS_ABORTED);
        assert_ptr_equal(method, methods[i]);
        assert_ptr_equal(self.called, method);
        assert_string_equal(error.message, names[i]);
        free(request);
        free(response);
    }
}

/* promise CH13: a skeleton describes by reflection all that it serves, with its imports */
TEST_WITH(a_skeleton_carries_its_descriptors, NULL, NULL)
{
    static const shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(shop_);
    lks_rpc_service service = shop_v1_shop_service(&handlers, NULL);
    Google__Protobuf__FileDescriptorSet *set =
        google__protobuf__file_descriptor_set__unpack(NULL, service.n_descriptors, service.descriptors);

    assert_non_null(set);
    assert_int_equal(set->n_file, 2); /* what every host has is left out */
    assert_string_equal(set->file[0]->name, "common/v1/common.proto");
    assert_string_equal(set->file[1]->name, "shop/v1/shop.proto");
    assert_string_equal(set->file[1]->service[0]->name, "ShopService");
    assert_null(set->file[1]->source_code_info);
    google__protobuf__file_descriptor_set__free_unpacked(set, NULL);
}

/* ---- methods and constants ----------------------------------------------------- */

TEST_WITH(method_constants_carry_the_options, NULL, NULL)
{
    const lks_rpc_method *buy = &shop_v1_shop_buy_now_method, *all = &shop_v1_shop_buy_all_method;

    assert_string_equal(buy->path, "/shop.v1.ShopService/BuyNow");
    assert_int_equal(buy->effect, LKS_RPC_EFFECT_WRITE);
    assert_string_equal(buy->natural_id, "order_id");
    assert_int_equal(buy->fill, LKS_RPC_FILL_RANDOM);
    assert_string_equal(all->natural_id, "lines.header.key");
    assert_int_equal(all->fill, LKS_RPC_FILL_NONE);
    assert_int_equal(shop_v1_shop_return_method.effect, LKS_RPC_EFFECT_ADMIN);
    assert_int_equal(shop_v1_shop_delete_method.effect, LKS_RPC_EFFECT_READ);
    assert_null(shop_v1_shop_delete_method.natural_id);
    assert_int_equal(shop_v1_service_register_method.effect, LKS_RPC_EFFECT_WRITE);
    assert_null(all->undo);
}

/* promise CH14: the effect that a cancelled call may have had is undone, with its metadata, by the method's option
 * `undo` */
TEST_WITH(undo_request_is_built_from_the_call, NULL, NULL)
{
    const lks_rpc_method *buy = &shop_v1_shop_buy_now_method;
    shop_v1_buy_request request = SHOP_V1_BUY_REQUEST_INIT;
    shop_v1_order order = SHOP_V1_ORDER_INIT;

    request.order_id = "order-7";
    request.order = &order;
    order.register_ = "front";
    shop_v1_take_back_request *made = (shop_v1_take_back_request *)(void *)lks_rpc_undo_request(buy, &request.base);
    assert_ptr_equal(buy->undo->method, &shop_v1_shop_take_back_method);
    assert_non_null(made);
    assert_ptr_equal(made->base.descriptor, shop_v1_shop_take_back_method.request);
    assert_string_equal(made->order, "order-7");
    assert_string_equal(made->why, "front");
    free(made);
}

TEST_WITH(rpc_library_follows_every_natural_id_we_accept, NULL, NULL)
{
    shop_v1_buy_request one = SHOP_V1_BUY_REQUEST_INIT;
    assert_false(lks_rpc_may_repeat(&shop_v1_shop_buy_now_method, &one.base));
    assert_ptr_equal(lks_rpc_field_to_fill(&shop_v1_shop_buy_now_method, &one.base), &one.order_id);
    one.order_id = (char[]){"o-1"};
    assert_true(lks_rpc_may_repeat(&shop_v1_shop_buy_now_method, &one.base));

    shop_v1_http_header header = SHOP_V1_HTTP_HEADER_INIT;
    shop_v1_order_line line = SHOP_V1_ORDER_LINE_INIT, *lines[] = {&line};
    shop_v1_buy_all_request all = SHOP_V1_BUY_ALL_REQUEST_INIT;
    all.n_lines = 1;
    all.lines = lines;
    assert_false(lks_rpc_may_repeat(&shop_v1_shop_buy_all_method, &all.base));
    line.header = &header;
    assert_false(lks_rpc_may_repeat(&shop_v1_shop_buy_all_method, &all.base));
    header.key = (char[]){"k"};
    assert_true(lks_rpc_may_repeat(&shop_v1_shop_buy_all_method, &all.base));
}

TEST_WITH(constants_are_those_of_the_contract, NULL, NULL)
{
    shop_v1_v2_item item = SHOP_V1_V2_ITEM_INIT;
    assert_int_equal(item.spec_of_case, SHOP_V1_V2_ITEM_SPEC_OF_NOT_SET);
    assert_int_equal(SHOP_V1_V2_ITEM_SPEC_OF_LINE_ITEM, 2);
    assert_int_equal(SHOP_V1_V2_ITEM_OTHER_N, 4);
    shop_v1_order_state paid = SHOP_V1_ORDER_STATE_PAID;
    assert_int_equal(paid, -1);
    shop_v1_order_line_kind gift = SHOP_V1_KIND_GIFT;
    assert_int_equal(gift, 1);
}

/* promise GN6: an enum's values have names as text, and any number has one */
TEST_WITH(an_enum_names_its_values, NULL, NULL)
{
    assert_string_equal(shop_v1_order_state_name(SHOP_V1_ORDER_STATE_OPEN), "OPEN");
    assert_string_equal(shop_v1_order_state_name(SHOP_V1_ORDER_STATE_PAID), "PAID"); /* -1 */
    assert_string_equal(shop_v1_order_state_name((shop_v1_order_state)7), "UNKNOWN");
    /* Not all begin with PAINT_, so none loses it; of two names with one number the first is used. */
    assert_string_equal(names_v1_paint_name(NAMES_V1_PAINT_RED), "PAINT_RED");
    assert_string_equal(names_v1_paint_name(NAMES_V1_CRIMSON), "PAINT_RED");
    assert_string_equal(names_v1_paint_name(NAMES_V1_BLUE), "BLUE");
}

TEST_WITH(nested_enums_with_a_value_alike_have_their_message_in_their_constants, NULL, NULL)
{
    names_v1_order_state order = NAMES_V1_ORDER_OPEN;
    names_v1_item_part_state part = NAMES_V1_ITEM_PART_OPEN;
    assert_int_equal(order, 0);
    assert_int_equal(part, 1);
    assert_int_equal(NAMES_V1_ORDER_PAID, 2); /* all of the enum's, so that they are alike */
    assert_int_equal(NAMES_V1_TOP, 0);        /* of no message */
    assert_int_equal(NAMES_V1_ITEM_TOP, 5);
    assert_int_equal(NAMES_V1_ALONE, 0); /* no other has it */
    assert_string_equal(names_v1_item_part_state_name(part), "OPEN");
}

/* promise GN7: a setter of a oneof's member sets its case */
TEST_WITH(a_setter_sets_member_and_case, NULL, NULL)
{
    shop_v1_v2_item item = SHOP_V1_V2_ITEM_INIT;
    shop_v1_order_line line = SHOP_V1_ORDER_LINE_INIT;

    shop_v1_v2_item_set_plain(&item, "plain");
    assert_int_equal(item.spec_of_case, SHOP_V1_V2_ITEM_SPEC_OF_PLAIN);
    assert_string_equal(item.plain, "plain");
    shop_v1_v2_item_set_line_item(&item, &line);
    assert_int_equal(item.spec_of_case, SHOP_V1_V2_ITEM_SPEC_OF_LINE_ITEM);
    assert_ptr_equal(item.line_item, &line);
    assert_int_equal(item.other_case, SHOP_V1_V2_ITEM_OTHER_NOT_SET);
    shop_v1_v2_item_set_n(&item, -5);
    assert_int_equal(item.other_case, SHOP_V1_V2_ITEM_OTHER_N);
    assert_int_equal(item.n, -5);
}

TEST_WITH(members_that_c_has_words_for_have_an_underscore, NULL, NULL)
{
    names_v1_words words = NAMES_V1_WORDS_INIT;
    words.nullptr_ = 1;
    words.int_ = 2;
    words.linux_ = 3;
    words.errno_ = errno;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(words.base.descriptor, "nullptr");
    assert_non_null(field); /* outside of C nothing changes */
    assert_int_equal(field->offset, offsetof(names_v1_words, nullptr_));
}

TEST_MAIN(.setup = reset)

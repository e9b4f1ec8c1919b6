/* Calls that a handler makes as a part of its own. */
#include <pthread.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/process.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { PATIENCE_MS = 30000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    lks_host *host;
    lks_channel *outer, *inner;
    bool waits, starts_only; /* the handler's action before and instead of its call */
    int n;                   /* handlers that have ended */
    lks_error error;         /* of the call that the handler made */
    char trace[64];          /* that the called one has */
    uint32_t left_ms;
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- two methods ------------------------------------------------------------------------------- */

static void called(const lks_rpc_context *context)
{
    lks_rpc_slice trace = lks_host_metadata(context, "traceparent");

    pthread_mutex_lock(&here.lock);
    here.left_ms = lks_host_left_ms(context);
    snprintf(here.trace, sizeof here.trace, "%s", trace.data ? trace.data : "");
    pthread_mutex_unlock(&here.lock);
}

/* Buy: answers. Block: when the shop is open. */
static lks_code buy(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                    ProtobufCMessage *response, lks_error *error)
{
    called(context);
    return LKS_OK;
}

/* Look: calls Block, or starts Buy and returns. */
static lks_code relay(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = PATIENCE_MS, .no_retry = true, .context = context};
    lks_error why = {0};

    while (here.waits && !lks_host_is_cancelled(context))
        process_pause();
    if (here.starts_only)
        lks_call_start(here.inner, &shop_buy_method, request, &options, NULL, NULL, NULL, NULL, &why);
    else
        lks_call_run(here.inner, &shop_block_method, request, &options, NULL, &why);
    pthread_mutex_lock(&here.lock);
    here.error = why;
    here.n++;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
    return LKS_OK;
}

static void await_handler(void)
{
    pthread_mutex_lock(&here.lock);
    while (here.n == 0)
        pthread_cond_wait(&here.changed, &here.lock);
    pthread_mutex_unlock(&here.lock);
}

static int set_up(void **state)
{
    static lks_rpc_binding bindings[3];
    const lks_rpc_service service = {
        .name = shop_service.name, .n_bindings = 3, .bindings = bindings, .self = shop_service.self};
    const lks_channel_options quick = {.no_retry = true};
    char url[64];
    uint16_t port = 0;
    lks_error error;

    for (size_t i = 0; i < shop_service.n_bindings; i++)
        if (shop_service.bindings[i].method == &shop_block_method)
            bindings[0] = shop_service.bindings[i];
    bindings[1] = (lks_rpc_binding){.method = &shop_buy_method, .handle = buy};
    bindings[2] = (lks_rpc_binding){.method = &shop_look_method, .handle = relay};
    shop_close();
    here.waits = here.starts_only = false;
    here.n = 0;
    here.trace[0] = '\0';
    assert_int_equal(lks_host_open(NULL, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.host, "grpc://127.0.0.1:0", &port, &error), LKS_OK);
    snprintf(url, sizeof url, "grpc://127.0.0.1:%u", port);
    assert_int_equal(lks_channel_open(url, &quick, &here.outer, &error), LKS_OK);
    assert_int_equal(lks_channel_open(url, &quick, &here.inner, &error), LKS_OK);
    return 0;
}

static int tear_down(void **state)
{
    shop_open();
    lks_channel_close(here.outer);
    lks_host_close(here.host, PATIENCE_MS);
    lks_channel_close(here.inner);
    return 0;
}

static lks_call *start(uint32_t timeout_ms)
{
    static const lks_metadata trace = {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55};
    const lks_call_options options = {.timeout_ms = timeout_ms, .metadata = &trace, .n_metadata = 1};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_call *call = NULL;
    lks_error error;

    assert_int_equal(
        lks_call_start(here.outer, &shop_look_method, &request.base, &options, NULL, NULL, NULL, &call, &error),
        LKS_OK);
    return call;
}

/* ---- tests --------------------------------------------------------------------------------------- */

/* promise CH33: a call with a context ends with the call of the context, by its deadline or by its cancellation */
TEST(a_call_ends_at_the_deadline_of_its_context)
{
    lks_call *call = start(400);

    shop_await(1);
    await_handler();
    assert_true(here.error.code == LKS_DEADLINE_EXCEEDED || here.error.code == LKS_CANCELLED);
    assert_int_equal(here.error.applied, LKS_APPLIED_MAYBE);
    lks_call_wait(call, NULL);
    lks_call_free(call);
}

/* promise CH33 */
TEST(a_call_is_cancelled_with_its_context)
{
    lks_call *call = start(PATIENCE_MS);

    shop_await(1);
    lks_call_cancel(call);
    await_handler();
    assert_int_equal(here.error.code, LKS_CANCELLED);
    lks_call_free(call);
}

/* promise CH33 */
TEST(no_call_is_made_after_the_end_of_its_caller)
{
    here.waits = true;
    lks_call *call = start(300);
    await_handler();
    assert_true(here.error.code == LKS_DEADLINE_EXCEEDED || here.error.code == LKS_CANCELLED);
    assert_int_equal(here.error.applied, LKS_APPLIED_NO);
    assert_int_equal(the_shop.running, 0);
    lks_call_free(call);
}

/* promise CH34: a call with a context goes on when the context's call has ended, and sends its traceparent */
TEST(a_call_outlives_its_context)
{
    here.starts_only = true;
    lks_call *call = start(PATIENCE_MS);
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    lks_call_free(call);
    lks_channel_close(here.outer);
    here.outer = NULL;
    for (bool done = false; !done; process_pause()) {
        pthread_mutex_lock(&here.lock);
        done = here.trace[0] != '\0';
        pthread_mutex_unlock(&here.lock);
    }
    assert_string_equal(here.trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_in_range(here.left_ms, 1, PATIENCE_MS);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)

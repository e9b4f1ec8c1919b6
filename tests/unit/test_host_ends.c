/* Handlers that do not end in time: deferred calls, threads, the end of a host. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { KEPT_MAX = 10000, PATIENCE_MS = 30000 };

/* Calls that the handler of Look has deferred. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    lks_host_call *calls[KEPT_MAX];
    const lks_rpc_context *contexts[KEPT_MAX];
    order *responses[KEPT_MAX];
    size_t n, n_cancelled;
    lks_code closed; /* what closing the host from the handler of Refuse returned */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static lks_host *host;
static lks_channel *channel;
static char url[64];

/* WebSocket is held to a call's end by test_host_wires: libnng 1.5.2 may lock a destroyed mutex when a connection with
 * thousands of calls closes. */
static const char *const schemes[] = {"tcp", "grpc"};
enum { N_SCHEMES = sizeof schemes / sizeof *schemes };

/* ---- the service ----------------------------------------------------------------------------- */

static void on_cancel(void *arg)
{
    pthread_mutex_lock(&kept.lock);
    kept.n_cancelled++;
    pthread_cond_broadcast(&kept.changed);
    pthread_mutex_unlock(&kept.lock);
}

static lks_code keep(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                     ProtobufCMessage *response, lks_error *error)
{
    lks_host_call *call = lks_host_defer(context);

    lks_host_on_cancel(call, on_cancel, NULL);
    lks_host_on_cancel(call, NULL, NULL);
    pthread_mutex_lock(&kept.lock);
    kept.calls[kept.n] = call;
    kept.contexts[kept.n] = context;
    kept.responses[kept.n++] = (order *)response;
    pthread_cond_broadcast(&kept.changed);
    pthread_mutex_unlock(&kept.lock);
    return LKS_OK;
}

static lks_code close_it(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                         ProtobufCMessage *response, lks_error *error)
{
    kept.closed = lks_host_close(host, 0);
    return LKS_OK;
}

static void await_counter(const size_t *counter, size_t n)
{
    pthread_mutex_lock(&kept.lock);
    while (*counter < n)
        pthread_cond_wait(&kept.changed, &kept.lock);
    pthread_mutex_unlock(&kept.lock);
}

static void open_host_on(const char *scheme, lks_host_options options, const char *limited, uint32_t calls_max)
{
    static lks_rpc_binding bindings[8];
    static lks_rpc_service service;
    uint16_t port = 0;
    lks_error error;

    shop_close();
    kept.n = kept.n_cancelled = 0;
    service = shop_service;
    for (size_t i = 0; i < service.n_bindings; i++) {
        bindings[i] = shop_service.bindings[i];
        if (bindings[i].method == &shop_look_method)
            bindings[i].handle = keep;
        if (bindings[i].method == &shop_refuse_method)
            bindings[i].handle = close_it;
    }
    service.bindings = bindings;
    assert_int_equal(lks_host_open(&options, &host, &error), LKS_OK);
    assert_int_equal(lks_host_add(host, &service, &error), LKS_OK);
    if (limited)
        assert_int_equal(lks_host_limit(host, limited, calls_max, &error), LKS_OK);
    snprintf(url, sizeof url, "%s://127.0.0.1:0", scheme);
    assert_int_equal(lks_host_listen(host, url, &port, &error), LKS_OK);
    snprintf(url, sizeof url, "%s://127.0.0.1:%u", scheme, port);
    assert_int_equal(lks_channel_open(url, NULL, &channel, &error), LKS_OK);
}

static void open_host(lks_host_options options, const char *limited, uint32_t calls_max)
{
    open_host_on(schemes[0], options, limited, calls_max);
}

static int tear_down(void **state)
{
    shop_open();
    lks_host_close(host, 1000);
    lks_channel_close(channel);
    host = NULL;
    channel = NULL;
    return 0;
}

static lks_call *start(const lks_rpc_method *method, uint32_t timeout_ms)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .no_retry = true};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_call *call = NULL;
    lks_error error;

    assert_int_equal(lks_call_start(channel, method, &request.base, &options, NULL, NULL, NULL, &call, &error), LKS_OK);
    return call;
}

static void expect_end(lks_call *call, lks_code code, lks_applied applied, const char *message)
{
    lks_error error;

    assert_int_equal(lks_call_wait(call, &error), code);
    assert_string_equal(error.message, message);
    assert_string_equal(lks_applied_name(error.applied), lks_applied_name(applied));
    lks_call_free(call);
}

static void expect_ok(lks_call *call)
{
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    lks_call_free(call);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* promise CH23: at its deadline a call is answered for and its handler is told; it counts until its handler has
 * ended */
TEST(deferred_call_is_answered_at_its_deadline)
{
    open_host((lks_host_options){.timeout_ms = 100, .in_flight_max = 1}, NULL, 0);
    expect_end(start(&shop_look_method, PATIENCE_MS), LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO,
               "the call took longer than the server's limit of 100 ms");
    await_counter(&kept.n_cancelled, 1);
    assert_true(lks_host_is_cancelled(kept.contexts[0]));
    expect_end(start(&shop_buy_method, PATIENCE_MS), LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
               "too many calls under way");
    kept.responses[0]->fence = 7;
    assert_int_equal(lks_host_finish(kept.calls[0], LKS_OK, NULL), LKS_OK);
}

/* promise CH24: a call is finished once; a second time is refused, also when another call is deferred meanwhile */
TEST(a_call_is_finished_once)
{
    open_host((lks_host_options){0}, NULL, 0);
    lks_call *first = start(&shop_look_method, PATIENCE_MS);
    await_counter(&kept.n, 1);
    assert_int_equal(lks_host_finish(kept.calls[0], LKS_OK, NULL), LKS_OK);
    expect_ok(first);
    lks_call *second = start(&shop_look_method, PATIENCE_MS);
    await_counter(&kept.n, 2);
    assert_int_equal(lks_host_finish(kept.calls[0], LKS_OK, NULL), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_host_finish(NULL, LKS_OK, NULL), LKS_FAILED_PRECONDITION);
    lks_host_on_cancel(kept.calls[0], on_cancel, NULL);
    assert_int_equal(lks_host_finish(kept.calls[1], LKS_OK, NULL), LKS_OK);
    expect_ok(second);
    assert_int_equal(kept.n_cancelled, 0);
}

enum { MANY = KEPT_MAX / 2 };
static lks_call *many[MANY];

/* Over one connection; timeout_ms: of the host, 0 is its default. */
static void start_many(const char *scheme, uint32_t timeout_ms)
{
    open_host_on(
        scheme,
        (lks_host_options){.in_flight_max = 2 * MANY, .in_flight_per_connection = 2 * MANY, .timeout_ms = timeout_ms},
        NULL, 0);
    lks_channel_close(channel);
    assert_int_equal(lks_channel_open(url, &(lks_channel_options){.in_flight_max = MANY}, &channel, NULL), LKS_OK);
    for (size_t i = 0; i < MANY; i++)
        many[i] = start(&shop_look_method, PATIENCE_MS);
}

/* promise CH23 */
TEST(many_deferred_calls_end_at_their_deadline_over_each_wire)
{
    for (size_t w = 0; w < N_SCHEMES; w++) {
        start_many(schemes[w], 2000);
        for (size_t i = 0; i < MANY; i++)
            expect_end(many[i], LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO,
                       "the call took longer than the server's limit of 2000 ms");
        await_counter(&kept.n_cancelled, kept.n);
        for (size_t i = 0; i < kept.n; i++)
            assert_int_equal(lks_host_finish(kept.calls[i], LKS_OK, NULL), LKS_OK);
        tear_down(NULL);
    }
}

/* Each handler is informed once that its connection is lost. */
TEST(many_deferred_calls_lose_their_connection)
{
    for (size_t w = 0; w < N_SCHEMES; w++) {
        start_many(schemes[w], 0);
        await_counter(&kept.n, MANY);
        lks_channel_close(channel);
        channel = NULL;
        await_counter(&kept.n_cancelled, MANY);
        for (size_t i = 0; i < MANY; i++) {
            lks_call_free(many[i]);
            assert_int_equal(lks_host_finish(kept.calls[i], LKS_OK, NULL), LKS_OK);
        }
        assert_int_equal(kept.n_cancelled, MANY);
        tear_down(NULL);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

/* promise CH25: handlers that block do not hold up the others: the host starts more threads, up to threads_max */
TEST(more_threads_run_while_all_of_them_block)
{
    enum { N = 9 };
    lks_call *calls[N];

    open_host((lks_host_options){.threads = 1, .threads_max = N + 1}, NULL, 0);
    for (size_t i = 0; i < N; i++)
        calls[i] = start(&shop_block_method, PATIENCE_MS);
    shop_await(N);
    expect_ok(start(&shop_buy_method, PATIENCE_MS));
    shop_open();
    for (size_t i = 0; i < N; i++)
        expect_ok(calls[i]);
}

TEST(there_are_no_more_threads_than_allowed)
{
    open_host((lks_host_options){.threads = 1, .threads_max = 2, .timeout_ms = 300}, NULL, 0);
    lks_call *first = start(&shop_block_method, PATIENCE_MS), *second = start(&shop_block_method, PATIENCE_MS);
    shop_await(2);
    expect_end(start(&shop_buy_method, PATIENCE_MS), LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO,
               "the call took longer than the server's limit of 300 ms");
    expect_end(first, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE,
               "the call took longer than the server's limit of 300 ms");
    expect_end(second, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE,
               "the call took longer than the server's limit of 300 ms");
    assert_int_equal(the_shop.bought, 0);
}

/* promise CH26: no more calls of a method are under way than lks_host_limit allows */
TEST(a_method_has_a_limit_of_its_own)
{
    lks_error error;

    open_host((lks_host_options){0}, shop_block_method.path, 1);
    lks_call *first = start(&shop_block_method, PATIENCE_MS);
    shop_await(1);
    expect_end(start(&shop_block_method, PATIENCE_MS), LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
               "method: the limit of 1 calls of /lockstock.test.Shop/Block is reached");
    expect_ok(start(&shop_buy_method, PATIENCE_MS));
    shop_open();
    expect_ok(first);
    expect_ok(start(&shop_block_method, PATIENCE_MS));
    assert_int_equal(lks_host_limit(host, shop_block_method.path, 2, &error), LKS_FAILED_PRECONDITION);
    assert_string_equal(error.message, "the host already listens");
    assert_int_equal(lks_host_set_health(host, "no.Service", false, &error), LKS_NOT_FOUND);
    assert_string_equal(error.message, "service: no.Service is not served here");
}

/* ---- the end of a host --------------------------------------------------------------------------- */

/* promise CH27: a host ends whatever its handlers do: it tells them, answers for them, and lets them go on without
 * it */
TEST(a_host_ends_although_its_handlers_do_not)
{
    open_host((lks_host_options){.threads = 2}, NULL, 0);
    lks_call *blocks = start(&shop_block_method, PATIENCE_MS), *deferred = start(&shop_look_method, PATIENCE_MS),
             *told_late = start(&shop_look_method, PATIENCE_MS);
    shop_await(1);
    await_counter(&kept.n, 2);
    assert_int_equal(lks_host_close(host, 0), LKS_DEADLINE_EXCEEDED);
    host = NULL;
    expect_end(blocks, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the server is shutting down");
    expect_end(deferred, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    expect_end(told_late, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    assert_int_equal(kept.n_cancelled, 2);
    assert_true(lks_host_is_cancelled(kept.contexts[0]));
    kept.responses[0]->fence = 7;
    assert_int_equal(lks_host_finish(kept.calls[0], LKS_OK, NULL), LKS_OK);
    assert_int_equal(lks_host_finish(kept.calls[0], LKS_OK, NULL), LKS_FAILED_PRECONDITION);
    lks_host_on_cancel(kept.calls[1], on_cancel, NULL); /* it is cancelled already */
    assert_int_equal(kept.n_cancelled, 3);
    assert_int_equal(lks_host_finish(kept.calls[1], LKS_OK, NULL), LKS_OK);
    shop_open();
}

TEST(a_host_is_not_closed_by_its_handler_nor_by_a_child)
{
    lks_error error;
    int status = 0;

    open_host((lks_host_options){0}, NULL, 0);
    kept.closed = LKS_OK;
    expect_ok(start(&shop_refuse_method, PATIENCE_MS));
    assert_int_equal(kept.closed, LKS_FAILED_PRECONDITION);
    pid_t child = fork();
    if (child == 0)
        _exit(lks_host_close(host, 0) == LKS_FAILED_PRECONDITION &&
                      lks_host_listen(host, url, NULL, &error) == LKS_FAILED_PRECONDITION
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_ok(start(&shop_buy_method, PATIENCE_MS));
}

TEST_MAIN(.teardown = tear_down)

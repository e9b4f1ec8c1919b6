/* A host and its client in one thread, which the test is: both are driven. */
/* promise CH39: a driven host has no thread; its descriptor is readable, or its timeout over, whenever there is something
 * to do; handlers and callbacks run in lks_host_step and lks_host_close alone */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/process.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { LONG_MS = 60000 };

static lks_host *host;
static lks_channel *channel;
static lks_host_call *deferred;
static pthread_t handled_by, cancelled_by;
static lks_code stepped, closed; /* what that returned in a callback */
static int n_cancelled;

/* ---- the service ---------------------------------------------------------------------------- */

static lks_code sell(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                     ProtobufCMessage *response, lks_error *error)
{
    handled_by = pthread_self();
    stepped = lks_host_step(host, NULL);
    closed = lks_host_close(host, 0);
    return LKS_OK;
}

static void on_cancel(void *arg)
{
    n_cancelled++;
    stepped = lks_host_step(host, NULL);
    cancelled_by = pthread_self();
    lks_host_finish(arg, LKS_ABORTED, NULL);
}

static lks_code defer(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error)
{
    deferred = lks_host_defer(context);
    lks_host_on_cancel(deferred, on_cancel, deferred);
    return LKS_OK;
}

static const lks_rpc_binding bindings[] = {{&shop_buy_method, sell, NULL}, {&shop_look_method, defer, NULL}};
static const lks_rpc_service service = {.name = "lockstock.test.Shop", .n_bindings = 2, .bindings = bindings};

/* ---- the loop ------------------------------------------------------------------------------- */

static void wait_and_step(bool client_too)
{
    struct pollfd fds[] = {{.fd = lks_host_fd(host), .events = POLLIN},
                           {.fd = lks_channel_fd(channel), .events = POLLIN}};
    int host_ms = lks_host_timeout_ms(host), ms = client_too ? lks_channel_timeout_ms(channel) : -1;

    ms = ms < 0 || (host_ms >= 0 && host_ms < ms) ? host_ms : ms;
    assert_true(poll(fds, client_too ? 2 : 1, ms) >= 0);
    assert_int_equal(lks_host_step(host, NULL), LKS_OK);
    if (client_too)
        assert_int_equal(lks_channel_step(channel, NULL), LKS_OK);
}

static lks_call *start_call(const lks_rpc_method *method, uint32_t timeout_ms)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .no_retry = true};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_call *call = NULL;

    assert_int_equal(lks_call_start(channel, method, &request.base, &options, NULL, NULL, NULL, &call, NULL), LKS_OK);
    return call;
}

static void end_call(lks_call *call, lks_code code)
{
    while (!lks_call_is_done(call))
        wait_and_step(true);
    assert_string_equal(lks_code_name(lks_call_wait(call, NULL)), lks_code_name(code));
    lks_call_free(call);
}

static void open_both(const char *scheme)
{
    const lks_host_options of_host = {.driven = 1};
    const lks_channel_options of_channel = {.driven = 1, .timeout_ms = LONG_MS};
    char url[64];
    uint16_t port = 0;

    snprintf(url, sizeof url, "%s://127.0.0.1:0", scheme);
    assert_int_equal(lks_host_open(&of_host, &host, NULL), LKS_OK);
    assert_int_equal(lks_host_add(host, &service, NULL), LKS_OK);
    assert_int_equal(lks_host_listen(host, url, &port, NULL), LKS_OK);
    snprintf(url, sizeof url, "%s://127.0.0.1:%u", scheme, port);
    assert_int_equal(lks_channel_open(url, &of_channel, &channel, NULL), LKS_OK);
    n_cancelled = 0;
    deferred = NULL;
}

/* Steps until the host has nothing to do. */
static void quiet(void)
{
    struct pollfd fd = {.fd = lks_host_fd(host), .events = POLLIN};

    while (lks_host_timeout_ms(host) == 0 || poll(&fd, 1, 0) > 0)
        lks_host_step(host, NULL);
}

static void await_deferred(void)
{
    while (!deferred)
        wait_and_step(true);
}

static int close_both(void **state)
{
    lks_channel_close(channel);
    lks_host_close(host, 0);
    channel = NULL;
    host = NULL;
    return 0;
}

/* ---- tests ---------------------------------------------------------------------------------- */

TEST(one_thread_is_the_host_and_its_client)
{
    const char *const schemes[] = {"tcp", "grpc"};
    size_t before = process_thread_count(getpid());

    for (size_t i = 0; i < 2; i++) {
        open_both(schemes[i]);
        end_call(start_call(&shop_buy_method, 0), LKS_OK);
        assert_int_equal(process_thread_count(getpid()), before);
        assert_true(pthread_equal(handled_by, pthread_self()));
        assert_int_equal(stepped, LKS_FAILED_PRECONDITION);
        assert_int_equal(closed, LKS_FAILED_PRECONDITION);
        close_both(NULL);
    }
}

static void *finish_it(void *arg)
{
    lks_host_finish(deferred, LKS_OK, NULL);
    return NULL;
}

TEST(a_call_that_another_thread_finishes_wakes_it)
{
    struct pollfd fd;
    pthread_t other;
    lks_call *call;

    open_both("tcp");
    call = start_call(&shop_look_method, 0);
    await_deferred();
    fd = (struct pollfd){.fd = lks_host_fd(host), .events = POLLIN};
    quiet();
    pthread_create(&other, NULL, finish_it, NULL);
    assert_int_equal(poll(&fd, 1, LONG_MS), 1);
    pthread_join(other, NULL);
    end_call(call, LKS_OK);
}

TEST(a_listen_between_steps_wakes_it)
{
    struct pollfd fd;

    open_both("tcp");
    quiet();
    fd = (struct pollfd){.fd = lks_host_fd(host), .events = POLLIN};
    assert_int_equal(lks_host_listen(host, "grpc://127.0.0.1:0", NULL, NULL), LKS_OK);
    assert_int_equal(poll(&fd, 1, 0), 1);
}

/* The client is not driven meanwhile: only the host's timeout ends the wait, also when the program was busy. */
TEST(a_deadline_passes_by_its_timeout)
{
    lks_call *call;

    open_both("tcp");
    call = start_call(&shop_look_method, 1000);
    await_deferred();
    quiet();
    while (lks_host_timeout_ms(host) != 0)
        process_pause();
    while (n_cancelled == 0)
        wait_and_step(false);
    assert_true(pthread_equal(cancelled_by, pthread_self()));
    assert_int_equal(stepped, LKS_FAILED_PRECONDITION);
    end_call(call, LKS_DEADLINE_EXCEEDED);
}

TEST(close_cancels_running_calls_on_the_closing_thread)
{
    lks_call *call;

    open_both("tcp");
    call = start_call(&shop_look_method, 0);
    await_deferred();
    assert_int_equal(lks_host_close(host, 0), LKS_OK);
    host = NULL;
    assert_int_equal(n_cancelled, 1);
    lks_call_free(call);
}

TEST(a_forked_child_does_not_step)
{
    int status = -1;

    open_both("tcp");
    pid_t child = fork();
    if (child == 0)
        _exit(lks_host_step(host, NULL) == LKS_FAILED_PRECONDITION ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(options_that_do_not_agree_are_refused)
{
    static const lks_host_options wrong[] = {
        {.driven = 2}, {.driven = 1, .threads = 1}, {.driven = 1, .threads_max = 1}};
    static const char *const named[] = {"driven:", "threads", "threads_max"};
    lks_error error;

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lks_host_open(&wrong[i], &host, &error), LKS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, named[i]));
    }
    assert_int_equal(lks_host_open(NULL, &host, NULL), LKS_OK);
    assert_int_equal(lks_host_step(host, &error), LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "driven"));
    assert_int_equal(lks_host_fd(host), -1);
    assert_int_equal(lks_host_timeout_ms(host), -1);
}

TEST_MAIN(.teardown = close_both)

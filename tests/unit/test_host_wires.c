/* The same host over every wire: a row of `wires` is all that a wire adds. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "base/clock.h"
#include "conformance/caller.h"
#include "conformance/line.h"
#include "method.pb-c.h"
#include "shop.h"
#include "support/certificates.h"
#include "support/process.h"
#include "support/tempdir.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { MESSAGE_BYTES = 8000, CALLERS_MAX = 2 };

typedef struct wire {
    const char *scheme, *path;
    const wire_driver *driver;
    bool is_encrypted, is_unix, is_grpc;
} wire;

static wire wires[] = {
    {.scheme = "tcp", .driver = &sp_driver},
    {.scheme = "tls", .driver = &sp_driver, .is_encrypted = true},
    {.scheme = "unix", .driver = &sp_driver, .is_unix = true},
    {.scheme = "ws", .path = "/shop", .driver = &ws_driver},
    {.scheme = "wss", .path = "/shop", .driver = &ws_driver, .is_encrypted = true},
    {.scheme = "nng+ws", .path = "/shop", .driver = &ws_driver},
    {.scheme = "grpc", .driver = &grpc_driver, .is_grpc = true},
    {.scheme = "grpcs", .driver = &grpc_driver, .is_grpc = true, .is_encrypted = true},
    {.scheme = "nng+tcp", .driver = &sp_driver},
};

static struct {
    const wire *wire;
    char *dir;
    char certificate[256], key[256], authority[256], url[512];
    lks_host *host;
    void *callers[CALLERS_MAX];
    size_t n_callers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_closed; /* lines of the log */
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- host and callers ------------------------------------------------------------------------ */

static void on_line(void *arg, bool warns, const char *event, const char *text)
{
    assert_ptr_equal(arg, &here);
    pthread_mutex_lock(&here.lock);
    here.n_closed += strcmp(event, "closed") == 0;
    pthread_cond_signal(&here.changed);
    pthread_mutex_unlock(&here.lock);
}

static void await_closed(size_t n)
{
    pthread_mutex_lock(&here.lock);
    while (here.n_closed < n)
        pthread_cond_wait(&here.changed, &here.lock);
    pthread_mutex_unlock(&here.lock);
}

static void *connect_caller(void)
{
    void *caller = here.wire->driver->open(here.url, here.wire->is_encrypted ? here.authority : NULL);

    assert_non_null(caller);
    assert_true(here.n_callers < CALLERS_MAX);
    return here.callers[here.n_callers++] = caller;
}

static void serve(lks_host_options options)
{
    const wire *w = here.wire;
    char url[256];
    uint16_t port = 0;
    lks_error error;

    shop_close();
    here.n_closed = 0;
    if (w->is_encrypted) {
        options.tls_certificate = here.certificate;
        options.tls_key = here.key;
    }
    options.log = on_line;
    options.log_arg = &here;
    if (w->is_unix)
        snprintf(url, sizeof url, "unix://%s/shop", here.dir);
    else
        snprintf(url, sizeof url, "%s://127.0.0.1:0%s", w->scheme, w->path ? w->path : "");
    assert_int_equal(lks_host_open(&options, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.host, url, &port, &error), LKS_OK);
    if (w->is_unix)
        snprintf(here.url, sizeof here.url, "%s", url);
    else
        snprintf(here.url, sizeof here.url, "%s://127.0.0.1:%u%s", w->scheme, port, w->path ? w->path : "");
}

static void *start(lks_host_options options)
{
    serve(options);
    return connect_caller();
}

static int set_up(void **state)
{
    here.wire = *state;
    here.n_callers = 0;
    return 0;
}

static int tear_down(void **state)
{
    shop_open();
    lks_host_close(here.host, 1000);
    here.host = NULL;
    for (size_t i = 0; i < here.n_callers; i++)
        if (here.callers[i])
            here.wire->driver->close(here.callers[i]);
    return 0;
}

static unsigned send_call(void *caller, const lks_rpc_method *method, const char *payload, size_t len,
                          uint32_t timeout_ms)
{
    const call_spec call = {
        .method = method->path, .payload = payload, .len = len, .timeout_ms = timeout_ms, .authorization = "Bearer x"};
    unsigned id = here.wire->driver->start(caller, &call);

    assert_true(id > 0);
    return id;
}

static outcome receive(void *caller)
{
    outcome out = {0};

    assert_true(here.wire->driver->await(caller, &out));
    return out;
}

static void expect_failure(void *caller, lks_code code, lks_applied applied, const char *message)
{
    outcome out = receive(caller);

    assert_string_equal(out.message, message);
    assert_string_equal(lks_code_name(out.code), lks_code_name(code));
    assert_string_equal(lks_applied_name(out.applied), lks_applied_name(applied));
}

static void expect_ok(void *caller)
{
    outcome out = receive(caller);

    assert_string_equal(lks_code_name(out.code), "OK");
    free(out.payload);
}

/* The answer of Buy. */
static order *receive_order(void *caller)
{
    outcome out = receive(caller);

    assert_string_equal(lks_code_name(out.code), "OK");
    order *response = lockstock__test__order__unpack(NULL, out.len, out.payload);
    assert_non_null(response);
    free(out.payload);
    return response;
}

static void free_order(order *response)
{
    lockstock__test__order__free_unpacked(response, NULL);
}

/* ---- cases ------------------------------------------------------------------------------------- */

/* promise CH9: a host serves every transport in the same way; calls over the limits are refused or not read */
static void a_handler_knows_its_call(void **state)
{
    static const uint32_t timeouts_ms[] = {40000, 0, 4000000}; /* the host cuts the last; 0: as long as it allows */
    void *caller = start((lks_host_options){.timeout_ms = 60000});

    for (size_t i = 0; i < 3; i++) {
        send_call(caller, &shop_buy_method, "\x0a\x04pear", 6, timeouts_ms[i]);
        order *response = receive_order(caller);
        assert_string_equal(response->id, "pear of /lockstock.test.Shop/Buy, authorization=Bearer x");
        assert_in_range(response->wait_ms, 1, i == 0 ? 40000 : 60000);
        free_order(response);
    }
}

/* promise CH9 */
static void each_refusal_has_its_code(void **state)
{
    static const lks_rpc_method steal = {.path = "/lockstock.test.Shop/Steal"};
    void *caller = start((lks_host_options){0});

    send_call(caller, &steal, "", 0, 0);
    expect_failure(caller, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    send_call(caller, &shop_buy_method, "\x0a\x01\xff", 3, 0);
    expect_failure(caller, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "id: not valid UTF-8");
    send_call(caller, &shop_refuse_method, "\x0a\x01x", 3, 0);
    expect_failure(caller, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "id: sold");
    send_call(caller, &shop_refuse_method, "", 0, 0);
    expect_failure(caller, LKS_ABORTED, LKS_APPLIED_MAYBE, "");
    assert_int_equal(the_shop.bought, 0);
}

static void too_long_response_is_refused_with_correct_applied(void **state)
{
    static const char big[] = "\x10\x90\x4e"; /* fence: 10000 */
    void *caller = start((lks_host_options){.message_bytes_max = MESSAGE_BYTES});

    send_call(caller, &shop_fill_method, big, 3, 0);
    outcome out = receive(caller);
    assert_int_equal(out.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(out.applied, LKS_APPLIED_YES);
    send_call(caller, &shop_look_method, big, 3, 0);
    out = receive(caller);
    assert_int_equal(out.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(out.applied, LKS_APPLIED_NO);
}

/* gRPC refuses the call; SP has no other way than to end the connection. */
static void a_request_too_long_is_not_taken(void **state)
{
    static char big[3 * MESSAGE_BYTES];
    void *caller = start((lks_host_options){.message_bytes_max = MESSAGE_BYTES});
    const call_spec call = {.method = shop_buy_method.path, .payload = big, .len = sizeof big};
    outcome out = {0};

    here.wire->driver->start(caller, &call);
    bool answered = here.wire->driver->await(caller, &out);
    assert_int_equal(answered, here.wire->is_grpc);
    if (answered)
        assert_int_equal(out.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(the_shop.bought, 0);
}

static void handlers_run_side_by_side(void **state)
{
    void *caller = start((lks_host_options){.threads = 3});

    for (int i = 0; i < 3; i++)
        send_call(caller, &shop_block_method, "", 0, 0);
    shop_await(3);
    shop_open();
    for (int i = 0; i < 3; i++)
        expect_ok(caller);
}

/* A connection that sends more than it may have under way is read on when there is room again. */
/* promise CH9 */
static void calls_beyond_the_connection_limit_are_served_later(void **state)
{
    void *caller = start((lks_host_options){.threads = 1, .threads_max = 1, .in_flight_per_connection = 2});

    const int n = 20;

    if (here.wire->is_grpc) /* it may have no more calls */
        return;
    send_call(caller, &shop_block_method, "", 0, 0);
    shop_await(1);
    for (int i = 0; i < n; i++)
        send_call(caller, &shop_buy_method, "", 0, 0);
    for (uint64_t end_ns = clock_now_ns() + 100000000; clock_now_ns() < end_ns;)
        process_pause(); /* so that most likely all have come */
    shop_open();
    for (int i = 0; i < n + 1; i++)
        expect_ok(caller);
    assert_int_equal(the_shop.bought, n);
}

/* A connection with one call is served before the second call of a connection with many. */
/* promise CH10: connections take turns */
static void connections_take_turns(void **state)
{
    void *many = start((lks_host_options){.threads = 1, .threads_max = 1}), *one = connect_caller();
    static const lks_rpc_method steal = {.path = "/lockstock.test.Shop/Steal"};

    send_call(many, &shop_block_method, "", 0, 0);
    shop_await(1);
    for (int i = 0; i < 5; i++)
        send_call(many, &shop_buy_method, "", 0, 0);
    send_call(many, &steal, "", 0, 0); /* its answer comes at once: all before it have come */
    expect_failure(many, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    send_call(one, &shop_buy_method, "", 0, 0);
    send_call(one, &steal, "", 0, 0);
    expect_failure(one, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    shop_open();
    order *response = receive_order(one);
    assert_in_range(response->number, 1, 2);
    free_order(response);
    for (int i = 0; i < 6; i++)
        expect_ok(many);
}

/* Only calls that already have a thread are run. */
/* promise CH11 */
static void calls_of_a_lost_connection_are_not_run(void **state)
{
    static const lks_rpc_method steal = {.path = "/lockstock.test.Shop/Steal"};
    void *stays = start((lks_host_options){.threads = 1, .threads_max = 1}), *leaves = connect_caller();

    send_call(stays, &shop_block_method, "", 0, 0);
    shop_await(1);
    send_call(leaves, &shop_buy_method, "", 0, 0);
    send_call(leaves, &steal, "", 0, 0);
    expect_failure(leaves, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    here.wire->driver->close(leaves);
    here.callers[1] = NULL;
    await_closed(1);
    send_call(stays, &steal, "", 0, 0); /* of the same loop, after it */
    expect_failure(stays, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
    shop_open();
    expect_ok(stays);
    send_call(stays, &shop_look_method, "", 0, 0);
    expect_ok(stays);
    assert_int_equal(the_shop.bought, 0);
}

/* promise CH11: cancelled calls and calls of a lost connection do not run unless a thread runs them already */
static void a_cancelled_call_is_not_run(void **state)
{
    static const lks_rpc_method steal = {.path = "/lockstock.test.Shop/Steal"};
    void *caller = start((lks_host_options){.threads = 1, .threads_max = 1});

    if (!here.wire->driver->cancel)
        return;
    send_call(caller, &shop_block_method, "", 0, 0);
    shop_await(1);
    here.wire->driver->cancel(caller, send_call(caller, &shop_buy_method, "", 0, 0));
    send_call(caller, &steal, "", 0, 0); /* what came before it has been taken */
    outcome out = receive(caller);
    if (out.code == LKS_CANCELLED)
        out = receive(caller);
    assert_int_equal(out.code, LKS_UNIMPLEMENTED);
    shop_open();
    expect_ok(caller);
    send_call(caller, &shop_look_method, "", 0, 0);
    expect_ok(caller);
    assert_int_equal(the_shop.bought, 0);
}

/* The caller reads nothing, so it answers no ping and ignores GOAWAY. */
static void a_silent_or_old_connection_ends(void **state)
{
    static const lks_host_options options[] = {{.keepalive_ms = 1000, .keepalive_timeout_ms = 1000},
                                               {.connection_age_ms = 1000, .connection_age_grace_ms = 1000}};

    for (size_t i = 0; i < 2 && here.wire->is_grpc; i++) {
        if (i > 0)
            tear_down(state);
        here.n_callers = 0;
        start(options[i]);
        await_closed(1);
    }
}

/* Also one that waits, which is not run. */
/* promise CH23 */
static void a_call_ends_at_its_deadline(void **state)
{
    void *caller = start((lks_host_options){.threads = 1, .threads_max = 1});

    send_call(caller, &shop_block_method, "", 0, 300);
    shop_await(1);
    send_call(caller, &shop_buy_method, "", 0, 300);
    expect_failure(caller, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE, "the deadline passed while the call ran");
    expect_failure(caller, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "the deadline passed before the call ran");
    shop_open();
    send_call(caller, &shop_look_method, "", 0, 0); /* the connection still works */
    expect_ok(caller);
    assert_int_equal(the_shop.bought, 0);
}

static pthread_t closing;
static uint32_t drain_ms;

static void *close_main(void *arg)
{
    lks_host_close(here.host, drain_ms);
    return NULL;
}

static void start_closing(uint32_t after_ms)
{
    drain_ms = after_ms;
    assert_int_equal(pthread_create(&closing, NULL, close_main, NULL), 0);
}

static void await_closing(void)
{
    assert_int_equal(pthread_join(closing, NULL), 0);
    here.host = NULL;
}

/* One runs, one waits, and one more is refused. */
static void *start_with_a_call_that_waits(void)
{
    void *caller = start((lks_host_options){.threads = 1, .threads_max = 1, .in_flight_max = 2});

    send_call(caller, &shop_block_method, "", 0, 0);
    shop_await(1);
    send_call(caller, &shop_buy_method, "", 0, 0);
    send_call(caller, &shop_buy_method, "", 0, 0);
    outcome out = receive(caller);
    assert_int_equal(out.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(out.applied, LKS_APPLIED_NO);
    assert_true(out.says_when);
    return caller;
}

/* promise CH12 */
static void closing_runs_waiting_calls(void **state)
{
    void *caller = start_with_a_call_that_waits();
    outcome out;

    start_closing(60000);
    shop_open();
    expect_ok(caller);
    expect_ok(caller);
    await_closing();
    assert_false(here.wire->driver->await(caller, &out));
    assert_int_equal(the_shop.bought, 1);
}

/* promise CH12: a closing host refuses waiting calls, waits for running ones, and informs gRPC clients */
static void closing_at_once_refuses_waiting_calls(void **state)
{
    void *caller = start_with_a_call_that_waits();

    start_closing(0);
    expect_failure(caller, LKS_UNAVAILABLE, LKS_APPLIED_NO, "the server is shutting down");
    shop_open();
    expect_ok(caller);
    await_closing();
    assert_int_equal(the_shop.bought, 0);
}

static const struct {
    const char *name;
    CMUnitTestFunction run;
} cases[] = {
    {"a_handler_knows_its_call", a_handler_knows_its_call},
    {"each_refusal_has_its_code", each_refusal_has_its_code},
    {"too_long_response_is_refused_with_correct_applied", too_long_response_is_refused_with_correct_applied},
    {"a_request_too_long_is_not_taken", a_request_too_long_is_not_taken},
    {"handlers_run_side_by_side", handlers_run_side_by_side},
    {"calls_beyond_the_connection_limit_are_served_later", calls_beyond_the_connection_limit_are_served_later},
    {"connections_take_turns", connections_take_turns},
    {"calls_of_a_lost_connection_are_not_run", calls_of_a_lost_connection_are_not_run},
    {"a_cancelled_call_is_not_run", a_cancelled_call_is_not_run},
    {"a_silent_or_old_connection_ends", a_silent_or_old_connection_ends},
    {"a_call_ends_at_its_deadline", a_call_ends_at_its_deadline},
    {"closing_runs_waiting_calls", closing_runs_waiting_calls},
    {"closing_at_once_refuses_waiting_calls", closing_at_once_refuses_waiting_calls},
};

/* ---- options --------------------------------------------------------------------------------------- */

static int no_set_up(void **state)
{
    here.n_callers = 0;
    return 0;
}

static void expect_refused(lks_host_options options, const char *why)
{
    lks_error error;

    assert_int_equal(lks_host_open(&options, &here.host, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, why));
}

TEST_WITH(options_that_do_nothing_are_refused, no_set_up, tear_down)
{
    static char *no_origins[] = {"*"};

    expect_refused((lks_host_options){.tls_certificate = here.certificate}, "need each other");
    expect_refused((lks_host_options){.threads = 2, .threads_max = 1}, "threads_max: must be at least threads");
    expect_refused((lks_host_options){.keepalive_ms = 999}, "keepalive_ms: must be 0 or at least 1,000");
    expect_refused((lks_host_options){.ping_min_ms = 1}, "ping_min_ms: must be 0 or at least 1,000");
    expect_refused((lks_host_options){.connection_age_ms = 1}, "connection_age_ms: must be 0 or at least 1,000");
    expect_refused((lks_host_options){.keepalive_timeout_ms = 5000}, "keepalive_timeout_ms needs keepalive_ms");
    expect_refused((lks_host_options){.connection_age_grace_ms = 5000},
                   "connection_age_grace_ms needs connection_age_ms");
    expect_refused((lks_host_options){.tls_client_ca = here.authority}, "needs tls_certificate");
    expect_refused((lks_host_options){.tls_client_required = true}, "needs tls_client_ca");
    expect_refused((lks_host_options){.tls_certificate = "/none", .tls_key = here.key}, "tls_certificate: /none: ");
    expect_refused((lks_host_options){.allow_origins = no_origins, .n_allow_origins = 1}, "allow_origins");
}

/* Services are added before the first listen, each once. */
TEST_WITH(invalid_listen_address_is_reported, no_set_up, tear_down)
{
    static const struct {
        const char *url;
        lks_code code;
        const char *why;
    } bad[] = {
        {"", LKS_INVALID_ARGUMENT, "must begin with tcp://"},
        {"ftp://127.0.0.1:0", LKS_INVALID_ARGUMENT, "must begin with tcp://"},
        {"nng+", LKS_INVALID_ARGUMENT, "nng+: "},
        {"nng+ipc:///tmp/x", LKS_INVALID_ARGUMENT, "nng+ipc:///tmp/x: "},
        {"tcp://nowhere", LKS_INVALID_ARGUMENT, "tcp://nowhere: "},
        {"ws://127.0.0.1:0/a b", LKS_INVALID_ARGUMENT, "path"},
        {"unix://relative", LKS_INVALID_ARGUMENT, "unix://relative: "},
        {"tls://127.0.0.1:0", LKS_FAILED_PRECONDITION, "needs tls_certificate and tls_key"},
        {"grpcs://127.0.0.1:0", LKS_FAILED_PRECONDITION, "needs tls_certificate and tls_key"},
    };
    lks_error error;

    assert_int_equal(lks_host_open(NULL, &here.host, &error), LKS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lks_host_listen(here.host, bad[i].url, NULL, &error), bad[i].code);
        assert_non_null(strstr(error.message, bad[i].why));
    }
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_OK); /* it does not listen */
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_ALREADY_EXISTS);
    assert_non_null(strstr(error.message, "/lockstock.test.Shop/"));
    for (int i = 0; i < 2; i++)
        assert_int_equal(lks_host_listen(here.host, "nng+tcp://127.0.0.1:0", NULL, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_host_close(NULL, 0), LKS_OK);
}

/* Whatever lockstockd takes for itself. */
/* promise CH8: a host's string may be as long as a message; an unknown enum value is refused, or passed to handlers
 * that accept it */
TEST_WITH(a_string_may_be_as_long_as_a_message, no_set_up, tear_down)
{
    enum { LONG = 2 << 20 };
    char *text = calloc(1, LONG + 1);
    order request = LOCKSTOCK__TEST__ORDER__INIT;

    memset(text, 'x', LONG);
    request.id = text;
    uint8_t *payload = malloc(lockstock__test__order__get_packed_size(&request));
    size_t len = lockstock__test__order__pack(&request, payload);
    here.wire = &wires[0];
    void *caller = start((lks_host_options){.message_bytes_max = 3 * LONG});
    send_call(caller, &shop_buy_method, (const char *)payload, len, 0);
    order *response = receive_order(caller);
    assert_int_equal(response->fence, LONG);
    free_order(response);
    free(payload);
    free(text);
}

/* promise CH8 */
TEST_WITH(an_unknown_value_is_refused_or_reaches_its_handler, no_set_up, tear_down)
{
    static const char colour[] = "\x58\x09"; /* 9 */

    here.wire = &wires[0];
    void *caller = start((lks_host_options){0});
    send_call(caller, &shop_buy_method, colour, 2, 0);
    expect_failure(caller, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "colour: not a value of the enum");
    lks_host_close(here.host, 1000);
    caller = start((lks_host_options){.open_enums = true});
    send_call(caller, &shop_buy_method, colour, 2, 0);
    order *response = receive_order(caller);
    assert_int_equal(response->colour, 9);
    free_order(response);
}

/* promise GD17: a host without a channel takes no guard */
TEST_WITH(a_host_without_a_channel_takes_no_service_with_a_guard, no_set_up, tear_down)
{
    static const lks_rpc_guard guard;
    const lks_rpc_binding binding = {.method = &shop_buy_method, .guard = &guard};
    const lks_rpc_service service = {.name = "lockstock.test.Shop", .n_bindings = 1, .bindings = &binding};
    lks_error error;

    assert_int_equal(lks_host_open(NULL, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &service, &error), LKS_FAILED_PRECONDITION);
    assert_string_equal(error.message, "/lockstock.test.Shop/Buy: has a guard, but options.guards is NULL");
}

/* With TLS 1.3 a client learns of it only when it reads: here the greeting. */
TEST_WITH(client_without_a_required_certificate_is_not_served, no_set_up, tear_down)
{
    wire tls = {.scheme = "tls", .driver = &sp_driver, .is_encrypted = true};

    here.wire = &tls;
    serve((lks_host_options){.tls_client_ca = here.authority, .tls_client_required = true});
    assert_null(tls.driver->open(here.url, here.authority));
    await_closed(1);
}

/* The stubs' own client, with a certificate of its own. */
/* promise CH9 */
TEST_WITH(a_handler_knows_its_certificate, no_set_up, tear_down)
{
    wire tls = {.scheme = "tls", .is_encrypted = true};
    const lks_channel_options options = {.ca_file = here.authority,
                                         .certificate_file = here.certificate,
                                         .key_file = here.key,
                                         .server_name = "localhost"};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    ProtobufCMessage *response = NULL;
    lks_channel *channel = NULL;
    lks_error error;

    here.wire = &tls;
    serve((lks_host_options){.tls_client_ca = here.authority, .tls_client_required = true});
    assert_int_equal(lks_channel_open(here.url, &options, &channel, &error), LKS_OK);
    assert_int_equal(lks_call_run(channel, &shop_buy_method, &request.base, NULL, &response, &error), LKS_OK);
    assert_int_equal(((order *)response)->n_names, 1);
    assert_string_equal(((order *)response)->names[0], "localhost");
    lks_message_free(response);
    assert_int_equal(lks_channel_close(channel), LKS_OK);
}

int main(void)
{
    static char names[sizeof wires / sizeof *wires][sizeof cases / sizeof *cases][80];
    const certificate_wish wish = {.common = {.text = "localhost"}};

    signal(SIGPIPE, SIG_IGN); /* the callers' OpenSSL */
    here.dir = tempdir_make();
    snprintf(here.certificate, sizeof here.certificate, "%s/server.pem", here.dir);
    snprintf(here.key, sizeof here.key, "%s/server.key", here.dir);
    snprintf(here.authority, sizeof here.authority, "%s/authority.pem", here.dir);
    authority *signs = authority_new("test");
    authority_sign(signs, &wish, here.certificate, here.key);
    authority_write(signs, here.authority);
    authority_free(signs);
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            snprintf(names[w][c], sizeof names[w][c], "%s %s", cases[c].name, wires[w].scheme);
            test_add_with(names[w][c], cases[c].run, set_up, tear_down, &wires[w]);
        }
    }
    int failed = TEST_RUN();
    tempdir_remove(here.dir);
    return failed;
}

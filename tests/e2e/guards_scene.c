/* Invariant: the host and the channels of a case are its own. */
#include "e2e/guards_scene.h"

#include <unistd.h>

redis_fixture *redis;
server_fixture *server;
lks_channel *channel;  /* to lockstockd */
lks_channel *shop_way; /* to the host */
lks_host *host;
guarded_shop shop;
char effects[256], gate[256], shop_url[64];

int scene_setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    const lks_rpc_service service = guarded_service(&shop);
    uint16_t port;

    redis = redis_fixture_start(NULL);
    server = redis ? server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = unsafe})
                   : NULL;
    if (!server || lks_channel_open(server_fixture_url(server), NULL, &channel, NULL) != LKS_OK)
        return -1;
    snprintf(effects, sizeof effects, "%s/effects", redis_fixture_dir(redis));
    snprintf(gate, sizeof gate, "%s/gate", redis_fixture_dir(redis));
    shop = (guarded_shop){.channel = channel, .effects = effects, .gate = gate};
    const lks_host_options options = {
        .threads = THREADS, .threads_max = THREADS, .timeout_ms = LIMIT_MS, .guards = channel};
    if (lks_host_open(&options, &host, NULL) != LKS_OK || lks_host_add(host, &service, NULL) != LKS_OK ||
        lks_host_listen(host, "tcp://127.0.0.1:0", &port, NULL) != LKS_OK)
        return -1;
    snprintf(shop_url, sizeof shop_url, "tcp://127.0.0.1:%d", port);
    shop_way = scene_connect();
    return shop_way ? 0 : -1;
}

lks_channel *scene_connect(void)
{
    lks_channel *way = NULL;

    lks_channel_open(shop_url, &(lks_channel_options){.timeout_ms = LIMIT_MS, .no_retry = true}, &way, NULL);
    return way;
}

void open_gate(void)
{
    FILE *file = fopen(gate, "w");

    assert_non_null(file);
    fclose(file);
}

int scene_teardown(void **state)
{
    open_gate();
    lks_channel_close(shop_way);
    lks_host_close(host, 1000);
    lks_channel_close(channel);
    unlink(effects);
    unlink(gate);
    server_fixture_free(server);
    redis_fixture_free(redis);
    host = NULL;
    return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

int n_effects(const char *line)
{
    FILE *file = fopen(effects, "r");
    char text[128];
    int n = 0;

    while (file && fgets(text, sizeof text, file))
        n += !line || strncmp(text, line, strlen(line)) == 0;
    if (file)
        fclose(file);
    return n;
}

buy_request order(char *id, char **items, size_t n_items)
{
    static char buyer[] = "ann";
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    request.order_id = id;
    request.buyer_id = buyer;
    request.items = items;
    request.n_items = n_items;
    request.doing = LOCKSTOCK__TEST__DOING__DOING_BUY;
    return request;
}

buy_response *buy_within(const lks_rpc_method *method, const buy_request *request, uint32_t timeout_ms,
                         lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .no_retry = true};
    ProtobufCMessage *response = NULL;

    lks_call_run(shop_way, method, &request->base, &options, &response, error);
    return (buy_response *)response;
}

buy_response *buy(const lks_rpc_method *method, const buy_request *request, lks_error *error)
{
    return buy_within(method, request, 0, error);
}

void free_response(buy_response *response)
{
    lks_message_free(response ? &response->base : NULL);
}

buy_response *answer_to(const lks_rpc_method *method, const buy_request *request)
{
    lks_error error;
    buy_response *response = buy_within(method, request, LIMIT_MS / 4, &error);

    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    return response;
}

void expect_bought(const lks_rpc_method *method, const buy_request *request)
{
    buy_response *response = answer_to(method, request);

    assert_int_equal(response->outcome, LOCKSTOCK__TEST__BOUGHT__BOUGHT_YES);
    free_response(response);
}

void expect_attempt(const lks_rpc_method *method, const buy_request *request, int64_t attempt)
{
    buy_response *response = answer_to(method, request);

    assert_int_equal(response->attempt, attempt);
    free_response(response);
}

void expect_error(const lks_error *error, lks_code code, lks_applied applied, const char *message)
{
    assert_string_equal(error->message, message);
    assert_string_equal(lks_code_name(error->code), lks_code_name(code));
    assert_string_equal(lks_applied_name(error->applied), lks_applied_name(applied));
}

/* What a guard refuses with. */
static lks_reason reason_of(lks_code code)
{
    return code == LKS_ABORTED          ? LKS_REASON_BUSY
           : code == LKS_ALREADY_EXISTS ? LKS_REASON_ID_REUSED
                                        : LKS_REASON_RATE_LIMITED;
}

void expect_refused(const lks_rpc_method *method, const buy_request *request, lks_code code, const char *message)
{
    lks_error error;
    buy_response *response = buy(method, request, &error);

    assert_null(response);
    expect_error(&error, code, LKS_APPLIED_NO, message);
    if (code == LKS_ABORTED || code == LKS_ALREADY_EXISTS || code == LKS_RESOURCE_EXHAUSTED)
        assert_string_equal(lks_reason_name(error.reason), lks_reason_name(reason_of(code)));
}

lks_call *start_on(lks_channel *way, const lks_rpc_method *method, const buy_request *request, uint32_t timeout_ms)
{
    const lks_call_options options = {.no_retry = true, .timeout_ms = timeout_ms};
    lks_call *call;

    assert_int_equal(lks_call_start(way, method, &request->base, &options, NULL, NULL, NULL, &call, NULL), LKS_OK);
    return call;
}

lks_call *start(const lks_rpc_method *method, const buy_request *request)
{
    return start_on(shop_way, method, request, LIMIT_MS);
}

const buy_response *ended(lks_call *call)
{
    lks_error error;

    if (lks_call_wait(call, &error) != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    return (const buy_response *)lks_call_response(call);
}

void expect_ended(lks_call *call)
{
    ended(call);
    lks_call_free(call);
}

void expect_failed(lks_call *call, lks_code code, lks_applied applied, const char *message)
{
    lks_error error;

    lks_call_wait(call, &error);
    expect_error(&error, code, applied, message);
    lks_call_free(call);
}

void await(atomic_int *what, int n)
{
    for (long long until = process_now_ms() + LIMIT_MS; atomic_load(what) != n; process_pause())
        if (process_now_ms() > until)
            fail_msg("%d instead of %d", atomic_load(what), n);
}

lks_inspect_response *inspect(const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response = NULL;
    static char group[] = "items";

    request.group = group;
    request.name = (char *)name;
    assert_int_equal(lks_lock_inspect(channel, &request, NULL, &response, NULL), LKS_OK);
    return response;
}

int64_t waiters(const char *name)
{
    lks_inspect_response *lock = inspect(name);
    int64_t n = lock->waiters;

    lks_inspect_response_free(lock);
    return n;
}

size_t holders(const char *name)
{
    lks_inspect_response *lock = inspect(name);
    size_t n = lock->n_holders;

    lks_inspect_response_free(lock);
    return n;
}

void await_waiters(const char *name, int64_t n)
{
    for (long long until = process_now_ms() + LIMIT_MS; waiters(name) != n; process_pause())
        if (process_now_ms() > until)
            fail_msg("%lld instead of %lld wait", (long long)waiters(name), (long long)n);
}

void await_holders(const char *name, size_t n)
{
    for (long long until = process_now_ms() + LIMIT_MS; holders(name) != n; process_pause())
        if (process_now_ms() > until)
            fail_msg("%zu instead of %zu hold it", holders(name), n);
}

lks_call *start_and_hold(const lks_rpc_method *method, buy_request *request)
{
    request->doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    lks_call *call = start(method, request);
    await(&shop.running, 1);
    return call;
}

void let_end(lks_call *call)
{
    open_gate();
    expect_ended(call);
}

bool same_answer(const buy_response *a, const buy_response *b)
{
    uint8_t left[1024], right[1024];
    size_t len = lockstock__test__buy_response__pack(a, left);

    return lockstock__test__buy_response__pack(b, right) == len && memcmp(left, right, len) == 0;
}

char x[] = "x", y[] = "y", item_x[] = "item:x", item_y[] = "item:y", o1[] = "o-1", o2[] = "o-2";
char *x_alone[] = {x}, *y_alone[] = {y}, *yxy[] = {y, x, y};

/* Interceptors of hosts and channels: their order, what they may change, calls that they defer. */
#include <pthread.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "test.h"

typedef Lockstock__Test__Order order;

typedef enum doing { ADMIT, REFUSE, SKIP, DEFER, DEFER_AND_REFUSE, WAIT } doing;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char trace[512], url[64];
    doing before[2], after[2];
    lks_code handler;
    lks_host_call *kept;
    bool waits, stopped;
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static lks_host *host;
static lks_channel *channel;

static void note(const char *what, const void *who)
{
    pthread_mutex_lock(&here.lock);
    size_t n = strlen(here.trace);
    snprintf(here.trace + n, sizeof here.trace - n, " %s%s", what, who ? (const char *)who : "");
    pthread_mutex_unlock(&here.lock);
}

/* ---- the chain ------------------------------------------------------------------------------------ */

static void *finish(void *arg)
{
    const lks_error error = {.message = "no", .applied = LKS_APPLIED_YES};
    doing *what = arg;

    assert_int_equal(lks_host_finish(here.kept, *what == DEFER ? LKS_OK : LKS_ABORTED, &error), LKS_OK);
    return NULL;
}

/* Defers the step: another thread ends it. */
static void defer(lks_rpc_context *context, doing *what)
{
    pthread_t thread;

    here.kept = lks_host_defer(context);
    assert_non_null(here.kept);
    assert_int_equal(pthread_create(&thread, NULL, finish, what), 0);
    pthread_detach(thread);
}

static void on_stop(lks_rpc_follower *follower)
{
    pthread_mutex_lock(&here.lock);
    here.stopped = true;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
}

/* Blocks until the call is stopped. */
static void await_stop(lks_rpc_context *context)
{
    lks_rpc_follower follower = {.stop = on_stop};

    assert_true(lks_rpc_follow(context, &follower));
    pthread_mutex_lock(&here.lock);
    here.waits = true;
    pthread_cond_broadcast(&here.changed);
    while (!here.stopped)
        pthread_cond_wait(&here.changed, &here.lock);
    pthread_mutex_unlock(&here.lock);
    lks_rpc_unfollow(&follower);
}

static lks_code before(void *arg, void **own, lks_rpc_context *context, ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error)
{
    const char *name = arg;
    doing *what = &here.before[*name == 'b'];

    note("before-", arg);
    assert_null(*own);
    *own = arg;
    assert_string_equal(context->method->path, "/lockstock.test.Shop/Look");
    assert_string_equal(((order *)request)->id, "o-1");
    if (*what == DEFER || *what == DEFER_AND_REFUSE)
        defer(context, what);
    if (*what == WAIT)
        await_stop(context);
    if (*what == SKIP) {
        lks_host_skip(context);
        ((order *)response)->id = (char *)"cached";
    }
    return *what == REFUSE ? lks_error_set(error, LKS_PERMISSION_DENIED, LKS_APPLIED_YES, "id: not yours") : LKS_OK;
}

static lks_code after(void *arg, void **own, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error)
{
    const char *name = arg;
    doing *what = &here.after[*name == 'b'];

    note("after-", arg);
    note(lks_code_name(error->code), NULL);
    assert_ptr_equal(*own, arg);
    if (*what == DEFER || *what == DEFER_AND_REFUSE) {
        defer(context, what);
        return LKS_OK;
    }
    return *what == REFUSE ? lks_error_set(error, LKS_DATA_LOSS, LKS_APPLIED_MAYBE, "spoilt") : error->code;
}

static lks_code handle(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error)
{
    lks_rpc_slice who = lks_host_metadata(context, "x-who");

    note("handler", NULL);
    if (who.data)
        note(who.data, NULL);
    ((order *)response)->id = (char *)"new";
    return here.handler == LKS_OK ? LKS_OK : lks_error_set(error, here.handler, LKS_APPLIED_NO, "sold");
}

static const lks_host_interceptor chain[] = {
    {.before = before, .after = after, .arg = "a"},
    {.before = before, .after = after, .arg = "b"},
};

/* ---- the host --------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    static lks_rpc_binding binding = {.method = &shop_look_method, .handle = handle};
    const lks_rpc_service service = {.name = "lockstock.test.Shop", .n_bindings = 1, .bindings = &binding};
    uint16_t port = 0;
    lks_error error;

    memset(here.before, 0, sizeof here.before);
    memset(here.after, 0, sizeof here.after);
    here.trace[0] = '\0';
    here.handler = LKS_OK;
    here.waits = here.stopped = false;
    assert_int_equal(lks_host_open(&(lks_host_options){.interceptors = chain, .n_interceptors = 2, .timeout_ms = 20000},
                                   &host, &error),
                     LKS_OK);
    assert_int_equal(lks_host_add(host, &service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(host, "grpc://127.0.0.1:0", &port, &error), LKS_OK);
    snprintf(here.url, sizeof here.url, "grpc://127.0.0.1:%u", port);
    assert_int_equal(lks_channel_open(here.url, &(lks_channel_options){.no_retry = true}, &channel, &error), LKS_OK);
    return 0;
}

static int tear_down(void **state)
{
    lks_channel_close(channel);
    assert_int_equal(lks_host_close(host, 10000), LKS_OK);
    return 0;
}

/* Makes a call, and expects its result and the steps that ran. */
static void expect(lks_code code, lks_applied applied, const char *answer, const char *trace)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    ProtobufCMessage *response = NULL;
    lks_error error;

    request.id = (char *)"o-1";
    here.trace[0] = '\0';
    assert_int_equal(lks_call_run(channel, &shop_look_method, &request.base, NULL, &response, &error), code);
    assert_string_equal(code == LKS_OK ? ((order *)response)->id : error.message, answer);
    assert_int_equal(error.applied, applied);
    assert_string_equal(here.trace, trace);
    lks_message_free(response);
}

/* ---- cases ------------------------------------------------------------------------------------------ */

/* promise CH37: interceptors run around a call in their order, and `after` runs for those that admitted it */
TEST(interceptors_run_around_a_call_in_order)
{
    expect(LKS_OK, LKS_APPLIED_UNSPECIFIED, "new", " before-a before-b handler after-b OK after-a OK");
    here.handler = LKS_ABORTED;
    expect(LKS_ABORTED, LKS_APPLIED_NO, "sold", " before-a before-b handler after-b ABORTED after-a ABORTED");
    here.before[1] = REFUSE;
    expect(LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "id: not yours", " before-a before-b after-a PERMISSION_DENIED");
    here.before[0] = REFUSE;
    expect(LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "id: not yours", " before-a");
}

/* promise CH37 */
TEST(an_interceptor_answers_itself_and_changes_the_answer)
{
    here.before[0] = SKIP;
    expect(LKS_OK, LKS_APPLIED_UNSPECIFIED, "cached", " before-a after-a OK");
    here.before[0] = ADMIT;
    here.after[1] = REFUSE;
    expect(LKS_DATA_LOSS, LKS_APPLIED_MAYBE, "spoilt", " before-a before-b handler after-b OK after-a DATA_LOSS");
}

/* promise CH37 */
TEST(an_interceptor_defers_the_call)
{
    here.before[0] = here.before[1] = here.after[0] = here.after[1] = DEFER;
    for (int i = 0; i < 100; i++)
        expect(LKS_OK, LKS_APPLIED_UNSPECIFIED, "new", " before-a before-b handler after-b OK after-a OK");
    here.after[0] = ADMIT;
    here.before[1] = DEFER_AND_REFUSE;
    expect(LKS_ABORTED, LKS_APPLIED_NO, "no", " before-a before-b after-a ABORTED");
    here.before[1] = ADMIT;
    here.after[1] = DEFER_AND_REFUSE;
    expect(LKS_ABORTED, LKS_APPLIED_YES, "no", " before-a before-b handler after-b OK after-a ABORTED");
}

/* promise CH37 */
TEST(call_stopped_in_an_interceptor_leaves_all_of_them)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_call *call = NULL;
    lks_error error;

    here.before[1] = WAIT;
    request.id = (char *)"o-1";
    assert_int_equal(lks_call_start(channel, &shop_look_method, &request.base, NULL, NULL, NULL, NULL, &call, &error),
                     LKS_OK);
    pthread_mutex_lock(&here.lock);
    while (!here.waits)
        pthread_cond_wait(&here.changed, &here.lock);
    pthread_mutex_unlock(&here.lock);
    lks_call_free(call);
    lks_channel_close(channel);
    channel = NULL;
    assert_int_equal(lks_host_close(host, 10000), LKS_OK);
    host = NULL;
    assert_string_equal(here.trace, " before-a before-b after-b CANCELLED after-a CANCELLED");
}

/* ---- of a channel ----------------------------------------------------------------------------------- */

static lks_code channel_before(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *request,
                               lks_call_options *options, lks_error *error)
{
    static const lks_metadata added = {"x-who", "c", 1};
    const char *name = arg;

    note("before-", arg);
    *own = arg;
    assert_ptr_equal(method, &shop_look_method);
    options->metadata = &added;
    options->n_metadata = 1;
    return here.before[*name == 'd'] == REFUSE
               ? lks_error_set(error, LKS_PERMISSION_DENIED, LKS_APPLIED_YES, "id: not now")
               : LKS_OK;
}

static void channel_after(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *response,
                          const lks_error *error)
{
    assert_ptr_equal(*own, arg);
    assert_int_equal(response != NULL, error->code == LKS_OK);
    note("after-", arg);
    note(lks_code_name(error->code), NULL);
}

static const lks_channel_interceptor channel_chain[] = {
    {.before = channel_before, .after = channel_after, .arg = "c"},
    {.before = channel_before, .after = channel_after, .arg = "d"},
};

static void on_done(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                    const lks_error *error)
{
    note("done", NULL);
}

/* promise CH37 */
TEST(interceptors_of_a_channel)
{
    const lks_channel_options options = {.interceptors = channel_chain, .n_interceptors = 2, .no_retry = true};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_call *call = NULL;
    lks_error error;

    lks_channel_close(channel);
    assert_int_equal(lks_channel_open(here.url, &options, &channel, &error), LKS_OK);
    expect(LKS_OK, LKS_APPLIED_UNSPECIFIED, "new",
           " before-c before-d before-a before-b handler c after-b OK after-a OK after-d OK after-c OK");
    here.trace[0] = '\0';
    request.id = (char *)"o-1";
    here.handler = LKS_ABORTED;
    assert_int_equal(
        lks_call_start(channel, &shop_look_method, &request.base, NULL, on_done, NULL, NULL, &call, &error), LKS_OK);
    assert_int_equal(lks_call_wait(call, NULL), LKS_ABORTED);
    lks_call_free(call);
    assert_string_equal(here.trace, " before-c before-d before-a before-b handler c after-b ABORTED after-a ABORTED"
                                    " after-d ABORTED after-c ABORTED done");
    here.before[1] = REFUSE;
    expect(LKS_PERMISSION_DENIED, LKS_APPLIED_NO, "id: not now", " before-c before-d after-c PERMISSION_DENIED");
}

TEST(interceptors_that_make_no_sense_are_refused)
{
    static const lks_host_interceptor none[] = {{.before = before}, {.arg = "b"}};
    static const struct {
        lks_host_options options;
        const char *message;
    } cases[] = {
        {{.n_interceptors = 1}, "interceptors: must not be NULL if n_interceptors is not 0"},
        {{.interceptors = none, .n_interceptors = 2}, "interceptors: each must have `before` or `after`"},
        {{.interceptors = none, .n_interceptors = 33}, "n_interceptors: must be at most 32"},
    };
    static const lks_channel_interceptor nothing = {.arg = "c"};
    lks_host *refused;
    lks_channel *none_opened;
    lks_error error;

    assert_int_equal(lks_channel_open("tcp://127.0.0.1:1",
                                      &(lks_channel_options){.interceptors = &nothing, .n_interceptors = 1},
                                      &none_opened, &error),
                     LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "options.interceptors: each must have `before` or `after`");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lks_host_open(&cases[i].options, &refused, &error), LKS_INVALID_ARGUMENT);
        assert_string_equal(error.message, cases[i].message);
    }
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)

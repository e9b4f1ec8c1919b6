/* A channel whose tokens a callback gives. */
#include "channel_fixture.h"
#include "test.h"

enum { BRIEF_MS = 100 };

/* The script of the callback, and its record. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed; /* it waits */
    int runs;
    uint32_t lasts_ms;
    lks_code code;
    const char *gives; /* NULL: "token-RUN" */
    lks_code close;    /* what lks_channel_close returned in it */
} source = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static lks_code get_token(void *arg, char token[LKS_TOKEN_BYTES_MAX + 1], uint32_t *lasts_ms, lks_error *error)
{
    assert_ptr_equal(arg, &source);
    pthread_mutex_lock(&source.lock);
    source.runs++;
    pthread_cond_broadcast(&source.changed);
    while (source.closed)
        pthread_cond_wait(&source.changed, &source.lock);
    source.close = channel ? lks_channel_close(channel) : LKS_FAILED_PRECONDITION;
    if (source.gives)
        snprintf(token, LKS_TOKEN_BYTES_MAX + 1, "%s", source.gives);
    else
        snprintf(token, LKS_TOKEN_BYTES_MAX + 1, "token-%d", source.runs);
    *lasts_ms = source.lasts_ms;
    lks_code code = source.code;
    pthread_mutex_unlock(&source.lock);
    return code == LKS_OK ? LKS_OK : lks_error_set(error, code, LKS_APPLIED_NO, "the vault is sealed");
}

static void open_source(void)
{
    pthread_mutex_lock(&source.lock);
    source.closed = false;
    pthread_cond_broadcast(&source.changed);
    pthread_mutex_unlock(&source.lock);
}

static void await_source(int runs)
{
    pthread_mutex_lock(&source.lock);
    while (source.runs < runs)
        pthread_cond_wait(&source.changed, &source.lock);
    pthread_mutex_unlock(&source.lock);
}

static void open_with_source(void)
{
    channel = open_channel(server_url(server), (lks_channel_options){.get_token = get_token, .get_token_arg = &source});
}

static void expect_token(size_t request, const char *token)
{
    assert_string_equal(server_request_at(server, request).authorization, token);
}

static int start_server(void **state)
{
    server = server_start(0);
    source.closed = false;
    source.runs = 0;
    source.lasts_ms = LONG_MS;
    source.code = LKS_OK;
    source.gives = NULL;
    return 0;
}

static int stop(void **state)
{
    open_source();
    return tear_down(state);
}

/* promise GC19: a call has the token that get_token gave, which is asked again when the token has ended */
TEST(a_token_that_lasts_is_fetched_once)
{
    open_with_source();
    run_ok(&server_plain, "a");
    run_ok(&server_plain, "b");
    expect_token(0, "Bearer token-1");
    expect_token(1, "Bearer token-1");
    assert_int_equal(source.runs, 1);
    assert_int_equal(source.close, LKS_FAILED_PRECONDITION);
}

/* promise GC19 */
TEST(expired_token_is_fetched_again)
{
    source.lasts_ms = 0;
    open_with_source();
    run_ok(&server_plain, "a");
    fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 1, NULL}, 1);
    run_ok(&server_plain, "b");
    expect_token(0, "Bearer token-1");
    expect_token(1, "Bearer token-2");
    expect_token(2, "Bearer token-3"); /* another try */
}

/* promise GC20: a get_token that is slow or fails concerns only the calls that wait for it */
TEST(call_waits_for_its_token_and_others_do_not)
{
    const lks_metadata own = {"authorization", "Basic x", 7};
    const lks_call_options with_own = {.metadata = &own, .n_metadata = 1};
    struct witness waits;

    source.closed = true;
    open_with_source();
    start(&server_plain, "waits", NULL, &waits);
    await_source(1);
    run_to(&server_plain, "own", &with_own, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    expect_token(0, "Basic x");
    assert_false(lks_call_is_done(waits.call));
    open_source();
    assert_ended(&waits, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    expect_token(1, "Bearer token-1");
}

/* promise GC20 */
TEST(a_call_without_a_token_ends_at_its_deadline)
{
    const lks_call_options brief = {.timeout_ms = BRIEF_MS};
    lks_error error;

    source.closed = true;
    open_with_source();
    run(&server_plain, "a", &brief, NULL, &error);
    assert_error(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_string_equal(error.message, "options.get_token: no token within the deadline");
}

/* promise GC20 */
TEST(a_call_that_waits_for_a_token_is_cancelled)
{
    struct witness waits;

    source.closed = true;
    open_with_source();
    start(&server_plain, "a", NULL, &waits);
    await_source(1);
    lks_call_cancel(waits.call);
    assert_ended(&waits, LKS_CANCELLED, LKS_APPLIED_NO);
}

/* promise GC20 */
TEST(failing_token_source_is_reported_and_asked_again)
{
    lks_error error;

    open_with_source();
    source.code = LKS_UNAVAILABLE;
    run(&server_plain, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO);
    assert_string_equal(error.message, "options.get_token: the vault is sealed");
    source.code = LKS_OK;
    source.gives = "no token";
    run(&server_plain, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO);
    source.gives = NULL;
    run_ok(&server_plain, "b");
    expect_token(0, "Bearer token-3");
}

TEST_MAIN(.setup = start_server, .teardown = stop)

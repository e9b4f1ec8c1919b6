/* A channel as its caller sees it: answers, lifetimes, cancels, deadlines, limits. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/channel_fixture.h"
#include "test.h"

/* ---- answers ------------------------------------------------------------------ */

TEST(a_synchronous_call_returns_the_response)
{
    ping_response *response;
    lks_error error;

    reopen((lks_channel_options){.ns = "shop"});
    assert_int_equal(run(&server_write, "a", NULL, &response, &error), LKS_OK);
    assert_error(&error, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_string_equal(error.message, "");
    assert_string_equal(response->id, "a");
    lks_message_free(&response->base);
    assert_int_equal(run(&server_write, "b", NULL, NULL, NULL), LKS_OK);
    server_request seen = server_request_at(server, 0);
    assert_string_equal(seen.method, "/lockstock.test.PingService/Write");
    assert_string_equal(seen.ns, "shop");
    assert_in_range(seen.timeout_ms, 1, LONG_MS);
}

TEST(an_asynchronous_call_completes_once_on_another_thread)
{
    struct witness witness;

    start(&server_write, "a", NULL, &witness);
    assert_int_equal(lks_call_wait(witness.call, NULL), LKS_OK);
    assert_false(pthread_equal(witness.thread, pthread_self()));
    assert_string_equal(witness.id, "a");
    const ping_response *response = (const ping_response *)(const void *)lks_call_response(witness.call);
    assert_string_equal(response->id, "a");
    assert_ok(&witness, 1);
}

static void refuse_token(const char *token)
{
    lks_channel_options options = {.token = token};
    lks_channel *refused = NULL;
    lks_error error;

    assert_int_equal(lks_channel_open(server_url(server), &options, &refused, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "options.token"));
    assert_true(*token == '\0' || !strstr(error.message, token));
}

/* promise A13: the client sends its token with every call, unless the call has its own */
TEST(a_token_reaches_the_server)
{
    static char too_long[4098], longest[4097];
    char token[] = "a-Z_0~9+/.=";
    lks_metadata metadata[] = {{"authorization", "Bearer other", 12}};

    run_ok(&server_read, "a");
    reopen((lks_channel_options){.token = token});
    token[0] = 'x'; /* it was copied */
    run_ok(&server_read, "a");
    run(&server_read, "a", &(lks_call_options){.metadata = metadata, .n_metadata = 1}, NULL, NULL);
    assert_string_equal(server_request_at(server, 0).authorization, "");
    assert_string_equal(server_request_at(server, 1).authorization, "Bearer a-Z_0~9+/.=");
    assert_string_equal(server_request_at(server, 2).authorization, "Bearer other");

    refuse_token("");
    refuse_token("two words");
    refuse_token("line\n");
    refuse_token("\xC3\xA9");
    memset(too_long, 'x', sizeof too_long - 1);
    refuse_token(too_long);
    memset(longest, 'x', sizeof longest - 1);
    reopen((lks_channel_options){.token = longest});
    run_ok(&server_read, "a");
}

/* ---- the completion thread ---------------------------------------------------- */

struct inside {
    lks_call *call;
    lks_code run, wait, close;
};

static void try_to_block(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                         const lks_error *error)
{
    struct inside *inside = arg;

    inside->run = run(&server_read, "b", NULL, NULL, NULL);
    inside->wait = lks_call_wait(inside->call, NULL);
    lks_call_cancel(inside->call);
    inside->close = lks_channel_close(channel);
}

TEST(blocking_in_a_completion_is_refused)
{
    ping_request request = ping("a");
    struct inside inside = {.call = NULL};

    lks_call_start(channel, &server_write, &request.base, NULL, try_to_block, NULL, &inside, &inside.call, NULL);
    assert_int_equal(lks_call_wait(inside.call, NULL), LKS_OK); /* it lasts until `done` returned */
    assert_int_equal(inside.run, LKS_FAILED_PRECONDITION);
    assert_int_equal(inside.wait, LKS_FAILED_PRECONDITION);
    assert_int_equal(inside.close, LKS_FAILED_PRECONDITION);
    run_ok(&server_read, "c");
    assert_int_equal(server_seen(server), 2); /* "b" was not sent */
    lks_call_free(inside.call);
}

struct chain {
    lks_call *call;
    int left, failed;
};

static void start_next(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                       const lks_error *error)
{
    struct chain *chain = arg;
    ping_request request = ping("next");

    lks_call_free(chain->call); /* the call that this is the completion of */
    chain->call = NULL;
    chain->failed += code != LKS_OK && code != LKS_CANCELLED;
    if (chain->left-- == 0)
        return;
    chain->failed += lks_call_start(channel, &server_write, &request.base, NULL, start_next, NULL, chain, &chain->call,
                                    NULL) != LKS_OK;
    if (chain->left == 10 && chain->call)
        lks_call_cancel(chain->call);
}

TEST(a_completion_may_free_its_call_and_start_and_cancel_others)
{
    struct chain chain = {.left = 100};
    ping_request request = ping("first");

    lks_call_start(channel, &server_write, &request.base, NULL, start_next, NULL, &chain, &chain.call, NULL);
    assert_true(server_await(server, 100)); /* one of the 101 is cancelled before it is sent, or after */
    run_ok(&server_read, "x");
    close_channel();
    assert_int_equal(chain.left, -1);
    assert_int_equal(chain.failed, 0);
}

TEST(a_call_without_a_handle_frees_itself)
{
    ping_request request = ping("a");
    struct witness left = {.runs = 0}, freed;

    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, see, NULL, &left, NULL, NULL), LKS_OK);
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, NULL, NULL, NULL, NULL, NULL), LKS_OK);
    start(&server_write, "b", NULL, &freed);
    lks_call_free(freed.call);
    assert_true(server_await(server, 3));
    run_ok(&server_read, "c");
    close_channel();
    assert_int_equal(atomic_load(&left.runs), 1);
    assert_int_equal(atomic_load(&freed.runs), 1);
}

/* ---- cancel ------------------------------------------------------------------- */

/* promise W18 */
TEST(cancelled_call_says_whether_it_was_sent)
{
    struct witness answered, sent, queued;

    reopen((lks_channel_options){.in_flight_max = 1});
    start(&server_write, "answered", NULL, &answered);
    assert_int_equal(lks_call_wait(answered.call, NULL), LKS_OK);
    lks_call_cancel(answered.call);
    assert_ok(&answered, 1);

    hold(1);
    start(&server_plain, "sent", NULL, &sent);
    start(&server_plain, "queued", NULL, &queued);
    assert_true(server_await(server, 2));
    lks_call_cancel(queued.call);
    lks_call_cancel(sent.call);
    lks_call_cancel(sent.call);
    assert_ended(&sent, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ended(&queued, LKS_CANCELLED, LKS_APPLIED_NO);
    assert_int_equal(queued.error.reason, LKS_REASON_CANCELLED);

    server_release(server); /* no call takes the late reply */
    run_ok(&server_write, "after");
    assert_int_equal(server_seen(server), 3);
}

TEST(closing_ends_every_call)
{
    struct witness calls[100];

    reopen((lks_channel_options){.in_flight_max = 4});
    hold(UINT32_MAX);
    for (size_t i = 0; i < 100; i++)
        start(&server_plain, "a", NULL, &calls[i]);
    assert_true(server_await(server, 4));
    close_channel();
    for (size_t i = 0; i < 100; i++) {
        lks_call_cancel(calls[i].call);
        assert_null(lks_call_response(calls[i].call));
        assert_ended(&calls[i], LKS_CANCELLED, i < 4 ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO);
    }
    assert_int_equal(server_seen(server), 4);
}

static void *wait_for_it(void *arg)
{
    for (int i = 0; i < 1000; i++)
        lks_call_response(arg);
    lks_call_wait(arg, NULL);
    lks_call_cancel(arg);
    return NULL;
}

TEST(several_threads_may_wait_for_one_call)
{
    pthread_t threads[8];
    struct witness witness;

    hold(1);
    start(&server_plain, "a", NULL, &witness);
    for (size_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, wait_for_it, witness.call);
    assert_true(server_await(server, 1));
    assert_false(lks_call_wait_for(witness.call, 10));
    assert_false(lks_call_is_done(witness.call));
    server_release(server);
    assert_true(lks_call_wait_for(witness.call, 30000));
    assert_true(lks_call_is_done(witness.call));
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_ok(&witness, 1);
}

/* ---- deadlines ---------------------------------------------------------------- */

/* promise W18: the client: a deadline error says how far the call came; a cancelled call says whether it was sent */
TEST(deadline_error_says_how_far_the_call_got)
{
    lks_call_options brief = {.timeout_ms = 150};
    struct witness sent, queued;

    reopen((lks_channel_options){.in_flight_max = 1});
    server_add_fault(server, (server_fault){SERVER_DROPS_REPLY, 0, 1});
    start(&server_plain, "sent", &(lks_call_options){.timeout_ms = 400}, &sent);
    start(&server_plain, "queued", &brief, &queued);
    assert_ended(&queued, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_ended(&sent, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_int_equal(queued.error.reason, LKS_REASON_DEADLINE_BEFORE_START);
    assert_int_equal(sent.error.reason, LKS_REASON_DEADLINE_EXCEEDED);
    assert_int_equal(server_seen(server), 1);
}

TEST(without_a_server_nothing_was_applied)
{
    struct witness cancelled;
    char url[64];
    uint16_t port;
    lks_error error;
    int fd = ports_bind(&port);

    snprintf(url, sizeof url, "%s://127.0.0.1:%u", server_scheme(), port);
    for (int i = 0; i < 2; i++) {
        close_channel();
        channel = open_channel(url, (lks_channel_options){0});
        start(&server_write, "a", NULL, &cancelled);
        lks_call_cancel(cancelled.call);
        assert_ended(&cancelled, LKS_CANCELLED, LKS_APPLIED_NO);
        run(&server_plain, "a", &(lks_call_options){.timeout_ms = 150}, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
        assert_int_equal(error.reason, LKS_REASON_SERVER_UNREACHABLE);
        assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
        assert_int_equal(listen(fd, 8), 0); /* then it takes connections, and says nothing */
    }
    close(fd);
}

TEST(the_channel_has_a_default_timeout)
{
    ping_request waiting = ping("a");

    reopen((lks_channel_options){.timeout_ms = 777});
    run_ok(&server_read, "a");
    assert_in_range(server_request_at(server, 0).timeout_ms, 1, 777);
    waiting.wait_ms = 3000;
    assert_int_equal(lks_call_run(channel, &server_write, &waiting.base, NULL, NULL, NULL), LKS_OK);
    assert_in_range(server_request_at(server, 1).timeout_ms, 3001, 8000);
}

/* ---- limits ------------------------------------------------------------------- */

/* promise CH3: calls that retry refusals outlast a full queue; calls that end or keep something are of this kind */
TEST(full_queue_takes_only_a_call_that_insists)
{
    lks_rpc_method settling = server_write;
    struct witness calls[3];
    lks_error error;

    settling.settles = true;
    reopen((lks_channel_options){.in_flight_max = 2, .waiting_max = 1, .queue_max = 1});
    hold(1);
    for (size_t i = 0; i < 3; i++)
        start_waiting(&server_write, "wait", &calls[i]);
    run(&server_write, "b", NULL, NULL, &error);
    assert_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_true(server_await(server, 1));
    run_to(&server_write, "release", &(lks_call_options){.insist = true}, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    run_ok(&settling, "release");
    server_release(server);
    assert_ok(calls, 3);
    run_ok(&server_write, "b");
}

/* promise CH2: waiting calls do not use the room of other calls; 10,000 may wait on one channel */
TEST(calls_that_wait_leave_room_for_others)
{
    struct witness calls[5];

    reopen((lks_channel_options){.in_flight_max = 4, .waiting_max = 3});
    hold(3);
    for (size_t i = 0; i < 5; i++)
        start_waiting(&server_write, "wait", &calls[i]);
    assert_true(server_await(server, 3));
    run_ok(&server_write, "prompt");
    assert_int_equal(server_seen(server), 4);
    server_release(server);
    assert_ok(calls, 5);
}

TEST(unsendable_call_is_refused_at_once)
{
    static uint8_t ballast[5000];
    static const char *const keys[] = {"Upper", "", "with space", NULL};
    ping_response other = LOCKSTOCK__TEST__PING_RESPONSE__INIT;
    ping_request request = ping("a");
    lks_error error;

    reopen((lks_channel_options){.message_bytes_max = 4096});
    lks_call_run(channel, &server_write, &other.base, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    lks_call_run(channel, &server_write, NULL, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        lks_metadata metadata = {keys[i], "x", 1};
        run_to(&server_write, "a", &(lks_call_options){.metadata = &metadata, .n_metadata = 1}, LKS_INVALID_ARGUMENT,
               LKS_APPLIED_NO);
    }
    request.ballast = (ProtobufCBinaryData){.len = sizeof ballast, .data = ballast};
    lks_call_run(channel, &server_write, &request.base, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    request.ballast.len = 4000;
    assert_int_equal(lks_call_run(channel, &server_write, &request.base, NULL, NULL, &error), LKS_OK);
    assert_int_equal(server_seen(server), 1);
}

/* promise F4: a bool has three spellings; errors in a URL name the problem and the place of the setting, without its
 * password */
TEST(urls_are_checked)
{
    char bad[] =
        "|,|127.0.0.1:7700|http://127.0.0.1:80|tcp://|tcp://host:0|tcp://host:7700/path|tcp://127.0.0.1:7700,|"
        "tls://host|unix://|unix://x|unix:///|unix:///tmp/a,|nng+tcp://|nng+tcp://host|nng+tcp://host:|"
        "nng+tcp://host:0|nng+tcp://host:70000|nng+tcp://host:http:|nng+ipc:///tmp/x|nng+tcp://127.0.0.1:7700,|"
        "nng+tcp://a:1,,nng+tcp://b:1|nng+tcp://a:1 nng+tcp://b:1";
    lks_channel *refused = NULL;
    lks_error error;

    for (char *rest = bad, *url; (url = strsep(&rest, "|"));) {
        if (lks_channel_open(url, NULL, &refused, &error) != LKS_INVALID_ARGUMENT)
            fail_msg("\"%s\" was taken", url);
        assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
        assert_null(refused);
    }
    lks_channel_open("http://127.0.0.1:80", NULL, &refused, &error);
    assert_non_null(strstr(error.message, "http"));
    lks_channel_open("127.0.0.1:80", NULL, &refused, &error);
    assert_non_null(strstr(error.message, "has no scheme; tcp://"));
    assert_int_equal(lks_channel_close(NULL), LKS_OK);
    lks_call_free(NULL);
    lks_message_free(NULL);
}

/* promise CH6: a child of fork does not wait for a call */
TEST(a_forked_child_is_refused)
{
    struct witness held;
    int status = 0;

    run_ok(&server_read, "a");
    hold(1);
    start(&server_plain, "held", NULL, &held);
    assert_true(server_await(server, 2));
    pid_t child = fork();
    if (child == 0) {
        alarm(LONG_MS / 1000);
        lks_call_cancel(held.call);
        _exit(run(&server_read, "a", NULL, NULL, NULL) != LKS_FAILED_PRECONDITION ||
              lks_call_wait(held.call, NULL) != LKS_FAILED_PRECONDITION ||
              lks_channel_close(channel) != LKS_FAILED_PRECONDITION);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    server_release(server);
    assert_ok(&held, 1);
    run_ok(&server_read, "a");
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)

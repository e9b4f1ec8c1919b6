/* What a caller sees of a channel: answers, lifetimes, cancels, deadlines, limits. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/channel_fixture.h"
#include "test.h"

/* Nothing listens here: the port is taken, but not listened to, while the process lives. */
static const char *nowhere(void)
{
    static char url[64];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    if (url[0] == '\0') {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
        snprintf(url, sizeof url, "%s://127.0.0.1:%u", server_scheme(), ntohs(address.sin_port));
    }
    return url;
}

/* ---- answers ------------------------------------------------------------------ */

TEST(a_synchronous_call_returns_the_response)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.ns = "shop"});
    ping_response *response;
    lks_error error;
    assert_int_equal(run(channel, &server_write, "a", NULL, &response, &error), LKS_OK);
    assert_int_equal(error.code, LKS_OK);
    assert_string_equal(error.message, "");
    assert_string_equal(response->id, "a");
    assert_int_equal(response->before, 0);
    lks_message_free(&response->base);
    assert_int_equal(run(channel, &server_write, "b", NULL, NULL, NULL), LKS_OK);

    server_request seen = server_request_at(server, 0);
    assert_string_equal(seen.method, "/lockstock.test.PingService/Write");
    assert_string_equal(seen.ns, "shop");
    assert_in_range(seen.timeout_ms, 1, LONG_MS);
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    server_stop(server);
}

TEST(an_asynchronous_call_completes_once_on_another_thread)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness witness;
    start(channel, &server_write, "a", NULL, &witness);
    assert_int_equal(lks_call_wait(witness.call, NULL), LKS_OK);
    assert_int_equal(lks_call_wait(witness.call, NULL), LKS_OK);
    assert_int_equal(atomic_load(&witness.runs), 1);
    assert_false(pthread_equal(witness.thread, pthread_self()));
    assert_string_equal(witness.id, "a");
    const ping_response *response = (const ping_response *)(const void *)lks_call_response(witness.call);
    assert_string_equal(response->id, "a");
    lks_call_free(witness.call);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(metadata_reaches_the_server)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.ns = "shop"});
    lks_metadata metadata[] = {{"traceparent", "00-1", 4}, {"lockstock-namespace", "other", 5}};
    lks_call_options options = {.metadata = metadata, .n_metadata = 2};
    assert_int_equal(run(channel, &server_read, "a", &options, NULL, NULL), LKS_OK);
    assert_string_equal(server_request_at(server, 0).ns, "other");
    lks_channel_close(channel);
    server_stop(server);
}

/* promise A13: the client sends its token with every call, unless the call has its own */
TEST(a_token_reaches_the_server)
{
    static const char *const bad[] = {"", "two words", "line\n", "\xC3\xA9"};
    static char too_long[4098], longest[4097];
    struct server *server = server_start(0);
    char token[] = "a-Z_0~9+/.=";
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.token = token});
    lks_metadata metadata[] = {{"authorization", "Bearer other", 12}};
    lks_call_options options = {.metadata = metadata, .n_metadata = 1};
    lks_error error;
    token[0] = 'x'; /* it was copied */
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(run(channel, &server_read, "a", &options, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    channel = open_channel(server_url(server), (lks_channel_options){0});
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    assert_string_equal(server_request_at(server, 0).authorization, "Bearer a-Z_0~9+/.=");
    assert_string_equal(server_request_at(server, 1).authorization, "Bearer other");
    assert_string_equal(server_request_at(server, 2).authorization, "");

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lks_channel_options wrong = {.token = bad[i]};
        assert_int_equal(lks_channel_open(server_url(server), &wrong, &channel, &error), LKS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "options.token"));
        assert_true(*bad[i] == '\0' || !strstr(error.message, bad[i]));
    }
    memset(too_long, 'x', sizeof too_long - 1);
    memset(longest, 'x', sizeof longest - 1);
    lks_channel_options wrong = {.token = too_long};
    assert_int_equal(lks_channel_open(server_url(server), &wrong, &channel, &error), LKS_INVALID_ARGUMENT);
    channel = open_channel(server_url(server), (lks_channel_options){.token = longest});
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- the completion thread ---------------------------------------------------- */

struct inside {
    lks_channel *channel;
    lks_call *call;
    lks_code run, wait, close;
    atomic_bool ended;
};

static void try_to_block(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                         const lks_error *error)
{
    struct inside *inside = arg;
    (void)function, (void)code, (void)response, (void)error;

    inside->run = run(inside->channel, &server_read, "b", NULL, NULL, NULL);
    inside->wait = lks_call_wait(inside->call, NULL);
    inside->close = lks_channel_close(inside->channel);
    lks_call_cancel(inside->call);
    atomic_store(&inside->ended, true);
}

TEST(blocking_in_a_completion_is_refused)
{
    struct server *server = server_start(0);
    struct inside inside = {.channel = open_channel(server_url(server), (lks_channel_options){0})};
    ping_request request = ping("a");
    assert_int_equal(lks_call_start(inside.channel, &server_write, &request.base, NULL, try_to_block, NULL, &inside,
                                    &inside.call, NULL),
                     LKS_OK);
    assert_int_equal(lks_call_wait(inside.call, NULL), LKS_OK);
    assert_true(atomic_load(&inside.ended)); /* a wait lasts until `done` returned */
    assert_int_equal(inside.run, LKS_FAILED_PRECONDITION);
    assert_int_equal(inside.wait, LKS_FAILED_PRECONDITION);
    assert_int_equal(inside.close, LKS_FAILED_PRECONDITION);
    assert_int_equal(run(inside.channel, &server_read, "c", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(server), 2); /* "b" was not sent */
    lks_call_free(inside.call);
    lks_channel_close(inside.channel);
    server_stop(server);
}

struct chain {
    lks_channel *channel;
    lks_call *call;
    int left, failed;
};

static void start_next(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                       const lks_error *error)
{
    struct chain *chain = arg;
    ping_request request = ping("next");
    (void)function, (void)response, (void)error;

    lks_call_free(chain->call); /* the call that this is the completion of */
    chain->call = NULL;
    chain->failed += code != LKS_OK && code != LKS_CANCELLED;
    if (chain->left-- == 0)
        return;
    if (lks_call_start(chain->channel, &server_write, &request.base, NULL, start_next, NULL, chain, &chain->call,
                       NULL) != LKS_OK)
        chain->failed++;
    if (chain->left == 10 && chain->call)
        lks_call_cancel(chain->call);
}

TEST(a_completion_may_free_its_call_and_start_and_cancel_others)
{
    struct server *server = server_start(0);
    struct chain chain = {.channel = open_channel(server_url(server), (lks_channel_options){0}), .left = 100};
    ping_request request = ping("first");
    assert_int_equal(
        lks_call_start(chain.channel, &server_write, &request.base, NULL, start_next, NULL, &chain, &chain.call, NULL),
        LKS_OK);
    assert_true(server_await(server, 100)); /* one of the 101 is cancelled before it is sent, or after */
    assert_int_equal(run(chain.channel, &server_read, "x", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(chain.channel);
    assert_int_equal(chain.left, -1);
    assert_int_equal(chain.failed, 0);
    server_stop(server);
}

TEST(a_call_without_a_handle_frees_itself)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    ping_request request = ping("a");
    struct witness left = {.runs = 0}, freed;
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, see, NULL, &left, NULL, NULL), LKS_OK);
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, NULL, NULL, NULL, NULL, NULL), LKS_OK);
    start(channel, &server_write, "b", NULL, &freed);
    lks_call_free(freed.call);
    assert_true(server_await(server, 3));
    assert_int_equal(run(channel, &server_read, "c", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    assert_int_equal(atomic_load(&left.runs), 1);
    assert_int_equal(atomic_load(&freed.runs), 1);
    server_stop(server);
}

/* ---- cancel ------------------------------------------------------------------- */

/* promise W18 */
TEST(cancelling_tells_whether_it_was_sent)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 1});
    lks_channel *unconnected = open_channel(nowhere(), (lks_channel_options){0});
    struct witness sent, queued, unreachable, answered;
    start(channel, &server_write, "answered", NULL, &answered);
    assert_int_equal(lks_call_wait(answered.call, NULL), LKS_OK);
    lks_call_cancel(answered.call);
    assert_ended(&answered, LKS_OK, LKS_APPLIED_UNSPECIFIED);

    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 1});
    start(channel, &server_write, "sent", NULL, &sent);
    start(channel, &server_write, "queued", NULL, &queued);
    start(unconnected, &server_write, "unreachable", NULL, &unreachable);
    assert_true(server_await(server, 2));
    lks_call_cancel(queued.call);
    lks_call_cancel(sent.call);
    lks_call_cancel(sent.call);
    lks_call_cancel(unreachable.call);
    assert_ended(&sent, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ended(&queued, LKS_CANCELLED, LKS_APPLIED_NO);
    assert_ended(&unreachable, LKS_CANCELLED, LKS_APPLIED_NO);
    assert_int_equal(unreachable.error.reason, LKS_REASON_CANCELLED);

    /* The connection is as good as new, and the late reply is nobody's. */
    server_release(server);
    assert_int_equal(run(channel, &server_write, "after", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(server), 3);
    lks_channel_close(channel);
    lks_channel_close(unconnected);
    server_stop(server);
}

TEST(closing_ends_every_call)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 4});
    struct witness calls[100];
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, UINT32_MAX});
    for (size_t i = 0; i < 100; i++)
        start(channel, &server_write, "a", NULL, &calls[i]);
    assert_true(server_await(server, 4));
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(atomic_load(&calls[i].runs), 1);
        lks_call_cancel(calls[i].call);
        assert_null(lks_call_response(calls[i].call));
        assert_ended(&calls[i], LKS_CANCELLED, i < 4 ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO);
    }
    assert_int_equal(server_seen(server), 4);
    server_stop(server);
}

static void *wait_for_it(void *arg)
{
    lks_call *call = arg;

    for (int i = 0; i < 1000; i++)
        lks_call_response(call);
    lks_call_wait(call, NULL);
    lks_call_cancel(call);
    return NULL;
}

TEST(several_threads_may_wait_for_one_call)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    pthread_t threads[8];
    struct witness witness;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 1});
    start(channel, &server_write, "a", NULL, &witness);
    for (size_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, wait_for_it, witness.call);
    assert_true(server_await(server, 1));
    server_release(server);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_ended(&witness, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- deadlines ---------------------------------------------------------------- */

/* promise W18: the client: a deadline tells how far the call came; a cancelled call says whether it was sent */
TEST(a_deadline_tells_how_far_the_call_came)
{
    struct server *server = server_start(0), *mute = server_start(0);
    server_go_mute(mute);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 1});
    lks_channel *unconnected = open_channel(nowhere(), (lks_channel_options){0});
    lks_channel *unanswered = open_channel(server_url(mute), (lks_channel_options){0});
    lks_call_options brief = {.timeout_ms = 150};
    struct witness sent, queued;
    lks_error error;
    server_add_fault(server, (server_fault){SERVER_DROPS_REPLY, 0, 1});
    start(channel, &server_plain, "sent", &(lks_call_options){.timeout_ms = 400}, &sent);
    start(channel, &server_plain, "queued", &brief, &queued);
    assert_ended(&queued, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_ended(&sent, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_int_equal(queued.error.reason, LKS_REASON_DEADLINE_BEFORE_START);
    assert_int_equal(sent.error.reason, LKS_REASON_DEADLINE_EXCEEDED);
    assert_int_equal(server_seen(server), 1);

    run(unconnected, &server_plain, "a", &brief, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_SERVER_UNREACHABLE);
    assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
    run(unanswered, &server_plain, "a", &brief, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_SERVER_UNREACHABLE);

    lks_channel_close(channel);
    lks_channel_close(unconnected);
    lks_channel_close(unanswered);
    server_stop(server);
    server_stop(mute);
}

TEST(the_channel_has_a_default_timeout)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.timeout_ms = 777});
    ping_request waiting = ping("a");
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    assert_in_range(server_request_at(server, 0).timeout_ms, 1, 777);
    waiting.wait_ms = 3000;
    assert_int_equal(lks_call_run(channel, &server_write, &waiting.base, NULL, NULL, NULL), LKS_OK);
    assert_in_range(server_request_at(server, 1).timeout_ms, 3001, 8000);
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- limits ------------------------------------------------------------------- */

TEST(a_full_queue_refuses)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 1, .queue_max = 2});
    struct witness calls[3];
    lks_error error;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 1});
    for (size_t i = 0; i < 3; i++)
        start(channel, &server_write, "a", NULL, &calls[i]);
    run(channel, &server_write, "b", NULL, NULL, &error);
    assert_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_true(server_await(server, 1));
    server_release(server);
    for (size_t i = 0; i < 3; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(run(channel, &server_write, "b", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

/* So a Release goes out however many calls wait for it. */
/* promise CH3: what insists outlasts refusals that may pass, and a full queue; what ends or keeps something insists */
TEST(what_insists_is_taken_on_by_a_full_queue)
{
    struct server *server = server_start(0);
    lks_channel *channel =
        open_channel(server_url(server), (lks_channel_options){.in_flight_max = 2, .waiting_max = 1, .queue_max = 1});
    const lks_call_options insist = {.insist = true};
    lks_rpc_method settling = server_write;
    ping_request waiting = ping("wait");
    struct witness calls[3];
    lks_error error;
    waiting.wait_ms = LONG_MS;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 1});
    for (size_t i = 0; i < 3; i++) {
        memset(&calls[i], 0, sizeof calls[i]);
        assert_int_equal(
            lks_call_start(channel, &server_write, &waiting.base, NULL, see, NULL, &calls[i], &calls[i].call, NULL),
            LKS_OK);
    }
    run(channel, &server_write, "b", NULL, NULL, &error);
    assert_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_true(server_await(server, 1));
    assert_int_equal(run(channel, &server_write, "release", &insist, NULL, NULL), LKS_OK);
    settling.settles = true;
    assert_int_equal(run(channel, &settling, "release", NULL, NULL, NULL), LKS_OK);
    server_release(server);
    for (size_t i = 0; i < 3; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

/* promise CH2: calls that wait never take the room of others; 10,000 on one channel */
TEST(calls_that_wait_leave_room_for_others)
{
    struct server *server = server_start(0);
    lks_channel *channel =
        open_channel(server_url(server), (lks_channel_options){.in_flight_max = 4, .waiting_max = 3});
    ping_request waiting = ping("wait");
    struct witness calls[5];
    waiting.wait_ms = LONG_MS;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 3});
    for (size_t i = 0; i < 5; i++) {
        memset(&calls[i], 0, sizeof calls[i]);
        assert_int_equal(
            lks_call_start(channel, &server_write, &waiting.base, NULL, see, NULL, &calls[i], &calls[i].call, NULL),
            LKS_OK);
    }
    assert_true(server_await(server, 3));
    assert_int_equal(run(channel, &server_write, "prompt", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(server), 4);
    server_release(server);
    for (size_t i = 0; i < 5; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(what_cannot_be_sent_is_refused_at_once)
{
    static uint8_t ballast[5000];
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.message_bytes_max = 4096});
    ping_response other = LOCKSTOCK__TEST__PING_RESPONSE__INIT;
    ping_request request = ping("a");
    const char *const keys[] = {"Upper", "", "with space", NULL};
    lks_error error;
    lks_call_run(channel, &server_write, &other.base, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    lks_call_run(channel, &server_write, NULL, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        lks_metadata metadata = {keys[i], "x", 1};
        run(channel, &server_write, "a", &(lks_call_options){.metadata = &metadata, .n_metadata = 1}, NULL, &error);
        assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    }
    request.ballast = (ProtobufCBinaryData){.len = sizeof ballast, .data = ballast};
    lks_call_run(channel, &server_write, &request.base, NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
    request.ballast.len = 4000;
    assert_int_equal(lks_call_run(channel, &server_write, &request.base, NULL, NULL, &error), LKS_OK);
    assert_int_equal(server_seen(server), 1);
    lks_channel_close(channel);
    server_stop(server);
}

/* promise F4: a bool is said in three ways; what is wrong with a URL is said, and where the URL stands, without its
 * password */
TEST(urls_are_checked)
{
    static const char *const bad[] = {
        "",
        ",",
        "127.0.0.1:7700",
        "tcp://127.0.0.1",
        "unix://",
        "unix://x",
        "unix:///",
        "http://127.0.0.1:80",
        "nng+tcp://",
        "nng+tcp://host",
        "nng+tcp://host:",
        "nng+tcp://host:0",
        "nng+tcp://host:70000",
        "nng+tcp://host:http:",
        "nng+ipc:///tmp/x",
        "nng+tcp://127.0.0.1:7700,",
        "nng+tcp://127.0.0.1:7700,,nng+tcp://127.0.0.1:7701",
        "nng+tcp://127.0.0.1:7700 nng+tcp://127.0.0.1:7701",
        "tcp://",
        "tcp://host",
        "tcp://host:",
        "tcp://:7700",
        "tcp://host:0",
        "tcp://host:70000",
        "tcp://host:http",
        "tcp://host:7700/path",
        "tcp://user@host:7700",
        "tcp://::1:7700",
        "tcp://[::1]",
        "tcp://[::1:7700",
        "tcp://[]:7700",
        "tcp://127.0.0.1:7700,",
        "tls://host",
        "unix:///tmp/a,",
        "tcp://127.0.0.1:7700 ",
        "tcp://host:000007700",
    };
    lks_error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lks_channel *channel = NULL;

        if (lks_channel_open(bad[i], NULL, &channel, &error) != LKS_INVALID_ARGUMENT)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO);
        assert_null(channel);
    }
    lks_channel *channel = NULL;
    lks_channel_open("http://127.0.0.1:80", NULL, &channel, &error);
    assert_non_null(strstr(error.message, "http"));
    lks_channel_open("127.0.0.1:80", NULL, &channel, &error);
    assert_non_null(strstr(error.message, "has no scheme; tcp://"));
    assert_int_equal(lks_channel_close(NULL), LKS_OK);
    lks_call_free(NULL);
    lks_message_free(NULL);
}

/* promise CH6: a child of fork does not wait for a call */
TEST(a_forked_child_is_refused)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness held;
    int status = 0;
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 1});
    start(channel, &server_read, "held", NULL, &held);
    assert_true(server_await(server, 2));
    pid_t child = fork();
    if (child == 0) {
        alarm(LONG_MS / 1000);
        lks_call_cancel(held.call);
        _exit(run(channel, &server_read, "a", NULL, NULL, NULL) == LKS_FAILED_PRECONDITION &&
                      lks_call_wait(held.call, NULL) == LKS_FAILED_PRECONDITION &&
                      lks_channel_close(channel) == LKS_FAILED_PRECONDITION
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    server_release(server);
    assert_ended(&held, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(run(channel, &server_read, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

TEST_MAIN()

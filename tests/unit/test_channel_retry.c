/* What is sent again, what never is, and what `applied` then says. A call that reached
 * no server says NO; one that may have reached one says MAYBE. */
/* promise C31: what was written when the connection ended is lost, MAYBE */
/* promise C33 */

#include "unit/channel_fixture.h"
#include "test.h"

static void assert_one_call(struct server *server, size_t tries, const char *id)
{
    assert_int_equal(server_seen(server), tries);
    for (size_t i = 0; i < tries; i++)
        assert_string_equal(server_request_at(server, i).id, id);
}

/* ---- what is sent again -------------------------------------------------------- */

/* promise CH4 */
/* promise GD22 */
/* promise W17 */
TEST(a_lost_reply_is_asked_for_again_with_the_same_id)
{
    static const server_fault_kind losses[] = {SERVER_DROPS_REPLY, SERVER_CLOSES};
    for (size_t i = 0; i < 2; i++) {
        struct server *server = server_start(0);
        lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
        ping_request request = ping("order-1");
        ProtobufCMessage *response = NULL;

        request.fresh = true;
        server_add_fault(server, (server_fault){losses[i], 0, 2});
        assert_int_equal(lks_call_run(channel, &server_write, &request.base, NULL, &response, NULL), LKS_OK);
        assert_int_equal(((ping_response *)(void *)response)->before, 2);
        assert_one_call(server, 3, "order-1");
        assert_true(server_request_at(server, 0).fresh); /* true of the first try only */
        assert_false(server_request_at(server, 1).fresh);
        assert_false(server_request_at(server, 2).fresh);
        assert_true(request.fresh);
        assert_false(server_request_at(server, 0).unanswered_before);
        assert_true(server_request_at(server, 1).unanswered_before);
        assert_true(server_request_at(server, 2).unanswered_before);
        lks_message_free(response);
        lks_channel_close(channel);
        server_stop(server);
    }
}

TEST(an_empty_id_is_filled_in_and_kept_for_all_tries)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    ping_request request = LOCKSTOCK__TEST__PING_REQUEST__INIT;
    char *empty = request.id;
    server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
    assert_int_equal(lks_call_run(channel, &server_filled, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_ptr_equal(request.id, empty);
    server_request first = server_request_at(server, 0);
    assert_int_equal(strlen(first.id), LKS_RPC_RANDOM_ID_LEN);
    assert_one_call(server, 2, first.id);
    assert_int_equal(lks_call_run(channel, &server_filled, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_string_not_equal(server_request_at(server, 2).id, first.id);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(a_read_is_asked_again)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
    assert_int_equal(run(channel, &server_read, "", NULL, NULL, NULL), LKS_OK);
    assert_one_call(server, 2, "");
    lks_channel_close(channel);
    server_stop(server);
}

/* promise GD22 */
/* promise W17 */
TEST(a_server_that_did_nothing_is_asked_again)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 1});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 3});
    assert_int_equal(run(channel, &server_plain, "a", NULL, NULL, NULL), LKS_OK);
    assert_one_call(server, 4, "a");
    assert_false(server_request_at(server, 3).unanswered_before); /* each was answered: with NO */
    lks_channel_close(channel);
    server_stop(server);
}

/* Only an option of the field says so, not its name. */
/* promise CH4 */
TEST(a_field_without_the_option_is_sent_as_it_is)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    ping_request request = ping("order-1");
    request.fresh = true;
    server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
    assert_int_equal(lks_call_run(channel, &server_read, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_one_call(server, 2, "order-1");
    assert_true(server_request_at(server, 1).fresh);
    lks_channel_close(channel);
    server_stop(server);
}

/* A Complete or a Release, say. */
/* promise CH3 */
TEST(what_insists_outlasts_refusals_that_may_pass)
{
    static const struct {
        lks_code code;
        lks_applied applied;
        bool passes;
    } rows[] = {
        {LKS_CANCELLED, LKS_APPLIED_NO, true},
        {LKS_UNKNOWN, LKS_APPLIED_NO, true},
        {LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, true},
        {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, true},
        {LKS_INTERNAL, LKS_APPLIED_NO, true},
        {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, false},
        {LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, false},
        {LKS_NOT_FOUND, LKS_APPLIED_NO, false},
        {LKS_ALREADY_EXISTS, LKS_APPLIED_NO, false},
        {LKS_PERMISSION_DENIED, LKS_APPLIED_NO, false},
        {LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, false},
        {LKS_ABORTED, LKS_APPLIED_NO, false},
        {LKS_UNIMPLEMENTED, LKS_APPLIED_NO, false},
        {LKS_UNAUTHENTICATED, LKS_APPLIED_NO, false},
    };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    char id[8];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(id, sizeof id, "%zu", i);
        server_set_status(server, (server_status){rows[i].code, rows[i].applied, 1});
        server_add_fault(server, (server_fault){SERVER_FAILS, 0, rows[i].passes ? 2 : 1});
        run(channel, &server_write, id, &(lks_call_options){.insist = true}, NULL, &error);
        assert_error(&error, rows[i].passes ? LKS_OK : rows[i].code,
                     rows[i].passes ? LKS_APPLIED_UNSPECIFIED : rows[i].applied);
        assert_int_equal(server_count(server, id), rows[i].passes ? 3 : 1);
    }
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- what is not --------------------------------------------------------------- */

/* promise W17: the client: a reply lost after sending is asked for again when the call has a natural id or reads,
 * else MAYBE; one lost try makes the call MAYBE */
TEST(a_call_that_may_have_been_applied_is_not_repeated_without_an_id)
{
    const struct {
        const lks_rpc_method *method;
        const char *id;
        lks_call_options options;
        lks_channel_options channel;
    } cases[] = {
        {&server_plain, "a", {0}, {0}},
        {&server_write, "", {0}, {0}},
        {&server_write, "a", {.no_retry = true}, {0}},
        {&server_write, "a", {0}, {.no_retry = true}},
    };
    lks_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server *server = server_start(0);
        lks_channel *channel = open_channel(server_url(server), cases[i].channel);

        server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
        server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_UNSPECIFIED, 0});
        server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
        run(channel, cases[i].method, cases[i].id, &cases[i].options, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
        assert_int_equal(error.reason, LKS_REASON_CONNECTION_LOST);
        run(channel, cases[i].method, cases[i].id, &cases[i].options, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        assert_int_equal(error.origin, LKS_ORIGIN_PEER);

        /* libnng repeats nothing on its own after the reconnect either. */
        assert_int_equal(run(channel, &server_read, "last", NULL, NULL, NULL), LKS_OK);
        assert_int_equal(server_seen(server), 3);
        assert_string_equal(server_request_at(server, 2).id, "last");
        lks_channel_close(channel);
        server_stop(server);
    }
}

TEST(without_an_id_an_answer_is_waited_for_until_the_deadline)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_add_fault(server, (server_fault){SERVER_DROPS_REPLY, 0, 1});
    run(channel, &server_plain, "a", &(lks_call_options){.timeout_ms = 300}, NULL, &error);
    assert_error(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_one_call(server, 1, "a");
    lks_channel_close(channel);
    server_stop(server);
}

/* promise CH3 */
TEST(other_failures_are_final)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    uint32_t tried = 0;
    lks_error error;
    for (uint32_t code = LKS_CANCELLED; code <= LKS_UNAUTHENTICATED; code++) {
        if (code == LKS_UNAVAILABLE)
            continue;
        server_set_status(server, (server_status){code, LKS_APPLIED_NO, 0});
        server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
        run(channel, &server_write, "a", NULL, NULL, &error);
        assert_error(&error, (lks_code)code, LKS_APPLIED_NO);
        assert_int_equal(error.origin, LKS_ORIGIN_PEER);
        assert_string_equal(error.message, "scripted");
        assert_one_call(server, ++tried, "a");
    }
    lks_channel_close(channel);
    server_stop(server);
}

TEST(a_server_that_asks_for_more_time_than_there_is_is_not_asked_again)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 2 * LONG_MS});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
    run(channel, &server_write, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.retry_after_ms, 2 * LONG_MS);
    assert_one_call(server, 1, "a");
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- what all tries together say ------------------------------------------------ */

/* promise W17 */
TEST(one_lost_try_makes_the_call_maybe)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
    server_set_status(server, (server_status){LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, 0});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
    run(channel, &server_write, "a", NULL, NULL, &error);
    assert_error(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_MAYBE);
    assert_one_call(server, 2, "a");
    lks_channel_close(channel);
    server_stop(server);
}

/* A response may be a refusal, which says nothing of the try before it. */
TEST(a_response_after_a_lost_try_tells_of_it)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;

    assert_int_equal(run(channel, &server_write, "a", NULL, NULL, &error), LKS_OK);
    assert_error(&error, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    server_add_fault(server, (server_fault){SERVER_CLOSES, 0, 1});
    assert_int_equal(run(channel, &server_write, "b", NULL, NULL, &error), LKS_OK);
    assert_error(&error, LKS_OK, LKS_APPLIED_MAYBE);
    assert_string_equal(error.message, "");
    lks_channel_close(channel);
    server_stop(server);
}

TEST(a_server_that_never_answers_makes_it_maybe_at_the_deadline)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_add_fault(server, (server_fault){SERVER_DROPS_REPLY, 0, UINT32_MAX});
    run(channel, &server_write, "a", &(lks_call_options){.timeout_ms = 500}, NULL, &error);
    assert_error(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_in_range(server_seen(server), 2, 10);
    assert_one_call(server, server_seen(server), "a");
    lks_channel_close(channel);
    server_stop(server);
}

/* A server waits a second for its store before it says that there is none. However often
 * it is asked, each try is heard to its end, and the call says what they said. */
/* promise CH1 */
TEST(refusals_that_come_late_are_heard)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.timeout_ms = 5000});
    lks_error error;
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0});
    server_add_fault(server, (server_fault){SERVER_FAILS_LATE, 0, UINT32_MAX});
    run(channel, &server_write, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.origin, LKS_ORIGIN_PEER);
    assert_string_equal(error.message, "scripted");
    assert_in_range(server_seen(server), 2, 4);
    lks_channel_close(channel);
    server_stop(server);
}

/* promise CH1: a refusal that comes late is heard; every try NO is NO; a lost answer tells what was said before */
TEST(what_was_said_before_is_told_with_a_lost_answer)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
    server_add_fault(server, (server_fault){SERVER_DROPS_REPLY, 0, UINT32_MAX});
    run(channel, &server_write, "a", &(lks_call_options){.timeout_ms = 300}, NULL, &error);
    assert_error(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_non_null(strstr(error.message, "no answer"));
    assert_non_null(strstr(error.message, "; before that: scripted"));
    lks_channel_close(channel);
    server_stop(server);
}

TEST(replies_that_are_none_are_internal)
{
    static const server_fault_kind kinds[] = {SERVER_SENDS_GARBAGE, SERVER_SENDS_NO_RESULT, SERVER_SENDS_BAD_TEXT};
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        server_add_fault(server, (server_fault){kinds[i], 0, 1});
        run(channel, &server_write, "a", NULL, NULL, &error);
        assert_error(&error, LKS_INTERNAL, LKS_APPLIED_MAYBE);
        assert_one_call(server, i + 1, "a");
    }
    assert_int_equal(run(channel, &server_write, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

/* libnng closes such a connection: for the call it is a lost one. */
TEST(a_reply_over_the_limit_is_a_lost_one)
{
    static const server_fault_kind kinds[] = {SERVER_SENDS_HUGE, SERVER_CLAIMS_HUGE};
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        server_add_fault(server, (server_fault){kinds[i], 0, 1});
        run(channel, &server_plain, "a", NULL, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    }
    assert_int_equal(run(channel, &server_plain, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- what never left ------------------------------------------------------------ */

/* A server that does not read: what fits into the sockets on the way may have reached
 * it, what libnng could not give to the connection has not, and will not. */
TEST(what_no_connection_took_was_not_applied)
{
    enum { CALLS = 40, BYTES = 900000 };
    static uint8_t ballast[BYTES];
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness calls[CALLS];
    char ids[CALLS][8];
    size_t no = 0, maybe = 0;
    assert_int_equal(run(channel, &server_read, "", NULL, NULL, NULL), LKS_OK);
    server_read_on(server, false);
    for (size_t i = 0; i < CALLS; i++) {
        ping_request request = ping(ids[i]);

        snprintf(ids[i], sizeof ids[i], "%zu", i);
        request.ballast = (ProtobufCBinaryData){.len = BYTES, .data = ballast};
        memset(&calls[i], 0, sizeof calls[i]);
        assert_int_equal(lks_call_start(channel, &server_plain, &request.base, &(lks_call_options){.timeout_ms = 1500},
                                        see, NULL, &calls[i], &calls[i].call, NULL),
                         LKS_OK);
    }
    for (size_t i = 0; i < CALLS; i++)
        assert_int_not_equal(lks_call_wait(calls[i].call, NULL), LKS_OK);
    server_read_on(server, true);
    lks_channel_close(channel);
    assert_true(server_settle(server));
    for (size_t i = 0; i < CALLS; i++) {
        no += calls[i].error.applied == LKS_APPLIED_NO;
        maybe += calls[i].error.applied == LKS_APPLIED_MAYBE;
        if (calls[i].error.applied == LKS_APPLIED_NO)
            assert_int_equal(server_count(server, ids[i]), 0);
        lks_call_free(calls[i].call);
    }
    assert_int_equal(no + maybe, CALLS);
    assert_in_range(no, 1, CALLS - 1);
    server_stop(server);
}

/* ---- several servers ------------------------------------------------------------- */

static char *two_urls(struct server *first, struct server *second)
{
    static char urls[256];

    snprintf(urls, sizeof urls, "%s,%s", server_url(first), server_url(second));
    return urls;
}

TEST(calls_stay_with_a_server_until_it_dies)
{
    struct server *servers[2] = {server_start(0), server_start(0)};
    lks_channel *channel = open_channel(two_urls(servers[0], servers[1]), (lks_channel_options){0});
    struct witness calls[50];
    assert_int_equal(run(channel, &server_read, "which", NULL, NULL, NULL), LKS_OK);
    size_t used = server_seen(servers[0]) != 0 ? 0 : 1;
    struct server *dying = servers[used], *other = servers[1 - used];
    uint16_t port = server_port(dying);

    server_add_fault(dying, (server_fault){SERVER_HOLDS, 0, UINT32_MAX});
    for (size_t i = 0; i < 50; i++)
        start(channel, &server_write, "a", NULL, &calls[i]);
    assert_true(server_await(dying, 51));
    assert_int_equal(server_seen(other), 0);
    server_stop(dying);
    for (size_t i = 0; i < 50; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_MAYBE);
    assert_int_equal(server_seen(other), 50);

    /* It comes back, and is not gone back to before the other one dies. */
    struct server *back = server_start(port);
    assert_non_null(back);
    assert_true(server_await_accepted(back, 1));
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(run(channel, &server_read, "b", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(back), 0);
    server_stop(other);
    assert_int_equal(run(channel, &server_read, "c", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(back), 1);
    lks_channel_close(channel);
    server_stop(back);
}

TEST(a_failed_try_goes_to_another_server)
{
    static const server_fault_kind kinds[] = {SERVER_DROPS_REPLY, SERVER_CLOSES, SERVER_FAILS};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct server *servers[2] = {server_start(0), server_start(0)};
        lks_channel *channel = open_channel(two_urls(servers[0], servers[1]), (lks_channel_options){0});

        for (size_t j = 0; j < 2; j++) {
            assert_true(server_await_accepted(servers[j], 1));
            server_set_status(servers[j], (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0});
        }
        assert_int_equal(run(channel, &server_read, "which", NULL, NULL, NULL), LKS_OK);
        size_t used = server_seen(servers[0]) != 0 ? 0 : 1;
        assert_int_equal(run(channel, &server_read, "same", NULL, NULL, NULL), LKS_OK);
        assert_int_equal(server_seen(servers[used]), 2);

        server_add_fault(servers[used], (server_fault){kinds[i], 0, UINT32_MAX});
        assert_int_equal(run(channel, &server_write, "a", NULL, NULL, NULL), LKS_OK);
        assert_int_equal(server_seen(servers[used]), 3);
        assert_int_equal(server_seen(servers[1 - used]), 1);
        assert_string_equal(server_request_at(servers[1 - used], 0).id, "a");
        lks_channel_close(channel);
        server_stop(servers[0]);
        server_stop(servers[1]);
    }
}

TEST(an_unreachable_server_is_passed_over)
{
    struct server *server = server_start(0), *gone = server_start(0);
    char urls[256];
    snprintf(urls, sizeof urls, "%s", two_urls(gone, server));
    server_stop(gone);
    lks_channel *channel = open_channel(urls, (lks_channel_options){0});
    assert_int_equal(run(channel, &server_plain, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(a_server_that_comes_late_is_found)
{
    struct server *server = server_start(0);
    uint16_t port = server_port(server);
    struct witness witness;
    char url[64];
    snprintf(url, sizeof url, "%s", server_url(server));
    server_stop(server);
    lks_channel *channel = open_channel(url, (lks_channel_options){0});
    start(channel, &server_plain, "a", NULL, &witness);
    server = server_start(port);
    assert_non_null(server);
    assert_ended(&witness, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_one_call(server, 1, "a");
    lks_channel_close(channel);
    server_stop(server);
}

TEST_MAIN()

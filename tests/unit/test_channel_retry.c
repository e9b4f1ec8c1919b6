/* Which calls are sent again, which never are, and their `applied`: NO for a call that reached no server, MAYBE for
 * one that may have reached one. */
/* promise C31: a message that was written when the connection ended is lost: MAYBE */
/* promise C33 */
#include "unit/channel_fixture.h"
#include "test.h"

static void assert_one_call(size_t tries, const char *id)
{
    assert_int_equal(server_seen(server), tries);
    for (size_t i = 0; i < tries; i++)
        assert_string_equal(server_request_at(server, i).id, id);
}

static void fault(server_fault_kind kind, uint32_t times)
{
    server_add_fault(server, (server_fault){kind, 0, times});
}

/* ---- calls that are sent again -------------------------------------------------------- */

/* promise CH4 */
/* promise GD22 */
/* promise W17 */
TEST(lost_reply_is_requested_again_with_the_same_id)
{
    static const server_fault_kind losses[] = {SERVER_DROPS_REPLY, SERVER_CLOSES};

    for (size_t i = 0; i < 2; i++) {
        ping_request request = ping("order-1");

        restart((lks_channel_options){0});
        request.fresh = true;
        fault(losses[i], 2);
        assert_int_equal(lks_call_run(channel, &server_write, &request.base, NULL, NULL, NULL), LKS_OK);
        assert_one_call(3, "order-1");
        assert_true(request.fresh);
        for (size_t try = 0; try < 3; try++) {
            assert_int_equal(server_request_at(server, try).fresh, try == 0);
            assert_int_equal(server_request_at(server, try).unanswered_before, try != 0);
        }
    }
}

TEST(an_empty_id_is_filled_in_and_kept_for_all_tries)
{
    ping_request request = LOCKSTOCK__TEST__PING_REQUEST__INIT;
    char *empty = request.id;

    fault(SERVER_CLOSES, 1);
    assert_int_equal(lks_call_run(channel, &server_filled, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_ptr_equal(request.id, empty);
    server_request first = server_request_at(server, 0);
    assert_int_equal(strlen(first.id), LKS_RPC_RANDOM_ID_LEN);
    assert_one_call(2, first.id);
    assert_int_equal(lks_call_run(channel, &server_filled, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_string_not_equal(server_request_at(server, 2).id, first.id);
}

/* promise GD22 */
/* promise W17 */
TEST(call_that_was_not_applied_is_repeated)
{
    fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 1, NULL}, 3);
    run_ok(&server_plain, "a");
    assert_one_call(4, "a");
    assert_false(server_request_at(server, 3).unanswered_before); /* each was answered: with NO */
}

/* promise CH40: a channel repeats no calls while half of its retry_tokens are spent, except those that insist */
TEST(a_channel_has_a_budget_of_repeated_tries)
{
    const server_status unavailable = {LKS_UNAVAILABLE, LKS_APPLIED_NO, 1, NULL};

    restart((lks_channel_options){.retry_tokens = 4});
    fail_calls(unavailable, 3);
    assert_int_equal(run(&server_plain, "a", NULL, NULL, NULL), LKS_UNAVAILABLE); /* 4 tokens, 3, 2 */
    assert_int_equal(server_seen(server), 2);
    assert_int_equal(run(&server_plain, "a", NULL, NULL, NULL), LKS_UNAVAILABLE);
    assert_int_equal(server_seen(server), 3);
    for (int i = 0; i < 20; i++)
        run_ok(&server_plain, "a"); /* 1 token, 3 */
    fail_calls(unavailable, 1);
    assert_int_equal(run(&server_plain, "a", NULL, NULL, NULL), LKS_UNAVAILABLE); /* 2 */
    fail_calls(unavailable, 2);
    assert_int_equal(run(&server_plain, "a", &(lks_call_options){.insist = true}, NULL, NULL), LKS_OK);
}

/* ---- spans ----------------------------------------------------------------------- */

static struct {
    char sent[3][64], parent[3][64];
    lks_code code[3];
    bool right;
    size_t n;
} tries;

static void on_try(void *arg, const lks_channel_try *ended)
{
    tries.right = tries.right && arg == &tries && ended->begin_ns > 0 && ended->begin_ns <= ended->end_ns &&
                  ended->number == tries.n + 1 && strcmp(ended->url, server_url(server)) == 0;
    snprintf(tries.sent[tries.n], sizeof tries.sent[0], "%s", ended->traceparent);
    snprintf(tries.parent[tries.n], sizeof tries.parent[0], "%s", ended->parent ? ended->parent : "");
    tries.code[tries.n++] = ended->error->code;
}

TEST(each_try_is_a_span_of_its_own)
{
    static const char given[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const lks_metadata trace = {"traceparent", given, sizeof given - 1};
    enum { TRACE_CHARS = 36 };

    for (int is_given = 0; is_given < 2; is_given++) {
        memset(&tries, 0, sizeof tries);
        tries.right = true;
        restart((lks_channel_options){.on_try = on_try, .on_try_arg = &tries});
        fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 1, NULL}, 1);
        fault(SERVER_CLOSES, 1);
        run(&server_read, "a", &(lks_call_options){.metadata = &trace, .n_metadata = is_given ? 1 : 0}, NULL, NULL);
        assert_int_equal(tries.n, 3);
        assert_true(tries.right);
        assert_int_equal(tries.code[0], LKS_UNAVAILABLE);
        assert_int_equal(tries.code[1], LKS_UNAVAILABLE);
        assert_int_equal(tries.code[2], LKS_OK);
        for (size_t i = 0; i < 3; i++) {
            assert_string_equal(tries.sent[i], server_request_at(server, i).traceparent);
            assert_string_equal(tries.parent[i], is_given ? given : "");
            assert_memory_equal(tries.sent[i], is_given ? given : tries.sent[0], TRACE_CHARS);
            assert_string_not_equal(tries.sent[i], i > 0 ? tries.sent[i - 1] : given);
            assert_string_equal(tries.sent[i] + strlen(given) - 3, "-01");
        }
    }
}

/* Only the field's option matters, not its name. */
/* promise CH4 */
TEST(field_without_the_option_is_sent_unchanged)
{
    ping_request request = ping("order-1");

    request.fresh = true;
    fault(SERVER_CLOSES, 1);
    assert_int_equal(lks_call_run(channel, &server_read, &request.base, NULL, NULL, NULL), LKS_OK);
    assert_one_call(2, "order-1");
    assert_true(server_request_at(server, 1).fresh);
}

/* promise CH3 */
TEST(refusal_is_final_unless_it_is_transient_and_the_call_insists)
{
    static const lks_code passing[] = {LKS_CANCELLED, LKS_UNKNOWN, LKS_DEADLINE_EXCEEDED, LKS_RESOURCE_EXHAUSTED,
                                       LKS_INTERNAL};
    lks_error error;

    for (int code = LKS_CANCELLED; code <= LKS_UNAUTHENTICATED; code++) {
        bool passes = false;

        if (code == LKS_UNAVAILABLE)
            continue;
        for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
            passes = passes || passing[i] == (lks_code)code;
        restart((lks_channel_options){0});
        fail_calls((server_status){(uint32_t)code, LKS_APPLIED_NO, 1, NULL}, 1);
        run(&server_write, "a", NULL, NULL, &error);
        assert_error(&error, (lks_code)code, LKS_APPLIED_NO);
        assert_int_equal(error.origin, LKS_ORIGIN_PEER);
        assert_string_equal(error.message, "scripted");
        assert_one_call(1, "a");
        fail_calls((server_status){(uint32_t)code, LKS_APPLIED_NO, 1, NULL}, passes ? 2 : 1);
        run_to(&server_write, "a", &(lks_call_options){.insist = true}, passes ? LKS_OK : (lks_code)code,
               passes ? LKS_APPLIED_UNSPECIFIED : LKS_APPLIED_NO);
        assert_one_call(passes ? 4 : 2, "a");
    }
    restart((lks_channel_options){0});
    fail_calls((server_status){LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, 1, NULL}, 1);
    run_to(&server_write, "a", &(lks_call_options){.insist = true}, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE);
    fail_calls((server_status){LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 0, "too_large"}, 1);
    run_to(&server_write, "b", &(lks_call_options){.insist = true}, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
}

/* ---- calls that are not --------------------------------------------------------------- */

/* promise W17: the client: a lost reply is asked for again if the call has a natural id or reads, else it is MAYBE;
 * one lost try makes the call MAYBE */
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
        restart(cases[i].channel);
        fault(SERVER_CLOSES, 1);
        fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_UNSPECIFIED, 0, NULL}, 1);
        run(cases[i].method, cases[i].id, &cases[i].options, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
        assert_int_equal(error.reason, LKS_REASON_CONNECTION_LOST);
        run(cases[i].method, cases[i].id, &cases[i].options, NULL, &error);
        assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        assert_int_equal(error.origin, LKS_ORIGIN_PEER);
        run_ok(&server_read, "last"); /* libnng repeats nothing on its own after the reconnect either */
        assert_int_equal(server_seen(server), 3);
        assert_string_equal(server_request_at(server, 2).id, "last");
    }
}

TEST(retry_after_beyond_the_deadline_is_not_retried)
{
    lks_error error;

    fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 2 * LONG_MS, NULL}, 1);
    run(&server_write, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.retry_after_ms, 2 * LONG_MS);
    assert_one_call(1, "a");
}

/* ---- what all tries together say ------------------------------------------------ */

/* promise W17 */
TEST(one_lost_try_makes_the_call_maybe)
{
    fault(SERVER_CLOSES, 1);
    fail_calls((server_status){LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, 0, NULL}, 1);
    run_to(&server_write, "a", NULL, LKS_INVALID_ARGUMENT, LKS_APPLIED_MAYBE);
    assert_one_call(2, "a");
    fault(SERVER_CLOSES, 1);
    run_to(&server_write, "b", NULL, LKS_OK, LKS_APPLIED_MAYBE); /* the response may be a refusal */
}

TEST(a_server_that_never_answers_makes_it_maybe_at_the_deadline)
{
    fault(SERVER_DROPS_REPLY, UINT32_MAX);
    run_to(&server_write, "a", &(lks_call_options){.timeout_ms = 500}, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_in_range(server_seen(server), 2, 10);
    assert_one_call(server_seen(server), "a");
}

/* promise W17 */
TEST(without_an_id_a_call_waits_for_its_answer)
{
    struct witness plain, write;

    hold(UINT32_MAX);
    start(&server_plain, "plain", NULL, &plain);
    assert_true(server_await(server, 1));
    start(&server_write, "write", NULL, &write);
    assert_true(server_await(server, 3)); /* the write was sent again, as `plain` would have been by then */
    server_release(server);
    assert_ok(&plain, 1);
    assert_ended(&write, LKS_OK, LKS_APPLIED_MAYBE);
}

/* A server waits a second for its store before it answers that there is none. Each try gets enough time for this. */
/* promise CH1 */
TEST(refusals_that_come_late_are_heard)
{
    lks_error error;

    reopen((lks_channel_options){.timeout_ms = 5000});
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0, NULL});
    fault(SERVER_FAILS_LATE, UINT32_MAX);
    run(&server_write, "a", NULL, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(error.origin, LKS_ORIGIN_PEER);
    assert_string_equal(error.message, "scripted");
    assert_in_range(server_seen(server), 2, 4);
}

/* promise CH1: late refusals are received; if every try is NO the call is NO; a lost answer keeps the earlier refusal
 * as its cause */
TEST(earlier_refusal_is_the_cause_of_a_lost_answer)
{
    lks_error error;

    fail_calls((server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0, NULL}, 1);
    fault(SERVER_DROPS_REPLY, UINT32_MAX);
    run(&server_write, "a", &(lks_call_options){.timeout_ms = 300}, NULL, &error);
    assert_error(&error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    assert_non_null(strstr(error.message, "no answer"));
    assert_non_null(strstr(error.message, "; before that: scripted"));
}

TEST(invalid_replies_are_internal_and_too_long_ones_are_lost)
{
    static const struct {
        server_fault_kind kind;
        lks_code code;
    } cases[] = {
        {SERVER_SENDS_GARBAGE, LKS_INTERNAL},  {SERVER_SENDS_NO_RESULT, LKS_INTERNAL},
        {SERVER_SENDS_BAD_TEXT, LKS_INTERNAL}, {SERVER_SENDS_HUGE, LKS_UNAVAILABLE},
        {SERVER_CLAIMS_HUGE, LKS_UNAVAILABLE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fault(cases[i].kind, 1);
        run_to(&server_plain, "a", NULL, cases[i].code, LKS_APPLIED_MAYBE);
        assert_one_call(i + 1, "a");
    }
    run_ok(&server_plain, "a");
}

/* ---- what never left ------------------------------------------------------------ */

/* A server that does not read: the kernel takes some messages, a part of one, and none of the others. What is taken
 * back was not seen. A half written message is ended, or what comes behind it would be read as its rest. */
/* promise C30: a half written message is finished; a message that was not begun is taken back and NO */
TEST(a_half_written_message_is_ended)
{
    enum { CALLS = 40, BYTES = 900000 };
    static uint8_t ballast[BYTES];
    struct witness calls[CALLS];
    size_t no = 0;
    char ids[CALLS][8];

    run_ok(&server_read, "first");
    server_read_on(server, false);
    for (size_t i = 0; i < CALLS; i++) {
        ping_request request = ping(ids[i]);

        snprintf(ids[i], sizeof ids[i], "%zu", i);
        request.ballast = (ProtobufCBinaryData){.len = BYTES, .data = ballast};
        start_request(&server_write, &request, i % 2 == 0 ? NULL : &(lks_call_options){.timeout_ms = 300}, &calls[i]);
    }
    for (size_t i = 1; i < CALLS; i += 2)
        assert_int_not_equal(lks_call_wait(calls[i].call, NULL), LKS_OK);
    for (size_t i = 0; i < CALLS; i += 2)
        lks_call_cancel(calls[i].call);
    for (size_t i = 0; i < CALLS; i += 2)
        assert_int_equal(lks_call_wait(calls[i].call, NULL), LKS_CANCELLED);
    server_read_on(server, true);
    run_ok(&server_plain, "after"); /* which comes behind many bytes */
    close_channel();
    assert_true(server_settle(server));
    for (size_t i = 0; i < CALLS; i++) {
        no += calls[i].error.applied == LKS_APPLIED_NO;
        assert_true(calls[i].error.applied == LKS_APPLIED_NO ? server_count(server, ids[i]) == 0
                                                             : calls[i].error.applied == LKS_APPLIED_MAYBE);
        lks_call_free(calls[i].call);
    }
    assert_in_range(no, 1, CALLS - 1);
}

/* ---- several servers ------------------------------------------------------------- */

static struct server *servers[2], *used, *other;

static void open_both_with(lks_channel_options options)
{
    char urls[256];

    close_channel();
    for (size_t i = 0; i < 2; i++)
        servers[i] = server_start(0);
    snprintf(urls, sizeof urls, "%s,%s", server_url(servers[0]), server_url(servers[1]));
    channel = open_channel(urls, options);
    for (size_t i = 0; i < 2; i++)
        assert_true(server_await_accepted(servers[i], 1));
    run_ok(&server_read, "which");
    used = servers[server_seen(servers[0]) != 0 ? 0 : 1];
    other = servers[server_seen(servers[0]) != 0 ? 1 : 0];
}

static void open_both(void)
{
    open_both_with((lks_channel_options){0});
}

TEST(calls_stay_with_a_server_until_it_dies)
{
    struct witness calls[50];

    open_both();
    uint16_t port = server_port(used);
    server_add_fault(used, (server_fault){SERVER_HOLDS, 0, UINT32_MAX});
    for (size_t i = 0; i < 50; i++)
        start_waiting(&server_write, "a", &calls[i]); /* none of its tries times out */
    assert_true(server_await(used, 51));
    assert_int_equal(server_seen(other), 0);
    server_stop(used);
    assert_all(calls, 50, LKS_OK, LKS_APPLIED_MAYBE);
    assert_int_equal(server_seen(other), 50);

    struct server *back = server_start(port); /* no calls go to it before the other one ends */
    assert_non_null(back);
    assert_true(server_await_accepted(back, 1));
    for (size_t i = 0; i < 50; i++)
        run_ok(&server_read, "b");
    assert_int_equal(server_seen(back), 0);
    server_stop(other);
    assert_int_equal(run(&server_read, "c", NULL, NULL, NULL), LKS_OK);
    assert_int_equal(server_seen(back), 1);
    close_channel();
    server_stop(back);
}

/* promise CH41: calls go to the servers in turn, or to the one with the fewest calls */
TEST(a_policy_chooses_the_server)
{
    enum { N = 10 };
    struct witness calls[N];

    for (uint32_t policy = LKS_ROUND_ROBIN; policy <= LKS_LEAST_IN_FLIGHT; policy++) {
        open_both_with((lks_channel_options){.policy = policy});
        while (server_seen(other) == 0) /* the second connection may not be ready yet */
            run_ok(&server_read, "b");
        const size_t u = server_seen(used), o = server_seen(other);
        for (size_t i = 0; i < 2 * N; i++)
            run_ok(&server_read, "b");
        assert_int_equal(server_seen(used), u + N);
        assert_int_equal(server_seen(other), o + N);
        server_add_fault(used, (server_fault){SERVER_HOLDS, 0, N / 2});
        server_add_fault(other, (server_fault){SERVER_HOLDS, 0, N / 2});
        for (size_t i = 0; i < N; i++) /* each in a message of its own */
            start_waiting(&server_write, i % 2 == 0 ? "even" : "odd", &calls[i]);
        assert_true(server_await(used, u + N + N / 2));
        assert_true(server_await(other, o + N + N / 2));
        bool evens_wait = strcmp(server_request_at(used, u + N).id, "even") == 0;
        for (size_t i = evens_wait ? 1 : 0; i < N; i += 2) {
            lks_call_cancel(calls[i].call);
            assert_int_equal(lks_call_wait(calls[i].call, NULL), LKS_CANCELLED);
        }
        for (size_t i = 0; i < N; i++) /* `used` has calls that wait, `other` has none */
            run_ok(&server_read, "b");
        assert_int_equal(server_seen(used), u + (policy == LKS_ROUND_ROBIN ? 2 * N : N + N / 2));
        close_channel();
        for (size_t i = 0; i < N; i++)
            lks_call_free(calls[i].call);
        server_stop(used);
        server_stop(other);
    }
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    lks_channel_state state;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_state(void *arg, lks_channel_state state)
{
    pthread_mutex_lock(&told.lock);
    told.state = state;
    pthread_cond_broadcast(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static void await_state(lks_channel_state state)
{
    pthread_mutex_lock(&told.lock);
    while (told.state != state)
        pthread_cond_wait(&told.changed, &told.lock);
    pthread_mutex_unlock(&told.lock);
    assert_int_equal(lks_channel_get_state(channel), state);
}

/* promise CH42: a channel says whether a server is connected, and when that changes */
TEST(channel_reports_its_state)
{
    restart((lks_channel_options){.on_state = on_state});
    await_state(LKS_CHANNEL_READY);
    uint16_t port = server_port(server);
    server_stop(server);
    await_state(LKS_CHANNEL_UNREACHABLE);
    server = server_start(port);
    await_state(LKS_CHANNEL_READY);
}

TEST(a_failed_try_goes_to_another_server)
{
    static const server_fault_kind kinds[] = {SERVER_DROPS_REPLY, SERVER_CLOSES, SERVER_FAILS};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        open_both();
        server_set_status(used, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 0, NULL});
        run_ok(&server_read, "same");
        assert_int_equal(server_seen(used), 2);
        server_add_fault(used, (server_fault){kinds[i], 0, UINT32_MAX});
        assert_int_equal(run(&server_write, "a", NULL, NULL, NULL), LKS_OK);
        assert_int_equal(server_seen(used), 3);
        assert_int_equal(server_seen(other), 1);
        assert_string_equal(server_request_at(other, 0).id, "a");
        server_stop(used);
        server_stop(other);
    }
}

/* Also when that one comes up only while the call waits for its next try. */
TEST(a_failed_try_goes_to_a_server_that_comes_up_meanwhile)
{
    struct server *late = server_start(0);
    uint16_t port = server_port(late);
    struct witness call;
    char urls[256];

    snprintf(urls, sizeof urls, "%s,%s", server_url(server), server_url(late));
    server_stop(late);
    close_channel();
    channel = open_channel(urls, (lks_channel_options){0});
    server_set_status(server, (server_status){LKS_UNAVAILABLE, LKS_APPLIED_NO, 2000, NULL});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
    start(&server_write, "a", NULL, &call);
    assert_true(server_await(server, 1));
    late = server_start(port);
    assert_non_null(late);
    assert_true(server_await_accepted(late, 1));
    assert_done(&call, 1);
    assert_int_equal(server_seen(late), 1);
    assert_int_equal(server_seen(server), 1);
    close_channel();
    server_stop(late);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)

/* Calls that share a message: which do, which do not, and that each keeps its own answer, error, place and end. The
 * server counts messages. */
/* promise CH18: each call of a message has its own answer, error, deadline, metadata and end; a lost connection is
 * reported to each */
#include "unit/channel_fixture.h"
#include "test.h"

enum {
    FRAMES = 4,
    FRAME_CALLS = 64,
    FRAME_BYTES = 16 * 1024
}; /* as client/wire/connection.c and request.h have them */

static struct witness first[FRAMES];

/* Calls that the server holds, each in a message of its own, as many as may be under way before others gather. */
static void fill(void)
{
    char id[48];

    hold(UINT32_MAX);
    for (size_t i = 0; i < FRAMES; i++) {
        snprintf(id, sizeof id, "first-%zu", i);
        start(&server_shared_plain, id, NULL, &first[i]);
        assert_true(server_await(server, i + 1));
    }
    assert_int_equal(server_frames(server), FRAMES);
}

/* A call that shares no message goes out after those that were started before it, if these can go. */
static void pass_by(void)
{
    struct witness call;
    size_t seen = server_seen(server);

    start(&server_plain, "by", NULL, &call);
    assert_true(server_await(server, seen + 1));
    assert_string_equal(server_request_at(server, seen).id, "by");
    lks_call_cancel(call.call);
    assert_ended(&call, LKS_CANCELLED, LKS_APPLIED_MAYBE);
}

static void cancel(struct witness *call, lks_applied applied)
{
    lks_call_cancel(call->call);
    assert_ended(call, LKS_CANCELLED, applied);
}

/* ---- which calls share ------------------------------------------------------------------- */

/* promise CH15 */
TEST(a_call_on_an_idle_channel_goes_at_once)
{
    fill(); /* none was answered */
    server_release(server);
    assert_ok(first, FRAMES);
}

/* promise CH15 */
TEST(calls_gather_while_frames_are_under_way)
{
    enum { N = 2 * FRAME_CALLS + 10 };
    struct witness calls[N];

    fill();
    start_many(&server_shared_plain, "then", calls, N);
    pass_by();
    size_t frames = server_frames(server);
    server_release(server);
    assert_ok(first, FRAMES);
    assert_ok(calls, N);
    assert_int_equal(server_frames(server), frames + 3);
    for (size_t i = 0; i < N; i++) { /* in their order */
        server_request request = server_request_at(server, FRAMES + 1 + i);
        assert_string_equal(request.id, calls[i].asked);
        assert_int_equal(request.frame, frames + i / FRAME_CALLS);
    }
}

/* promise CH15: calls gather while four messages of their kind are in flight, at most 64 calls and 16 KiB, in order;
 * with fewer in flight no call waits for others */
TEST(calls_that_gather_respect_the_bytes_of_a_frame)
{
    enum { N = 8, BYTES = 3000 };
    static uint8_t ballast[FRAME_BYTES];
    ping_request heavy = ping("heavy"), longer = ping("long");
    struct witness calls[N], alone;

    heavy.ballast = (ProtobufCBinaryData){.len = BYTES, .data = ballast};
    longer.ballast = (ProtobufCBinaryData){.len = FRAME_BYTES, .data = ballast};
    fill();
    for (int i = 0; i < N; i++)
        start_request(&server_shared_plain, &heavy, NULL, &calls[i]);
    start_request(&server_shared_plain, &longer, NULL, &alone); /* too long to share, so it does not wait for a frame */
    assert_true(server_await(server, FRAMES + 1));
    assert_string_equal(server_request_at(server, FRAMES).id, "long");
    server_release(server);
    assert_ok(&alone, 1);
    assert_ok(calls, N);
    assert_ok(first, FRAMES);
    assert_int_equal(server_frames(server), FRAMES + 1 + 2);
    assert_int_equal(server_request_at(server, FRAMES + 5).frame, FRAMES + 1);
    assert_int_equal(server_request_at(server, FRAMES + 6).frame, FRAMES + 2);
}

/* A method without the option, a call that waits at the server, and one that may not be sent twice: it may have to be,
 * when the answers to others fill the reply. */
/* promise CH16 */
TEST(some_calls_travel_alone)
{
    enum { N = 3 };
    const lks_call_options once = {.no_retry = true, .timeout_ms = LONG_MS};
    struct witness plain[N], single[N], waiting[N];

    fill();
    for (size_t i = 0; i < N; i++) {
        start_waiting(&server_shared_plain, "waits", &waiting[i]);
        start(&server_plain, "plain", NULL, &plain[i]);
        start(&server_shared_plain, "single", &once, &single[i]);
    }
    assert_true(server_await(server, FRAMES + 3 * N));
    assert_int_equal(server_frames(server), FRAMES + 3 * N);
    server_release(server);
    assert_ok(waiting, N);
    assert_ok(plain, N);
    assert_ok(single, N);
    assert_ok(first, FRAMES);
}

/* A full server runs these first: they do not wait for the answers to others. */
/* promise CH16 */
TEST(settling_calls_share_frames_only_with_settling_calls)
{
    enum { N = 3 };
    struct witness calls[N], settling[FRAMES], gathered[N];

    fill();
    start_many(&server_shared_plain, "then", calls, N);
    for (size_t i = 0; i < FRAMES; i++) {
        start(&server_shared_settling, "settles", NULL, &settling[i]);
        assert_true(server_await(server, FRAMES + i + 1));
    }
    assert_int_equal(server_frames(server), 2 * FRAMES);
    start_many(&server_shared_settling, "gathers", gathered, N);
    pass_by();
    server_release(server);
    assert_ok(first, FRAMES);
    assert_ok(calls, N);
    assert_ok(settling, FRAMES);
    assert_ok(gathered, N);
    assert_int_equal(server_frames(server), 2 * FRAMES + 1 + 2);
}

/* A channel that takes only short answers does not know how long those of a message are together. */
/* promise CH16: calls that wait, that may not be repeated, or that are long travel alone, and so do calls of methods
 * without the option and of channels with short messages; calls that settle travel together */
TEST(channel_with_a_small_message_limit_shares_no_frames)
{
    struct witness calls[3 * FRAMES];

    reopen((lks_channel_options){.message_bytes_max = 100000});
    hold(UINT32_MAX);
    start_many(&server_shared_plain, "then", calls, 3 * FRAMES);
    assert_true(server_await(server, 3 * FRAMES));
    assert_int_equal(server_frames(server), 3 * FRAMES);
    server_release(server);
    assert_ok(calls, 3 * FRAMES);
}

/* promise CH17: room is counted in calls, not in messages */
TEST(the_room_of_a_connection_is_counted_in_calls)
{
    enum { ROOM = FRAMES + 5, N = 9 };
    struct witness calls[N], by, waiting;

    reopen((lks_channel_options){.in_flight_max = ROOM});
    fill();
    start_many(&server_shared_plain, "then", calls, N);
    cancel(&first[0], LKS_APPLIED_MAYBE); /* makes room for a frame of 6 calls, which fills the connection */
    assert_true(server_await(server, FRAMES + 6));
    assert_int_equal(server_frames(server), FRAMES + 1);
    start(&server_plain, "by", NULL, &by);
    start_waiting(&server_write, "waits", &waiting);
    assert_true(server_await(server, FRAMES + 7));
    assert_int_equal(server_count(server, "by"), 0);
    cancel(&calls[0], LKS_APPLIED_MAYBE); /* its place is free, its frame is under way */
    assert_true(server_await(server, FRAMES + 8));
    assert_int_equal(server_count(server, "by"), 1);
    assert_int_equal(server_frames(server), FRAMES + 3);
    server_release(server);
    assert_ok(&waiting, 1);
    assert_ok(first + 1, FRAMES - 1);
    assert_ok(calls + 1, N - 1);
    assert_ok(&by, 1);
}

/* ---- each for itself ---------------------------------------------------------------- */

enum { N = 5 };

static struct witness calls[N];

/* N calls in one message; the server applies the fault to some of them. */
static void gather(const lks_rpc_method *method, server_fault fault)
{
    fault.after += FRAMES + 1;
    server_add_fault(server, fault);
    fill();
    start_many(method, "then", calls, N);
    pass_by();
    server_release(server);
    assert_ok(first, FRAMES);
}

TEST(an_error_is_that_calls_alone)
{
    server_set_status(server, (server_status){.code = LKS_ABORTED, .applied = LKS_APPLIED_NO});
    gather(&server_shared_plain, (server_fault){SERVER_FAILS, 2, 1});
    assert_ok(calls, 2);
    assert_ended(&calls[2], LKS_ABORTED, LKS_APPLIED_NO);
    assert_ok(calls + 3, N - 3);
    assert_int_equal(server_frames(server), FRAMES + 2);
}

TEST(lost_connection_ends_or_repeats_each_call_of_a_frame)
{
    gather(&server_shared_plain, (server_fault){SERVER_CLOSES, 0, N}); /* these may not be repeated */
    assert_all(calls, N, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    restart((lks_channel_options){0});
    gather(&server_shared, (server_fault){SERVER_CLOSES, 0, N});
    assert_all(calls, N, LKS_OK, LKS_APPLIED_MAYBE);
    assert_int_equal(server_seen(server), FRAMES + 1 + 2 * N);
}

TEST(an_answer_to_none_or_to_all_is_each_ones)
{
    static const server_fault_kind kinds[] = {SERVER_SENDS_GARBAGE, SERVER_SENDS_NO_RESULT, SERVER_REFUSES_FRAME};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool refused = kinds[k] == SERVER_REFUSES_FRAME;

        restart((lks_channel_options){0});
        server_set_status(server, (server_status){.code = LKS_UNIMPLEMENTED, .applied = LKS_APPLIED_NO});
        gather(&server_shared_plain, (server_fault){kinds[k], 0, N});
        assert_all(calls, N, refused ? LKS_UNIMPLEMENTED : LKS_INTERNAL, refused ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE);
    }
}

/* The answers to others filled the reply. A server without room names a time, and is left alone. */
/* promise CH19: a call refused for lack of room in a shared reply is tried again alone, once, unless the server names
 * a time or the call might run twice */
TEST(a_call_without_room_among_others_is_tried_alone)
{
    static const struct {
        const lks_rpc_method *method;
        server_status status;
        bool again;
    } cases[] = {
        {&server_shared, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, 0, NULL}, true},
        {&server_shared_plain, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 0, NULL}, true},
        {&server_shared_plain, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, 0, NULL}, false},
        {&server_shared, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 100, NULL}, false},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lks_applied told = (lks_applied)cases[c].status.applied;

        restart((lks_channel_options){0});
        server_set_status(server, cases[c].status);
        gather(cases[c].method, (server_fault){SERVER_FAILS, 0, N});
        if (cases[c].again)
            assert_all(calls, N, LKS_OK, told == LKS_APPLIED_YES ? told : LKS_APPLIED_UNSPECIFIED);
        else
            assert_all(calls, N, LKS_RESOURCE_EXHAUSTED, told);
        assert_int_equal(server_frames(server), FRAMES + 2 + (cases[c].again ? N : 0));
    }
}

/* promise CH19 */
TEST(no_room_alone_is_an_answer)
{
    fail_calls((server_status){.code = LKS_RESOURCE_EXHAUSTED, .applied = LKS_APPLIED_NO}, 1);
    run_to(&server_shared, "a", NULL, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(server_seen(server), 1);
}

TEST(one_of_a_frame_is_cancelled_or_late)
{
    const lks_call_options soon = {.timeout_ms = 100};
    struct witness late;

    fill();
    start_many(&server_shared_plain, "then", calls, N);
    start(&server_shared_plain, "late", &soon, &late);
    cancel(&first[0], LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + N + 1));
    assert_int_equal(server_frames(server), FRAMES + 1);
    cancel(&calls[0], LKS_APPLIED_MAYBE);
    assert_ended(&late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    server_release(server);
    assert_ok(calls + 1, N - 1);
    assert_ok(first + 1, FRAMES - 1);
}

/* No call takes the answer, and the place of the frame is free at once. */
TEST(all_of_a_frame_are_cancelled)
{
    struct witness next;

    fill();
    start_many(&server_shared_plain, "then", calls, N);
    cancel(&first[0], LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + N));
    for (size_t i = 0; i < N; i++)
        cancel(&calls[i], LKS_APPLIED_MAYBE);
    start(&server_shared_plain, "next", NULL, &next);
    assert_true(server_await(server, FRAMES + N + 1));
    server_release(server);
    assert_ok(&next, 1);
    assert_ok(first + 1, FRAMES - 1);
}

/* The message that brought it first. */
static size_t frame_of(const char *id)
{
    for (size_t i = 0; i < server_seen(server); i++)
        if (strcmp(server_request_at(server, i).id, id) == 0)
            return server_request_at(server, i).frame;
    fail_msg("%s was not seen", id);
    return 0;
}

/* The server reads nothing, so the kernel takes some messages and not that of these calls. The cancelled one was never
 * sent; the others are, without it. */
TEST(a_frame_is_taken_back_for_one_of_its_calls)
{
    enum { HEAVY = 16, BALLAST = 900000 };
    static uint8_t ballast[BALLAST];
    const lks_call_options once = {.no_retry = true, .timeout_ms = LONG_MS};
    ping_request request = ping("heavy");
    struct witness heavy[HEAVY];

    request.ballast = (ProtobufCBinaryData){.len = BALLAST, .data = ballast};
    fill();
    server_read_on(server, false);
    for (int i = 0; i < HEAVY; i++)
        start_request(&server_plain, &request, &once, &heavy[i]);
    start_many(&server_shared_plain, "then", calls, N);
    cancel(&first[0], LKS_APPLIED_MAYBE);
    cancel(&calls[0], LKS_APPLIED_NO);
    server_read_on(server, true);
    assert_true(server_await(server, FRAMES + HEAVY + N - 1));
    server_release(server);
    assert_ok(calls + 1, N - 1);
    for (size_t i = 2; i < N; i++)
        assert_int_equal(frame_of(calls[i].asked), frame_of("then-1"));
    assert_ok(heavy, HEAVY);
    assert_ok(first + 1, FRAMES - 1);
    assert_int_equal(server_count(server, "then-0"), 0);
}

TEST(each_call_of_a_frame_is_its_own)
{
    const lks_metadata other = {"lockstock-namespace", "other", 5};
    const lks_call_options options = {.timeout_ms = 7000, .metadata = &other, .n_metadata = 1};
    struct witness last;

    reopen((lks_channel_options){.ns = "mine"});
    fill();
    start_many(&server_shared_plain, "then", calls, 2);
    start(&server_shared_plain, "last", &options, &last);
    pass_by();
    server_release(server);
    assert_ok(first, FRAMES);
    assert_ok(calls, 2);
    assert_ok(&last, 1);
    assert_int_equal(server_frames(server), FRAMES + 2);
    server_request theirs = server_request_at(server, FRAMES + 2), its = server_request_at(server, FRAMES + 3);
    assert_string_equal(theirs.ns, "mine");
    assert_string_equal(its.ns, "other");
    assert_string_equal(its.method, server_shared_plain.path);
    assert_in_range(its.timeout_ms, 1, 7000);
    assert_in_range(theirs.timeout_ms, 7001, LONG_MS);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)

/* Calls that share a message: which do, which do not, and that each keeps what it has alone: its
 * answer, its error, its place, its end. The server counts messages. */
/* promise CH18: each call of a message has its own answer, error, deadline, metadata and end; a lost connection is
 * told to each */
#include "unit/channel_fixture.h"
#include "test.h"

enum { FRAMES = 4, FRAME_CALLS = 64 }; /* as client/wire/connection.c has them */

/* Calls that the server holds, each alone in its message, as many as may be under way before
 * others gather. */
static void fill(lks_channel *channel, struct server *server, const lks_rpc_method *method,
                 struct witness first[FRAMES])
{
    char id[48];

    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, UINT32_MAX});
    for (size_t i = 0; i < FRAMES; i++) {
        snprintf(id, sizeof id, "first-%zu", i);
        start(channel, method, id, NULL, &first[i]);
        assert_true(server_await(server, i + 1));
    }
    assert_int_equal(server_frames(server), FRAMES);
}

static void start_all(lks_channel *channel, const lks_rpc_method *method, struct witness *calls, size_t n)
{
    char id[48];

    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "then-%zu", i);
        start(channel, method, id, NULL, &calls[i]);
    }
}

/* A call that may not share a message goes out after those that were started before it, if these can go. */
static void pass_by(lks_channel *channel, struct server *server)
{
    struct witness call;
    size_t seen = server_seen(server);

    start(channel, &server_write, "by", NULL, &call);
    assert_true(server_await(server, seen + 1));
    assert_string_equal(server_request_at(server, seen).id, "by");
    lks_call_cancel(call.call);
    assert_ended(&call, LKS_CANCELLED, LKS_APPLIED_MAYBE);
}

static void assert_all_ok(struct witness *calls, size_t n, const char *prefix, lks_applied before)
{
    char id[48];

    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "%s-%zu", prefix, i);
        assert_ended(&calls[i], LKS_OK, before);
        assert_string_equal(calls[i].id, id);
    }
}

static void assert_all_ended(struct witness *calls, size_t n, const char *prefix)
{
    assert_all_ok(calls, n, prefix, LKS_APPLIED_UNSPECIFIED);
}

/* promise CH15 */
TEST(a_call_on_an_idle_channel_goes_at_once)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES];
    fill(channel, server, &server_shared, first); /* none was answered */
    server_release(server);
    assert_all_ended(first, FRAMES, "first");
    lks_channel_close(channel);
    server_stop(server);
}

/* promise CH15 */
TEST(calls_gather_while_frames_are_under_way)
{
    enum { N = 2 * FRAME_CALLS + 10 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N];
    fill(channel, server, &server_shared, first);
    start_all(channel, &server_shared, calls, N);
    pass_by(channel, server); /* so they could have gone */
    size_t frames = server_frames(server);
    server_release(server);
    assert_all_ended(first, FRAMES, "first");
    assert_all_ended(calls, N, "then");
    assert_int_equal(server_frames(server), frames + 3);
    /* In their order. */
    for (size_t i = 0; i < N; i++) {
        server_request request = server_request_at(server, FRAMES + 1 + i);
        assert_string_equal(request.id, calls[i].id);
        assert_int_equal(request.frame, frames + i / FRAME_CALLS);
    }
    lks_channel_close(channel);
    server_stop(server);
}

/* promise CH15: calls gather while four messages of their kind are under way, at most 64 and 16 KiB of them, in their
 * order; none waits for others while fewer are */
TEST(what_gathers_keeps_to_the_bytes_of_a_frame)
{
    enum { N = 8, BYTES = 3000, FRAME_BYTES = 16 * 1024 };
    static uint8_t ballast[FRAME_BYTES];
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N];
    fill(channel, server, &server_shared, first);
    ping_request request = ping("heavy");
    request.ballast = (ProtobufCBinaryData){.len = BYTES, .data = ballast};
    for (int i = 0; i < N; i++) {
        memset(&calls[i], 0, sizeof calls[i]);
        lks_code code =
            lks_call_start(channel, &server_shared, &request.base, NULL, see, NULL, &calls[i], &calls[i].call, NULL);
        assert_int_equal(code, LKS_OK);
    }
    /* One that is longer alone does not wait for room in one. */
    request = ping("long");
    request.ballast = (ProtobufCBinaryData){.len = FRAME_BYTES, .data = ballast};
    lks_call *call;
    assert_int_equal(lks_call_start(channel, &server_shared, &request.base, NULL, NULL, NULL, NULL, &call, NULL),
                     LKS_OK);
    assert_true(server_await(server, FRAMES + 1));
    assert_string_equal(server_request_at(server, FRAMES).id, "long");
    server_release(server);
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    lks_call_free(call);
    for (int i = 0; i < N; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_all_ended(first, FRAMES, "first");
    assert_int_equal(server_frames(server), FRAMES + 1 + 2);
    assert_int_equal(server_request_at(server, FRAMES + 5).frame, FRAMES + 1);
    assert_int_equal(server_request_at(server, FRAMES + 6).frame, FRAMES + 2);
    lks_channel_close(channel);
    server_stop(server);
}

/* Neither a method that does not say so, nor a call that waits at the server, nor one that may not be
 * sent twice, which it may have to be when others' answers fill the reply. */
/* promise CH16 */
TEST(some_calls_travel_alone)
{
    enum { N = 3 };
    const lks_call_options once = {.no_retry = true, .timeout_ms = LONG_MS};
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], plain[N], single[N];
    lks_call *waiting[N];
    char id[48];
    fill(channel, server, &server_shared, first);
    for (size_t i = 0; i < N; i++) {
        snprintf(id, sizeof id, "waits-%zu", i);
        ping_request request = ping(id);
        request.wait_ms = LONG_MS;
        assert_int_equal(
            lks_call_start(channel, &server_shared, &request.base, NULL, NULL, NULL, NULL, &waiting[i], NULL), LKS_OK);
        snprintf(id, sizeof id, "plain-%zu", i);
        start(channel, &server_write, id, NULL, &plain[i]);
        snprintf(id, sizeof id, "single-%zu", i);
        start(channel, &server_shared, id, &once, &single[i]);
    }
    assert_true(server_await(server, FRAMES + 3 * N));
    assert_int_equal(server_frames(server), FRAMES + 3 * N);
    server_release(server);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(lks_call_wait(waiting[i], NULL), LKS_OK);
        lks_call_free(waiting[i]);
    }
    assert_all_ended(plain, N, "plain");
    assert_all_ended(single, N, "single");
    assert_all_ended(first, FRAMES, "first");
    lks_channel_close(channel);
    server_stop(server);
}

/* A full server runs these first: they do not wait for the answers to others. */
/* promise CH16 */
TEST(what_settles_shares_with_its_like_only)
{
    enum { N = 3 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N], settling[FRAMES + N];
    char id[48];
    fill(channel, server, &server_shared, first);
    start_all(channel, &server_shared, calls, N);
    for (size_t i = 0; i < FRAMES; i++) {
        snprintf(id, sizeof id, "settles-%zu", i);
        start(channel, &server_shared_settling, id, NULL, &settling[i]);
        assert_true(server_await(server, FRAMES + i + 1));
    }
    assert_int_equal(server_frames(server), 2 * FRAMES);
    for (size_t i = FRAMES; i < FRAMES + N; i++) {
        snprintf(id, sizeof id, "settles-%zu", i);
        start(channel, &server_shared_settling, id, NULL, &settling[i]);
    }
    pass_by(channel, server);
    server_release(server);
    assert_all_ended(first, FRAMES, "first");
    assert_all_ended(calls, N, "then");
    assert_all_ended(settling, FRAMES + N, "settles");
    assert_int_equal(server_frames(server), 2 * FRAMES + 1 + 2);
    lks_channel_close(channel);
    server_stop(server);
}

/* A channel that takes only short answers does not know how long those of a message are together. */
/* promise CH16: no call travels with others that waits, may not be sent again or is long; nor one of a method that
 * does not say so, or of a channel of short messages; those that settle travel with their like */
TEST(a_channel_of_short_messages_shares_none)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.message_bytes_max = 100000});
    struct witness calls[3 * FRAMES];
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, UINT32_MAX});
    start_all(channel, &server_shared, calls, 3 * FRAMES);
    assert_true(server_await(server, 3 * FRAMES));
    assert_int_equal(server_frames(server), 3 * FRAMES);
    server_release(server);
    assert_all_ended(calls, 3 * FRAMES, "then");
    lks_channel_close(channel);
    server_stop(server);
}

/* As many calls as may be on a connection, however few messages they are in. */
/* promise CH17: room is counted in calls, however few messages they are in */
TEST(the_room_of_a_connection_is_counted_in_calls)
{
    enum { ROOM = FRAMES + 5, N = 9 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = ROOM});
    struct witness first[FRAMES], calls[N];
    fill(channel, server, &server_shared, first);
    start_all(channel, &server_shared, calls, N);
    lks_call_cancel(first[0].call); /* room for one frame, of 5 calls and the one that left */
    assert_ended(&first[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + 6));
    assert_int_equal(server_frames(server), FRAMES + 1);
    /* It is full but for calls that wait. */
    struct witness by;
    start(channel, &server_write, "by", NULL, &by);
    ping_request request = ping("waits");
    request.wait_ms = LONG_MS;
    lks_call *waiting;
    lks_call_start(channel, &server_write, &request.base, NULL, NULL, NULL, NULL, &waiting, NULL);
    bool waits_apart = strcmp(server_scheme(), "tcp") == 0;
    assert_true(server_await(server, FRAMES + 6 + waits_apart));
    assert_int_equal(server_count(server, "by"), 0);
    lks_call_cancel(calls[0].call); /* its place is free, its frame is under way */
    assert_ended(&calls[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + 7 + waits_apart));
    assert_int_equal(server_count(server, "by"), 1);
    assert_int_equal(server_frames(server), FRAMES + 2 + waits_apart);
    server_release(server);
    assert_int_equal(lks_call_wait(waiting, NULL), LKS_OK);
    lks_call_free(waiting);
    for (size_t i = 1; i < FRAMES; i++)
        assert_ended(&first[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    for (size_t i = 1; i < N; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_ended(&by, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

/* ---- each for itself ---------------------------------------------------------------- */

/* What becomes of N calls in one message that the server treats so. */
static void gather(lks_channel *channel, struct server *server, const lks_rpc_method *method, server_fault fault,
                   struct witness *calls, size_t n)
{
    struct witness first[FRAMES];

    fault.after += FRAMES;
    server_add_fault(server, fault);
    fill(channel, server, method, first);
    start_all(channel, method, calls, n);
    server_release(server);
    assert_all_ended(first, FRAMES, "first");
}

TEST(an_error_is_that_calls_alone)
{
    enum { N = 5 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness calls[N];
    server_set_status(server, (server_status){.code = LKS_ABORTED, .applied = LKS_APPLIED_NO});
    gather(channel, server, &server_shared, (server_fault){SERVER_FAILS, 2, 1}, calls, N);
    assert_ended(&calls[2], LKS_ABORTED, LKS_APPLIED_NO);
    assert_all_ended(calls, 2, "then");
    assert_ended(&calls[3], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_string_equal(calls[3].id, "then-3");
    assert_ended(&calls[4], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(server_frames(server), FRAMES + 1);
    lks_channel_close(channel);
    server_stop(server);
}

/* Calls that may not be repeated: each is told that nobody knows. */
TEST(a_lost_connection_is_told_to_each)
{
    enum { N = 5 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness calls[N];
    gather(channel, server, &server_shared_plain, (server_fault){SERVER_CLOSES, 0, N}, calls, N);
    for (size_t i = 0; i < N; i++)
        assert_ended(&calls[i], LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_int_equal(server_seen(server), FRAMES + N);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(after_a_lost_connection_each_is_tried_again)
{
    enum { N = 5 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness calls[N];
    gather(channel, server, &server_shared, (server_fault){SERVER_CLOSES, 0, N}, calls, N);
    assert_all_ok(calls, N, "then", LKS_APPLIED_MAYBE);
    assert_int_equal(server_seen(server), FRAMES + 2 * N);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(an_answer_to_none_or_to_all_is_each_ones)
{
    enum { N = 3 };
    static const server_fault_kind kinds[] = {SERVER_SENDS_GARBAGE, SERVER_SENDS_NO_RESULT, SERVER_REFUSES_FRAME};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool refused = kinds[k] == SERVER_REFUSES_FRAME;
        struct server *server = server_start(0);
        lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
        struct witness calls[N];
        server_set_status(server, (server_status){.code = LKS_UNIMPLEMENTED, .applied = LKS_APPLIED_NO});
        gather(channel, server, &server_shared, (server_fault){kinds[k], 0, N}, calls, N);
        for (size_t i = 0; i < N; i++)
            assert_ended(&calls[i], refused ? LKS_UNIMPLEMENTED : LKS_INTERNAL,
                         refused ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE);
        lks_channel_close(channel);
        server_stop(server);
    }
}

/* Its answer did not fit beside the others'. A server without room names a time, and is left alone. */
/* promise CH19: who finds no room among the others' answers is tried again alone, once, unless the server names a
 * time or it might run twice */
TEST(who_finds_no_room_among_others_is_tried_alone)
{
    enum { N = 3 };
    static const struct {
        const lks_rpc_method *method;
        server_status status;
        bool again;
    } cases[] = {
        {&server_shared, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, 0}, true},
        {&server_shared_plain, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 0}, true},
        {&server_shared_plain, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, 0}, false},
        {&server_shared, {LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 100}, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct server *server = server_start(0);
        lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
        struct witness calls[N];
        server_set_status(server, cases[c].status);
        gather(channel, server, cases[c].method, (server_fault){SERVER_FAILS, 0, N}, calls, N);
        for (size_t i = 0; i < N; i++)
            if (cases[c].again)
                assert_ended(&calls[i], LKS_OK,
                             cases[c].status.applied == LKS_APPLIED_YES ? LKS_APPLIED_YES : LKS_APPLIED_UNSPECIFIED);
            else
                assert_ended(&calls[i], LKS_RESOURCE_EXHAUSTED, (lks_applied)cases[c].status.applied);
        assert_int_equal(server_frames(server), FRAMES + 1 + (cases[c].again ? N : 0));
        lks_channel_close(channel);
        server_stop(server);
    }
}

/* Alone it is told so. */
/* promise CH19 */
TEST(no_room_alone_is_an_answer)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    lks_error error;
    server_set_status(server, (server_status){.code = LKS_RESOURCE_EXHAUSTED, .applied = LKS_APPLIED_NO});
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, 1});
    assert_int_equal(run(channel, &server_shared, "a", NULL, NULL, &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(server_seen(server), 1);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(one_of_a_frame_is_cancelled_or_late)
{
    enum { N = 5 };
    const lks_call_options soon = {.timeout_ms = 100};
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N], late;
    fill(channel, server, &server_shared_plain, first);
    start_all(channel, &server_shared_plain, calls, N);
    start(channel, &server_shared_plain, "late", &soon, &late);
    lks_call_cancel(first[0].call);
    assert_ended(&first[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + N + 1));
    assert_int_equal(server_frames(server), FRAMES + 1);
    lks_call_cancel(calls[1].call);
    assert_ended(&calls[1], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ended(&late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    server_release(server);
    for (size_t i = 0; i < N; i++)
        if (i != 1) {
            assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
            assert_string_not_equal(calls[i].id, "then-1");
        }
    for (size_t i = 1; i < FRAMES; i++)
        assert_ended(&first[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

/* When all of a frame are, its answer is nobody's. */
TEST(all_of_a_frame_are_cancelled)
{
    enum { N = 5 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N];
    fill(channel, server, &server_shared, first);
    start_all(channel, &server_shared, calls, N);
    lks_call_cancel(first[0].call);
    assert_ended(&first[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_true(server_await(server, FRAMES + N));
    for (size_t i = 0; i < N; i++) {
        lks_call_cancel(calls[i].call);
        assert_ended(&calls[i], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    }
    /* Its place is free: the next goes at once. */
    struct witness next;
    start(channel, &server_shared, "next", NULL, &next);
    assert_true(server_await(server, FRAMES + N + 1));
    server_release(server);
    assert_ended(&next, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_string_equal(next.id, "next");
    for (size_t i = 1; i < FRAMES; i++)
        assert_ended(&first[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
}

/* The server reads nothing, so the kernel takes some messages and not that of these calls. The one that is
 * cancelled was never sent; the others are, without it. */
/* The message that brought it first. */
static size_t frame_of(struct server *server, const char *id)
{
    for (size_t i = 0; i < server_seen(server); i++)
        if (strcmp(server_request_at(server, i).id, id) == 0)
            return server_request_at(server, i).frame;
    fail_msg("%s was not seen", id);
    return 0;
}

/* Its messages are so long that a try may end before they are read: what is counted holds also of calls sent twice. */
TEST(a_frame_is_taken_back_for_one_of_its_calls)
{
    const lks_call_options once = {.no_retry = true, .timeout_ms = LONG_MS};
    enum { N = 5, HEAVY = 16, BALLAST = 900000 };
    static uint8_t ballast[BALLAST];
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness first[FRAMES], calls[N];
    lks_call *heavy[HEAVY];
    fill(channel, server, &server_shared, first);
    server_read_on(server, false);
    ping_request request = ping("heavy");
    request.ballast = (ProtobufCBinaryData){.len = BALLAST, .data = ballast};
    for (int i = 0; i < HEAVY; i++)
        assert_int_equal(
            lks_call_start(channel, &server_plain, &request.base, &once, NULL, NULL, NULL, &heavy[i], NULL), LKS_OK);
    start_all(channel, &server_shared, calls, N);
    lks_call_cancel(first[0].call);
    assert_ended(&first[0], LKS_CANCELLED, LKS_APPLIED_MAYBE);
    lks_call_cancel(calls[1].call);
    assert_ended(&calls[1], LKS_CANCELLED, LKS_APPLIED_NO);
    server_read_on(server, true);
    assert_true(server_await(server, FRAMES + HEAVY + N - 1));
    server_release(server);
    for (size_t i = 0; i < N; i++)
        if (i != 1)
            assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    for (size_t i = 2; i < N; i++)
        assert_int_equal(frame_of(server, calls[i].id), frame_of(server, "then-0"));
    for (int i = 0; i < HEAVY; i++) {
        assert_int_equal(lks_call_wait(heavy[i], NULL), LKS_OK);
        lks_call_free(heavy[i]);
    }
    for (size_t i = 1; i < FRAMES; i++)
        assert_ended(&first[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(server_count(server, "then-1"), 0);
    lks_channel_close(channel);
    server_stop(server);
}

/* A call's metadata, its deadline and what it says of its tries are its own. */
TEST(each_call_of_a_frame_is_its_own)
{
    const lks_metadata other = {"lockstock-namespace", "other", 5};
    const lks_call_options options = {.timeout_ms = 7000, .metadata = &other, .n_metadata = 1};
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.ns = "mine"});
    struct witness first[FRAMES], calls[2], last;
    fill(channel, server, &server_shared, first);
    start_all(channel, &server_shared, calls, 2);
    start(channel, &server_shared_plain, "last", &options, &last);
    server_release(server);
    assert_all_ended(first, FRAMES, "first");
    assert_all_ended(calls, 2, "then");
    assert_ended(&last, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(server_frames(server), FRAMES + 1);
    server_request theirs = server_request_at(server, FRAMES + 1), its = server_request_at(server, FRAMES + 2);
    assert_string_equal(theirs.ns, "mine");
    assert_string_equal(its.ns, "other");
    assert_string_equal(its.method, server_shared_plain.path);
    assert_in_range(its.timeout_ms, 1, 7000);
    assert_in_range(theirs.timeout_ms, 7001, LONG_MS);
    lks_channel_close(channel);
    server_stop(server);
}

TEST_MAIN()

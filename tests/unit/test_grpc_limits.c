/* gRPC: windows, room and time that a peer has, and what becomes of who takes more. */
#include "grpc_scene.h"

/* ---- flow control, and peers that do not read --------------------------------------------- */

static bool is_held(void)
{
    return fake_callers.n_held > 0;
}

static bool is_free(void)
{
    return fake_callers.n_held == 0;
}

/* While a mebibyte waits, no call starts; what opens the windows is read nevertheless. */
/* promise CN6 */
TEST(answers_that_wait_hold_calls_back)
{
    enum { ANSWERS = 5, LEN = 250000 };
    start_with(NULL, 0);
    h2_peer *p = open_peer(3);
    for (size_t i = 0; i < ANSWERS; i++) {
        call_text(p, 'a');
        run_until_taken(i + 1);
        assert_false(is_held());
        succeed(i, LEN);
    }
    run_until(is_held);
    fake_caller_queues(here.taken[0].call.caller, true);
    h2_peer_allow(p, 0, 40000); /* of 64 KiB that the connection may have */
    turns(10);
    assert_true(is_held());
    h2_peer_reset(p, 1, NGHTTP2_CANCEL);
    run_until(is_free);
    fake_caller_queues(here.taken[0].call.caller, false);
    stop();
}

/* promise CN6 */
TEST(queued_peer_is_read_when_its_output_is_full)
{
    enum { ANSWERS = 5, LEN = 250000 };
    start_with(NULL, 0);
    h2_peer *p = open_peer(3);
    for (size_t i = 0; i < ANSWERS; i++)
        call_text(p, 'a');
    run_until_taken(ANSWERS);
    fake_caller_queues(here.taken[0].call.caller, true);
    h2_peer_ping(p);
    turns(10); /* it is not read any more */
    for (size_t i = 0; i < ANSWERS; i++)
        succeed(i, LEN);
    run_until(is_held);
    h2_peer_reset(p, 1, NGHTTP2_CANCEL);
    run_until(is_free);
    fake_caller_queues(here.taken[0].call.caller, false);
    stop();
}

/* The bytes of a connection are counted, and beyond its share its calls get errors; nothing else is lost. */
/* promise G6: bytes count on the connection's share as long as they are held; a running or waiting call of usual size
 * has its own place and does not count */
TEST(call_beyond_the_budget_is_refused)
{
    static const char piece[100];
    h2_peer *p = start();
    turn();
    size_t empty = fake_callers.held;
    assert_true(empty > 0); /* the connection itself */
    call_text(p, 'a');
    call_text(p, 'b');
    size_t reading = h2_peer_call(p, PATH, NULL, "\0\0\0\1\0", 5, true);
    run_until_taken(2);
    assert_true(fake_callers.held > empty + 4096);
    fake_budget_is_full(true);
    succeed(0, 100); /* its answer does not fit */
    run_until_answered(0);
    expect_header(0, "grpc-status", "8");
    expect_header(0, "grpc-message", "too many bytes are under way");
    expect_header(0, "lockstock-applied", "YES");
    h2_peer_more(p, reading, piece, sizeof piece, true);
    expect_refused(reading, "8", "too many bytes are under way");
    expect_refused(call_text(p, 'c'), "8", "too many bytes are under way");
    fake_budget_is_full(false);
    succeed(1, 100);
    run_until_answered(1);
    expect_header(1, "grpc-status", "0");
    run_until(no_call_is_open);
    assert_int_equal(fake_callers.held, empty);
    stop();
}

/* A call that runs is its fields, and one that is answered its answer. */
/* promise G6 */
TEST(requests_and_headers_are_freed_early)
{
    enum { LEN = 100000 };
    static char big[LEN + 5] = {0, 0, LEN >> 16, (char)(LEN >> 8 & 0xff), (char)(LEN & 0xff)};
    start_with(NULL, 0);
    h2_peer *p = open_peer(1);
    turn();
    size_t empty = fake_callers.held;
    size_t call = h2_peer_call(p, PATH, NULL, big, sizeof big, true);
    for (int i = 0; i < 20; i++)
        turn();
    assert_in_range(fake_callers.held - empty, LEN, LEN + 8192);
    h2_peer_more(p, call, "", 0, false);
    run_until_taken(1);
    assert_in_range(fake_callers.held - empty, 1, 100); /* its place among those that run is its own */
    succeed(0, 50000);
    turn();
    assert_in_range(fake_callers.held - empty, 50000 + 4096, 50000 + 8192);
    stop();
}

/* ---- time -------------------------------------------------------------------------------- */

static void expect_deadline(size_t call)
{
    expect_refused(call, "4", "the deadline passed before the request was complete");
}

/* promise G12 */
TEST(requests_must_come_in_time)
{
    static const char *const timeout[] = {"grpc-timeout", "2S", NULL}, *const longer[] = {"grpc-timeout", "2H", NULL};
    h2_peer *p = start();
    size_t named = h2_peer_call(p, PATH, timeout, "\0\0", 2, true), none = h2_peer_call(p, PATH, NULL, "", 0, true);
    size_t late = h2_peer_call(p, PATH, longer, "\0\0", 2, true);
    size_t whole = call_text(p, 'a');
    run_until_taken(1);
    pass_ms(1900);
    turns(20);
    assert_false(h2_peer_answer(p, named)->closed);
    pass_ms(200);
    expect_deadline(named);
    assert_false(h2_peer_answer(p, none)->closed);
    pass_ms(29000);
    expect_deadline(none);
    expect_deadline(late);
    assert_false(h2_peer_answer(p, whole)->closed); /* its time is dispatch's */
    succeed(0, 1);
    run_until_answered(whole);
    expect_header(whole, "grpc-status", "0");
    stop();
}

/* promise G12 */
TEST(headers_must_come_in_time)
{
    static const uint8_t half[] = {0, 0, 1, NGHTTP2_HEADERS, 0, 0, 0, 0, 1, 0x83};
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    assert_true(sp_peer_send(fd, half, sizeof half));
    turns(5);
    pass_ms(29900);
    frames_seen seen = read_frames(fd);
    assert_false(seen.over || seen.n_goaways > 0);
    pass_ms(200);
    expect_calmed(fd);
}

/* promise G9 */
/* promise G12 */
TEST(streams_must_make_progress)
{
    static const char *const timeout[] = {"grpc-timeout", "100S", NULL};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    pass_ms(20000);
    h2_peer_more(p, call, EMPTY, 5, true);
    run_until_messages(2);
    pass_ms(20000);
    turns(20);
    assert_false(h2_peer_answer(p, call)->closed);
    pass_ms(11000);
    expect_deadline(call);
    /* A client that has sent its whole request may wait until its own timeout. */
    size_t watch = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, false);
    run_until_messages(3);
    pass_ms(1000000);
    turns(20);
    assert_false(h2_peer_answer(p, watch)->closed);
    h2_peer_reset(p, watch, NGHTTP2_CANCEL);
    run_until(no_call_is_open);
    size_t timed = h2_peer_call(p, STREAMED, timeout, EMPTY, 5, false);
    run_until_messages(4);
    pass_ms(99000);
    turns(20);
    assert_false(h2_peer_answer(p, timed)->closed);
    pass_ms(1100);
    expect_deadline(timed);
    stop();
}

/* A connection that has sent no whole call is idle, whatever it began. */
/* promise G12: a request must be complete within `grpc-timeout` or `--request-ms`: DEADLINE_EXCEEDED, NO; incomplete
 * headers end the connection; a client without a complete call counts as idle */
TEST(peer_without_a_whole_call_is_idle)
{
    const streams_options soon = {.connections_max = 100, .idle_ms = 50};
    start_with(&soon, 0);
    h2_peer *p = open_peer(0);
    call_text(p, 'a');
    h2_peer_call(p, PATH, NULL, "\0\0", 2, true);
    run_until_taken(1);
    uint64_t end = uv_now(&here.loop) + 200; /* not idle: one call is whole */
    while (uv_now(&here.loop) < end)
        assert_false(is_over()), turn();
    succeed(0, 1);
    run_until(is_over);
    run_until(no_call_is_open);
    stop();
}

/* An answer that is taken too slowly ends: alone while others are taken, else with its connection. */
/* promise G13: an answer that the client does not read is dropped in time, alone; when none is read, with its
 * connection */
TEST(peer_that_takes_no_answers_is_closed)
{
    start_with(NULL, 0);
    h2_peer *p = open_peer(1);
    call_text(p, 'a');
    call_text(p, 'b');
    h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    run_until_taken(2);
    succeed(0, 50000);
    succeed(1, 50000);
    turns(20);
    for (int i = 0; i < 3; i++) { /* a byte is no progress */
        h2_peer_allow(p, 0, 1);
        h2_peer_allow(p, 1, 17000);
        turns(20);
        pass_ms(4000);
        turns(20);
    }
    assert_int_equal(run_until_answered(0)->error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(h2_peer_answer(p, 1)->closed && h2_peer_answer(p, 1)->error == NGHTTP2_NO_ERROR);
    grpc_stream_send(here.streamed, "told", 4);
    turns(20);
    pass_ms(9900);
    turns(20);
    assert_false(is_over());
    pass_ms(200);
    expect_ended(NGHTTP2_ENHANCE_YOUR_CALM);
    run_until(no_call_is_open);
    stop();
}

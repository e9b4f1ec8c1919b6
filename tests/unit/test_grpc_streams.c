/* gRPC: streaming methods. */
#include "grpc_scene.h"

/* ---- streaming methods ----------------------------------------------------------------------- */

/* promise G9: streaming methods need their right, receive and send any number of messages, and end once */
TEST(streams_go_both_ways)
{
    const lks_error ok = {0};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, "\0\0\0\0\1a", 6, true);
    run_until_messages(1);
    assert_memory_equal(here.last_message, "a", 1);
    grpc_stream_send(here.streamed, "one", 3);
    here.wanted = 8;
    run_until(has_some);
    assert_memory_equal(h2_peer_answer(p, call)->data, "\0\0\0\0\3one", 8);
    h2_peer_more(p, call, "\0\0\0\0\2bc\0\0\0\0\0", 12, true);
    run_until_messages(3);
    assert_int_equal(here.last_message_len, 0);
    grpc_stream_send(here.streamed, "", 0);
    grpc_stream_send(here.streamed, "two", 3);
    h2_peer_more(p, call, "", 0, false);
    here.wanted = 8 + 5 + 8;
    run_until(has_some);
    assert_int_equal(here.n_half_closed, 1);
    grpc_stream_finish(here.streamed, &ok);
    assert_int_equal(run_until_answered(call)->len, 21);
    expect_header(call, "grpc-status", "0");
    assert_int_equal(here.n_closed, 1);
    stop();
}

TEST(a_stream_that_is_sent_and_finished_at_once)
{
    const lks_error ok = {0};
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    grpc_stream_send(here.streamed, "one", 3);
    grpc_stream_finish(here.streamed, &ok);
    grpc_stream_send(here.streamed, "late", 4); /* dropped */
    const h2_answer *a = run_until_answered(call);
    assert_int_equal(a->len, 8);
    assert_int_equal(a->error, NGHTTP2_NO_ERROR);
    expect_header(call, "grpc-status", "0");
    stop();
}

static bool has_closed_streams(void)
{
    return here.n_closed >= here.wanted;
}

/* promise G9 */
TEST(streams_that_are_cancelled_or_cut)
{
    h2_peer *p = start();
    size_t call = h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    grpc_stream_send(here.streamed, "one", 3);
    h2_peer_reset(p, call, NGHTTP2_CANCEL);
    here.wanted = 1;
    run_until(has_closed_streams);
    h2_peer_call(p, STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(2);
    h2_peer_free(p);
    here.n_peers = 0;
    here.wanted = 2;
    run_until(has_closed_streams);
    assert_int_equal(here.lost, 0);
    stop();
}

/* promise G6 */
TEST(a_stream_whose_client_takes_nothing_is_reset)
{
    static uint8_t big[MESSAGE_MAX];
    start_with(NULL, 0);
    size_t call = h2_peer_call(open_peer(1), STREAMED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    for (int i = 0; i < 100; i++)
        grpc_stream_send(here.streamed, big, sizeof big);
    assert_in_range(fake_callers.held, 4 << 20, 5 << 20);
    assert_int_equal(run_until_answered(call)->error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(here.n_closed, 1);
    stop();
}

/* Delivered messages do not count any more. */
/* promise G6 */
TEST(a_stream_may_carry_any_number_of_bytes)
{
    char *big = calloc(1, MESSAGE_MAX + 5);
    assert_non_null(big);
    big[2] = MESSAGE_MAX >> 16;
    h2_peer *p = start();
    size_t call = h2_peer_call(p, GUARDED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    size_t held = fake_callers.held;
    for (size_t i = 0; i < 300; i++) { /* 75 MiB */
        h2_peer_more(p, call, big, MESSAGE_MAX + 5, true);
        run_until_messages(2 + i);
    }
    assert_int_equal(fake_callers.held, held);
    assert_int_equal(here.n_closed, 0);
    free(big);
    stop();
}

/* promise G9 */
TEST(streams_that_are_not_allowed)
{
    h2_peer *p = start();
    here.refuses = true;
    expect_refused(h2_peer_call(p, GUARDED, NULL, "", 0, true), "7", "not you");
    assert_int_equal(here.n_opened, 0);
    here.refuses = false;
    h2_peer_call(p, GUARDED, NULL, EMPTY, 5, true);
    run_until_messages(1);
    stop();
}

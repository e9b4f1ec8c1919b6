/* gRPC: pings that check whether a peer is alive, and the maximum age of connections. */
#include "grpc_scene.h"

static void tick_after(uint64_t ms)
{
    pass_ms(ms);
    grpc_server_tick(here.server);
    turns(20);
}

static h2_peer *start_living(grpc_life_options life)
{
    scene_life = life;
    h2_peer *p = start();
    call_text(p, 'a');
    run_until_taken(1);
    return p;
}

/* promise CN12: a gRPC peer that is silent is pinged, and given up when it does not answer */
TEST(peer_that_answers_pings_keeps_its_connection)
{
    start_living((grpc_life_options){.keepalive_ms = 5000, .keepalive_timeout_ms = 2000});
    for (int i = 0; i < 4; i++) {
        tick_after(5001);
        tick_after(2001);
    }
    succeed(0, 1);
    run_until_answered(0);
    expect_header(0, "grpc-status", "0");
    stop();
}

/* promise CN12 */
TEST(peer_without_ping_answers_is_closed)
{
    h2_peer *p = start_living((grpc_life_options){.keepalive_ms = 5000, .keepalive_timeout_ms = 2000});

    h2_peer_deafen(p, true);
    tick_after(5001);
    tick_after(1900);
    assert_int_equal(here.lost, 0);
    pass_ms(200);
    grpc_server_tick(here.server);
    run_until_lost(1);
    stop();
}

/* promise CN12 */
TEST(peer_that_is_not_read_is_not_closed_for_pings)
{
    h2_peer *p = start_living((grpc_life_options){.keepalive_ms = 5000, .keepalive_timeout_ms = 2000});

    fake_caller_queues(here.taken[0].call.caller, true);
    h2_peer_ping(p);
    turns(20);
    tick_after(5001);
    tick_after(2001);
    tick_after(2001);
    assert_int_equal(here.lost, 0);
    fake_caller_queues(here.taken[0].call.caller, false);
    stop();
}

/* promise CN13: a gRPC peer that pings more often than it may is told ENHANCE_YOUR_CALM */
TEST(peer_that_pings_too_often_gets_a_goaway)
{
    h2_peer *p = start_living((grpc_life_options){.ping_min_ms = 5000});

    for (int i = 0; i < 3; i++) { /* the first one, and two that come too soon */
        h2_peer_ping(p);
        turns(20);
    }
    assert_int_equal(h2_peer_goaways(p)->n, 0);
    h2_peer_ping(p);
    expect_ended(NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(h2_peer_goaways(p)->n, 1);
    assert_string_equal(h2_peer_goaways(p)->text, "too_many_pings");
    stop();
}

/* promise CN13 */
TEST(pings_in_time_or_with_answers_are_fine)
{
    h2_peer *p = start_living((grpc_life_options){.ping_min_ms = 5000});

    for (size_t i = 0; i < 8; i++) {
        h2_peer_ping(p);
        turns(20);
        pass_ms(5001);
    }
    for (size_t i = 0; i < 8; i++) {
        succeed(i, 1);
        run_until_answered(i);
        h2_peer_ping(p);
        call_text(p, 'a');
        run_until_taken(i + 2);
    }
    stop();
}

/* promise CN14: an old gRPC connection takes no new calls, and ends after its calls or its grace */
TEST(an_old_connection_ends_after_its_calls)
{
    const h2_goaways *came =
        h2_peer_goaways(start_living((grpc_life_options){.connection_age_ms = 10000, .connection_age_grace_ms = 5000}));

    tick_after(8999);
    assert_int_equal(came->n, 0);
    tick_after(2002);
    assert_int_equal(came->n, 2); /* the last one, which names the last call, after the ping came back */
    assert_int_equal(came->error[1], NGHTTP2_NO_ERROR);
    assert_int_equal(here.lost, 0);
    succeed(0, 1);
    run_until_answered(0);
    expect_header(0, "grpc-status", "0");
    expect_ended(NGHTTP2_NO_ERROR);
    stop();
}

/* promise CN14 */
TEST(an_old_connection_ends_after_its_grace)
{
    start_living((grpc_life_options){.connection_age_ms = 10000, .connection_age_grace_ms = 5000});

    tick_after(11001);
    tick_after(4900);
    assert_int_equal(here.lost, 0);
    tick_after(101);
    expect_ended(NGHTTP2_NO_ERROR);
    run_until_lost(1);
    stop();
}

/* promise CN14 */
TEST(a_ping_from_before_the_goaway_says_nothing_of_it)
{
    static const uint8_t alive[] = {0,   0, 8, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, 0, 0, 0, 'a', 'l', 'i', 'v', 'e',
                                    '?', 0, 0};
    scene_life = (grpc_life_options){.connection_age_ms = 10000, .connection_age_grace_ms = 5000};
    start_with(NULL, 0);
    int fd = open_raw();

    pass_ms(11001);
    grpc_server_tick(here.server);
    assert_int_equal(write(fd, alive, sizeof alive), sizeof alive);
    assert_int_equal(read_frames(fd).n_goaways, 1);
    close(fd);
    stop();
}

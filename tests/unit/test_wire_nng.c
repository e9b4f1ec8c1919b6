/* The inbox between nng's threads and the loop: what a peer sent is taken before its
 * loss is told, all of it on the loop. frames_take is the test's own. */
#include <sched.h>
#include <unistd.h>

#include <uv.h>

#include "support/fake_sink.h"
#include "support/sp_peer.h"
#include "net/nng/nng.h"
#include "net/stream/turns.h"
#include "test.h"

enum {
    EVENTS_MAX = 4096,
    LIMIT_MS = 60000,
    PEERS = 100,
    MESSAGES = 50,
    COSTLY = 'c', /* a message that takes COSTLY_NS */
    COSTLY_NS = 2 * TURNS_LIGHT_NS,
    QUEUES = 'q', /* a message of which a call queues */
};

typedef struct event {
    uint32_t peer;
    char text; /* of the message; 0: the peer is lost */
} event;

static struct {
    uv_loop_t loop;
    wire_nng *wire;
    uint16_t port;
    uv_thread_t thread;
    bool elsewhere; /* something ran on another thread */
    bool echoes;    /* answers, or closes the peer */
    bool closed, late, stopping;
    event events[EVENTS_MAX];
    size_t n, lost, wanted;
    caller *queues; /* whose call queued last */
} here;

static void note(uint32_t peer, char text)
{
    uv_thread_t self = uv_thread_self();

    here.elsewhere |= !uv_thread_equal(&self, &here.thread);
    if (here.n == EVENTS_MAX)
        abort();
    here.events[here.n++] = (event){peer, text};
}

void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    assert_null(f);
    assert_true(received_ns > 0);
    assert_int_equal(len, 1);
    note(fake_caller_number(sender->caller), *(const char *)data);
    for (uint64_t end_ns = uv_hrtime() + COSTLY_NS; *(const char *)data == COSTLY && uv_hrtime() < end_ns;)
        ;
    if (*(const char *)data == QUEUES)
        fake_caller_queues(here.queues = sender->caller, true);
    if (here.echoes) {
        memcpy(port->answer(message, 1), data, 1);
        port->reply(message);
    } else {
        port->close_peer(message);
    }
}

static void on_caller_lost(void)
{
    if (here.stopping)
        return;
    note(fake_callers.last_lost, 0);
    here.lost++;
}

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    here.late = true;
}

static void run_until(bool (*condition)(void))
{
    uv_timer_t limit;

    here.late = false;
    uv_timer_init(&here.loop, &limit);
    uv_timer_start(&limit, on_limit, LIMIT_MS, 0);
    while (!condition() && !here.late)
        uv_run(&here.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&here.loop, UV_RUN_NOWAIT);
    assert_true(condition());
}

static bool has_events(void)
{
    return here.n >= here.wanted;
}

static bool has_lost(void)
{
    return here.lost >= here.wanted;
}

/* nng drops what a peer sent that has gone before it was read: then nobody hears of it. */
static bool has_lost_half_at_least(void)
{
    return here.lost == fake_callers.opened && here.lost >= PEERS / 2;
}

static bool is_closed(void)
{
    return here.closed;
}

static void start(void)
{
    const wire_nng_options options = {.loop = &here.loop, .sink = &fake_sink, .in_flight_per_peer = 64};
    lks_error error;

    memset(&here, 0, sizeof here);
    fake_callers_reset(on_caller_lost);
    here.thread = uv_thread_self();
    uv_loop_init(&here.loop);
    assert_int_equal(wire_nng_new(&options, &here.wire, &error), LKS_OK);
    assert_int_equal(wire_nng_listen(here.wire, "tcp://127.0.0.1:0", &here.port, &error), LKS_OK);
}

static void on_closed(void *arg)
{
    assert_ptr_equal(arg, &here);
    here.closed = true;
}

static void stop(void)
{
    wire_nng_stop_receiving(here.wire);
    size_t n = here.n;
    here.stopping = true; /* who has not gone by now is lost with the server */
    wire_nng_close(here.wire, on_closed, &here);
    run_until(is_closed);
    assert_int_equal(here.n, n);
    assert_int_equal(fake_callers.lost, fake_callers.opened);
    assert_int_equal(fake_callers.shares_closed, fake_callers.shares_opened);
    assert_false(here.elsewhere);
    assert_int_equal(uv_loop_close(&here.loop), 0);
}

static int open_peer(void)
{
    int fd = sp_peer_open(here.port);

    assert_true(fd >= 0);
    return fd;
}

static void send_text(int fd, char text)
{
    size_t len;
    uint8_t *bytes = sp_peer_message((uint32_t)text, &text, 1, &len);

    assert_true(sp_peer_send(fd, bytes, len));
    free(bytes);
}

static void expect_text(int fd, char text)
{
    uint32_t id;
    size_t len;
    uint8_t *body = sp_peer_receive(fd, &id, &len);

    assert_non_null(body);
    assert_int_equal(body[0], text);
    free(body);
}

TEST(messages_come_in_order_and_the_loss_last)
{
    start();
    here.echoes = true;
    int fd = open_peer();
    for (char c = 'a'; c <= 'e'; c++) {
        send_text(fd, c);
        here.wanted = here.n + 1;
        run_until(has_events);
        expect_text(fd, c);
    }
    close(fd);
    here.wanted = 1;
    run_until(has_lost);
    assert_int_equal(here.n, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(here.events[i].peer, here.events[0].peer);
        assert_int_equal(here.events[i].text, "abcde"[i]);
    }
    stop();
}

/* The loop looks only when all is over: messages and losses lie in the inbox together. */
TEST(what_lies_in_the_inbox_keeps_its_order)
{
    start();
    for (int i = 0; i < PEERS; i++) {
        int fd = open_peer();
        send_text(fd, 'x');
        close(fd);
    }
    run_until(has_lost_half_at_least);
    for (size_t i = 0; i < here.n; i++)
        for (size_t k = i + 1; here.events[i].text == 0 && k < here.n; k++)
            assert_int_not_equal(here.events[k].peer, here.events[i].peer);
    stop();
}

/* Messages on their way, losses on their way, connections still open. Each has sent
 * something before: nng leaks a connection that it is just greeting. */
TEST(a_server_may_stop_at_any_moment)
{
    for (int round = 0; round < 30; round++) {
        int fds[8];
        start();
        here.echoes = true;
        for (int i = 0; i < 8; i++) {
            fds[i] = open_peer();
            send_text(fds[i], 'x');
        }
        here.wanted = 8;
        run_until(has_events);
        for (int i = 0; i < 8; i++)
            expect_text(fds[i], 'x');
        here.echoes = false;
        for (int i = 0; i < 8; i++) {
            if (i % 2 == 0)
                send_text(fds[i], 'y');
            if (i < 4)
                close(fds[i]);
        }
        if (round % 3 == 0)
            uv_run(&here.loop, UV_RUN_NOWAIT);
        stop();
        for (int i = 4; i < 8; i++)
            close(fds[i]);
    }
}

/* So many messages have come that are not answered. The loop may not run meanwhile, so nothing tells of them. */
static void expect_in_flight(size_t n)
{
    uint64_t end_ns = uv_hrtime() + (uint64_t)LIMIT_MS * 1000000;

    while (wire_nng_in_flight(here.wire) < n && uv_hrtime() < end_ns)
        sched_yield();
    assert_true(wire_nng_in_flight(here.wire) >= n);
}

/* The loop has not run while they came: all of them lie in the inbox. */
TEST(a_costly_peer_costs_others_a_message_of_its_own)
{
    start();
    here.echoes = true;
    int costly = open_peer(), other = open_peer();
    for (size_t i = 0; i < MESSAGES; i++)
        send_text(costly, COSTLY);
    send_text(other, 'x');
    expect_in_flight(MESSAGES + 1);
    here.wanted = MESSAGES + 1;
    run_until(has_events);
    size_t at = 0;
    while (here.events[at].text != 'x')
        at++;
    assert_in_range(at, 0, MESSAGES / 2);
    close(costly);
    close(other);
    here.wanted = 2;
    run_until(has_lost);
    stop();
}

TEST(a_peer_of_whom_too_much_is_left_is_closed)
{
    start();
    here.echoes = true;
    int fd = open_peer();
    for (size_t i = 0; i < MESSAGES; i++)
        send_text(fd, COSTLY);
    expect_in_flight(MESSAGES);
    fake_budget_is_full(true);
    here.wanted = 1;
    run_until(has_lost);
    assert_true(here.n < MESSAGES);
    fake_budget_is_full(false);
    close(fd);
    stop();
}

/* Each of them could queue more; and what is left of a peer that goes is not run. */
TEST(whose_calls_queue_is_served_no_further)
{
    start();
    here.echoes = true;
    int fd = open_peer();
    send_text(fd, QUEUES);
    here.wanted = 1;
    run_until(has_events);
    for (int i = 0; i < 3; i++)
        send_text(fd, QUEUES);
    expect_in_flight(3);
    uv_run(&here.loop, UV_RUN_NOWAIT);
    assert_int_equal(here.n, 1);
    fake_caller_queues(here.queues, false);
    here.wanted = 2;
    run_until(has_events);
    uv_run(&here.loop, UV_RUN_NOWAIT);
    assert_int_equal(here.n, 2);
    close(fd);
    here.wanted = 1;
    run_until(has_lost);
    assert_int_equal(here.n, 3);
    stop();
}

TEST_MAIN()

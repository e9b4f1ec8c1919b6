/* SP connections on a real loop: what is taken, when it is answered, and what ends a
 * connection. frames_take is the test's own, and callers are fakes: more than IN_FLIGHT
 * messages of one that are not answered queue. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <lockstock/rpc/exchange.h>
#include <uv.h>

#include "support/fake_callers.h"
#include "support/sp_peer.h"
#include "support/tempdir.h"
#include "wire/sp_server.h"

enum { MESSAGES_MAX = 4096, LIMIT_MS = 60000, IN_FLIGHT = 4, BIG = 256 * 1024 };

typedef struct taken {
    const frames_port *port;
    void *message; /* NULL: ended */
    caller *from;
    unsigned peer; /* its number */
    char text;
} taken;

static struct {
    uv_loop_t loop;
    streams *streams;
    sp_server *server;
    uint16_t port, web_port;
    taken taken[MESSAGES_MAX];
    size_t n, refused, wanted;
    uint64_t costs_ns; /* what it takes to take a message of 'c' */
    bool echoes, lets_go, closed, late; /* lets_go: answers what a lost peer left, at once */
    int ticks_left;
} here;

/* Of one caller, not yet answered. */
static size_t count_under_way(unsigned peer)
{
    size_t n = 0;

    for (size_t i = 0; i < here.n; i++)
        n += here.taken[i].message && here.taken[i].peer == peer;
    return n;
}

static void forget(size_t i)
{
    taken *t = &here.taken[i];

    t->message = NULL;
    if (t->from && count_under_way(t->peer) < IN_FLIGHT)
        fake_caller_queues(t->from, false);
}

static void end_one(size_t i, const void *text, size_t len)
{
    taken *t = &here.taken[i];
    void *space = t->port->answer(t->message, len);

    assert_non_null(space);
    memcpy(space, text, len);
    t->port->reply(t->message);
    forget(i);
}

static void end_as_no_frame(size_t i)
{
    here.taken[i].port->close_peer(here.taken[i].message);
    forget(i);
}

void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    unsigned peer = fake_caller_number(sender->caller);
    (void)f;

    assert_true(received_ns > 0);
    assert_true(here.n < MESSAGES_MAX);
    while (len > 0 && *(const char *)data == 'c' && lks_rpc_now_ns() < received_ns + here.costs_ns)
        ;
    here.taken[here.n++] = (taken){port, message, sender->caller, peer, len > 0 ? *(const char *)data : '\0'};
    if (here.echoes)
        end_one(here.n - 1, data, len);
    else if (count_under_way(peer) >= IN_FLIGHT)
        fake_caller_queues(sender->caller, true);
}

void frames_refuse(frames *f, const frames_port *port, void *message, size_t n, const lks_error *error)
{
    (void)f;
    assert_int_equal(error->code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error->applied, LKS_APPLIED_NO);
    assert_true(error->retry_after_ms > 0);
    assert_int_equal(n, 1);
    here.refused++;
    memcpy(port->answer(message, 1), "r", 1);
    port->reply(message);
}

static void on_caller_lost(void)
{
    for (size_t i = 0; i < here.n; i++) {
        if (here.taken[i].peer != fake_callers.last_lost)
            continue;
        here.taken[i].from = NULL;
        if (here.lets_go && here.taken[i].message)
            end_one(i, "x", 1);
    }
}

/* ---- the loop --------------------------------------------------------------------- */

/* Every millisecond: a condition may come true without an event. */
static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    here.late = --here.ticks_left == 0;
}

static void run_until(bool (*condition)(void))
{
    uv_timer_t limit;

    here.ticks_left = LIMIT_MS;
    uv_timer_init(&here.loop, &limit);
    uv_timer_start(&limit, on_tick, 1, 1);
    while (!condition() && !here.late)
        uv_run(&here.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&limit, NULL);
    for (int turns = 0; turns < 3; turns++)
        uv_run(&here.loop, UV_RUN_NOWAIT);
    assert_true(condition());
}

static bool has_taken(void)
{
    return here.n >= here.wanted;
}

static bool has_lost(void)
{
    return fake_callers.lost >= here.wanted;
}

static bool has_opened(void)
{
    return fake_callers.opened >= here.wanted;
}

static bool has_refused(void)
{
    return here.refused >= here.wanted;
}

static bool has_flushed(void)
{
    return !streams_flushing(here.streams);
}

static bool is_closed(void)
{
    return here.closed;
}

static void run_until_taken(size_t n)
{
    here.wanted = n;
    run_until(has_taken);
    assert_int_equal(here.n, n);
}

static void run_until_lost(size_t n)
{
    here.wanted = n;
    run_until(has_lost);
    assert_int_equal(fake_callers.lost, n);
}

static void start(const streams_options *given)
{
    streams_options options = given ? *given : (streams_options){.connections_max = 100};
    lks_error error;

    memset(&here, 0, sizeof here);
    fake_callers_reset(on_caller_lost);
    uv_loop_init(&here.loop);
    options.loop = &here.loop;
    assert_int_equal(streams_new(&options, &here.streams, &error), LKS_OK);
    const sp_server_options server = {.streams = here.streams, .message_bytes_max = BIG};
    assert_int_equal(sp_server_new(&server, &here.server, &error), LKS_OK);
    assert_int_equal(sp_server_listen_tcp(here.server, "127.0.0.1:0", NULL, &here.port, &error), LKS_OK);
    assert_int_equal(sp_server_listen_websocket(here.server, "127.0.0.1:0", "/x", NULL, &here.web_port, &error), LKS_OK);
}

static void on_closed(void *arg)
{
    assert_ptr_equal(arg, &here);
    here.closed = true;
}

static void stop(void)
{
    streams_close(here.streams, on_closed, &here);
    for (size_t i = 0; i < here.n; i++)
        if (here.taken[i].message)
            end_one(i, "x", 1);
    run_until(is_closed);
    assert_int_equal(sp_server_in_flight(here.server), 0);
    assert_int_equal(fake_callers.shares_closed, fake_callers.shares_opened);
    assert_int_equal(fake_callers.held, 0);
    sp_server_free(here.server);
    assert_int_equal(uv_loop_close(&here.loop), 0);
}

/* ---- peers: what they send waits in the kernel until the loop runs ------------------ */

static const uint8_t handshake[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

static int open_peer(void)
{
    int fd = sp_peer_connect(here.port, 0);

    assert_true(fd >= 0);
    assert_true(sp_peer_send(fd, handshake, sizeof handshake));
    return fd;
}

static void send_text(int fd, uint32_t id, char text)
{
    size_t len;
    uint8_t *message = sp_peer_message(id, &text, 1, &len);

    assert_true(sp_peer_send(fd, message, len));
    free(message);
}

static void receive(int fd, uint8_t *to, size_t len)
{
    for (size_t n = 0; n < len;) {
        ssize_t more = read(fd, to + n, len - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
}

static void expect_greeting(int fd)
{
    static const uint8_t rep[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t got[sizeof rep];

    receive(fd, got, sizeof got);
    assert_memory_equal(got, rep, sizeof rep);
}

static void expect_answer(int fd, uint32_t id, char text)
{
    uint32_t got_id;
    size_t len;
    uint8_t *body = sp_peer_receive(fd, &got_id, &len);

    assert_non_null(body);
    assert_int_equal(got_id, id);
    assert_int_equal(len, 1);
    assert_int_equal(body[0], text);
    free(body);
}

/* The server has closed it; what it said before is skipped. */
static int closing_fd;

static bool is_hung_up(void)
{
    char bytes[256];
    ssize_t n;

    while ((n = recv(closing_fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        ;
    return n == 0 || errno != EAGAIN;
}

static void run_until_closed(int fd)
{
    closing_fd = fd;
    run_until(is_hung_up);
}

/* ---- tests ---------------------------------------------------------------------- */

static void answers_go_in_the_order_in_which_they_are_done(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    for (uint32_t i = 0; i < 3; i++)
        send_text(fd, 0x80000000 + i, (char)('a' + i));
    run_until_taken(3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(here.taken[i].text, 'a' + (int)i);
    end_one(2, "C", 1);
    end_one(0, "A", 1);
    end_one(1, "B", 1);
    run_until(has_flushed);
    expect_greeting(fd);
    expect_answer(fd, 0x80000002, 'C');
    expect_answer(fd, 0x80000000, 'A');
    expect_answer(fd, 0x80000001, 'B');
    close(fd);
    run_until_lost(1);
    assert_int_equal(fake_callers.last_lost, here.taken[0].peer);
    stop();
}

static void a_connection_with_calls_that_queue_is_not_read(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    for (uint32_t i = 0; i < 3 * IN_FLIGHT; i++)
        send_text(fd, 0x80000000 + i, (char)('a' + i));
    run_until_taken(IN_FLIGHT);
    for (size_t i = 0; i < 2 * IN_FLIGHT; i++) {
        end_one(i, "x", 1);
        run_until_taken(IN_FLIGHT + i + 1);
    }
    /* In order, none lost on the way. */
    for (size_t i = 0; i < here.n; i++)
        assert_int_equal(here.taken[i].text, 'a' + (int)i);
    close(fd);
    stop();
}

static void many_that_are_answered_at_once(void **state)
{
    (void)state;
    start(NULL);
    here.echoes = true;
    int fd = open_peer();
    for (uint32_t i = 0; i < 1000; i++)
        send_text(fd, 0x80000000 + i, (char)(i % 100));
    run_until_taken(1000);
    run_until(has_flushed);
    expect_greeting(fd);
    for (uint32_t i = 0; i < 1000; i++)
        expect_answer(fd, 0x80000000 + i, (char)(i % 100));
    close(fd);
    stop();
}

/* ---- the end of a peer, in each state ----------------------------------------------- */

typedef enum ending { CLOSES, RESETS, HALF_CLOSES, ENDINGS } ending;

static void end_peer(int fd, ending how)
{
    const struct linger reset = {.l_onoff = 1};

    if (how == RESETS)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (how == HALF_CLOSES)
        shutdown(fd, SHUT_WR);
    else
        close(fd);
}

/* Its calls queue, so nothing is read; and what it sent besides is not run any more. */
static void the_end_of_a_peer_whose_calls_queue_is_seen(void **state)
{
    (void)state;
    for (ending how = CLOSES; how < ENDINGS; how++) {
        start(NULL);
        here.lets_go = true;
        int fd = open_peer();
        for (uint32_t i = 0; i < IN_FLIGHT; i++)
            send_text(fd, 0x80000000 + i, 'a');
        run_until_taken(IN_FLIGHT);
        send_text(fd, 0x80000009, 'z');
        end_peer(fd, how);
        run_until_lost(1);
        assert_int_equal(here.n, IN_FLIGHT);
        assert_int_equal(sp_server_in_flight(here.server), 0);
        if (how == HALF_CLOSES)
            close(fd);
        stop();
    }
}

/* Answers at length what is taken, until nothing more is. */
static bool is_read_no_more(void)
{
    static char big[BIG];
    static size_t before, turns;

    for (size_t i = 0; i < here.n; i++)
        if (here.taken[i].message)
            end_one(i, big, sizeof big);
    turns = here.n == before ? turns + 1 : 0;
    before = here.n;
    return here.n > 0 && turns >= 20;
}

/* It takes no answers. The time for that is long enough to be no part of this. */
static void the_end_of_a_peer_that_takes_nothing_is_seen(void **state)
{
    const streams_options later = {.connections_max = 100, .stall_ms = 10 * LIMIT_MS};
    (void)state;

    for (ending how = CLOSES; how < ENDINGS; how++) {
        start(&later);
        int fd = sp_peer_connect(here.port, 4096);
        assert_true(sp_peer_send(fd, handshake, sizeof handshake));
        for (uint32_t i = 0; i < 64; i++)
            send_text(fd, 0x80000000 + i, 'a');
        run_until(is_read_no_more);
        assert_true(here.n < 64 && streams_flushing(here.streams));
        end_peer(fd, how);
        run_until_lost(1);
        if (how == HALF_CLOSES)
            close(fd);
        stop();
    }
}

static void the_end_of_a_peer_on_a_unix_socket_is_seen(void **state)
{
    char *dir = tempdir_make();
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    lks_error error;
    (void)state;

    snprintf(name.sun_path, sizeof name.sun_path, "%s/sock", dir);
    for (ending how = CLOSES; how < ENDINGS; how++) {
        start(NULL);
        assert_int_equal(sp_server_listen_unix(here.server, name.sun_path, &error), LKS_OK);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof name), 0);
        assert_true(sp_peer_send(fd, handshake, sizeof handshake));
        for (uint32_t i = 0; i < IN_FLIGHT + 1; i++) {
            size_t len;
            uint8_t *message = sp_peer_message(0x80000000 + i, "a", 1, &len);
            assert_true(sp_peer_send(fd, "\1", 1) && sp_peer_send(fd, message, len));
            free(message);
        }
        run_until_taken(IN_FLIGHT);
        end_peer(fd, how);
        run_until_lost(1);
        assert_int_equal(here.n, IN_FLIGHT);
        if (how == HALF_CLOSES)
            close(fd);
        stop();
    }
    tempdir_remove(dir);
}

/* ---- who is lost ------------------------------------------------------------------- */

/* Two thousand messages are there when the other's one comes. */
static void a_costly_peer_is_read_in_turns(void **state)
{
    enum { MANY = 2000 };
    static uint8_t bytes[MANY * 13];
    size_t others = 0;
    (void)state;

    for (size_t i = 0; i < MANY; i++)
        memcpy(bytes + i * 13, (const uint8_t[13]){0, 0, 0, 0, 0, 0, 0, 5, 0x80, 0, 0, 1, 'c'}, 13);
    start(NULL);
    here.echoes = true;
    here.costs_ns = 50 * 1000;
    int costly = open_peer();
    int other = open_peer();
    assert_true(sp_peer_send(costly, bytes, sizeof bytes));
    send_text(other, 0x80000000, 'o');
    run_until_taken(MANY + 1);
    while (here.taken[others].text != 'o')
        others++;
    assert_in_range(others, 0, MANY / 2);
    close(costly);
    close(other);
    stop();
}

static void what_a_lost_peer_left_is_answered_to_nobody(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    send_text(fd, 0x80000000, 'a');
    send_text(fd, 0x80000001, 'b');
    close(fd);
    run_until_lost(1);
    assert_int_equal(here.n, 2);
    assert_int_equal(sp_server_in_flight(here.server), 2);
    end_one(0, "x", 1);
    end_as_no_frame(1);
    assert_int_equal(sp_server_in_flight(here.server), 0);
    stop();
}

/* As waiting calls are that need no store to be given up. */
static void what_a_lost_peer_left_may_be_answered_at_once(void **state)
{
    (void)state;
    start(NULL);
    here.lets_go = true;
    int fd = open_peer();
    send_text(fd, 0x80000000, 'a');
    send_text(fd, 0x80000001, 'b');
    run_until_taken(2);
    close(fd);
    run_until_lost(1);
    assert_int_equal(sp_server_in_flight(here.server), 0);
    stop();
}

static void what_is_no_frame_ends_the_connection_and_what_follows_it(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    for (uint32_t i = 0; i < IN_FLIGHT; i++)
        send_text(fd, 0x80000000 + i, 'a');
    send_text(fd, 0x80000009, 'z');
    run_until_taken(IN_FLIGHT);
    end_as_no_frame(0);
    run_until_lost(1);
    assert_int_equal(here.n, IN_FLIGHT);
    close(fd);
    stop();
}

static void what_is_no_sp_is_closed(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\n\r\n";
    (void)state;
    start(NULL);
    int fd = sp_peer_connect(here.port, 0);
    assert_true(sp_peer_send(fd, http, sizeof http));
    run_until_lost(1);
    assert_int_equal(here.n, 0);
    close(fd);
    stop();
}

static void a_stopping_server_goes_on_with_those_it_has(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    send_text(fd, 0x80000000, 'a');
    run_until_taken(1);
    streams_stop_accepting(here.streams);
    send_text(fd, 0x80000001, 'b');
    run_until_taken(2);
    end_one(1, "r", 1);
    run_until(has_flushed);
    expect_greeting(fd);
    expect_answer(fd, 0x80000001, 'r');
    assert_true(sp_peer_connect(here.port, 0) < 0);
    close(fd);
    stop();
}

/* Those with something under way keep their places. */
static void connections_have_a_limit(void **state)
{
    const streams_options two = {.connections_max = 2};
    int fds[3];
    (void)state;
    start(&two);
    for (size_t i = 0; i < 2; i++) {
        fds[i] = open_peer();
        send_text(fds[i], 0x80000000, 'a');
    }
    run_until_taken(2);
    fds[2] = open_peer();
    run_until_closed(fds[2]);
    assert_int_equal(fake_callers.lost, 0);
    close(fds[0]);
    run_until_lost(1);
    int again = open_peer();
    send_text(again, 0x80000000, 'b');
    run_until_taken(3);
    close(fds[1]);
    close(fds[2]);
    close(again);
    stop();
}

/* Half a greeting, then the one that did nothing for longest. */
static void the_idlest_is_given_up_for_a_newcomer(void **state)
{
    const streams_options three = {.connections_max = 3};
    (void)state;
    start(&three);
    here.echoes = true;
    int half = sp_peer_connect(here.port, 0);
    assert_true(sp_peer_send(half, handshake, 7));
    here.wanted = 1;
    run_until(has_opened);
    int fds[4];
    for (size_t i = 0; i < 4; i++) {
        fds[i] = open_peer();
        send_text(fds[i], 0x80000000, 'a');
        run_until_taken(i + 1);
    }
    assert_int_equal(fake_callers.lost, 2);
    run_until_closed(half);
    run_until_closed(fds[0]);
    for (size_t i = 1; i < 4; i++)
        send_text(fds[i], 0x80000001, 'b');
    run_until_taken(7);
    close(half);
    for (size_t i = 0; i < 4; i++)
        close(fds[i]);
    stop();
}

static void who_is_known_is_not_given_up(void **state)
{
    const streams_options one = {.connections_max = 1};
    (void)state;
    start(&one);
    here.echoes = true;
    int fd = open_peer();
    fake_budget_has_principals(true);
    send_text(fd, 0x80000000, 'a');
    run_until_taken(1);
    int newcomer = open_peer();
    run_until_closed(newcomer);
    send_text(fd, 0x80000001, 'b');
    run_until_taken(2);
    close(fd);
    close(newcomer);
    stop();
}

static int open_peer_from(const char *address)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(here.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_true(sp_peer_send(fd, handshake, sizeof handshake));
    send_text(fd, 0x80000000, 'a');
    return fd;
}

static void an_address_has_a_limit_of_its_own(void **state)
{
    const streams_options some = {.connections_max = 10, .connections_per_address = 2};
    int fds[4];
    (void)state;
    start(&some);
    fds[0] = open_peer_from("127.0.0.2");
    fds[1] = open_peer_from("127.0.0.2");
    run_until_taken(2);
    fds[2] = open_peer_from("127.0.0.2");
    run_until_closed(fds[2]);
    fds[3] = open_peer_from("127.0.0.3");
    run_until_taken(3);
    for (size_t i = 0; i < 4; i++)
        close(fds[i]);
    stop();
}

static void who_does_not_greet_is_closed(void **state)
{
    const streams_options soon = {.connections_max = 100, .greeting_ms = 1};
    (void)state;
    start(&soon);
    int silent = sp_peer_connect(here.port, 0);
    int half = sp_peer_connect(here.port, 0);
    assert_true(sp_peer_send(half, handshake, 7));
    run_until_lost(2);
    close(silent);
    close(half);
    stop();
}

static void who_is_idle_is_closed_and_who_waits_is_not(void **state)
{
    const streams_options soon = {.connections_max = 100, .idle_ms = 1};
    (void)state;
    start(&soon);
    int waiting = open_peer();
    send_text(waiting, 0x80000000, 'a');
    run_until_taken(1);
    int idle = open_peer();
    run_until_lost(1);
    assert_int_not_equal(fake_callers.last_lost, here.taken[0].peer);
    end_one(0, "x", 1);
    run_until_lost(2);
    assert_int_equal(fake_callers.last_lost, here.taken[0].peer);
    close(waiting);
    close(idle);
    stop();
}

/* Answers at length whatever was taken. */
static bool has_lost_who_reads_nothing(void)
{
    static char big[BIG];

    for (size_t i = 0; i < here.n; i++)
        if (here.taken[i].message)
            end_one(i, big, sizeof big);
    return fake_callers.lost > 0;
}

static void who_reads_nothing_is_not_read_and_then_closed(void **state)
{
    const streams_options soon = {.connections_max = 100, .stall_ms = 50};
    (void)state;
    start(&soon);
    int fd = open_peer();
    for (uint32_t i = 0; i < 1000; i++)
        send_text(fd, 0x80000000 + i, 'a');
    run_until(has_lost_who_reads_nothing);
    /* What the kernel holds, a mebibyte, and those under way: not a thousand. */
    assert_in_range(here.n, 1, 100);
    close(fd);
    stop();
}

/* A peer that takes its time. */
static struct {
    int fd;
    const uint8_t *bytes; /* to be sent */
    size_t len, sent;
} slow;

/* ---- memory and time --------------------------------------------------------------- */

static void send_long(int fd, uint32_t id, size_t bytes)
{
    static char body[BIG];
    size_t len;
    uint8_t *message = sp_peer_message(id, body, BIG, &len);

    assert_true(sp_peer_send(fd, message, bytes < len ? bytes : len));
    free(message);
}

static bool has_read_half(void)
{
    return fake_callers.held >= BIG / 2;
}

static void what_is_half_read_or_left_over_is_held(void **state)
{
    (void)state;
    start(NULL);
    int fd = open_peer();
    send_long(fd, 0x80000000, BIG / 2 + 100);
    run_until(has_read_half);
    close(fd);
    run_until_lost(1);
    assert_int_equal(fake_callers.held, 0);
    fd = open_peer();
    for (uint32_t i = 0; i < 2 * IN_FLIGHT; i++)
        send_text(fd, 0x80000000 + i, 'a');
    run_until_taken(IN_FLIGHT);
    assert_int_equal(fake_callers.held, IN_FLIGHT * 13);
    close(fd);
    run_until_lost(2);
    assert_int_equal(fake_callers.held, 0);
    stop();
}

static void what_finds_no_room_is_refused_and_the_connection_goes_on(void **state)
{
    (void)state;
    start(NULL);
    here.echoes = true;
    int fd = open_peer();
    fake_budget_is_full(true);
    send_long(fd, 0x80000001, SIZE_MAX);
    here.wanted = 1;
    run_until(has_refused);
    fake_budget_is_full(false);
    send_text(fd, 0x80000002, 'b');
    run_until_taken(1);
    run_until(has_flushed);
    expect_greeting(fd);
    expect_answer(fd, 0x80000001, 'r');
    expect_answer(fd, 0x80000002, 'b');
    close(fd);
    stop();
}

static bool is_held(void)
{
    return fake_callers.n_held > 0;
}

/* The peer reads now. */
static bool is_free_after_reading(void)
{
    static uint8_t bytes[1 << 16];

    while (recv(slow.fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    return fake_callers.n_held == 0 && fake_callers.held == 0;
}

/* Output is held until the kernel has it; and no call starts while much of it waits. */
static void output_is_held_and_holds_calls_back(void **state)
{
    static char big[BIG];
    (void)state;
    start(NULL);
    int fd = sp_peer_connect(here.port, 4096);
    assert_true(sp_peer_send(fd, handshake, sizeof handshake));
    for (size_t i = 0; !is_held(); i++) {
        send_text(fd, 0x80000000, 'a');
        run_until_taken(i + 1);
        end_one(i, big, sizeof big);
        uv_run(&here.loop, UV_RUN_NOWAIT);
    }
    assert_true(fake_callers.held >= 1 << 20);
    slow.fd = fd;
    run_until(is_free_after_reading);
    close(fd);
    run_until_lost(1);
    stop();
}

/* A byte a tick. */
static void drip(void)
{
    if ((size_t)(LIMIT_MS - here.ticks_left) > slow.sent && slow.sent < slow.len &&
        send(slow.fd, slow.bytes + slow.sent, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        slow.sent++;
}

static bool has_lost_while_dripping(void)
{
    drip();
    return has_lost();
}

static bool has_taken_while_dripping(void)
{
    drip();
    return has_taken();
}

static void who_does_not_finish_a_message_is_closed(void **state)
{
    const streams_options soon = {.connections_max = 100, .request_ms = 50};
    static uint8_t bytes[BIG] = {0, 0, 0, 0, 0, 3, 0, 0, 0x80};
    (void)state;

    for (size_t at_once = 0; at_once < 20; at_once += 5) {
        start(&soon);
        int fd = open_peer();
        assert_true(sp_peer_send(fd, bytes, at_once));
        slow.fd = fd;
        slow.bytes = bytes + at_once;
        slow.len = sizeof bytes - at_once;
        slow.sent = 0;
        here.wanted = 1;
        run_until(has_lost_while_dripping);
        assert_int_equal(here.n, 0);
        close(fd);
        stop();
    }
}

/* The time is a message's, not the connection's; and what queues has all the time. */
static void who_is_slow_but_finishes_is_not_closed(void **state)
{
    enum { REQUEST_MS = 1500, MESSAGES = 160, LEN = 13 };
    const streams_options some = {.connections_max = 100, .request_ms = REQUEST_MS};
    static uint8_t bytes[MESSAGES * LEN];
    (void)state;

    for (size_t i = 0; i < MESSAGES; i++)
        memcpy(bytes + i * LEN, (const uint8_t[LEN]){0, 0, 0, 0, 0, 0, 0, 5, 0x80, 0, 0, 1, 'a'}, LEN);
    start(&some);
    here.echoes = true;
    slow.fd = open_peer();
    slow.bytes = bytes;
    slow.len = sizeof bytes;
    slow.sent = 0;
    here.wanted = MESSAGES;
    run_until(has_taken_while_dripping);
    assert_int_equal(fake_callers.lost, 0);
    close(slow.fd);
    stop();
}

/* ---- over WebSocket: a frame is 2 bytes, a mask of zeros and the message --------------- */

static const char request[] = "GET /x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";
static const uint8_t frame_a[] = {0x82, 0x85, 0, 0, 0, 0, 0x80, 0, 0, 1, 'a'};

static const char accepted[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                               "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";

static const uint8_t *expect_bytes(const uint8_t *at, const void *bytes, size_t len)
{
    assert_memory_equal(at, bytes, len);
    return at + len;
}

/* Messages need not wait for the answer to the request, but are answered after it. */
static void over_websocket_the_first_answer_is_to_the_request(void **state)
{
    static const uint8_t reply[] = {0x82, 5, 0x80, 0, 0, 1, 'a'};
    uint8_t got[sizeof accepted - 1 + 2 * sizeof reply];
    (void)state;
    start(NULL);
    here.echoes = true;
    int fd = sp_peer_connect(here.web_port, 0);
    assert_true(sp_peer_send(fd, request, sizeof request - 1));
    assert_true(sp_peer_send(fd, frame_a, sizeof frame_a));
    assert_true(sp_peer_send(fd, frame_a, sizeof frame_a));
    run_until_taken(2);
    run_until(has_flushed);
    receive(fd, got, sizeof got);
    const uint8_t *at = expect_bytes(got, accepted, sizeof accepted - 1);
    expect_bytes(expect_bytes(at, reply, sizeof reply), reply, sizeof reply);
    close(fd);
    stop();
}

/* libnng takes no frame above a mebibyte. */
static void over_websocket_a_long_answer_goes_in_frames(void **state)
{
    enum { MIB = 1 << 20, LEN = 2 * MIB + 5 };
    static uint8_t text[LEN], got[LEN + 512];
    static const uint8_t first[] = {0x02, 127, 0, 0, 0, 0, 0, 0x10, 0, 0}, second[] = {0x00, 127, 0, 0, 0, 0, 0, 0x10, 0, 0};
    static const uint8_t last[] = {0x80, 9}, id[] = {0x80, 0, 0, 1};
    (void)state;
    for (size_t i = 0; i < LEN; i++)
        text[i] = (uint8_t)(i * 31 >> 4);
    start(NULL);
    int fd = sp_peer_connect(here.web_port, 0);
    assert_true(sp_peer_send(fd, request, sizeof request - 1));
    assert_true(sp_peer_send(fd, frame_a, sizeof frame_a));
    run_until_taken(1);
    end_one(0, text, LEN);
    size_t n = 0, wanted = sizeof first + sizeof second + sizeof last + sizeof id + LEN;
    while (n < sizeof accepted - 1 + wanted) {
        /* The kernel does not hold all of it: the loop must write on. */
        uv_run(&here.loop, UV_RUN_NOWAIT);
        ssize_t more = recv(fd, got + n, sizeof got - n, MSG_DONTWAIT);
        n += more > 0 ? (size_t)more : 0;
    }
    assert_int_equal(n, sizeof accepted - 1 + wanted);
    const uint8_t *at = got;
    at = expect_bytes(at, accepted, sizeof accepted - 1);
    at = expect_bytes(at, first, sizeof first);
    at = expect_bytes(at, id, sizeof id);
    at = expect_bytes(at, text, MIB - sizeof id);
    at = expect_bytes(at, second, sizeof second);
    at = expect_bytes(at, text + MIB - sizeof id, MIB);
    at = expect_bytes(at, last, sizeof last);
    expect_bytes(at, text + 2 * MIB - sizeof id, LEN - (2 * MIB - sizeof id));
    close(fd);
    stop();
}

static void who_does_not_finish_the_handshake_is_closed(void **state)
{
    const streams_options soon = {.connections_max = 100, .greeting_ms = 1};
    (void)state;
    start(&soon);
    int silent = sp_peer_connect(here.web_port, 0);
    int half = sp_peer_connect(here.web_port, 0);
    assert_true(sp_peer_send(half, request, sizeof request - 2));
    run_until_lost(2);
    close(silent);
    close(half);
    stop();
}

/* The one that began first goes for the third. */
static void a_handshake_takes_a_place(void **state)
{
    const streams_options two = {.connections_max = 2};
    int fds[3];
    (void)state;
    start(&two);
    for (size_t i = 0; i < 3; i++)
        fds[i] = sp_peer_connect(here.web_port, 0);
    run_until_closed(fds[0]);
    assert_true(sp_peer_send(fds[1], request, sizeof request - 1));
    assert_true(sp_peer_send(fds[1], frame_a, sizeof frame_a));
    run_until_taken(1);
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
    stop();
}

static void paths_that_are_none(void **state)
{
    static const char *const paths[] = {"", "x", "/a b", "/a?b", "/a#b", "/\n", "/\xC3\xA4"};
    lks_error error;
    uint16_t port;
    (void)state;

    start(NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(sp_server_listen_websocket(here.server, "127.0.0.1:0", paths[i], NULL, &port, &error),
                         LKS_INVALID_ARGUMENT);
    stop();
}

static void a_unix_socket_is_its_owners_and_a_stale_one_is_replaced(void **state)
{
    char *dir = tempdir_make();
    char path[128];
    struct stat found;
    lks_error error;
    (void)state;

    snprintf(path, sizeof path, "%s/sock", dir);
    start(NULL);
    assert_int_equal(sp_server_listen_unix(here.server, path, &error), LKS_OK);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(sp_server_listen_unix(here.server, path, &error), LKS_UNAVAILABLE);
    assert_int_equal(sp_server_listen_unix(here.server, "relative", &error), LKS_INVALID_ARGUMENT);
    stop();
    start(NULL);
    assert_int_equal(sp_server_listen_unix(here.server, path, &error), LKS_OK);
    stop();
    tempdir_remove(dir);
}

static void addresses_that_are_none(void **state)
{
    static const char *const addresses[] = {"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:1/x", "[::1"};
    lks_error error;
    uint16_t port;
    (void)state;

    start(NULL);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        assert_int_equal(sp_server_listen_tcp(here.server, addresses[i], NULL, &port, &error), LKS_INVALID_ARGUMENT);
    char taken_address[32];
    snprintf(taken_address, sizeof taken_address, "127.0.0.1:%u", here.port);
    assert_int_equal(sp_server_listen_tcp(here.server, taken_address, NULL, &port, &error), LKS_UNAVAILABLE);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_go_in_the_order_in_which_they_are_done),
        cmocka_unit_test(a_connection_with_calls_that_queue_is_not_read),
        cmocka_unit_test(many_that_are_answered_at_once),
        cmocka_unit_test(the_end_of_a_peer_whose_calls_queue_is_seen),
        cmocka_unit_test(the_end_of_a_peer_that_takes_nothing_is_seen),
        cmocka_unit_test(the_end_of_a_peer_on_a_unix_socket_is_seen),
        cmocka_unit_test(a_costly_peer_is_read_in_turns),
        cmocka_unit_test(what_a_lost_peer_left_is_answered_to_nobody),
        cmocka_unit_test(what_a_lost_peer_left_may_be_answered_at_once),
        cmocka_unit_test(what_is_no_frame_ends_the_connection_and_what_follows_it),
        cmocka_unit_test(what_is_no_sp_is_closed),
        cmocka_unit_test(a_stopping_server_goes_on_with_those_it_has),
        cmocka_unit_test(over_websocket_the_first_answer_is_to_the_request),
        cmocka_unit_test(over_websocket_a_long_answer_goes_in_frames),
        cmocka_unit_test(who_does_not_finish_the_handshake_is_closed),
        cmocka_unit_test(a_handshake_takes_a_place),
        cmocka_unit_test(paths_that_are_none),
        cmocka_unit_test(connections_have_a_limit),
        cmocka_unit_test(the_idlest_is_given_up_for_a_newcomer),
        cmocka_unit_test(who_is_known_is_not_given_up),
        cmocka_unit_test(an_address_has_a_limit_of_its_own),
        cmocka_unit_test(who_does_not_greet_is_closed),
        cmocka_unit_test(who_is_idle_is_closed_and_who_waits_is_not),
        cmocka_unit_test(who_reads_nothing_is_not_read_and_then_closed),
        cmocka_unit_test(what_is_half_read_or_left_over_is_held),
        cmocka_unit_test(what_finds_no_room_is_refused_and_the_connection_goes_on),
        cmocka_unit_test(output_is_held_and_holds_calls_back),
        cmocka_unit_test(who_does_not_finish_a_message_is_closed),
        cmocka_unit_test(who_is_slow_but_finishes_is_not_closed),
        cmocka_unit_test(a_unix_socket_is_its_owners_and_a_stale_one_is_replaced),
        cmocka_unit_test(addresses_that_are_none),
    };
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "sp_scene.h"
#include "base/clock.h"
#include "support/loop_until.h"
#include "test.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct sp_scene here;

/* Unanswered messages of one caller. */
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

void end_one(size_t i, const void *text, size_t len)
{
    taken *t = &here.taken[i];
    void *space = t->port->answer(t->message, len);

    assert_non_null(space);
    memcpy(space, text, len);
    t->port->reply(t->message);
    forget(i);
}

void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    unsigned peer = fake_caller_number(sender->caller);
    static const char answer[BIG];

    assert_true(received_ns > 0);
    assert_true(here.n < MESSAGES_MAX);
    while (len > 0 && *(const char *)data == 'c' && clock_now_ns() < received_ns + here.costs_ns)
        ;
    here.taken[here.n++] = (taken){port, message, sender->caller, peer, len > 0 ? *(const char *)data : '\0'};
    if (here.answer_len > 0)
        end_one(here.n - 1, answer, here.answer_len);
    else if (here.echoes)
        end_one(here.n - 1, data, len);
    else if (count_under_way(peer) >= IN_FLIGHT)
        fake_caller_queues(sender->caller, true);
}

void frames_refuse(frames *f, const frames_port *port, void *message, size_t n)
{
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

static bool holds(void *condition)
{
    return (*(bool (**)(void))condition)();
}

void run_until(bool (*condition)(void))
{
    assert_true(loop_until(&here.loop, holds, &condition, &here.ticks));
    for (int turns = 0; turns < 2; turns++)
        uv_run(&here.loop, UV_RUN_NOWAIT);
}

bool has_taken(void)
{
    return here.n >= here.wanted;
}

bool has_lost(void)
{
    return fake_callers.lost >= here.wanted;
}

bool has_opened(void)
{
    return fake_callers.opened >= here.wanted;
}

bool has_refused(void)
{
    return here.refused >= here.wanted;
}

bool has_flushed(void)
{
    return !streams_flushing(here.streams);
}

static bool is_closed(void)
{
    return here.closed;
}

void run_until_taken(size_t n)
{
    here.wanted = n;
    run_until(has_taken);
    assert_int_equal(here.n, n);
}

void run_until_lost(size_t n)
{
    here.wanted = n;
    run_until(has_lost);
    assert_int_equal(fake_callers.lost, n);
}

void start(const streams_options *given)
{
    streams_options options = given ? *given : (streams_options){.connections_max = 100};
    lks_error error;

    memset(&here, 0, sizeof here);
    fake_callers_reset(on_caller_lost);
    uv_loop_init(&here.loop);
    options.loop = &here.loop;
    assert_int_equal(streams_new(&options, &here.streams, &error), LKS_OK);
    const sp_server_options server = {.streams = here.streams, .sink = &fake_sink, .message_bytes_max = BIG};
    assert_int_equal(sp_server_new(&server, &here.server, &error), LKS_OK);
    const stream_address any = {.text = "127.0.0.1:0"};
    assert_int_equal(sp_server_listen(here.server, &any, &here.port, &error), LKS_OK);
    assert_int_equal(sp_server_listen_websocket(here.server, &any, "/x", &here.web_port, &error), LKS_OK);
}

lks_code listen_unix(const char *path)
{
    uint16_t none = 1;
    lks_error error;

    lks_code code = sp_server_listen(here.server, &(stream_address){.text = path, .is_unix = true}, &none, &error);
    assert_true(code != LKS_OK || none == 0);
    return code;
}

static void on_closed(void *arg)
{
    assert_ptr_equal(arg, &here);
    here.closed = true;
}

void stop(void)
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

/* ---- peers: their bytes wait in the kernel until the loop runs ------------------ */

const uint8_t handshake[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

int open_peer(void)
{
    int fd = sp_peer_connect(here.port, 0);

    assert_true(fd >= 0);
    assert_true(sp_peer_send(fd, handshake, sizeof handshake));
    return fd;
}

void send_text(int fd, uint32_t id, char text)
{
    size_t len;
    uint8_t *message = sp_peer_message(id, &text, 1, &len);

    assert_true(sp_peer_send(fd, message, len));
    free(message);
}

void receive(int fd, uint8_t *to, size_t len)
{
    for (size_t n = 0; n < len;) {
        ssize_t more = read(fd, to + n, len - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
}

void expect_greeting(int fd)
{
    static const uint8_t rep[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t got[sizeof rep];

    receive(fd, got, sizeof got);
    assert_memory_equal(got, rep, sizeof rep);
}

void expect_answer(int fd, uint32_t id, char text)
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

/* The server has closed it; earlier output is skipped. */
static int closing_fd;

static bool is_hung_up(void)
{
    char bytes[256];
    ssize_t n;

    while ((n = recv(closing_fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        ;
    return n == 0 || errno != EAGAIN;
}

void run_until_closed(int fd)
{
    closing_fd = fd;
    run_until(is_hung_up);
}

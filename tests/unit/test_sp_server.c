/* SP connections on a real loop: which calls are taken, when they are answered, and the ends of a
 * connection. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sp_scene.h"
#include "support/tempdir.h"
#include "test.h"

/* ---- tests ---------------------------------------------------------------------- */

TEST(stopping_server_serves_its_open_connections)
{
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

TEST(idle_peer_is_closed_and_waiting_peer_is_not)
{
    const streams_options soon = {.connections_max = 100, .idle_ms = 1};
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

/* libnng takes no frame above a mebibyte. */
/* promise WS7 */
TEST(over_websocket_a_long_answer_goes_in_frames)
{
    enum { MIB = 1 << 20, LEN = 2 * MIB + 5 };
    static uint8_t text[LEN], got[LEN + 512];
    static const uint8_t first[] = {0x02, 127, 0, 0, 0, 0, 0, 0x10, 0, 0},
                         second[] = {0x00, 127, 0, 0, 0, 0, 0, 0x10, 0, 0};
    static const uint8_t last[] = {0x80, 9}, id[] = {0x80, 0, 0, 1};
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

TEST(invalid_paths_are_refused)
{
    static const char *const paths[] = {"", "x", "/a b", "/a?b", "/a#b", "/\n", "/\xC3\xA4"};
    lks_error error;
    uint16_t port;
    start(NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(
            sp_server_listen_websocket(here.server, &(stream_address){.text = "127.0.0.1:0"}, paths[i], &port, &error),
            LKS_INVALID_ARGUMENT);
    stop();
}

TEST(a_unix_socket_is_its_owners_and_a_stale_one_is_replaced)
{
    char *dir = tempdir_make();
    char path[128];
    struct stat found;
    snprintf(path, sizeof path, "%s/sock", dir);
    start(NULL);
    assert_int_equal(listen_unix(path), LKS_OK);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(listen_unix(path), LKS_UNAVAILABLE);
    assert_int_equal(listen_unix("relative"), LKS_INVALID_ARGUMENT);
    stop();
    start(NULL);
    assert_int_equal(listen_unix(path), LKS_OK);
    stop();
    tempdir_remove(dir);
}

TEST(invalid_addresses_are_refused)
{
    static const char *const addresses[] = {"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:1/x", "[::1"};
    lks_error error;
    uint16_t port;
    start(NULL);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        assert_int_equal(sp_server_listen(here.server, &(stream_address){.text = addresses[i]}, &port, &error),
                         LKS_INVALID_ARGUMENT);
    char taken_address[32];
    snprintf(taken_address, sizeof taken_address, "127.0.0.1:%u", here.port);
    assert_int_equal(sp_server_listen(here.server, &(stream_address){.text = taken_address}, &port, &error),
                     LKS_UNAVAILABLE);
    stop();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    return TEST_RUN();
}

/* WebSocket on a real lockstockd: refused clients, and connections that are never
 * completed. */

#include <signal.h>
#include <sys/resource.h>

#include "conformance/line.h"
#include "support/process.h"
#include "support/server_fixture.h"
#include "test.h"

enum { CONNECTIONS_MAX = 8, SPARE_DESCRIPTORS = 40, PEERS = 200 };

#define REST                                                                                       \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n"
#define BEGINNING "GET /lockstock HTTP/1.1\r\nHost: 127.0.0.1\r\n"

static server_fixture *server;

static void start(const char *scheme, const char *const *args)
{
    server = server_fixture_start(&(server_fixture_options){.scheme = scheme, .args = args});
    assert_non_null(server);
}

static int stop(void **state)
{
    if (!server)
        return 0;
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    server = NULL;
    return status;
}

static line *open_line(void)
{
    line *l = line_open(server_fixture_url(server), server_fixture_certificate(server), NULL);

    assert_non_null(l);
    return l;
}

/* The status that a request gets; 0: the connection ends without one. */
static unsigned status_of(const char *request)
{
    char answer[16] = "";
    unsigned status = 0;
    line *l = open_line();

    if (line_send(l, request, strlen(request)) && line_receive_all(l, answer, 12))
        sscanf(answer, "HTTP/1.1 %u", &status);
    line_close(l);
    return status;
}

static unsigned status_from(const char *origin)
{
    char request[512];

    snprintf(request, sizeof request, BEGINNING "Origin: %s\r\n" REST, origin);
    return status_of(request);
}

/* ---- tests ---------------------------------------------------------------------- */

/* promise WS1: a web page may not connect unless its origin is named: 403; two Origins are refused */
TEST(a_page_that_is_named_may)
{
    static const char *const args[] = {"--allow-origin", "https://shop.example,http://localhost:3000", "--allow-origin",
                                       "https://till.example", NULL};
    start("ws", args);
    assert_int_equal(status_of(BEGINNING REST), 101);
    assert_int_equal(status_from("https://shop.example"), 101);
    assert_int_equal(status_from("http://localhost:3000"), 101);
    assert_int_equal(status_from("https://till.example"), 101);
    assert_int_equal(status_from("http://shop.example"), 403);
    assert_int_equal(status_from("https://shop.example,http://localhost:3000"), 403);
}

/* libnng kept 2,000 of these over WebSocket, and none ended; those over TCP it did not count. */
/* promise WS3: a handshake that is not finished ends, and takes a place */
TEST(half_open_handshakes_count_and_end)
{
    static const struct {
        const char *scheme, *beginning;
        size_t len;
    } wires[] = {{"ws", BEGINNING, sizeof BEGINNING - 1}, {"nng+tcp", "\0SP", 3}};
    static const char *const args[] = {"--connections", "8", NULL};
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        line *lines[CONNECTIONS_MAX], *one_more;
        start(wires[w].scheme, args);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            lines[i] = open_line();
            assert_true(line_send(lines[i], wires[w].beginning, i % 2 * wires[w].len));
        }
        one_more = open_line();
        assert_true(line_ends(lines[0])); /* it gives way */
        assert_true(line_is_open(one_more));
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            assert_true(line_ends(lines[i]));
            line_close(lines[i]);
        }
        assert_true(line_ends(one_more));
        line_close(one_more);
        assert_int_equal(stop(NULL), 0);
    }
}

/* Without a free descriptor new connections are closed; existing ones are served. */
TEST(descriptors_may_run_out)
{
    static const char ping[] = {(char)0x89, (char)0x82, 1, 2, 3, 4, 'h' ^ 1, 'i' ^ 2};
    static const char pong[] = {(char)0x8a, 2, 'h', 'i'};
    static line *peers[PEERS];
    char answer[4096];
    struct rlimit limit;
    start("ws", NULL);
    pid_t pid = server_fixture_pid(server);
    size_t before = process_fd_count(pid);
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = before + SPARE_DESCRIPTORS;
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
    line *known = open_line();
    assert_true(line_send(known, BEGINNING REST, sizeof BEGINNING REST - 1));
    assert_true(line_receive(known, answer, sizeof answer) > 0);
    for (size_t i = 0; i < PEERS; i++)
        peers[i] = open_line();
    assert_true(line_ends(peers[PEERS - 1]));
    for (size_t i = 0; i < 100; i++) {
        assert_true(line_send(known, ping, sizeof ping));
        assert_true(line_receive_all(known, answer, sizeof pong));
        assert_memory_equal(answer, pong, sizeof pong);
    }
    for (size_t i = 0; i < PEERS; i++)
        line_close(peers[i]);
    while (process_fd_count(pid) > before + 1)
        process_pause();
    assert_int_equal(status_of(BEGINNING REST), 101);
    line_close(known);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    return TEST_RUN(.teardown = stop);
}

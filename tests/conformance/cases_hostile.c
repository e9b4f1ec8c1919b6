/* Peers that do not keep to the wire. Others are served all the while, and nothing of
 * them stays: descriptors, memory. */
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "conformance/line.h"
#include "support/counts.h"

enum { HALF_OPEN = 1000, GROWTH_MAX_KIB = 64 * 1024, SETTLE_MS = 20000 };

static const char *url(void)
{
    return server_fixture_url(here.server);
}

/* A refusal for want of room may come first: calls of those who are gone are under way. */
static void assert_caller_is_served(void *caller)
{
    long long end = process_now_ms() + PATIENCE_MS;
    outcome got;

    while ((got = suite_get(caller, "pear")).code == LKS_RESOURCE_EXHAUSTED && process_now_ms() < end)
        process_pause();
    suite_expect_available(got, "pear", 7);
}

/* Known to it, and one who only comes now. */
static void assert_served(void *caller)
{
    void *newcomer = suite_open(here.server);

    assert_caller_is_served(caller);
    assert_caller_is_served(newcomer);
    suite_close(newcomer);
}

typedef struct weight {
    size_t fds, rss_kib;
} weight;

static weight weigh(void)
{
    pid_t pid = server_fixture_pid(here.server);

    return (weight){process_fd_count(pid), process_rss_kib(pid)};
}

static void assert_as_before(weight before)
{
    long long end = process_now_ms() + SETTLE_MS;
    weight after;

    while ((after = weigh()).fds > before.fds && process_now_ms() < end)
        process_pause();
    print_message("    descriptors %zu -> %zu, memory %zu -> %zu KiB\n", before.fds, after.fds, before.rss_kib,
                  after.rss_kib);
    assert_true(after.fds <= before.fds);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    assert_true(after.rss_kib <= before.rss_kib + GROWTH_MAX_KIB);
#endif
}

enum { BEGINNING_MAX = 256 };

/* The valid bytes with which a peer may begin before it sends noise. */
static size_t put_beginning(uint8_t to[BEGINNING_MAX])
{
    static const uint8_t req[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    static const char http2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char upgrade[] =
        "GET /lockstock HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";
    const void *from = req;
    size_t len = sizeof req;

    if (here.wire->driver == &grpc_driver) {
        from = http2;
        len = sizeof http2 - 1;
    } else if (strstr(here.wire->scheme, "ws")) {
        from = upgrade;
        len = sizeof upgrade - 1;
    }
    memcpy(to, from, len);
    return len;
}

TEST(random_bytes_do_not_affect_other_clients)
{
    void *caller = suite_open(here.server);
    const char *certificate = server_fixture_certificate(here.server);
    uint8_t noise[4096];
    assert_served(caller);
    weight before = weigh();
    for (size_t i = 0; i < counts_of(60, 2000); i++) {
        line *l = line_open(url(), i % 2 == 0 ? NULL : certificate, here.wire->driver == &grpc_driver ? "h2" : NULL);
        assert_non_null(l);
        assert_int_equal(getrandom(noise, sizeof noise, 0), sizeof noise);
        size_t len = 64 + noise[0] * 15U, at = 0;
        if (i % 4 > 1)
            at = put_beginning(noise);
        if (i % 8 > 5)
            memset(noise + at, 0, 6); /* a length that is possible */
        else if (i % 8 == 5)
            memset(noise + at, 0xff, 8); /* one that is not */
        (void)line_send(l, noise, len);  /* it may be closed before all is sent */
        line_close(l);
        if (i % 20 == 0)
            assert_served(caller);
    }
    assert_served(caller);
    assert_as_before(before);
    suite_close(caller);
}

TEST(half_open_connections_do_not_affect_others)
{
    void *caller = suite_open(here.server);
    line **lines = calloc(HALF_OPEN, sizeof *lines);
    assert_non_null(lines);
    assert_served(caller);
    weight before = weigh();
    for (size_t i = 0; i < HALF_OPEN; i++) {
        uint8_t bytes[BEGINNING_MAX];
        lines[i] = line_open(url(), NULL, NULL);
        assert_non_null(lines[i]);
        size_t len = put_beginning(bytes);
        /* Nothing; a part of the handshake; all of it and no more. (Over TLS this is no
         * handshake, except where nothing is sent.) */
        (void)line_send(lines[i], bytes, i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : len);
        if (i % 200 == 0)
            assert_served(caller);
    }
    assert_served(caller);
    for (size_t i = 0; i < HALF_OPEN; i++)
        line_close(lines[i]);
    free(lines);
    assert_served(caller);
    assert_as_before(before);
    suite_close(caller);
}

/* Each sends calls and is gone before the answers. */
TEST(vanishing_peers_leave_nothing)
{
    void *caller = suite_open(here.server);
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    if (here.wire->driver == &nng_driver) {
        suite_close(caller);
        skip(); /* it is the client's libnng that would not end (docs/client.md) */
    }
    get.group = get.sku = "pear";
    assert_served(caller);
    weight before = weigh();
    for (size_t i = 0; i < counts_of(60, 1000); i++) {
        void *peer = suite_open(here.server);
        for (int k = 0; k < 8; k++)
            (void)suite_start(peer, STOCK "GetItem", &get, PATIENCE_MS);
        suite_close(peer);
    }
    assert_served(caller);
    assert_as_before(before);
    suite_close(caller);
}

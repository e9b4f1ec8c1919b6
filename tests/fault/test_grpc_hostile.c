/* lockstockd on grpc:// under malformed calls by the thousand: each is refused, or ends
 * its connection; others are served all the while, and memory stays bounded. */

#include <signal.h>

#include <nghttp2/nghttp2.h>

#include "support/counts.h"
#include "support/h2_peer.h"
#include "support/server_fixture.h"
#include "test.h"

enum { PEERS = 8, BATCH = 100, LIMIT_MS = 60000, GROWTH_MAX_KIB = 64 * 1024 };

static server_fixture *server;

static int start(void **state)
{
    static const char *const args[] = {"--memory-bytes", "16777216", NULL};
    server = server_fixture_start(&(server_fixture_options){.scheme = "grpc", .args = args});
    return server ? 0 : -1;
}

static int stop(void **state)
{
    bool stopped = server_fixture_stop(server, LIMIT_MS);
    server_fixture_free(server);
    return stopped ? 0 : -1;
}

static h2_peer *open_peer(void)
{
    h2_peer *p = h2_peer_open(server_fixture_port(server), 0);

    assert_non_null(p);
    return p;
}

/* A whole message: DecodeRequest{id: 1}. */
static const uint8_t decode[] = {0, 0, 0, 0, 2, 0x08, 1};
static const char decode_path[] = "/lockstock.v1.IdService/Decode", next_path[] = "/lockstock.v1.IdService/Next";

static void assert_others_are_served(void)
{
    h2_peer *p = open_peer();
    size_t call = h2_peer_call(p, decode_path, NULL, decode, sizeof decode, false);
    long long end = process_now_ms() + LIMIT_MS;

    while (!h2_peer_answer(p, call)->closed && process_now_ms() < end)
        assert_true(h2_peer_turn(p));
    assert_string_equal(h2_peer_header(p, call, "grpc-status"), "0");
    h2_peer_free(p);
}

/* The n-th malformed call: its headers, its framing, its Protobuf. */
static void send_malformed(h2_peer *p, size_t n)
{
    static const uint8_t truncated[] = {0, 0, 0, 0, 9, 1}, too_long[] = {0, 0xff, 0xff, 0xff, 0xff},
                         unknown_flag[] = {7, 0, 0, 0, 0}, no_gzip[] = {1, 0, 0, 0, 3, 1, 2, 3},
                         no_protobuf[] = {0, 0, 0, 0, 3, 0xff, 0xff, 0xff}, two[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const struct {
        const char *path, *fields[3];
        const uint8_t *body;
        size_t len;
    } kinds[] = {
        {decode_path, {NULL}, truncated, sizeof truncated},
        {decode_path, {NULL}, too_long, sizeof too_long},
        {decode_path, {NULL}, unknown_flag, sizeof unknown_flag},
        {decode_path, {"grpc-encoding", "gzip", NULL}, no_gzip, sizeof no_gzip},
        {decode_path, {NULL}, no_protobuf, sizeof no_protobuf},
        {decode_path, {NULL}, two, sizeof two},
        {decode_path, {NULL}, NULL, 0},
        {decode_path, {"content-type", "text/plain", NULL}, decode, sizeof decode},
        {decode_path, {"grpc-timeout", "soon", NULL}, decode, sizeof decode},
        {"/no.Service/Method", {NULL}, decode, sizeof decode},
    };
    size_t k = n % (sizeof kinds / sizeof kinds[0]);

    h2_peer_call(p, kinds[k].path, kinds[k].fields, kinds[k].body, kinds[k].len, false);
}

static bool refused(const h2_peer *p, size_t call)
{
    const h2_answer *answer = h2_peer_answer(p, call);
    char status[16];

    if (!answer->closed)
        return false;
    snprintf(status, sizeof status, "%s", h2_peer_header(p, call, "grpc-status"));
    if (strcmp(status, "0") == 0)
        fail_msg("malformed call %zu was served", call);
    return true;
}

TEST(malformed_calls_by_the_thousand)
{
    static const uint8_t no_frame[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    size_t batches = counts_of(5, 100), n_refused = 0;
    assert_others_are_served();
    size_t before = process_rss_kib(server_fixture_pid(server));
    long long begun = process_now_ms();
    for (size_t b = 0; b < batches; b++) {
        h2_peer *peers[PEERS];
        for (size_t i = 0; i < PEERS; i++) {
            peers[i] = open_peer();
            for (size_t n = 0; n < BATCH; n++)
                send_malformed(peers[i], n);
        }
        for (size_t i = 0; i < PEERS; i++) {
            long long end = process_now_ms() + LIMIT_MS;
            for (size_t n = 0; n < BATCH; n++) {
                while (!refused(peers[i], n)) {
                    assert_true(h2_peer_turn(peers[i]));
                    assert_true(process_now_ms() < end);
                }
                n_refused++;
            }
            /* And what is no HTTP/2 ends the connection. */
            h2_peer_raw(peers[i], no_frame, sizeof no_frame);
            while (h2_peer_turn(peers[i]))
                assert_true(process_now_ms() < end);
            h2_peer_free(peers[i]);
        }
        assert_others_are_served();
    }
    long long ms = process_now_ms() - begun;
    print_message("    %zu calls refused in %lld ms: %lld a second\n", n_refused, ms,
                  (long long)n_refused * 1000 / (ms > 0 ? ms : 1));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    size_t rss = process_rss_kib(server_fixture_pid(server));
    if (rss > before + GROWTH_MAX_KIB)
        fail_msg("resident memory grew from %zu to %zu KiB", before, rss);
#else
    (void)before; /* a sanitizer keeps what is freed */
#endif
}

/* NextRequest{kind: UUID_V7, count: 10000}, which are 36 bytes each. */
static const uint8_t next[] = {0, 0, 0, 0, 5, 0x08, 2, 0x18, 0x90, 0x4e};

/* Calls whose answers are long and are not taken: of each connection the server makes a mebibyte of them and no more,
 * and serves others meanwhile. Who takes nothing at all is given up. */
/* promise G6 */
/* promise G13: an answer that is not taken is dropped in time, alone; when none is taken, with its connection */
TEST(answers_that_nobody_takes)
{
    enum { CALLS = 100, ANSWERS_MAX = 3 /* of 350 KiB */, ANSWERS_MAX_KIB = ANSWERS_MAX * 350 };
    size_t n_peers = counts_of(2, 10), n_begun = 0;
    h2_peer *peers[10];
    size_t before = process_rss_kib(server_fixture_pid(server));
    for (size_t i = 0; i < n_peers; i++) {
        assert_non_null(peers[i] = h2_peer_open(server_fixture_port(server), 1));
        for (size_t n = 0; n < CALLS; n++)
            h2_peer_call(peers[i], next_path, NULL, next, sizeof next, false);
    }
    long long end = process_now_ms() + LIMIT_MS;
    for (size_t i = 0; i < n_peers; i++)
        while (h2_peer_answer(peers[i], 0)->blocks == 0) {
            assert_true(h2_peer_turn(peers[i]));
            assert_true(process_now_ms() < end);
        }
    assert_others_are_served();
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    size_t rss = process_rss_kib(server_fixture_pid(server));
    if (rss > before + n_peers * ANSWERS_MAX_KIB + GROWTH_MAX_KIB)
        fail_msg("resident memory grew from %zu to %zu KiB", before, rss);
#else
    (void)before;
#endif
    for (size_t i = 0; i < n_peers; i++) {
        while (h2_peer_turn(peers[i])) /* it does not take a byte, and is closed */
            assert_true(process_now_ms() < end);
        for (size_t n = 0; n < CALLS; n++) {
            const char *status = h2_peer_header(peers[i], n, "grpc-status");
            bool is_late = strcmp(status, "4") == 0; /* it was held for longer than it had */
            assert_true(is_late || status[0] == '\0');
            n_begun += h2_peer_answer(peers[i], n)->blocks > 0 && !is_late;
        }
        h2_peer_free(peers[i]);
    }
    print_message("    %zu answers begun\n", n_begun);
    assert_in_range(n_begun, n_peers, n_peers * ANSWERS_MAX);
    assert_others_are_served();
}

/* The peer's calls queue until it takes answers, and it takes none. A stop that waited for them would last until the
 * connection is closed for taking none. That is longer than the whole stop may take. */
/* promise W15 */
TEST(a_stop_does_not_wait_for_answers_that_nobody_takes)
{
    enum { CALLS = 100 };
    static const char *const args[] = {"--drain-ms", "100", "--log-level", "debug", NULL};
    server_fixture *stopping = server_fixture_start(&(server_fixture_options){.scheme = "grpc", .args = args});
    assert_non_null(stopping);
    h2_peer *peer = h2_peer_open(server_fixture_port(stopping), 1);
    assert_non_null(peer);
    for (size_t n = 0; n < CALLS; n++)
        h2_peer_call(peer, next_path, NULL, next, sizeof next, false);
    while (h2_peer_answer(peer, 0)->blocks == 0)
        assert_true(h2_peer_turn(peer));
    process *program = server_fixture_process(stopping);
    process_signal(program, SIGTERM);
    assert_true(process_exited_with(program, 0, LIMIT_MS));
    const char *output = process_output(program);
    assert_null(strstr(output, "answers were not taken in time"));
    assert_non_null(strstr(output, "the server stops"));
    h2_peer_free(peer);
    server_fixture_free(stopping);
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)

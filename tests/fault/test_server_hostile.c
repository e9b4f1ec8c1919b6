/* Hostile peers on lockstockd's port. While each misbehaves, others are served
 * within a second, and the server's memory stays bounded. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/v1/stock.lks_client.h>

#include "support/counts.h"
#include "support/server_fixture.h"
#include "support/sp_peer.h"
#include "test.h"

/* A call's deadline. Sanitizers take their share of the second; and in the soak eight
 * peers have thousands of batch reads before every other call. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SERVED_MS 10000
#else
#define SERVED_MS ((long long)counts_of(1000, 10000))
#endif
enum { GROWTH_MAX_KIB = 192 * 1024, ITEMS = 64 };

static server_fixture *server;
static lks_channel *others;
static size_t rss_before;

/* A refusal for want of room, which says when to come again, may be among the
 * answers: a burst of thousands of calls is being worked off. */
static void assert_others_are_served(void)
{
    long long end = process_now_ms() + SERVED_MS;
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_error error = {0};
    lks_code code;

    request.group = "g";
    request.sku = "sku-00";
    do {
        const lks_call_options options = {.timeout_ms = (uint32_t)(end - process_now_ms()) + 1};
        code = lks_stock_get_item(others, &request, &options, NULL, &error);
        process_pause();
    } while (code == LKS_RESOURCE_EXHAUSTED && error.applied == LKS_APPLIED_NO && process_now_ms() < end);
    if (code != LKS_OK)
        fail_msg("others are not served: %s %s", lks_code_name(code), error.message);
}

/* One more of the others, who only comes now. */
static void assert_newcomer_is_served(void)
{
    lks_channel *kept = others;

    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &others, NULL), LKS_OK);
    assert_others_are_served();
    lks_channel_close(others);
    others = kept;
}

/* TSan's shadow makes memory that was only reserved resident. */
static void assert_memory_is_bounded(void)
{
#if !defined(__SANITIZE_THREAD__)
    size_t rss = process_rss_kib(server_fixture_pid(server));

    if (rss > rss_before + GROWTH_MAX_KIB)
        fail_msg("resident memory grew from %zu to %zu KiB", rss_before, rss);
#endif
}

static int start(void **state)
{
    /* ASan keeps freed memory for a while: not what is measured here. */
    static const char *env[2] = {NULL, NULL};
    static char options[512];
    const char *inherited = getenv("ASAN_OPTIONS");

    snprintf(options, sizeof options, "ASAN_OPTIONS=%s:quarantine_size_mb=16", inherited ? inherited : "");
    env[0] = options;
    server = server_fixture_start(&(server_fixture_options){.env = env});
    if (!server || lks_channel_open(server_fixture_url(server), NULL, &others, NULL) != LKS_OK)
        return -1;
    for (int i = 0; i < ITEMS; i++) {
        lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
        char sku[16];
        snprintf(sku, sizeof sku, "sku-%02d", i);
        request.group = "g";
        request.sku = sku;
        request.on_hand = 1000000;
        if (lks_stock_put_item(others, &request, NULL, NULL, NULL) != LKS_OK)
            return -1;
    }
    rss_before = process_rss_kib(server_fixture_pid(server));
    return 0;
}

static int stop(void **state)
{
    lks_channel_close(others);
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    return status;
}

static int open_peer(void)
{
    int fd = sp_peer_open(server_fixture_port(server));

    assert_true(fd >= 0);
    return fd;
}

/* Each of these lengths ends its connection; nothing is allocated for it. */
TEST(test_impossible_lengths)
{
    static const uint64_t lengths[] = {UINT64_C(0xFFFFFFFFFFFFFFE0), UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 40,
                                       UINT64_C(64) << 20};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t bytes[8 + 64] = {0};
        for (size_t k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(lengths[i] >> (56 - 8 * k));
        int fd = open_peer();
        assert_true(sp_peer_send(fd, bytes, sizeof bytes));
        assert_true(sp_peer_closed(fd));
        close(fd);
        assert_others_are_served();
        assert_newcomer_is_served();
    }
    assert_memory_is_bounded();
}

TEST(test_garbage)
{
    uint8_t noise[4096];

    for (size_t i = 0; i < counts_of(30, 1000); i++) {
        assert_int_equal(getrandom(noise, sizeof noise, 0), sizeof noise);
        int fd = sp_peer_connect(server_fixture_port(server), 0);
        assert_true(fd >= 0);
        size_t len = 1 + noise[0] * 16U;
        if (i % 3 == 1) {
            assert_true(sp_peer_shake(fd)); /* noise as messages */
            memset(noise, 0, 7);
        } else if (i % 3 == 2) {
            assert_true(sp_peer_shake(fd)); /* noise as a frame */
            memset(noise, 0, 6);
            noise[6] = (uint8_t)(1 + noise[6] % 8);
            noise[8] |= 0x80;
        }
        (void)sp_peer_send(fd, noise, len); /* it may be closed before all is sent */
        close(fd);
    }
    assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded();
}

TEST(test_half_frames_held_open)
{
    enum { PEERS = 300 };
    static const uint8_t half[] = {0, 0, 0, 0, 0, 0x0f, 0, 0, 0x80, 0, 0, 1, 0x12};
    int peers[PEERS];

    for (size_t i = 0; i < PEERS; i++) {
        peers[i] = open_peer();
        /* Of the header, of the id, of the body. */
        assert_true(sp_peer_send(peers[i], half, i % 3 == 0 ? 4 : i % 3 == 1 ? 10 : sizeof half));
    }
    for (size_t i = 0; i < 20; i++)
        assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded();
    for (size_t i = 0; i < PEERS; i++)
        close(peers[i]);
    assert_newcomer_is_served();
}

/* Connections that say nothing at all, not even hello. */
TEST(test_silent_connections)
{
    enum { PEERS = 1000 };
    static int peers[PEERS];

    for (size_t i = 0; i < PEERS; i++) {
        peers[i] = sp_peer_connect(server_fixture_port(server), 0);
        assert_true(peers[i] >= 0);
    }
    assert_others_are_served();
    assert_newcomer_is_served();
    for (size_t i = 0; i < PEERS; i++)
        close(peers[i]);
}

/* A call whose answer is long. */
static uint8_t *long_call(uint32_t id, size_t *len)
{
    lks_batch_get_items_request request = LKS_BATCH_GET_ITEMS_REQUEST_INIT;
    char skus[ITEMS][16];
    const char *pointers[ITEMS];
    uint8_t payload[4096];
    size_t frame_len = 0;

    for (int i = 0; i < ITEMS; i++) {
        snprintf(skus[i], sizeof skus[i], "sku-%02d", i);
        pointers[i] = skus[i];
    }
    request.group = "g";
    request.n_skus = ITEMS;
    request.skus = pointers;
    size_t n = protobuf_c_message_pack((const ProtobufCMessage *)(const void *)&request, payload);
    uint8_t *frame = sp_peer_frame("/lockstock.v1.StockService/BatchGetItems", payload, n, 30000, &frame_len);
    uint8_t *message = sp_peer_message(id, frame, frame_len, len);
    free(frame);
    return message;
}

typedef struct pipeliner {
    int fd;
    size_t sent, stalls;
    bool closed;
} pipeliner;

/* Sends up to n more messages, as far as the socket takes them. */
static void pipeline_more(pipeliner *p, size_t n)
{
    for (size_t end = p->sent + n; !p->closed && p->sent < end;) {
        size_t len = 0, done = 0;
        uint8_t *message = long_call((uint32_t)p->sent + 1, &len);
        while (!p->closed && done < len) {
            ssize_t sent = send(p->fd, message + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
            struct pollfd wanted = {.fd = p->fd, .events = POLLOUT};
            if (sent > 0) {
                done += (size_t)sent;
            } else if (errno != EAGAIN && errno != EINTR) {
                p->closed = true;
            } else if (poll(&wanted, 1, 1000) == 0) {
                /* It will not take more: the rest of this message is never sent. */
                p->stalls++;
                p->closed = true;
            }
        }
        free(message);
        p->sent += !p->closed;
    }
}

TEST(test_peer_that_never_reads)
{
    enum { CALLS = 20000, STEP = 1000 };
    size_t n_peers = counts_of(1, 8);
    pipeliner peers[8];

    for (size_t i = 0; i < n_peers; i++) {
        peers[i] = (pipeliner){.fd = sp_peer_connect(server_fixture_port(server), 4096)};
        assert_true(peers[i].fd >= 0);
        assert_true(sp_peer_shake(peers[i].fd));
    }
    for (size_t sent = 0; sent < CALLS; sent += STEP) {
        for (size_t i = 0; i < n_peers; i++)
            pipeline_more(&peers[i], STEP);
        assert_others_are_served();
        assert_memory_is_bounded();
    }
    assert_newcomer_is_served();
    for (size_t i = 0; i < n_peers; i++) {
        print_message("    peer %zu: %zu calls sent, then %s\n", i, peers[i].sent,
                      !peers[i].closed       ? "all taken"
                      : peers[i].stalls == 0 ? "closed by the server"
                                             : "no more taken");
        close(peers[i].fd);
    }
    assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded();
}

/* Pipelines, and is gone before an answer can be sent. */
TEST(test_peers_that_vanish)
{
    size_t n = counts_of(30, 500);

    for (size_t i = 0; i < n; i++) {
        pipeliner p = {.fd = open_peer()};
        pipeline_more(&p, 40);
        close(p.fd);
    }
    assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded();
}

/* A message that is refused: the n-th of a kind each. *closes: with its connection. */
static uint8_t *malformed(size_t n, size_t *len, bool *closes)
{
    static const uint8_t later_version[] = {0x08, 0x01}, no_frame[] = {0xff, 0xff, 0xff, 0xff},
                         no_payload[] = {0x0a, 0x7f, 'x'};
    size_t frame_len = 0;

    *closes = n % 100 == 99;
    if (*closes)
        return sp_peer_message((uint32_t)n, no_frame, sizeof no_frame, len);
    if (n % 3 == 0)
        return sp_peer_message((uint32_t)n, later_version, sizeof later_version, len);
    uint8_t *frame = sp_peer_frame(n % 3 == 1 ? "/lockstock.v1.StockService/GetItem" : "/no.Service/Method", no_payload,
                                   sizeof no_payload, 1000, &frame_len);
    uint8_t *message = sp_peer_message((uint32_t)n, frame, frame_len, len);
    free(frame);
    return message;
}

/* Peers that send nothing else, as fast as it is refused. */
TEST(test_malformed_frames)
{
    enum { PEERS = 8, BATCH = 100 };
    size_t batches = counts_of(25, 500), refused = 0, closed = 0;
    int peers[PEERS];
    for (size_t i = 0; i < PEERS; i++)
        peers[i] = open_peer();
    long long begun = process_now_ms();
    for (size_t b = 0; b < batches; b++) {
        for (size_t i = 0; i < PEERS; i++) {
            for (size_t n = 0; n < BATCH; n++) {
                size_t len = 0;
                bool closes;
                uint8_t *message = malformed(n, &len, &closes);
                assert_true(sp_peer_send(peers[i], message, len));
                free(message);
            }
        }
        for (size_t i = 0; i < PEERS; i++) {
            uint8_t *answer;
            uint32_t id;
            size_t len;
            while ((answer = sp_peer_receive(peers[i], &id, &len))) {
                free(answer);
                refused++;
            }
            closed++;
            close(peers[i]);
            peers[i] = open_peer();
        }
        if (b % 5 == 0)
            assert_others_are_served();
    }
    long long ms = process_now_ms() - begun;
    print_message("    %zu frames refused, %zu connections with them, in %lld ms: %lld a second\n", refused + closed,
                  closed, ms, (long long)(refused + closed) * 1000 / (ms > 0 ? ms : 1));
    for (size_t i = 0; i < PEERS; i++)
        close(peers[i]);
    assert_newcomer_is_served();
    assert_memory_is_bounded();
}

TEST(test_report)
{
    pid_t pid = server_fixture_pid(server);

    print_message("    in the end: %zu descriptors, %zu threads, memory %zu -> %zu KiB\n", process_fd_count(pid),
                  process_thread_count(pid), rss_before, process_rss_kib(pid));
    assert_newcomer_is_served();
}

int main(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* the server's too, which inherits it */
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return TEST_RUN(.setup_all = start, .teardown_all = stop);
}

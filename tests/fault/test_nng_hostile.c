/* The REP context pool against peers that are out to harm it, and what libnng makes
 * of them (docs/nng.md). While each misbehaves, others are served. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/counts.h"
#include "support/process.h"
#include "support/rep_fixture.h"
#include "support/sp_peer.h"
#include "test.h"

enum { GROWTH_MAX_KIB = 64 * 1024 };

static rep_fixture *rep;
static int others = -1;

/* libnng loses the answer that it begins to send to a connection it is closing. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:lks_rpc_nng_request_answer\nleak:refusal\n";
}

static int open_peer(void)
{
    int fd = sp_peer_open(rep_fixture_port(rep));
    assert_true(fd >= 0);
    return fd;
}

static void start(lks_rpc_nng_rep_options options)
{
    rep = rep_fixture_start(options);
    assert_non_null(rep);
    rep_fixture_echo(rep, 0);
    others = open_peer();
}

static int stop(void **state)
{
    close(others);
    rep_fixture_free(rep);
    rep = NULL;
    return 0;
}

static bool asked(int fd)
{
    static uint32_t id;
    uint32_t got = 0;
    size_t len;
    uint8_t *bytes = sp_peer_message(++id, "hello", 5, &len);
    bool sent = sp_peer_send(fd, bytes, len);
    uint8_t *body = sent ? sp_peer_receive(fd, &got, &len) : NULL;
    bool answered = body && (got & 0x7fffffff) == id;
    free(bytes);
    free(body);
    return answered;
}

static void assert_others_are_served(void)
{
    assert_true(asked(others));
}

static void assert_newcomer_is_served(void)
{
    int fd = open_peer();
    assert_true(asked(fd));
    close(fd);
}

static size_t rss_kib(void)
{
    return process_rss_kib(getpid());
}

/* Sanitizers keep what is freed, and shadows of what is only reserved. */
static void assert_memory_is_bounded(size_t before)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    size_t now = rss_kib();
    if (now > before + GROWTH_MAX_KIB)
        fail_msg("resident memory grew from %zu to %zu KiB", before, now);
#else
    (void)before;
#endif
}

static void assert_nothing_leaks(void)
{
    /* nng gives a connection back a moment after it was closed. */
    lks_rpc_nng_rep *pool = rep_fixture_rep(rep);
    long long end = process_now_ms() + 30000;
    while (lks_rpc_nng_rep_leaked(pool) + lks_rpc_nng_rep_connections(pool) > 1 && process_now_ms() < end)
        process_pause();
    assert_int_equal(lks_rpc_nng_rep_connections(pool), 1); /* the others' */
    assert_int_equal(lks_rpc_nng_rep_leaked(pool), 0);
}

/* Each of these lengths ends its connection; nothing is allocated for it. The first
 * one makes libnng write before its buffer, where it is left to itself. */
TEST(impossible_lengths_close_their_connection)
{
    static const uint64_t lengths[] = {UINT64_C(0xFFFFFFFFFFFFFFE0), UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 32,
                                       (1 << 20) + 5};
    start((lks_rpc_nng_rep_options){0});
    size_t before = rss_kib();
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
    assert_memory_is_bounded(before);
    assert_nothing_leaks();
}

TEST(half_messages_may_be_held_open)
{
    enum { PEERS = 300 };
    static const uint8_t half[] = {0, 0, 0, 0, 0, 0x0f, 0, 0, 0x80, 0, 0, 1, 0x12};
    int peers[PEERS];
    start((lks_rpc_nng_rep_options){0});
    size_t before = rss_kib();
    for (size_t i = 0; i < PEERS; i++) {
        peers[i] = open_peer();
        assert_true(sp_peer_send(peers[i], half, i % 3 == 0 ? 4 : i % 3 == 1 ? 10 : sizeof half));
    }
    for (int i = 0; i < 100; i++)
        assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded(before);
    for (size_t i = 0; i < PEERS; i++)
        close(peers[i]);
    assert_others_are_served();
    assert_nothing_leaks();
}

/* ---- peers that do not read -------------------------------------------------- */

typedef struct flood {
    pthread_t thread;
    int fd;
    size_t messages;    /* to be sent */
    atomic_bool closed; /* by the server, before all was sent */
    atomic_bool stop;
} flood;

static void *flood_main(void *arg)
{
    flood *f = arg;
    size_t len;
    uint8_t *bytes = sp_peer_message(7, "a request that nobody reads the answer of", 41, &len);
    for (size_t i = 0; i < f->messages && !f->stop && !f->closed; i++)
        f->closed = !sp_peer_send(f->fd, bytes, len);
    free(bytes);
    return NULL;
}

static void flood_start(flood *f, size_t messages)
{
    *f = (flood){.messages = messages, .fd = sp_peer_connect(rep_fixture_port(rep), 4096)};
    assert_true(f->fd >= 0 && sp_peer_shake(f->fd));
    assert_int_equal(pthread_create(&f->thread, NULL, flood_main, f), 0);
}

/* 20,000 calls, and answers that fill every buffer on the way. The slots that one peer
 * can take are a fraction of all there are; in half a second they are free again. */
TEST(a_peer_that_never_reads_is_closed)
{
    flood f;
    start((lks_rpc_nng_rep_options){0});
    size_t before = rss_kib();
    rep_fixture_echo(rep, 16 * 1024);
    flood_start(&f, 20000);
    assert_int_equal(pthread_join(f.thread, NULL), 0);
    do
        assert_others_are_served();
    while (lks_rpc_nng_rep_connections(rep_fixture_rep(rep)) > 1);
    assert_memory_is_bounded(before);
    /* Its own end reads what there was before, and the end of it. */
    uint8_t sink[65536];
    ssize_t n;
    while ((n = recv(f.fd, sink, sizeof sink, 0)) > 0)
        ;
    assert_true(n == 0 || errno == ECONNRESET);
    close(f.fd);
    assert_newcomer_is_served();
    assert_nothing_leaks();
}

/* To close a connection in the middle of a message hangs libnng for good, so one that
 * sends without pause is left alone until it pauses. */
TEST(a_flood_is_closed_when_it_pauses)
{
    enum { FLOODS = 4 };
    flood floods[FLOODS];
    start((lks_rpc_nng_rep_options){0});
    rep_fixture_echo(rep, 16 * 1024);
    for (size_t i = 0; i < FLOODS; i++)
        flood_start(&floods[i], SIZE_MAX);
    /* By now each has long run into its timeout. */
    size_t end = (size_t)process_now_ms() + counts_of(2000, 20000);
    while ((size_t)process_now_ms() < end)
        assert_others_are_served();
    for (size_t i = 0; i < FLOODS; i++)
        floods[i].stop = true;
    for (size_t i = 0; i < FLOODS; i++) {
        assert_int_equal(pthread_join(floods[i].thread, NULL), 0);
        uint8_t sink[65536];
        while (recv(floods[i].fd, sink, sizeof sink, 0) > 0)
            ;
        close(floods[i].fd);
    }
    assert_newcomer_is_served();
    assert_nothing_leaks();
}

/* ---- peers that vanish, last: libnng does not recover from them --------------- */

TEST(garbage_harms_nobody)
{
    start((lks_rpc_nng_rep_options){0});
    size_t before = rss_kib();
    for (size_t i = 0; i < counts_of(100, 2000); i++) {
        uint8_t noise[512];
        assert_int_equal(getrandom(noise, sizeof noise, 0), sizeof noise);
        int fd = sp_peer_connect(rep_fixture_port(rep), 0);
        assert_true(fd >= 0);
        if (i % 2 == 1) {
            /* A length of up to 64 KiB, and whatever follows it. */
            assert_true(sp_peer_shake(fd));
            memset(noise, 0, 6);
        }
        (void)sp_peer_send(fd, noise, sizeof noise); /* it may be closed before */
        close(fd);
    }
    assert_others_are_served();
    assert_newcomer_is_served();
    assert_memory_is_bounded(before);
}

/* A peer that sends some calls and goes without reading an answer. Where libnng's
 * reaper hangs over it, connections are not given back any more; what can be kept
 * up is service, also to more newcomers than connections_max. */
TEST(peers_that_vanish_take_no_places)
{
    enum { CONNECTIONS_MAX = 32, CALLS = 64 };
    size_t peers = counts_of(300, 3000), hung = 0;
    size_t len;
    start((lks_rpc_nng_rep_options){.connections_max = CONNECTIONS_MAX});
    uint8_t *bytes = sp_peer_message(7, "hello", 5, &len);
    uint8_t *burst = malloc(CALLS * len);
    assert_non_null(burst);
    for (size_t i = 0; i < CALLS; i++)
        memcpy(burst + i * len, bytes, len);
    for (size_t i = 0; i < peers; i++) {
        int fd = sp_peer_open(rep_fixture_port(rep));
        if (fd >= 0) {
            (void)sp_peer_send(fd, burst, CALLS * len);
            struct linger reset = {.l_onoff = i % 2 == 0};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(fd);
        }
        assert_others_are_served();
    }
    /* A newcomer may be turned away while the dead are being counted, but comes in. */
    for (bool served = false; !served;) {
        int fd = sp_peer_open(rep_fixture_port(rep));
        served = fd >= 0 && asked(fd);
        if (fd >= 0)
            close(fd);
    }
    hung = lks_rpc_nng_rep_leaked(rep_fixture_rep(rep));
    print_message("%zu of %zu connections kept by libnng\n", hung, peers);
    free(burst);
    free(bytes);
}

TEST_MAIN(.teardown = stop)

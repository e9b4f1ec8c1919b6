/* A lost peer is told once, after the last of its messages, whatever nng's threads
 * do; and nobody is told after the end. Requests are dropped unanswered: an answer
 * to a peer that dies may be lost inside nng. */
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <lockstock/rpc/exchange.h>
#include "net/nng/nng_rep.h"
#include <nng/nng.h>

#include "support/sp_peer.h"
#include "test.h"

enum { EVENTS_MAX = 4096, WAIT_SECONDS = 60, PEERS = 200 };

typedef enum kind { REQUEST, REQUEST_DONE, LOST, KINDS } kind;

typedef struct event {
    kind kind;
    uint32_t peer;
} event;

static struct {
    lks_rpc_nng_rep *rep;
    uint16_t port;
    bool linger; /* on_request returns only when nng has given the connection back */
    bool closes; /* on_request closes the peer */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    event events[EVENTS_MAX];
    size_t n, n_of[KINDS];
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note(kind what, uint32_t peer)
{
    pthread_mutex_lock(&here.lock);
    if (here.n == EVENTS_MAX)
        abort();
    here.events[here.n++] = (event){what, peer};
    here.n_of[what]++;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
}

/* libnng's threads write it at any time. */
static size_t count_of(kind what)
{
    pthread_mutex_lock(&here.lock);
    size_t n = here.n_of[what];
    pthread_mutex_unlock(&here.lock);
    return n;
}

/* nng forgets a pipe's id right after its REM_POST callback returned. */
static void wait_until_given_back(uint32_t peer)
{
    uint64_t limit = lks_rpc_now_ns() + (uint64_t)WAIT_SECONDS * 1000000000;
    nng_sockaddr address;

    while (nng_pipe_get_addr((nng_pipe){.id = peer}, NNG_OPT_REMADDR, &address) != NNG_ENOENT &&
           lks_rpc_now_ns() < limit)
        sched_yield();
}

static void on_request(void *arg, lks_rpc_nng_request *request)
{
    uint32_t peer = lks_rpc_nng_request_peer(request);

    (void)arg;
    note(REQUEST, peer);
    if (here.linger)
        wait_until_given_back(peer);
    if (here.closes)
        lks_rpc_nng_request_close_peer(request);
    else
        lks_rpc_nng_request_drop(request);
    note(REQUEST_DONE, peer);
}

static void on_peer_lost(void *arg, uint32_t peer)
{
    (void)arg;
    note(LOST, peer);
}

static void start(uint32_t connections_max)
{
    const lks_rpc_nng_rep_options options = {
        .connections_max = connections_max, .on_request = on_request, .on_peer_lost = on_peer_lost};

    here.n = 0;
    memset(here.n_of, 0, sizeof here.n_of);
    here.linger = here.closes = false;
    assert_int_equal(lks_rpc_nng_rep_open(&options, &here.rep, NULL), LKS_OK);
    assert_int_equal(lks_rpc_nng_rep_listen(here.rep, "tcp://127.0.0.1:0", &here.port, NULL), LKS_OK);
}

static int stop(void **state)
{
    if (here.rep)
        lks_rpc_nng_rep_stop_receiving(here.rep);
    lks_rpc_nng_rep_close(here.rep);
    here.rep = NULL;
    return 0;
}

static void wait_for(kind what, size_t n)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&here.lock);
    while (here.n_of[what] < n && pthread_cond_timedwait(&here.changed, &here.lock, &until) == 0)
        ;
    size_t seen = here.n_of[what];
    pthread_mutex_unlock(&here.lock);
    if (seen < n)
        fail_msg("%zu of event %d instead of %zu", seen, (int)what, n);
}

static int open_peer(void)
{
    int fd = sp_peer_open(here.port);

    assert_true(fd >= 0);
    return fd;
}

static void send_message(int fd, uint32_t id)
{
    size_t len;
    uint8_t *bytes = sp_peer_message(id, "x", 1, &len);

    assert_true(sp_peer_send(fd, bytes, len));
    free(bytes);
}

/* With nng at rest: each loss once, and after everything else of its peer. */
static void check_order(void)
{
    for (size_t i = 0; i < here.n; i++) {
        for (size_t k = i + 1; here.events[i].kind == LOST && k < here.n; k++) {
            if (here.events[k].peer == here.events[i].peer)
                fail_msg("peer %x is lost, event %zu; then comes event %zu of kind %d", here.events[i].peer, i, k,
                         (int)here.events[k].kind);
        }
    }
}

TEST(each_is_told_once_after_its_messages)
{
    start(0);
    for (uint32_t i = 0; i < PEERS; i++) {
        int fd = open_peer();
        for (uint32_t id = 0; id < i % 4; id++)
            send_message(fd, id);
        if (i % 3 == 0)
            shutdown(fd, SHUT_WR);
        close(fd);
    }
    wait_for(LOST, PEERS);
    stop(NULL);
    assert_int_equal(count_of(LOST), PEERS);
    assert_true(count_of(REQUEST) > 0);
    check_order();
}

TEST(who_stays_is_not_lost)
{
    start(0);
    int stays = open_peer(), goes = open_peer();
    send_message(stays, 1);
    send_message(goes, 1);
    wait_for(REQUEST_DONE, 2);
    close(goes);
    wait_for(LOST, 1);
    send_message(stays, 2);
    wait_for(REQUEST_DONE, 3);
    assert_int_equal(count_of(LOST), 1);
    close(stays);
    wait_for(LOST, 2);
    assert_int_not_equal(here.events[here.n - 1].peer, here.events[here.n - 4].peer);
    stop(NULL);
    check_order();
}

/* nng gives the connection back while the application is still being handed its
 * message by another thread. */
TEST(a_loss_does_not_overtake_a_message_that_is_being_delivered)
{
    for (int i = 0; i < 20; i++) {
        start(0);
        here.linger = true;
        int fd = open_peer();
        send_message(fd, 1);
        wait_for(REQUEST, 1);
        close(fd);
        wait_for(LOST, 1);
        stop(NULL);
        assert_int_equal(here.n, 3);
        assert_int_equal(here.events[1].kind, REQUEST_DONE);
        assert_int_equal(here.events[2].kind, LOST);
    }
}

/* Marked first, closed when it is quiet, given back by nng: one loss. */
TEST(who_is_closed_is_told_once)
{
    int fds[8];

    start(0);
    here.closes = true;
    for (size_t i = 0; i < 8; i++) {
        fds[i] = open_peer();
        send_message(fds[i], 1);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_true(sp_peer_closed(fds[i]));
        close(fds[i]);
    }
    wait_for(LOST, 8);
    stop(NULL);
    assert_int_equal(count_of(LOST), 8);
    check_order();
}

TEST(who_was_never_taken_is_not_lost)
{
    start(1);
    int first = open_peer();
    send_message(first, 1);
    wait_for(REQUEST_DONE, 1);
    for (int i = 0; i < 5; i++) {
        int refused = sp_peer_connect(here.port, 0);
        assert_true(refused >= 0);
        sp_peer_shake(refused);
        assert_true(sp_peer_closed(refused));
        close(refused);
    }
    close(first);
    wait_for(LOST, 1);
    stop(NULL);
    assert_int_equal(count_of(LOST), 1);
    assert_int_equal(here.events[0].peer, here.events[2].peer);
}

TEST(nobody_is_told_after_the_end)
{
    int fds[16];

    for (int closes_first = 0; closes_first < 2; closes_first++) {
        start(0);
        for (size_t i = 0; i < 16; i++) {
            fds[i] = open_peer();
            send_message(fds[i], 1);
        }
        wait_for(REQUEST_DONE, 16);
        for (size_t i = 0; closes_first && i < 16; i++)
            close(fds[i]);
        lks_rpc_nng_rep_stop_receiving(here.rep);
        size_t told = count_of(LOST);
        for (size_t i = 0; !closes_first && i < 16; i++)
            close(fds[i]);
        stop(NULL);
        assert_int_equal(count_of(LOST), told);
        assert_true(closes_first || told == 0);
        check_order();
    }
}

/* host/ has no use for it. */
TEST(nobody_needs_to_be_told)
{
    const lks_rpc_nng_rep_options options = {.on_request = on_request};

    start(0);
    stop(NULL);
    assert_int_equal(lks_rpc_nng_rep_open(&options, &here.rep, NULL), LKS_OK);
    assert_int_equal(lks_rpc_nng_rep_listen(here.rep, "tcp://127.0.0.1:0", &here.port, NULL), LKS_OK);
    int fd = open_peer();
    send_message(fd, 1);
    wait_for(REQUEST_DONE, 1);
    close(fd);
    wait_until_given_back(here.events[0].peer);
    stop(NULL);
    assert_int_equal(count_of(LOST), 0);
}

TEST_MAIN(.teardown = stop)

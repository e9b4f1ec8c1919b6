/* TLS connections on a real loop: what comes through, and peers that are slow, silent or
 * gone while hands are handshake_done. The protocol echoes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <uv.h>

#include "support/certificates.h"
#include "support/loop_until.h"
#include "support/sp_peer.h"
#include "support/tempdir.h"
#include "net/stream/stream.h"
#include "test.h"

enum { BIG = 2 << 20, PEERS = 20, SOON_MS = 50 };

static struct {
    char *dir;
    uv_loop_t loop;
    streams *streams;
    budget *budget;
    tls_context *context;
    uint16_t port;
    size_t opened, ended, wanted;
    bool closed;
    int ticks; /* of run_until */
} here;

/* A client that never blocks. */
static struct {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
    bool handshake_done, refused, reads;
    const uint8_t *sending;
    size_t to_send, n_got;
    uint8_t *got;
} client;

/* ---- files -------------------------------------------------------------------------- */

static const char *path(const char *name)
{
    static char paths[2][256];
    static size_t next;
    char *p = paths[next++ % 2];

    snprintf(p, sizeof paths[0], "%s/%s", here.dir, name);
    return p;
}

static int make_files(void **state)
{
    authority *ours = authority_new("ours");
    const certificate_wish wish = {.common = {"server", 0}};
    lks_error error;
    here.dir = tempdir_make();
    authority_sign(ours, &wish, path("server"), path("server.key"));
    authority_free(ours);
    const tls_files files = {.certificate = path("server"), .key = path("server.key")};
    return tls_context_load(&files, NULL, &here.context, &error) == LKS_OK ? 0 : -1;
}

static int remove_files(void **state)
{
    tls_context_free(here.context);
    tempdir_remove(here.dir);
    return 0;
}

/* ---- the protocol ------------------------------------------------------------------- */

static void *open_echo(void *arg, stream *s)
{
    here.opened++;
    stream_ready(s);
    return s;
}

static void echo(void *connection, const uint8_t *data, size_t len)
{
    stream_block *block = stream_block_new(len);

    memcpy(block->data, data, len);
    stream_write(connection, block);
}

static void drained(void *connection)
{
}

static void ended(void *connection)
{
    here.ended++;
}

static const stream_protocol protocol = {.open = open_echo, .bytes = echo, .drained = drained, .closed = ended};

/* ---- both ends ---------------------------------------------------------------------- */

static void start(const streams_options *given)
{
    streams_options options = *given;
    lks_error error;

    here.opened = here.ended = 0;
    here.closed = false;
    uv_loop_init(&here.loop);
    options.loop = &here.loop;
    options.budget = here.budget = budget_new(1 << 20);
    assert_int_equal(streams_new(&options, &here.streams, &error), LKS_OK);
    const stream_address any = {.text = "127.0.0.1:0", .tls = &here.context};
    assert_int_equal(streams_listen(here.streams, &any, &protocol, NULL, &here.port, &error), LKS_OK);
}

static void dial(void)
{
    memset(&client, 0, sizeof client);
    client.fd = sp_peer_connect(here.port, 0);
    client.context = SSL_CTX_new(TLS_client_method());
    client.ssl = SSL_new(client.context);
    client.reads = true;
    client.got = malloc(BIG);
    assert_true(client.fd >= 0 && client.ssl && client.got);
    fcntl(client.fd, F_SETFL, fcntl(client.fd, F_GETFL) | O_NONBLOCK);
    SSL_set_mode(client.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_fd(client.ssl, client.fd);
    SSL_set_connect_state(client.ssl);
}

static void hang_up(void)
{
    SSL_free(client.ssl);
    SSL_CTX_free(client.context);
    close(client.fd);
    free(client.got);
    ERR_clear_error();
}

static void step(void)
{
    int n;

    ERR_clear_error();
    client.handshake_done = client.handshake_done || SSL_do_handshake(client.ssl) == 1;
    client.refused = client.refused || ERR_peek_error() != 0;
    if (client.handshake_done && client.to_send > 0) {
        n = SSL_write(client.ssl, client.sending, client.to_send < 65536 ? (int)client.to_send : 65536);
        client.sending += n > 0 ? n : 0;
        client.to_send -= n > 0 ? (size_t)n : 0;
    }
    while (client.handshake_done && client.reads && client.n_got < BIG &&
           (n = SSL_read(client.ssl, client.got + client.n_got, (int)(BIG - client.n_got))) > 0)
        client.n_got += (size_t)n;
}

struct turn {
    bool (*condition)(void);
    void (*each)(void);
};

static bool takes_turns(void *arg)
{
    const struct turn *turn = arg;
    bool holds = turn->condition();

    if (!holds && turn->each)
        turn->each();
    return holds;
}

/* Runs both ends; `each` (or NULL) is the client's part of a turn. */
static void run_until(bool (*condition)(void), void (*each)(void))
{
    struct turn turn = {condition, each};

    assert_true(loop_until(&here.loop, takes_turns, &turn, &here.ticks));
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static bool is_closed(void)
{
    return here.closed;
}

static void finish(void)
{
    streams_close(here.streams, on_closed, &here.closed);
    run_until(is_closed, NULL);
    assert_int_equal(here.opened, here.ended);
    assert_int_equal(budget_held(here.budget), 0);
    budget_free(here.budget);
    assert_int_equal(uv_loop_close(&here.loop), 0);
}

static bool has_all(void)
{
    return client.n_got >= here.wanted;
}

static bool has_opened(void)
{
    return here.opened >= here.wanted;
}

static bool has_ended(void)
{
    return here.ended >= here.wanted;
}

/* The server has closed the connection of a plain socket. */
static bool is_hung_up(void)
{
    char bytes[256];
    ssize_t n = recv(client.fd, bytes, sizeof bytes, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* ---- cases -------------------------------------------------------------------------- */

TEST(much_in_both_directions)
{
    uint8_t *sent = malloc(BIG);
    assert_non_null(sent);
    for (size_t i = 0; i < BIG; i++)
        sent[i] = (uint8_t)(i * 11 + i / 509);
    start(&(streams_options){.connections_max = 10});
    dial();
    client.sending = sent;
    client.to_send = here.wanted = BIG;
    run_until(has_all, step);
    assert_memory_equal(sent, client.got, BIG);
    hang_up();
    here.wanted = 1;
    run_until(has_ended, NULL);
    finish();
    free(sent);
}

/* Nothing, half a hello, and a byte now and then: the time is from the accept. */
static const uint8_t hello[] = {0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3};
static size_t dripped;

/* A hello of 16 KiB, a byte a tick. */
static void drip(void)
{
    static const uint8_t begin[] = {0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb, 3, 3};
    const uint8_t byte = dripped < sizeof begin ? begin[dripped] : 0x55;

    if ((size_t)here.ticks > dripped && send(client.fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        dripped++;
}

/* promise A9: a slow, silent, lost or hostile peer takes bounded memory and time, in the TLS handshake and after it,
 * and gets the reason */
TEST(peer_that_does_not_finish_the_tls_handshake_is_closed)
{
    for (int how = 0; how < 3; how++) {
        start(&(streams_options){.connections_max = 10, .greeting_ms = SOON_MS});
        dial();
        dripped = 0;
        if (how == 1)
            assert_true(sp_peer_send(client.fd, hello, sizeof hello));
        run_until(is_hung_up, how == 2 ? drip : NULL);
        assert_in_range(dripped, 0, 2 * SOON_MS); /* ticks of the clock that ends it */
        assert_int_equal(here.opened, 0);
        hang_up();
        finish();
    }
}

/* Each leaves its place to the next: there is one. */
/* promise A9 */
TEST(peer_lost_during_the_handshake_frees_its_place)
{
    const struct linger reset = {.l_onoff = 1};
    start(&(streams_options){.connections_max = 1});
    for (int i = 0; i < PEERS; i++) {
        dial();
        if (i % 3 == 0)
            assert_true(sp_peer_send(client.fd, hello, sizeof hello));
        else
            step(); /* a whole hello; the peer is gone before the answer */
        if (i % 2)
            setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        uv_run(&here.loop, UV_RUN_NOWAIT);
        hang_up();
        for (int turns = 0; turns < 10; turns++)
            uv_run(&here.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(here.opened, 0);
    dial();
    here.wanted = 1;
    run_until(has_opened, step);
    hang_up();
    finish();
}

static bool is_refused(void)
{
    return client.refused && is_hung_up();
}

/* promise A9 */
TEST(refused_peer_gets_an_alert_with_the_reason)
{
    start(&(streams_options){.connections_max = 10});
    dial();
    SSL_set_cipher_list(client.ssl, "ALL:@SECLEVEL=0");
    SSL_set_min_proto_version(client.ssl, TLS1_1_VERSION);
    SSL_set_max_proto_version(client.ssl, TLS1_1_VERSION);
    run_until(is_refused, step);
    assert_int_equal(here.opened, 0);
    hang_up();
    finish();
}

static void step_without_reading(void)
{
    client.reads = !client.handshake_done;
    step();
}

/* It asks, and takes no answer. */
/* promise A9 */
TEST(peer_that_does_not_read_is_disconnected)
{
    uint8_t *sent = calloc(1, 8 * BIG);
    assert_non_null(sent);
    start(&(streams_options){.connections_max = 10, .stall_ms = SOON_MS});
    dial();
    client.sending = sent;
    client.to_send = 8 * BIG;
    here.wanted = 1;
    run_until(has_ended, step_without_reading);
    hang_up();
    finish();
    free(sent);
}

/* The end of all comes while some shake hands. */
TEST(closing_all_in_the_middle)
{
    for (int steps = 0; steps < 4; steps++) {
        start(&(streams_options){.connections_max = 10, .greeting_ms = LOOP_TICKS_MAX});
        dial();
        for (int i = 0; i < steps; i++) {
            step();
            uv_run(&here.loop, UV_RUN_NOWAIT);
        }
        finish();
        hang_up();
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    return TEST_RUN(.setup_all = make_files, .teardown_all = remove_files);
}

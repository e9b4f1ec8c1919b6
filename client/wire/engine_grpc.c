/* The engine for grpc://, grpcs:// and grpc+unix://: unary calls of gRPC over HTTP/2 (nghttp2) on a stream of bytes,
 * to any server. A message has one call, and each call has its own stream (engine_grpc_call.c).
 *
 * After a GOAWAY of the server, the calls that it still accepts are answered on the old connection, while the link
 * makes a new one.
 *
 * Invariant: link_up and link_down are about grpc.current; the slots of the calls of other connections are
 * `engine_owned`. */
#include "client/wire/engine_grpc.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"

enum {
    INPUT_BYTES = 16 * 1024,
    PIECE_BYTES_MAX = 16 * 1024 + 1024, /* nghttp2 packs so much at once, or less */
    STREAM_WINDOW = 1024 * 1024,
    /* Large, because input is read at once; a call holds message_bytes_max at most. */
    CONNECTION_WINDOW = 8 * 1024 * 1024
};

static h2 *h2_of(byte_stream *b)
{
    return container_of(b, h2, stream);
}

/* ---- bytes out ---------------------------------------------------------------------------- */

/* Packs frames while there is room for one more. False: nghttp2 failed. */
static bool pack(h2 *h)
{
    const uint8_t *piece;
    ssize_t n = 1;

    while (n > 0 && H2_OUTPUT_BYTES - h->output_len >= PIECE_BYTES_MAX) {
        n = nghttp2_session_mem_send(h->session, &piece);
        if (n <= 0)
            break;
        memcpy(h->output + h->output_len, piece, (size_t)n);
        h->output_len += (size_t)n;
        h->packed += (uint64_t)n;
        if (h->packing) {
            h->packing->end_at = h->packed;
            TAILQ_INSERT_TAIL(&h->sending, h->packing, in_sending);
            h->packing = NULL;
        }
    }
    return n >= 0;
}

static void note_taken(h2 *h, size_t n)
{
    grpc_try *t;

    h->taken += n;
    while ((t = TAILQ_FIRST(&h->sending)) && t->end_at <= h->taken) {
        TAILQ_REMOVE(&h->sending, t, in_sending);
        slot_sent(t->slot);
    }
}

/* Writes output while the stream takes it. False: the connection is over. */
static bool pump(h2 *h)
{
    size_t n = 1;

    if (!h->session || h->stream.state != BYTES_UP || !bytes_flush(&h->stream))
        return true;
    while (n > 0) {
        if (!pack(h))
            return false;
        const struct iovec part = {h->output + h->output_done, h->output_len - h->output_done};
        if (part.iov_len == 0)
            break;
        n = bytes_write(&h->stream, &part, 1);
        h->output_done += n;
        if (h->output_done == h->output_len)
            h->output_done = h->output_len = 0;
        note_taken(h, n);
    }
    bool leaves = h->state >= H2_GOING && TAILQ_EMPTY(&h->calls);
    return leaves || nghttp2_session_want_read(h->session) != 0 || nghttp2_session_want_write(h->session) != 0;
}

/* ---- the end of a connection ---------------------------------------------------------------- */

static void h2_close(h2 *h)
{
    bytes_close(&h->stream);
    nghttp2_session_del(h->session);
    h->session = NULL;
    h->output_len = h->output_done = 0;
    h->packed = h->taken = 0;
}

static void h2_free(h2 *h)
{
    h2_close(h);
    bytes_fini(&h->stream);
    free(h);
}

/* A leaving connection is over: ends its calls. */
static void end_leaving(h2 *h)
{
    grpc_try *t;

    h->state = H2_OVER;
    while ((t = TAILQ_FIRST(&h->calls)))
        slot_lose(t->slot);
    TAILQ_REMOVE(&h->grpc->leaving, h, in_list);
    h2_free(h);
}

/* The server accepts no more calls on the connection. */
static void leave(h2 *h, const char *why)
{
    grpc *g = h->grpc;
    grpc_try *t;

    h->state = H2_LEAVING;
    TAILQ_FOREACH(t, &h->calls, in_list)
        t->slot->engine_owned = true;
    g->current = NULL;
    TAILQ_INSERT_TAIL(&g->leaving, h, in_list);
    link_down(g->link, why);
}

static void end_connection(h2 *h, const char *why)
{
    if (h->state == H2_LEAVING)
        end_leaving(h);
    else
        link_down(h->grpc->link, h->state == H2_CONNECTING ? "the server did not speak HTTP/2" : why);
}

/* Writes, and acts on what was read and written. The connection may be gone afterwards. */
static void write_and_update(h2 *h)
{
    grpc_tries_refuse(h);
    if (!pump(h)) {
        end_connection(h, "the server violated HTTP/2");
        return;
    }
    if (h->state == H2_GOING)
        leave(h, "the server sent GOAWAY");
    if (h->state == H2_LEAVING && TAILQ_EMPTY(&h->calls))
        end_leaving(h);
}

/* ---- keepalive -------------------------------------------------------------------------------- */

static void note_alive(grpc *g)
{
    g->heard_ns = clock_now_ns();
    g->pinged_ns = 0;
}

/* Sets the timer to when the server, if it stays silent, must be pinged or has not answered. */
static void watch_alive(grpc *g)
{
    const struct link *link = g->link;
    uint64_t at_ns = g->pinged_ns > 0 ? g->pinged_ns + link->keepalive_timeout_ms * CLOCK_NS_PER_MS
                                      : g->heard_ns + link->keepalive_ms * CLOCK_NS_PER_MS;

    heap_set(&link->loop->timers, &g->alive, at_ns);
}

static void stop_watching(grpc *g)
{
    if (g->link->keepalive_ms > 0)
        heap_clear(&g->link->loop->timers, &g->alive);
}

static void run_alive(struct timer *timer)
{
    grpc *g = container_of(timer, grpc, alive);
    h2 *h = g->current;
    uint64_t now_ns = clock_now_ns();

    if (h->state != H2_UP || TAILQ_EMPTY(&h->calls)) {
        note_alive(g);
    } else if (g->pinged_ns > 0) {
        link_down(g->link, "the server did not answer a ping");
        return;
    } else if (now_ns >= g->heard_ns + g->link->keepalive_ms * CLOCK_NS_PER_MS) {
        nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
        g->pinged_ns = now_ns;
    }
    watch_alive(g);
    write_and_update(h); /* the connection may be gone afterwards */
}

/* ---- bytes in ----------------------------------------------------------------------------- */

static void on_readable(byte_stream *b)
{
    h2 *h = h2_of(b);
    uint8_t bytes[INPUT_BYTES];
    ssize_t n, read = 0;

    if (h->grpc->current == h && h->grpc->link->keepalive_ms > 0)
        note_alive(h->grpc);
    while ((n = bytes_read(b, bytes, sizeof bytes)) > 0 && read >= 0)
        read = nghttp2_session_mem_recv(h->session, bytes, (size_t)n);
    if (n < 0 || read < 0)
        end_connection(h, n < 0 ? b->why : nghttp2_strerror((int)read));
    else
        write_and_update(h);
}

static void on_failed(byte_stream *b)
{
    link_down(h2_of(b)->grpc->link, b->why);
}

static void on_up(byte_stream *b)
{
    pump(h2_of(b));
}

/* ---- the link ------------------------------------------------------------------------------- */

/* NULL when out of memory. */
static h2 *h2_new(grpc *g)
{
    const struct link *link = g->link;
    h2 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->grpc = g;
    TAILQ_INIT(&h->calls);
    TAILQ_INIT(&h->sending);
    TAILQ_INIT(&h->refused);
    h->stream = (byte_stream){
        .tls_context = link->tls,
        .alpn = "h2",
        .server_name = link->server_name,
        .first_address = link->first_address,
        .loop = link->loop,
        .up = on_up,
        .readable = on_readable,
        .failed = on_failed,
    };
    bytes_aim(&h->stream, link->scheme, link->address); /* it was checked */
    bytes_init(&h->stream);
    return h;
}

static bool begin_session(h2 *h)
{
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW}};

    return grpc_calls_listen(h) &&
           nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

static void disconnect(struct link *link)
{
    grpc *g = link->transport;

    stop_watching(g);
    if (g->current)
        h2_close(g->current);
}

static lks_code begin_connect(struct link *link, lks_error *error)
{
    grpc *g = link->transport;

    if (!g->current)
        g->current = h2_new(g);
    if (!g->current || !begin_session(g->current)) {
        disconnect(link);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    g->current->state = H2_CONNECTING;
    note_alive(g);
    if (link->keepalive_ms > 0)
        watch_alive(g);
    bytes_open(&g->current->stream);
    return LKS_OK;
}

static bool open_link(struct link *link)
{
    grpc *g = calloc(1, sizeof *g);

    if (!g || !(g->sending = lks_rpc_arena_new())) {
        free(g);
        return false;
    }
    g->link = link;
    g->alive.due = run_alive;
    TAILQ_INIT(&g->leaving);
    TAILQ_INIT(&g->idle);
    link->transport = g;
    return true;
}

static void free_connection(h2 *h)
{
    grpc_try *t;

    h->state = H2_OVER;
    h2_close(h);
    while ((t = TAILQ_FIRST(&h->calls)))
        grpc_try_forget(t->slot);
    h2_free(h);
}

static void close_link(struct link *link)
{
    grpc *g = link->transport;
    grpc_try *t;
    h2 *h;

    stop_watching(g);
    if (g->current)
        free_connection(g->current);
    while ((h = TAILQ_FIRST(&g->leaving))) {
        TAILQ_REMOVE(&g->leaving, h, in_list);
        free_connection(h);
    }
    while ((t = TAILQ_FIRST(&g->idle))) {
        TAILQ_REMOVE(&g->idle, t, in_list);
        free(t);
    }
    lks_rpc_arena_free(g->sending);
    lks_rpc_arena_free(g->spare);
    free(g);
}

static void flush(struct link *link)
{
    grpc *g = link->transport;
    h2 *next;

    for (h2 *h = TAILQ_FIRST(&g->leaving); h; h = next) {
        next = TAILQ_NEXT(h, in_list);
        write_and_update(h);
    }
    if (g->current)
        write_and_update(g->current);
}

/* NULL while another connection is leaving: its answers have another source. */
static loop_source *source(struct link *link)
{
    grpc *g = link->transport;

    return g->current && TAILQ_EMPTY(&g->leaving) ? &g->current->stream.source : NULL;
}

const struct engine engine_grpc = {
    .is_address = bytes_is_address,
    .open = open_link,
    .close = close_link,
    .connect = begin_connect,
    .disconnect = disconnect,
    .send = grpc_try_send,
    .withdraw = grpc_try_withdraw,
    .forget = grpc_try_forget,
    .flush = flush,
    .source = source,
    .one_call_per_message = true,
};

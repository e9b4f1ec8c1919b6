/* Invariant: a connection has at most one exchange. Bytes that follow its request are kept, and the connection is not
 * read, until the request is answered. After a malformed request, nothing else is read as a request. */
#include "net/http/http_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/http/http1.h"

#define PROTOCOL_TLS "https"

enum {
    DATE_BYTES = 32,
    REFUSAL_BYTES = 256,
    CONNECTION_BYTES = 512,      /* memory of a connection without the bytes that it keeps */
    OUTPUT_BYTES_MAX = 1 << 20,  /* waiting for the peer; beyond this no further request is read */
    DROPPED_BYTES_MAX = 1 << 20, /* of a refused request's body, so that the peer can read the answer */
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_BYTES = sizeof preface - 1 };

/* An address that the server listens on. */
typedef struct site_listener {
    http_server *all;
    bool is_local;
    TAILQ_ENTRY(site_listener) next;
} site_listener;

/*  GREETING --preface--> HTTP2
 *     \--other bytes--> HEAD --whole--> BODY --whole--> RUNNING --answered--> HEAD
 *                                         \--answered, or broken--> DROPPING --> closed */
typedef enum state { GREETING, HTTP2, HEAD, BODY, RUNNING, DROPPING } state;

typedef struct connection {
    http_server *all;
    stream *stream;
    void *http2; /* a connection of grpc.h */
    http_peer from;
    uid_t uid;
    state state;
    http_exchange *exchange;
    http1_body body;
    size_t greeted; /* bytes of the preface */
    char *kept;     /* bytes that were read and not used */
    size_t kept_len, kept_room;
    size_t seen; /* of the kept bytes; they do not contain the end of a head */
    size_t dropped;
    bool closes, new_request, body_begun;
    TAILQ_ENTRY(connection) next;
} connection;

struct http_server {
    http_server_options options;
    const stream_protocol *http2;
    size_t in_flight;
    time_t date_of;
    char date[DATE_BYTES];
    TAILQ_HEAD(, connection) connections;
    TAILQ_HEAD(, site_listener) listeners;
};

/* ---- kept bytes ------------------------------------------------------------------------------- */

static void forget(connection *c, size_t used)
{
    c->kept_len -= used;
    memmove(c->kept, c->kept + used, c->kept_len);
    if (c->kept_len > 0)
        return;
    budget_give(c->from.bytes, c->kept_room);
    free(c->kept);
    c->kept = NULL;
    c->kept_room = 0;
}

static bool keep(connection *c, const void *data, size_t len)
{
    size_t wanted = c->kept_len + len, room = wanted > 2 * c->kept_room ? wanted : 2 * c->kept_room;

    if (wanted > c->kept_room) {
        /* A running exchange cannot be refused any more; the stream is paused, so this is one read at most. */
        if (c->state == RUNNING)
            budget_force(c->from.bytes, room - c->kept_room);
        else if (!budget_take(c->from.bytes, room - c->kept_room))
            return false;
        char *grown = realloc(c->kept, room);
        if (!grown) {
            budget_give(c->from.bytes, room - c->kept_room);
            return false;
        }
        c->kept = grown;
        c->kept_room = room;
    }
    memcpy(c->kept + c->kept_len, data, len);
    c->kept_len = wanted;
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static const char *date(http_server *all)
{
    time_t now = time(NULL);
    struct tm utc;

    if (now != all->date_of && gmtime_r(&now, &utc)) {
        strftime(all->date, sizeof all->date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
        all->date_of = now;
    }
    return all->date;
}

static void write_answer(connection *c, const http_answer *a)
{
    size_t body = a->is_head || a->status == 204 ? 0 : a->len;
    stream_block *block = stream_block_new(http1_head_bytes_max(a->fields) + body);

    if (!block) {
        stream_end(c->stream, STREAM_NO_MEMORY);
        return;
    }
    size_t head = http1_write_head((char *)block->data, a->status, a->fields, a->len, date(c->all), c->closes);
    if (body > 0)
        memcpy(block->data + head, a->body, body);
    block->len = head + body;
    stream_write(c->stream, block);
}

/* Reads no further request. Reads and drops what the peer still sends for a while: a connection that closes with unread
 * bytes may lose the answer. */
static void drop_rest(connection *c)
{
    c->state = DROPPING;
    stream_unfinished(c->stream, true, true);
    if (c->body.state == HTTP1_BODY_WHOLE)
        stream_end(c->stream, STREAM_ENDED);
}

static void read_on(connection *c)
{
    if (c->state != RUNNING && stream_waiting(c->stream) < OUTPUT_BYTES_MAX)
        stream_resume(c->stream);
}

static void on_answer(void *arg, const http_answer *a)
{
    connection *c = arg;

    c->exchange = NULL;
    c->all->in_flight--;
    /* A request that is refused within its body ends the connection, even if the whole body has arrived. */
    c->closes = c->closes || c->body.state != HTTP1_BODY_WHOLE || (c->state == BODY && c->body_begun) ||
                c->all->options.site->draining;
    write_answer(c, a);
    c->state = HEAD;
    c->new_request = true;
    stream_idle(c->stream, true);
    if (c->closes)
        drop_rest(c);
    read_on(c);
}

/* Refuses a request that is not HTTP, or is ambiguous. */
static void refuse(connection *c, http1_verdict v)
{
    http_field type = {.name = "content-type", .value = "application/json", .name_len = 12, .value_len = 16};
    http_fields fields = TAILQ_HEAD_INITIALIZER(fields);
    char text[REFUSAL_BYTES];
    lks_error error;

    if (c->state == RUNNING) { /* the sink has its call */
        stream_end(c->stream, STREAM_NO_MEMORY);
        return;
    }
    c->body.state = HTTP1_BODY_BYTES;
    if (c->exchange) {
        lks_error_set(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", v.why);
        http_exchange_fail(c->exchange, v.status, &error);
        return;
    }
    TAILQ_INSERT_TAIL(&fields, &type, next);
    int len = snprintf(text, sizeof text, "{\"code\":\"%s\",\"message\":\"%s\",\"applied\":\"NO\"}\n",
                       v.status == 503 ? "unavailable" : "invalid_argument", v.why);
    c->closes = true;
    write_answer(c, &(http_answer){.status = v.status, .fields = &fields, .body = text, .len = (size_t)len});
    drop_rest(c);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void send_continue(connection *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    stream_block *block = stream_block_new(sizeof text - 1);

    if (!block)
        return;
    memcpy(block->data, text, sizeof text - 1);
    stream_write(c->stream, block);
}

static http1_verdict begin_exchange(connection *c, const char *bytes, size_t len)
{
    http_fields fields = TAILQ_HEAD_INITIALIZER(fields);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    http1_verdict v = {.status = 503, .why = "out of memory"};
    http1_head head = {0};

    if (arena)
        v = http1_read_head(bytes, len, arena, &head, &fields);
    if (v.status != 0) {
        lks_rpc_arena_free(arena);
        return v;
    }
    const char *host = http_fields_value(&fields, "host").data;
    c->exchange =
        http_exchange_new(c->all->options.site, &c->from, arena, &fields, head.method, head.target, host, on_answer, c);
    if (!c->exchange)
        return (http1_verdict){.status = 503, .why = "out of memory"};
    c->all->in_flight++;
    c->state = BODY;
    c->closes = head.closes;
    c->body = http1_body_of(&head);
    c->body_begun = false;
    stream_idle(c->stream, false);
    stream_ready(c->stream);
    http_exchange_begin(c->exchange);
    if (c->exchange && head.expects && c->body.state != HTTP1_BODY_WHOLE)
        send_continue(c);
    return v;
}

/* The exchange may answer before this returns. */
static void run(connection *c)
{
    c->state = RUNNING;
    http_exchange_run(c->exchange);
    if (c->state == RUNNING)
        stream_pause(c->stream);
}

/* Uses bytes in the state HEAD or BODY. Returns how many it used; 0: it needs more. */
static size_t use(connection *c, const char *bytes, size_t len)
{
    size_t used = 0, piece_len;
    const char *piece;
    http1_verdict v;

    if (c->state == HEAD) {
        v = http1_find_head(bytes, len, c->seen, &used);
        c->seen = len;
        if (v.status == 0 && used > 0)
            v = begin_exchange(c, bytes, used);
    } else {
        v = http1_read_body(&c->body, bytes, len, &used, &piece, &piece_len);
        c->body_begun = true;
        if (v.status == 0)
            http_exchange_body(c->exchange, piece, piece_len);
    }
    if (v.status != 0)
        refuse(c, v);
    return used;
}

static bool reads(const connection *c)
{
    return (c->state == HEAD || c->state == BODY) && stream_is_read(c->stream);
}

/* Returns how many bytes it used. */
static size_t use_all(connection *c, const char *bytes, size_t len)
{
    size_t at = 0, used = 1;

    while (reads(c)) {
        if (c->state == BODY && c->body.state == HTTP1_BODY_WHOLE) {
            run(c);
            continue;
        }
        if (c->state == HEAD && stream_waiting(c->stream) >= OUTPUT_BYTES_MAX) {
            stream_pause(c->stream);
            break;
        }
        if (at == len || used == 0)
            break;
        used = use(c, bytes + at, len - at);
        at += used;
        if (used > 0)
            c->seen = 0;
    }
    return at;
}

static void drop(connection *c, size_t len)
{
    c->dropped += len;
    if (c->dropped > DROPPED_BYTES_MAX)
        stream_end(c->stream, STREAM_ENDED);
}

/* Uses as many as it can of the kept bytes and of these. */
static void take(connection *c, const char *bytes, size_t len)
{
    static const http1_verdict full = {.status = 503, .why = "too many bytes are under way"};
    bool from_kept = c->kept_len > 0;

    if (from_kept && !keep(c, bytes, len)) {
        refuse(c, full);
        return;
    }
    if (from_kept) {
        bytes = c->kept;
        len = c->kept_len;
    }
    size_t used = use_all(c, bytes, len);
    if (c->state == DROPPING) {
        drop(c, len - used);
        used = len;
    }
    if (from_kept)
        forget(c, used);
    else if (used < len && !keep(c, bytes + used, len - used))
        refuse(c, full);
    if (reads(c)) {
        stream_unfinished(c->stream, c->state == BODY || c->kept_len > 0, c->new_request);
        c->new_request = false;
    } else if (c->state == RUNNING) {
        stream_unfinished(c->stream, false, false);
    }
}

/* ---- connections ---------------------------------------------------------------------------------- */

/* A connection is not read while its call queues. */
static void on_room(void *arg)
{
    (void)arg;
}

/* False: out of memory. */
static bool begin_http1(connection *c)
{
    const sink *to = c->all->options.site->sink;
    const sink_connection connected = {.bytes = c->from.bytes,
                                       .peer = stream_peer(c->stream),
                                       .origin = stream_origin(c->stream),
                                       .on_room = on_room,
                                       .arg = c};

    c->state = HEAD;
    c->from.caller = to->open(to->arg, &connected);
    return c->from.caller;
}

/* The arrived bytes of the preface equal the beginning of `preface`, so they need not be kept. */
static void greet(connection *c, const char *bytes, size_t len)
{
    size_t n = 0;

    while (n < len && c->greeted < PREFACE_BYTES && bytes[n] == preface[c->greeted]) {
        n++;
        c->greeted++;
    }
    if (n == len && c->greeted < PREFACE_BYTES)
        return;
    if (c->greeted == PREFACE_BYTES) {
        c->http2 = grpc_server_adopt(c->all->options.grpc, c->stream, c->all->options.site, c->from.is_local);
        c->state = HTTP2;
        if (!c->http2) {
            stream_end(c->stream, STREAM_NO_MEMORY);
            return;
        }
        c->all->http2->bytes(c->http2, (const uint8_t *)preface, PREFACE_BYTES);
        if (n < len)
            c->all->http2->bytes(c->http2, (const uint8_t *)bytes + n, len - n);
        return;
    }
    if (!begin_http1(c)) {
        stream_end(c->stream, STREAM_NO_MEMORY);
        return;
    }
    if (c->greeted > n)
        take(c, preface, c->greeted - n);
    take(c, bytes, len);
}

static void on_bytes(void *arg, const uint8_t *data, size_t len)
{
    connection *c = arg;

    if (c->state == HTTP2)
        c->all->http2->bytes(c->http2, data, len);
    else if (c->state == GREETING)
        greet(c, (const char *)data, len);
    else if (c->state == DROPPING)
        drop(c, len);
    else
        take(c, (const char *)data, len);
}

static bool on_kept(void *arg)
{
    connection *c = arg;
    size_t before = c->kept_len;

    if (before == 0 || !reads(c))
        return false;
    take(c, "", 0);
    return c->kept_len < before;
}

static void on_produce(void *arg)
{
    connection *c = arg;

    if (c->state == HTTP2)
        c->all->http2->produce(c->http2);
}

static void on_drained(void *arg)
{
    connection *c = arg;

    if (c->state == HTTP2)
        c->all->http2->drained(c->http2);
    else if (c->state == DROPPING)
        stream_end_output(c->stream);
    else
        read_on(c);
}

static void on_closed(void *arg)
{
    connection *c = arg;
    http_exchange *e = c->exchange;

    c->exchange = NULL;
    if (e) {
        http_exchange_leave(e);
        c->all->in_flight--;
    }
    if (c->http2)
        c->all->http2->closed(c->http2);
    c->all->options.site->sink->lost(c->from.caller);
    TAILQ_REMOVE(&c->all->connections, c, next);
    free(c->kept);
    budget_give(c->from.bytes, c->kept_room + CONNECTION_BYTES);
    free(c);
}

static void *on_open(void *arg, stream *s)
{
    const site_listener *at = arg;
    const lks_rpc_peer peer = stream_peer(s);
    connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (connection){.all = at->all, .stream = s, .uid = (uid_t)peer.uid};
    c->from = (http_peer){.bytes = stream_bytes(s),
                          .certificate = stream_peer_certificate(s),
                          .uid = peer.uid >= 0 ? &c->uid : NULL,
                          .encrypted = strcmp(peer.wire, PROTOCOL_TLS) == 0,
                          .is_local = at->is_local};
    budget_force(c->from.bytes, CONNECTION_BYTES);
    TAILQ_INSERT_TAIL(&at->all->connections, c, next);
    return c;
}

#define CALLBACKS                                                                                      \
    .open = on_open, .bytes = on_bytes, .kept = on_kept, .produce = on_produce, .drained = on_drained, \
    .closed = on_closed
static const stream_protocol over_tcp = {.name = "http", .tls_name = PROTOCOL_TLS, CALLBACKS};
static const stream_protocol over_unix = {.name = "http+unix", CALLBACKS};

/* ---- the server ------------------------------------------------------------------------------------ */

lks_code http_server_new(const http_server_options *options, http_server **ret, lks_error *error)
{
    http_server *all = calloc(1, sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *all = (http_server){.options = *options, .http2 = grpc_server_protocol()};
    TAILQ_INIT(&all->connections);
    TAILQ_INIT(&all->listeners);
    *ret = all;
    return LKS_OK;
}

lks_code http_server_listen(http_server *all, const stream_address *at, uint16_t *bound, lks_error *error)
{
    const stream_protocol *protocol = at->is_unix && !at->tls ? &over_unix : &over_tcp;
    site_listener *l = malloc(sizeof *l);

    if (!l)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *l = (site_listener){.all = all, .is_local = at->is_local};
    TAILQ_INSERT_TAIL(&all->listeners, l, next);
    return streams_listen(all->options.streams, at, protocol, l, bound, error);
}

void http_server_drain(http_server *all)
{
    connection *c;

    TAILQ_FOREACH(c, &all->connections, next)
        if (c->state == HEAD && c->kept_len == 0)
            stream_end(c->stream, STREAM_STOPPED);
}

size_t http_server_in_flight(const http_server *all)
{
    return all->in_flight;
}

void http_server_free(http_server *all)
{
    site_listener *at;

    while (all && (at = TAILQ_FIRST(&all->listeners))) {
        TAILQ_REMOVE(&all->listeners, at, next);
        free(at);
    }
    free(all);
}

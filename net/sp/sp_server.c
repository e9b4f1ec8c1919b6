/* Invariant: a connection exists as long as its stream or one of its messages. It is read only while none of its
 * calls queues and less than OUTPUT_BYTES_MAX waits to be written. */
#include "net/sp/sp_server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "net/sp/sp.h"

enum {
    OUTPUT_BYTES_MAX = 1 << 20,
    WEBSOCKET_FRAME_BYTES_MAX = 1 << 20, /* libnng accepts no longer frame, regardless of the message limit */
};

/* What an address serves over WebSocket. */
typedef struct site {
    sp_server *all;
    websocket_site web;
    SLIST_ENTRY(site) next;
    char path[];
} site;

struct sp_server {
    sp_server_options options;
    size_t in_flight;
    SLIST_HEAD(, site) sites;
};

typedef struct connection {
    sp_server *all;
    stream *stream; /* NULL: gone */
    sp_mapping mapping;
    sp_reader reader;
    frames_sender sender;
    uid_t uid;
    uint32_t in_flight; /* messages */
    uint8_t *left;      /* read and not processed, because the connection had to stop */
    size_t left_len;
    uint64_t left_ns, read_ns; /* when `left` was read; when the bytes in process were */
    bool reading;              /* bytes are in process */
    bool took;                 /* they contained a message */
} connection;

/* A request in progress. */
typedef struct request {
    connection *from;
    stream_block *answer;
    uint8_t prefix_len; /* bytes before the ids */
    uint8_t ids_len;
    uint8_t ids[];
} request;

static void free_when_over(connection *c)
{
    if (c->stream || c->in_flight > 0)
        return;
    free(c);
}

/* ---- messages and their answers --------------------------------------------------- */

static void hang_up(connection *c, stream_reason why)
{
    if (c->stream)
        stream_end(c->stream, why);
}

static bool must_stop(const connection *c)
{
    return stream_is_closing(c->stream) || c->all->options.sink->queues(c->sender.caller) ||
           stream_waiting(c->stream) >= OUTPUT_BYTES_MAX;
}

static void free_left(connection *c, uint8_t *left, size_t len)
{
    if (left)
        budget_give(c->sender.bytes, len);
    free(left);
}

/* Resumes reading, if nothing prevents it. */
static void read_on(connection *c)
{
    if (!c->reading && !must_stop(c))
        stream_resume(c->stream);
}

static void end_request(request *r)
{
    connection *c = r->from;

    free(r);
    c->all->in_flight--;
    c->in_flight--;
    if (c->stream) {
        stream_idle(c->stream, c->in_flight == 0);
        read_on(c);
    }
    free_when_over(c);
}

/* While the peer does not read answers, none of its calls starts, because more answers would fill memory. */
static void check_output(connection *c)
{
    c->all->options.sink->hold(c->sender.caller, stream_waiting(c->stream) >= OUTPUT_BYTES_MAX);
}

static void *port_answer(void *message, size_t len)
{
    request *r = message;
    uint8_t header[SP_HEADER_BYTES_MAX];
    size_t header_len = sp_write_header(r->from->mapping, r->ids, r->ids_len, len, header);

    r->prefix_len = (uint8_t)(header_len - r->ids_len);
    r->answer = stream_block_new(header_len + len);
    if (!r->answer)
        return NULL;
    memcpy(r->answer->data, header, header_len);
    return r->answer->data + header_len;
}

/* Writes a WebSocket message in several frames. */
static void write_frames(connection *c, const uint8_t *message, size_t len)
{
    uint8_t header[WEBSOCKET_HEADER_BYTES_MAX];
    size_t n;

    for (size_t at = 0; at < len; at += n) {
        n = len - at < WEBSOCKET_FRAME_BYTES_MAX ? len - at : WEBSOCKET_FRAME_BYTES_MAX;
        size_t header_len = websocket_write_header(at == 0, at + n == len, n, header);
        stream_block *block = stream_block_new(header_len + n);
        if (!block) {
            hang_up(c, STREAM_NO_MEMORY);
            return;
        }
        memcpy(block->data, header, header_len);
        memcpy(block->data + header_len, message + at, n);
        stream_write(c->stream, block);
    }
}

static void port_reply(void *message)
{
    request *r = message;
    connection *c = r->from;
    size_t len = r->answer->len - r->prefix_len;
    bool is_long = c->mapping == SP_OVER_WEBSOCKET && len > WEBSOCKET_FRAME_BYTES_MAX;

    if (c->stream && is_long)
        write_frames(c, r->answer->data + r->prefix_len, len);
    if (c->stream && !is_long)
        stream_write(c->stream, r->answer);
    else
        free(r->answer);
    if (c->stream)
        check_output(c);
    end_request(r);
}

static void port_close_peer(void *message)
{
    request *r = message;

    hang_up(r->from, STREAM_BROKEN);
    end_request(r);
}

static const frames_port port = {.answer = port_answer, .reply = port_reply, .close_peer = port_close_peer};

static bool take_message(void *arg, sp_message *message)
{
    connection *c = arg;
    request *r = malloc(sizeof *r + message->ids_len);

    if (!r) {
        free(message);
        hang_up(c, STREAM_NO_MEMORY);
        return false;
    }
    *r = (request){.from = c, .ids_len = (uint8_t)message->ids_len};
    memcpy(r->ids, message->bytes, message->ids_len);
    c->took = true;
    c->in_flight++;
    c->all->in_flight++;
    stream_idle(c->stream, false);
    if (message->skipped)
        frames_refuse(c->all->options.frames, &port, r, message->n_results);
    else
        frames_take(c->all->options.frames, &port, r, message->bytes + message->ids_len,
                    message->len - message->ids_len, &c->sender, c->read_ns);
    free(message);
    return !must_stop(c);
}

/* ---- bytes ------------------------------------------------------------------------ */

/* Sends output other than replies. */
static void send_output(connection *c)
{
    uint8_t bytes[SP_OUTPUT_BYTES_MAX];
    size_t len = sp_output(&c->reader, bytes);
    stream_block *block = len > 0 ? stream_block_new(len) : NULL;

    if (block) {
        memcpy(block->data, bytes, len);
        stream_write(c->stream, block);
    } else if (len > 0) {
        hang_up(c, STREAM_NO_MEMORY);
    }
}

/* Keeps bytes that were read before a pause. It may be called several times. */
static void keep_left(connection *c, const uint8_t *data, size_t len)
{
    size_t have = c->left ? c->left_len : 0;
    uint8_t *grown = realloc(c->left, have + len);

    if (!grown) {
        hang_up(c, STREAM_NO_MEMORY);
        return;
    }
    memcpy(grown + have, data, len);
    budget_force(c->sender.bytes, len);
    if (have == 0)
        c->left_ns = c->read_ns;
    c->left = grown;
    c->left_len = have + len;
}

static void take_bytes(connection *c, const uint8_t *data, size_t len)
{
    bool was_handshake_done = c->reader.handshake_done;
    size_t taken;

    c->reading = true;
    c->took = false;
    sp_verdict verdict = sp_read(&c->reader, data, len, &taken, take_message, c);
    c->reading = false;
    send_output(c);
    if (verdict != SP_FINE)
        hang_up(c, verdict == SP_BROKEN ? STREAM_BROKEN : STREAM_NO_MEMORY);
    if (stream_is_closing(c->stream))
        return;
    if (c->reader.handshake_done && !was_handshake_done) {
        stream_ready(c->stream);
        stream_idle(c->stream, c->in_flight == 0);
    }
    if (taken < len)
        keep_left(c, data + taken, len - taken);
    stream_unfinished(c->stream, c->reader.handshake_done && !sp_reader_idle(&c->reader), c->took);
    if (must_stop(c))
        stream_pause(c->stream);
}

static void on_bytes(void *arg, const uint8_t *data, size_t len)
{
    connection *c = arg;

    c->read_ns = clock_now_ns();
    if (!c->left && !must_stop(c)) {
        take_bytes(c, data, len);
        return;
    }
    keep_left(c, data, len);
    if (must_stop(c))
        stream_pause(c->stream);
}

/* Processes the bytes that were kept. */
static bool on_kept(void *arg)
{
    connection *c = arg;
    uint8_t *left = c->left;
    size_t len = c->left_len;

    if (!left)
        return false;
    if (must_stop(c)) {
        stream_pause(c->stream);
        return true;
    }
    c->left = NULL;
    c->read_ns = c->left_ns;
    take_bytes(c, left, len);
    free_left(c, left, len);
    return true;
}

static void on_drained(void *arg)
{
    connection *c = arg;

    check_output(c);
    read_on(c);
}

/* ---- connections -------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    connection *c = arg;

    c->stream = NULL;
    sp_reader_end(&c->reader);
    free_left(c, c->left, c->left_len);
    c->left = NULL;
    c->in_flight++; /* abandoning calls may answer the last message, which must not free the connection here */
    c->all->options.sink->lost(c->sender.caller);
    c->in_flight--;
    free_when_over(c);
}

static void on_room(void *arg)
{
    connection *c = arg;

    if (c->stream)
        read_on(c);
}

/* web: for WebSocket, else NULL. False when out of memory. */
static bool init_reader(connection *c, const websocket_site *web)
{
    size_t frame_bytes_max = c->all->options.message_bytes_max;

    if (web)
        return sp_reader_init_websocket(&c->reader, web, frame_bytes_max);
    sp_reader_init(&c->reader, c->mapping, frame_bytes_max);
    return true;
}

static connection *new_connection(sp_server *all, stream *s, sp_mapping mapping, const websocket_site *web)
{
    const sink *to = all->options.sink;
    connection *c = malloc(sizeof *c);

    if (!c)
        return NULL;
    *c = (connection){.all = all, .stream = s, .mapping = mapping, .sender = {.bytes = stream_bytes(s)}};
    const sink_connection connected = {
        .bytes = c->sender.bytes, .peer = stream_peer(s), .origin = stream_origin(s), .on_room = on_room, .arg = c};
    c->sender.caller = to->open(to->arg, &connected);
    if (!c->sender.caller || !init_reader(c, web)) {
        to->lost(c->sender.caller);
        free(c);
        return NULL;
    }
    c->sender.certificate = stream_peer_certificate(s);
    if (connected.peer.uid >= 0) {
        c->uid = (uid_t)connected.peer.uid;
        c->sender.uid = &c->uid;
    }
    sp_reader_charge(&c->reader, c->sender.bytes);
    send_output(c);
    return c;
}

static void *on_open_tcp(void *arg, stream *s)
{
    return new_connection(arg, s, SP_OVER_TCP, NULL);
}

static void *on_open_unix(void *arg, stream *s)
{
    return new_connection(arg, s, SP_OVER_UNIX, NULL);
}

static void *on_open_websocket(void *arg, stream *s)
{
    const site *at = arg;

    return new_connection(at->all, s, SP_OVER_WEBSOCKET, &at->web);
}

#define CALLBACKS .bytes = on_bytes, .kept = on_kept, .drained = on_drained, .closed = on_closed
static const stream_protocol over_tcp = {.name = "tcp", .tls_name = "tls", .open = on_open_tcp, CALLBACKS};
static const stream_protocol over_unix = {.name = "unix", .open = on_open_unix, CALLBACKS};
static const stream_protocol over_websocket = {.name = "ws", .tls_name = "wss", .open = on_open_websocket, CALLBACKS};

/* ---- the server --------------------------------------------------------------------- */

lks_code sp_server_new(const sp_server_options *options, sp_server **ret, lks_error *error)
{
    sp_server *all = malloc(sizeof *all);

    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *all = (sp_server){.options = *options};
    SLIST_INIT(&all->sites);
    *ret = all;
    return LKS_OK;
}

lks_code sp_server_listen(sp_server *all, const stream_address *at, uint16_t *bound, lks_error *error)
{
    const stream_protocol *protocol = at->is_unix && !at->tls ? &over_unix : &over_tcp;

    return streams_listen(all->options.streams, at, protocol, all, bound, error);
}

/* A path as in a request, without a query. */
lks_code sp_server_check_path(const char *path, lks_error *error)
{
    bool good = path[0] == '/';

    for (const char *c = path; *c; c++)
        good = good && *c > ' ' && *c <= '~' && *c != '?' && *c != '#';
    return good ? LKS_OK
                : lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                "the path must begin with / and must not contain a space, ? or #");
}

static lks_code new_site(sp_server *all, const char *path, site **ret, lks_error *error)
{
    size_t path_size = strlen(path) + 1;

    lks_code code = sp_server_check_path(path, error);
    if (code != LKS_OK)
        return code;
    site *at = malloc(sizeof *at + path_size);
    if (!at)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    memcpy(at->path, path, path_size);
    at->all = all;
    at->web = (websocket_site){.path = at->path,
                               .subprotocol = sp_rep_subprotocol,
                               .origins = all->options.origins,
                               .n_origins = all->options.n_origins};
    SLIST_INSERT_HEAD(&all->sites, at, next);
    *ret = at;
    return LKS_OK;
}

lks_code sp_server_listen_websocket(sp_server *all, const stream_address *at, const char *path, uint16_t *bound,
                                    lks_error *error)
{
    site *made = NULL;

    lks_code code = new_site(all, path, &made, error);
    return code == LKS_OK ? streams_listen(all->options.streams, at, &over_websocket, made, bound, error) : code;
}

size_t sp_server_in_flight(const sp_server *all)
{
    return all->in_flight;
}

void sp_server_free(sp_server *all)
{
    site *at;

    while (all && (at = SLIST_FIRST(&all->sites))) {
        SLIST_REMOVE_HEAD(&all->sites, next);
        free(at);
    }
    free(all);
}

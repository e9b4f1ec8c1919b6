/* Invariant: the lock of the listener is held while its thread is in nghttp2, and whenever requests are looked at. */
#include "h2_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "channel.pb-c.h"
#include "support/listener.h"
#include "support/ports.h"
#include "support/sp_peer.h"

enum { CONNECTIONS_MAX = 16, REQUESTS_MAX = 64, FIELDS_MAX = 16, HEADER_BYTES_MAX = 1 << 20, PREFIX_BYTES = 5 };

typedef struct connection {
    struct h2_server *server;
    int fd;
    nghttp2_session *session;
} connection;

struct h2_server {
    size_t n_pings; /* of the client */
    h2_script script;
    char url[64];
    listener listener;
    connection connections[CONNECTIONS_MAX];
    size_t n_connections;
    h2_request requests[REQUESTS_MAX];
    size_t n, whole, n_resets;
};

/* ---- answers --------------------------------------------------------------------------- */

typedef struct output {
    size_t len, done;
    nghttp2_nv trailers[FIELDS_MAX];
    size_t n_trailers;
    uint8_t data[];
} output;

static size_t list(const char *const *fields, nghttp2_nv to[FIELDS_MAX])
{
    size_t n = 0;

    for (; fields && fields[2 * n]; n++)
        to[n] = (nghttp2_nv){(uint8_t *)(uintptr_t)fields[2 * n], (uint8_t *)(uintptr_t)fields[2 * n + 1],
                             strlen(fields[2 * n]), strlen(fields[2 * n + 1]), NGHTTP2_NV_FLAG_NONE};
    return n;
}

static ssize_t on_output(nghttp2_session *session, int32_t id, uint8_t *data, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    output *o = source->ptr;
    size_t n = o->len - o->done < len ? o->len - o->done : len;

    memcpy(data, o->data + o->done, n);
    o->done += n;
    if (o->done == o->len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (o->n_trailers > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(session, id, o->trailers, o->n_trailers);
        }
        free(o);
    }
    return (ssize_t)n;
}

void h2_answer_fields(h2_request *r, const char *const *head, const void *body, size_t len, const char *const *trailers)
{
    nghttp2_nv fields[FIELDS_MAX];
    output *o = body ? malloc(sizeof *o + len) : NULL;

    if (o) {
        *o = (output){.len = len};
        o->n_trailers = list(trailers, o->trailers);
        memcpy(o->data, body, len);
    }
    const nghttp2_data_provider provider = {.source = {.ptr = o}, .read_callback = on_output};
    nghttp2_submit_response(r->session, r->id, fields, list(head, fields), o ? &provider : NULL);
}

void h2_answer_pong(h2_request *r)
{
    static const char *const head[] = {":status", "200", "content-type", "application/grpc", NULL};
    static const char *const trailers[] = {"grpc-status", "0", NULL};
    Lockstock__Test__PingResponse response = LOCKSTOCK__TEST__PING_RESPONSE__INIT;
    Lockstock__Test__PingRequest *request =
        lockstock__test__ping_request__unpack(NULL, r->len - PREFIX_BYTES, r->body + PREFIX_BYTES);
    uint8_t bytes[256] = {0};

    if (!request)
        abort();
    response.id = request->id;
    size_t len = lockstock__test__ping_response__pack(&response, bytes + PREFIX_BYTES);
    bytes[4] = (uint8_t)len;
    lockstock__test__ping_request__free_unpacked(request, NULL);
    h2_answer_fields(r, head, bytes, PREFIX_BYTES + len, trailers);
}

/* ---- requests ---------------------------------------------------------------------------- */

static h2_request *request_of(nghttp2_session *session, int32_t id)
{
    return id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    connection *c = user;
    h2_server *s = c->server;

    if (s->n == REQUESTS_MAX)
        abort();
    h2_request *r = &s->requests[s->n++];
    r->session = session;
    r->id = frame->hd.stream_id;
    r->connection = (size_t)(c - s->connections);
    nghttp2_session_set_stream_user_data(session, r->id, r);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    h2_request *r = request_of(session, frame->hd.stream_id);
    size_t used = strlen(r->headers);

    snprintf(r->headers + used, sizeof r->headers - used, "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)len,
             (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    h2_request *r = request_of(session, id);

    r->body = realloc(r->body, r->len + len);
    if (!r->body)
        abort();
    memcpy(r->body + r->len, data, len);
    r->len += len;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    h2_server *s = ((connection *)user)->server;
    h2_request *r = request_of(session, frame->hd.stream_id);
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && frame->hd.type == NGHTTP2_DATA;
    size_t step = 0;

    if (r && frame->hd.type == NGHTTP2_RST_STREAM) {
        s->n_resets++;
        r->error = frame->rst_stream.error_code;
    }
    bool is_ping = frame->hd.type == NGHTTP2_PING, is_back = is_ping && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
    if (is_back || (is_ping && ++s->n_pings == s->script.pings))
        h2_answer_pong(&s->requests[0]);
    if (r && (s->script.early ? frame->hd.type == NGHTTP2_HEADERS : ends)) {
        while (step < s->whole && s->script.steps[step + 1])
            step++;
        s->whole++;
        s->script.steps[step](s, r);
    }
    return 0;
}

/* ---- the thread -------------------------------------------------------------------------- */

static void *add_connection(listener *l, int fd)
{
    h2_server *s = container_of(l, h2_server, listener);
    connection *c = &s->connections[s->n_connections];
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;

    if (s->n_connections++ == CONNECTIONS_MAX || nghttp2_session_callbacks_new(&callbacks) != 0 ||
        nghttp2_option_new(&option) != 0)
        abort();
    *c = (connection){.server = s, .fd = fd};
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_option_set_max_send_header_block_length(option, HEADER_BYTES_MAX);
    nghttp2_option_set_no_auto_window_update(option,
                                             s->script.setting.settings_id == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
    if (nghttp2_session_server_new2(&c->session, callbacks, c, option) != 0)
        abort();
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &s->script.setting, s->script.setting.settings_id != 0);
    return c;
}

static bool read_some(void *arg, const uint8_t *data, size_t len)
{
    return nghttp2_session_mem_recv(((connection *)arg)->session, data, len) >= 0;
}

static void close_connection(void *arg)
{
    ((connection *)arg)->fd = -1;
}

static void write_all(listener *l)
{
    h2_server *s = container_of(l, h2_server, listener);
    const uint8_t *data;
    ssize_t n;

    for (connection *c = s->connections; c < s->connections + s->n_connections; c++)
        while (c->fd >= 0 && (n = nghttp2_session_mem_send(c->session, &data)) > 0)
            sp_peer_send(c->fd, data, (size_t)n);
}

h2_server *h2_server_start(h2_script script)
{
    h2_server *s = calloc(1, sizeof *s);
    uint16_t port;

    if (!s)
        abort();
    s->script = script;
    listener_start(&s->listener, (listener_events){add_connection, read_some, close_connection, write_all},
                   ports_bind(&port));
    snprintf(s->url, sizeof s->url, "grpc://127.0.0.1:%u", port);
    return s;
}

void h2_server_stop(h2_server *s)
{
    if (!s)
        return;
    listener_stop(&s->listener);
    for (size_t i = 0; i < s->n_connections; i++)
        nghttp2_session_del(s->connections[i].session);
    for (size_t i = 0; i < s->n; i++)
        free(s->requests[i].body);
    free(s);
}

const char *h2_server_url(const h2_server *s)
{
    return s->url;
}

h2_request *h2_server_request(h2_server *s, size_t i)
{
    return i < s->n ? &s->requests[i] : NULL;
}

bool h2_server_await(h2_server *s, size_t n)
{
    return listener_await(&s->listener, &s->whole, n, SIZE_MAX);
}

bool h2_server_await_resets(h2_server *s, size_t n)
{
    return listener_await(&s->listener, &s->n_resets, n, SIZE_MAX);
}

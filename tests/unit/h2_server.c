/* Invariant: `lock` is held while the thread is in nghttp2, and whenever requests are looked at. */
#include "h2_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "channel.pb-c.h"

enum {
    CONNECTIONS_MAX = 16,
    REQUESTS_MAX = 64,
    READ_BYTES = 65536,
    FIELDS_MAX = 16,
    HEADER_BYTES_MAX = 1 << 20,
    WAIT_S = 30,
    PREFIX_BYTES = 5
};

typedef struct connection {
    struct h2_server *server;
    int fd;
    nghttp2_session *session;
} connection;

struct h2_server {
    size_t n_pings; /* of the client */
    h2_script script;
    char url[64];
    int listener, stop;
    pthread_t thread;
    connection connections[CONNECTIONS_MAX];
    size_t n_connections;

    pthread_mutex_t lock;
    pthread_cond_t changed;
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
    pthread_cond_broadcast(&s->changed);
    return 0;
}

/* ---- the thread -------------------------------------------------------------------------- */

static void add_connection(h2_server *s)
{
    connection *c = &s->connections[s->n_connections];
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;

    if (s->n_connections++ == CONNECTIONS_MAX || nghttp2_session_callbacks_new(&callbacks) != 0 ||
        nghttp2_option_new(&option) != 0)
        abort();
    *c = (connection){.server = s, .fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)};
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
}

static void write_all(connection *c)
{
    const uint8_t *data;
    ssize_t n;

    while (c->fd >= 0 && (n = nghttp2_session_mem_send(c->session, &data)) > 0)
        for (ssize_t done = 0, sent; done < n; done += sent)
            if ((sent = send(c->fd, data + done, (size_t)(n - done), MSG_NOSIGNAL)) < 0)
                return;
}

static void read_some(connection *c)
{
    static uint8_t bytes[READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n > 0 && nghttp2_session_mem_recv(c->session, bytes, (size_t)n) >= 0)
        return;
    close(c->fd);
    c->fd = -1;
}

static void *serve(void *arg)
{
    h2_server *s = arg;

    for (;;) {
        struct pollfd fds[CONNECTIONS_MAX + 2] = {{s->stop, POLLIN, 0}, {s->listener, POLLIN, 0}};
        size_t n = s->n_connections;

        for (size_t i = 0; i < n; i++)
            fds[2 + i] = (struct pollfd){s->connections[i].fd, POLLIN, 0};
        poll(fds, 2 + n, -1);
        if (fds[0].revents != 0)
            return NULL;
        pthread_mutex_lock(&s->lock);
        if (fds[1].revents != 0)
            add_connection(s);
        for (size_t i = 0; i < n; i++)
            if (fds[2 + i].revents != 0)
                read_some(&s->connections[i]);
        for (size_t i = 0; i < s->n_connections; i++)
            write_all(&s->connections[i]);
        pthread_mutex_unlock(&s->lock);
    }
}

h2_server *h2_server_start(h2_script script)
{
    h2_server *s = calloc(1, sizeof *s);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;

    if (!s)
        abort();
    s->script = script;
    s->stop = eventfd(0, EFD_CLOEXEC);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (bind(s->listener, (struct sockaddr *)&address, len) != 0 || listen(s->listener, CONNECTIONS_MAX) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&address, &len) != 0 ||
        pthread_create(&s->thread, NULL, serve, s) != 0)
        abort();
    snprintf(s->url, sizeof s->url, "grpc://127.0.0.1:%u", ntohs(address.sin_port));
    return s;
}

void h2_server_stop(h2_server *s)
{
    if (!s)
        return;
    eventfd_write(s->stop, 1);
    pthread_join(s->thread, NULL);
    for (size_t i = 0; i < s->n_connections; i++) {
        nghttp2_session_del(s->connections[i].session);
        if (s->connections[i].fd >= 0)
            close(s->connections[i].fd);
    }
    for (size_t i = 0; i < s->n; i++)
        free(s->requests[i].body);
    close(s->listener);
    close(s->stop);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
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

static bool await(h2_server *s, const size_t *count, size_t n)
{
    struct timespec until;
    int failed = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&s->lock);
    while (*count < n && failed == 0)
        failed = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
    return failed == 0;
}

bool h2_server_await(h2_server *s, size_t n)
{
    return await(s, &s->whole, n);
}

bool h2_server_await_resets(h2_server *s, size_t n)
{
    return await(s, &s->n_resets, n);
}

/* Invariant: nghttp2 is entered from h2_peer_turn and from what submits; its callbacks
 * only record. */
#include "support/h2_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "support/sp_peer.h"

enum { READ_BYTES = 65536, FIELDS_MAX = 128, HEADERS_BYTES_MAX = 1 << 20 };

typedef struct body {
    uint8_t *data;
    size_t len, done;
    bool more;
} body;

struct h2_peer {
    int fd;
    nghttp2_session *session;
    bool over, deaf;
    bool lost; /* raw bytes caused frames that the session does not know: further input is dropped */
    uint8_t *unsent;
    size_t unsent_len, unsent_done;
    h2_answer answers[H2_PEER_CALLS_MAX];
    body bodies[H2_PEER_CALLS_MAX];
    size_t n;
    h2_goaways goaways;
};

static h2_answer *answer_of(const h2_peer *p, int32_t id)
{
    return nghttp2_session_get_stream_user_data(p->session, id);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    h2_answer *a = answer_of(user, frame->hd.stream_id);

    if (a) {
        size_t used = strlen(a->headers);
        snprintf(a->headers + used, sizeof a->headers - used, "%.*s: %.*s\n", (int)name_len, (const char *)name,
                 (int)value_len, (const char *)value);
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    h2_peer *p = user;
    h2_answer *a = answer_of(p, frame->hd.stream_id);
    h2_goaways *g = &p->goaways;

    if (frame->hd.type == NGHTTP2_GOAWAY && g->n < H2_PEER_GOAWAYS_MAX) {
        g->last[g->n] = frame->goaway.last_stream_id;
        g->error[g->n++] = frame->goaway.error_code;
        snprintf(g->text, sizeof g->text, "%.*s", (int)frame->goaway.opaque_data_len,
                 (const char *)frame->goaway.opaque_data);
    }
    if (frame->hd.type == NGHTTP2_HEADERS && a)
        a->blocks++;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    h2_answer *a = answer_of(user, id);

    nghttp2_session_consume_connection(session, len);
    if (!a)
        return 0;
    if (a->len + len > a->room) {
        a->room = 2 * (a->len + len);
        a->data = realloc(a->data, a->room);
        if (!a->data)
            abort();
    }
    memcpy(a->data + a->len, data, len);
    a->len += len;
    return 0;
}

static int on_closed(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    h2_answer *a = answer_of(user, id);

    if (a) {
        a->closed = true;
        a->error = error;
    }
    return 0;
}

static ssize_t on_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    body *b = source->ptr;
    size_t n = b->len - b->done < len ? b->len - b->done : len;

    if (n == 0 && b->more)
        return NGHTTP2_ERR_DEFERRED;
    if (n > 0)
        memcpy(out, b->data + b->done, n);
    b->done += n;
    if (b->done == b->len && !b->more)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static bool begin(h2_peer *p, uint32_t window)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
                                               {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};

    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    nghttp2_option_set_no_auto_window_update(option, window > 0);
    nghttp2_option_set_max_send_header_block_length(option, HEADERS_BYTES_MAX);
    bool begun = nghttp2_session_client_new2(&p->session, callbacks, p, option) == 0 &&
                 nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, settings, window > 0 ? 2 : 0) == 0;
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return begun;
}

h2_peer *h2_peer_open(uint16_t port, uint32_t window)
{
    h2_peer *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->fd = sp_peer_connect(port, 0);
    if (p->fd < 0 || !begin(p, window)) {
        h2_peer_free(p);
        return NULL;
    }
    fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) | O_NONBLOCK);
    return p;
}

/* Adds to what waits for the socket. */
static void add(h2_peer *p, const void *data, size_t len)
{
    if (p->unsent_done == p->unsent_len)
        p->unsent_done = p->unsent_len = 0;
    p->unsent = realloc(p->unsent, p->unsent_len + len + 1);
    if (!p->unsent)
        abort();
    memcpy(p->unsent + p->unsent_len, data, len);
    p->unsent_len += len;
}

static bool would_block(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void send_some(h2_peer *p)
{
    while (!p->over && p->unsent_done < p->unsent_len) {
        ssize_t n = send(p->fd, p->unsent + p->unsent_done, p->unsent_len - p->unsent_done, MSG_NOSIGNAL);
        if (n > 0)
            p->unsent_done += (size_t)n;
        else if (would_block(n))
            return;
        else
            p->over = true;
    }
}

static void take_some(h2_peer *p)
{
    static uint8_t buffer[READ_BYTES];
    ssize_t n;

    while ((n = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        if (!p->lost && nghttp2_session_mem_recv(p->session, buffer, (size_t)n) < 0)
            p->lost = true;
    if (!would_block(n))
        p->over = true;
}

bool h2_peer_turn(h2_peer *p)
{
    const uint8_t *data;
    ssize_t n;

    while (p->unsent_done == p->unsent_len && (n = nghttp2_session_mem_send(p->session, &data)) > 0)
        add(p, data, (size_t)n), send_some(p);
    send_some(p);
    if (!p->deaf)
        take_some(p);
    return !p->over;
}

void h2_peer_deafen(h2_peer *p, bool deaf)
{
    p->deaf = deaf;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

static const char *given(const char *const *fields, const char *name, const char *otherwise)
{
    for (size_t i = 0; fields && fields[i]; i += 2)
        if (strcmp(fields[i], name) == 0)
            return fields[i + 1];
    return otherwise;
}

static void set_body(body *b, const void *data, size_t len, bool more)
{
    free(b->data);
    *b = (body){.data = malloc(len + 1), .len = len, .more = more};
    if (!b->data)
        abort();
    if (len > 0)
        memcpy(b->data, data, len);
}

size_t h2_peer_call(h2_peer *p, const char *path, const char *const *fields, const void *data, size_t len, bool more)
{
    nghttp2_nv list[FIELDS_MAX] = {field(":method", given(fields, ":method", "POST")),
                                   field(":scheme", "http"),
                                   field(":path", path),
                                   field(":authority", "test"),
                                   field("te", "trailers"),
                                   field("content-type", given(fields, "content-type", "application/grpc"))};
    size_t n = 6, at = p->n++;
    body *b = &p->bodies[at];

    if (at >= H2_PEER_CALLS_MAX)
        abort();
    for (size_t i = 0; fields && fields[i] && n < FIELDS_MAX; i += 2)
        if (fields[i][0] != ':' && strcmp(fields[i], "content-type") != 0)
            list[n++] = field(fields[i], fields[i + 1]);
    set_body(b, data, len, more);
    const nghttp2_data_provider provider = {.source = {.ptr = b}, .read_callback = on_body};
    p->answers[at].id = nghttp2_submit_request(p->session, NULL, list, n, &provider, &p->answers[at]);
    return at;
}

void h2_peer_more(h2_peer *p, size_t call, const void *data, size_t len, bool more)
{
    set_body(&p->bodies[call], data, len, more);
    nghttp2_session_resume_data(p->session, p->answers[call].id);
}

void h2_peer_reset(h2_peer *p, size_t call, uint32_t error)
{
    nghttp2_submit_rst_stream(p->session, NGHTTP2_FLAG_NONE, p->answers[call].id, error);
}

void h2_peer_ping(h2_peer *p)
{
    nghttp2_submit_ping(p->session, NGHTTP2_FLAG_NONE, NULL);
}

void h2_peer_allow(h2_peer *p, size_t call, uint32_t bytes)
{
    nghttp2_submit_window_update(p->session, NGHTTP2_FLAG_NONE, p->answers[call].id, (int32_t)bytes);
}

const h2_answer *h2_peer_answer(const h2_peer *p, size_t call)
{
    return &p->answers[call];
}

const char *h2_peer_header(const h2_peer *p, size_t call, const char *name)
{
    static char value[4096];
    char start[128];
    const char *headers = p->answers[call].headers;

    snprintf(start, sizeof start, "%s: ", name);
    while (headers && strncmp(headers, start, strlen(start)) != 0) {
        headers = strchr(headers, '\n');
        headers = headers && headers[1] ? headers + 1 : NULL;
    }
    headers = headers ? headers + strlen(start) : "";
    snprintf(value, sizeof value, "%.*s", (int)strcspn(headers, "\n"), headers);
    return value;
}

const h2_goaways *h2_peer_goaways(const h2_peer *p)
{
    return &p->goaways;
}

bool h2_peer_raw(h2_peer *p, const void *data, size_t len)
{
    add(p, data, len);
    send_some(p);
    return !p->over;
}

uint32_t h2_peer_concurrent_max(const h2_peer *p)
{
    return nghttp2_session_get_remote_settings(p->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void h2_peer_free(h2_peer *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++) {
        free(p->answers[i].data);
        free(p->bodies[i].data);
    }
    nghttp2_session_del(p->session);
    if (p->fd >= 0)
        close(p->fd);
    free(p->unsent);
    free(p);
}

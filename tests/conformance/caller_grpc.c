/* gRPC by nghttp2's client side: unary calls, any number of streams under way. nghttp2 is
 * entered by start, await and cancel only; its output is sent at once. */
#include "conformance/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <nghttp2/nghttp2.h>

#include "base/base64.h"
#include "base/hex.h"
#include "conformance/line.h"

enum { PREFIX = 5, REPLY_MAX = 16 << 20, WINDOW = 16 << 20 };

typedef struct grpc_call {
    TAILQ_ENTRY(grpc_call) next;
    uint8_t *request; /* with its prefix */
    size_t len, sent;
    uint8_t *reply;
    size_t reply_len;
    bool has_status, cancelled;
    outcome out;
} grpc_call;

TAILQ_HEAD(grpc_calls, grpc_call);

typedef struct grpc_caller {
    line *line;
    nghttp2_session *session;
    struct grpc_calls running, answered;
} grpc_caller;

static void free_call(grpc_call *call)
{
    free(call->request);
    free(call->reply);
    free(call);
}

static bool flush(grpc_caller *c)
{
    const uint8_t *data;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(c->session, &data)) > 0)
        if (!line_send(c->line, data, (size_t)n))
            return false;
    return n == 0;
}

/* ---- callbacks of nghttp2 --------------------------------------------------------- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *data, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    grpc_call *call = source->ptr;
    size_t n = call->len - call->sent < len ? call->len - call->sent : len;

    memcpy(data, call->request + call->sent, n);
    call->sent += n;
    if (call->sent == call->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static lks_applied applied_of(const char *text, size_t len)
{
    static const lks_applied all[] = {LKS_APPLIED_YES, LKS_APPLIED_NO, LKS_APPLIED_MAYBE};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(lks_applied_name(all[i])) == len && memcmp(lks_applied_name(all[i]), text, len) == 0)
            return all[i];
    return LKS_APPLIED_MAYBE;
}

/* Whether the details contain a RetryInfo. */
static bool has_retry_info(const char *text, size_t len)
{
    static const char name[] = "google.rpc.RetryInfo";
    uint8_t *bytes = malloc(len + 2);
    size_t n;

    if (!bytes)
        abort();
    bool has = base64_decode(text, len, bytes, &n) && memmem(bytes, n, name, sizeof name - 1);
    free(bytes);
    return has;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    const char *text = (const char *)value;

    if (!call)
        return 0;
    if (strcmp((const char *)name, "grpc-status") == 0) {
        call->has_status = true;
        call->out.code = (lks_code)strtol(text, NULL, 10);
    } else if (strcmp((const char *)name, "grpc-message") == 0) {
        char message[3 * LKS_ERROR_MESSAGE_MAX];
        size_t len = value_len < sizeof message ? percent_decode(text, value_len, message) : SIZE_MAX;
        snprintf(call->out.message, sizeof call->out.message, "%.*s", len == SIZE_MAX ? 0 : (int)len, message);
    } else if (strcmp((const char *)name, "lockstock-applied") == 0) {
        call->out.applied = applied_of(text, value_len);
    } else if (strcmp((const char *)name, "grpc-status-details-bin") == 0) {
        call->out.says_when = has_retry_info(text, value_len);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, id);

    if (!call || len == 0)
        return 0;
    uint8_t *grown = call->reply_len + len <= REPLY_MAX ? realloc(call->reply, call->reply_len + len) : NULL;
    if (!grown)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(grown + call->reply_len, data, len);
    call->reply = grown;
    call->reply_len += len;
    return 0;
}

/* An answer has a status; with LKS_OK it has one message, not compressed. */
static int on_closed(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, id);
    grpc_caller *c = user;

    if (!call)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    TAILQ_REMOVE(&c->running, call, next);
    if (call->cancelled) {
        free_call(call);
        return 0;
    }
    if (!call->has_status) {
        call->out.code = LKS_UNAVAILABLE;
        call->out.applied = LKS_APPLIED_MAYBE;
        snprintf(call->out.message, sizeof call->out.message, "reset: %u", code);
    } else if (call->out.code == LKS_OK && (call->reply_len < PREFIX || call->reply[0] != 0)) {
        call->out.code = LKS_INTERNAL;
        snprintf(call->out.message, sizeof call->out.message, "no message");
    }
    TAILQ_INSERT_TAIL(&c->answered, call, next);
    return 0;
}

/* ---- the driver ------------------------------------------------------------------- */

static void *open_caller(const char *url, const char *certificate)
{
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
    nghttp2_session_callbacks *callbacks;
    line *l = line_open(url, certificate, "h2");

    if (!l)
        return NULL;
    grpc_caller *c = calloc(1, sizeof *c);
    if (!c || nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    c->line = l;
    TAILQ_INIT(&c->running);
    TAILQ_INIT(&c->answered);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    if (nghttp2_session_client_new(&c->session, callbacks, c) != 0)
        abort();
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 1);
    nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    (void)flush(c); /* a refusal shows when it is awaited */
    return c;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static unsigned start(void *caller, const call_spec *spec)
{
    grpc_caller *c = caller;
    grpc_call *call = calloc(1, sizeof *call);
    char timeout[32];
    nghttp2_nv fields[10] = {field(":method", "POST"),     field(":scheme", "http"),
                             field(":path", spec->method), field(":authority", "localhost"),
                             field("te", "trailers"),      field("content-type", "application/grpc")};
    size_t n = 6;

    if (!call || !(call->request = malloc(PREFIX + spec->len)))
        abort();
    call->len = PREFIX + spec->len;
    call->request[0] = 0;
    for (unsigned i = 0; i < 4; i++)
        call->request[1 + i] = (uint8_t)(spec->len >> (24 - 8 * i));
    if (spec->len > 0)
        memcpy(call->request + PREFIX, spec->payload, spec->len);
    if (spec->timeout_ms > 0) {
        snprintf(timeout, sizeof timeout, "%um", spec->timeout_ms);
        fields[n++] = field("grpc-timeout", timeout);
    }
    if (spec->ns)
        fields[n++] = field("lockstock-namespace", spec->ns);
    if (spec->authorization)
        fields[n++] = field("authorization", spec->authorization);
    const nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = on_read};
    int32_t id = nghttp2_submit_request(c->session, NULL, fields, n, &provider, call);
    if (id <= 0) {
        free_call(call);
        return 0;
    }
    call->out.call = (unsigned)id;
    TAILQ_INSERT_TAIL(&c->running, call, next);
    return flush(c) ? (unsigned)id : 0;
}

static bool await(void *caller, outcome *ret)
{
    grpc_caller *c = caller;
    uint8_t bytes[16384];
    grpc_call *call;

    while (!(call = TAILQ_FIRST(&c->answered))) {
        size_t n = line_receive(c->line, bytes, sizeof bytes);
        if (n == 0 || nghttp2_session_mem_recv(c->session, bytes, n) < 0)
            return false;
        (void)flush(c); /* what came is read first */
    }
    TAILQ_REMOVE(&c->answered, call, next);
    *ret = call->out;
    if (call->out.code == LKS_OK) {
        ret->len = call->reply_len - PREFIX;
        ret->payload = malloc(ret->len + 1);
        if (!ret->payload)
            abort();
        memcpy(ret->payload, call->reply + PREFIX, ret->len);
    }
    free_call(call);
    return true;
}

static void cancel(void *caller, unsigned number)
{
    grpc_caller *c = caller;
    grpc_call *call = nghttp2_session_get_stream_user_data(c->session, (int32_t)number);

    if (call) {
        call->cancelled = true;
        nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, (int32_t)number, NGHTTP2_CANCEL);
        (void)flush(c);
    }
}

static void close_caller(void *caller)
{
    grpc_caller *c = caller;
    grpc_call *call;

    nghttp2_session_del(c->session);
    while ((call = TAILQ_FIRST(&c->running))) {
        TAILQ_REMOVE(&c->running, call, next);
        free_call(call);
    }
    while ((call = TAILQ_FIRST(&c->answered))) {
        TAILQ_REMOVE(&c->answered, call, next);
        free_call(call);
    }
    line_close(c->line);
    free(c);
}

const wire_driver grpc_driver = {
    .open = open_caller, .start = start, .await = await, .cancel = cancel, .close = close_caller};

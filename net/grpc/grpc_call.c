/* Invariant: a call answers once. After that (ANSWERED), and after its HTTP/2 stream is gone, everything that
 * arrives for the call is dropped. Called by grpc.c. */
#include "net/grpc/grpc_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>

#include "base/clock.h"
#include "net/grpc/grpc_headers.h"
#include "net/grpc/grpc_text.h"
#include "net/gzip.h"
#include "net/stream/stream.h"

enum {
    WAITING_BYTES_MAX = 4 * 1024 * 1024, /* of a streaming method, not taken by the client; beyond this the call ends */
    ARENA_BYTES = 4096,                  /* its first block */
    CALL_BYTES = ARENA_BYTES + 1024,     /* memory of a call without its messages */
    RUNNING_BYTES = 64,                  /* of a running call; not 0, so that the share outlives the call */
    TAKEN_BYTES = 16 * 1024,             /* a client that takes less in stall_ms, without finishing an answer, stalls */
    OPEN_MESSAGE_BYTES = 4096,           /* of a method without rights */
};

static void refuse(grpc_stream *s, lks_code code, lks_reason reason, const char *why)
{
    lks_error error;

    lks_error_set_reason(&error, code, LKS_APPLIED_NO, reason, "%s", why);
    grpc_stream_finish(s, &error);
}

/* ---- memory --------------------------------------------------------------------------- */

/* Holds the bytes of messages that arrived and were not taken. */
static void drop_input(grpc_stream *s)
{
    grpc_reader_end(&s->reader);
    free(s->request);
    s->request = NULL;
    budget_claim_give(&s->held, s->reading);
    s->reading = 0;
}

/* A running call is stored in its arena. The limits of running and waiting calls (callers.h) include the memory of an
 * ordinary call, so only more than that counts. */
static void keep_arena(grpc_stream *s)
{
    size_t arena = lks_rpc_arena_bytes(s->arena);

    drop_input(s);
    budget_claim_only(&s->held, RUNNING_BYTES + (arena > ARENA_BYTES ? arena - ARENA_BYTES : 0));
}

/* Frees everything of the call except its encoded answer. */
static void forget_arena(grpc_stream *s)
{
    TAILQ_INIT(&s->headers);
    if (!TAILQ_EMPTY(&s->trailers))
        return; /* their texts are in the arena */
    lks_rpc_arena_reset(s->arena);
    budget_claim_only(&s->held, CALL_BYTES + s->waiting);
}

static const char too_much[] = "too many bytes are under way";

/* ---- the clock ------------------------------------------------------------------------ */

/* Moves the call to its next phase. The clock watches it, except while it runs: then it has a clock of its own. */
static void enter(grpc_stream *s, grpc_phase phase)
{
    if (phase == GRPC_RUNNING)
        TAILQ_REMOVE(&s->all->watched, s, in_watched);
    else if (s->phase == GRPC_RUNNING)
        TAILQ_INSERT_TAIL(&s->all->watched, s, in_watched);
    s->phase = phase;
}

/* Starts the time limit for the next message. */
static void expect_input(grpc_stream *s)
{
    s->input_due_ns = clock_now_ns() + (uint64_t)s->all->options.request_ms * 1000000;
}

static void note_moved(grpc_stream *s)
{
    s->moved_ns = s->from->moved_ns = clock_now_ns();
    s->taken = 0;
}

/* Considers only flow control; stream.c watches output that waits for the kernel. */
static bool stalls(const grpc_stream *s, uint64_t moved_ns, uint64_t now_ns)
{
    uint64_t limit_ns = (uint64_t)s->all->options.stall_ms * 1000000;

    return s->waiting > 0 && stream_waiting(s->from->stream) == 0 && now_ns >= moved_ns + limit_ns;
}

static void reset(grpc_stream *s)
{
    enter(s, GRPC_ANSWERED);
    nghttp2_submit_rst_stream(s->from->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_ENHANCE_YOUR_CALM);
    stream_produce(s->from->stream);
}

bool grpc_call_tick(grpc_stream *s, uint64_t now_ns)
{
    bool late = (!s->half_closed && now_ns >= s->input_due_ns) || (s->deadline_ns > 0 && now_ns >= s->deadline_ns);

    if (stream_waiting(s->from->stream) > 0 && s->waiting > 0)
        note_moved(s);
    if (stalls(s, s->moved_ns, now_ns)) {
        if (stalls(s, s->from->moved_ns, now_ns))
            return false;
        reset(s);
    } else if (late && s->phase != GRPC_ANSWERED) {
        if (s->phase == GRPC_HEADERS)
            return false; /* nothing else can arrive before the end of the headers */
        if (s->phase == GRPC_HTTP) {
            grpc_http_late(s);
            return true;
        }
        refuse(s, LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_BEFORE_START,
               "the deadline passed before the request was complete");
    }
    return true;
}

/* ---- life --------------------------------------------------------------------------- */

grpc_stream *grpc_call_new(grpc_connection *from, int32_t id)
{
    grpc_stream *s = calloc(1, sizeof *s);
    grpc_server *all = from->all;

    if (!s || !(s->arena = lks_rpc_arena_new())) {
        free(s);
        return NULL;
    }
    s->all = all;
    s->from = from;
    s->held.share = from->peer.bytes;
    s->id = id;
    s->received_ns = clock_now_ns();
    s->reader.bytes_max = all->options.message_bytes_max;
    TAILQ_INIT(&s->headers);
    TAILQ_INIT(&s->reply_headers);
    TAILQ_INIT(&s->trailers);
    TAILQ_INIT(&s->output);
    TAILQ_INSERT_TAIL(&from->calls, s, in_connection);
    from->n_calls++;
    all->in_flight++;
    s->too_much = !budget_claim_take(&s->held, CALL_BYTES);
    expect_input(s);
    TAILQ_INSERT_TAIL(&all->watched, s, in_watched);
    return s;
}

static void drop_output(grpc_stream *s)
{
    grpc_output *o;

    while ((o = TAILQ_FIRST(&s->output))) {
        TAILQ_REMOVE(&s->output, o, next);
        free(o->data);
        free(o);
    }
    grpc_output_waits(s->from, s->from->waiting - s->waiting);
    s->waiting = 0;
}

static void free_call(grpc_stream *s)
{
    s->all->in_flight--;
    drop_input(s);
    free(s->status);
    lks_rpc_arena_free(s->arena);
    budget_claim_only(&s->held, 0);
    free(s);
}

void grpc_call_detach(grpc_stream *s)
{
    grpc_connection *c = s->from;

    TAILQ_REMOVE(&c->calls, s, in_connection);
    c->n_calls--;
    c->n_whole -= s->whole;
    if (s->stops)
        TAILQ_REMOVE(&c->stops, s, in_stops);
    drop_output(s);
    s->from = NULL;
    if (s->phase == GRPC_RUNNING) {
        s->all->options.sink->abandon(s->running); /* the call may have ended */
        return;
    }
    TAILQ_REMOVE(&s->all->watched, s, in_watched);
    if (s->phase == GRPC_HTTP)
        http_exchange_leave(s->http);
    if (s->state)
        s->method->closed(s->state);
    free_call(s);
}

/* ---- headers ------------------------------------------------------------------------ */

void grpc_call_header(grpc_stream *s, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len)
{
    s->header_bytes += name_len + value_len + GRPC_FIELD_BYTES;
    if (s->header_bytes > GRPC_HEADER_BYTES_MAX || s->too_much)
        return;
    s->too_much = !budget_claim_take(&s->held, name_len + value_len + GRPC_FIELD_BYTES);
    if (!s->too_much)
        http_fields_add(&s->headers, s->arena, (const char *)name, name_len, (const char *)value, value_len);
}

static lks_code check_call(const grpc_stream *s, const credentials *who, const char *path, lks_rpc_effect effect,
                           lks_error *error)
{
    const sink *to = s->all->options.sink;

    return to->check(to->arg, s->from->peer.caller, who, path, effect, error);
}

static const grpc_streaming_method *find_streaming(const grpc_server *all, const char *path)
{
    for (size_t i = 0; i < all->options.n_methods; i++)
        if (strcmp(all->options.methods[i].path, path) == 0)
            return &all->options.methods[i];
    return NULL;
}

static void begin_streaming(grpc_stream *s, const grpc_streaming_method *method)
{
    const credentials who = grpc_headers_credentials(s);
    lks_error error = {0};

    if (method->effect && check_call(s, &who, method->path, method->effect, &error) != LKS_OK) {
        grpc_stream_finish(s, &error);
        return;
    }
    enter(s, GRPC_STREAMING);
    s->method = method;
    if (!method->effect && s->reader.bytes_max > OPEN_MESSAGE_BYTES)
        s->reader.bytes_max = OPEN_MESSAGE_BYTES;
    s->state = method->open(method->arg, s);
    if (!s->state)
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "out of memory");
}

static bool is_grpc(const grpc_stream *s)
{
    lks_rpc_slice type = grpc_headers_value(s, "content-type");

    return strncmp(type.data, "application/grpc", 16) == 0 && strchr(";+", type.data[16]);
}

static void begin_grpc(grpc_stream *s)
{
    const char *path = grpc_headers_value(s, ":path").data;
    const grpc_streaming_method *streaming = find_streaming(s->all, path);
    const credentials who = grpc_headers_credentials(s);
    lks_rpc_slice timeout = grpc_headers_value(s, "grpc-timeout");
    lks_rpc_slice encoding = grpc_headers_value(s, "grpc-encoding");
    uint32_t timeout_ms = 0;
    lks_error error = {0};

    s->gzip = strstr(grpc_headers_value(s, "grpc-accept-encoding").data, "gzip");
    grpc_reader_encoding(&s->reader, encoding);
    if (s->too_much)
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_MANY_CALLS, too_much);
    else if (s->header_bytes > GRPC_HEADER_BYTES_MAX)
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_LARGE, "the metadata is too long");
    else if (strcmp(grpc_headers_value(s, ":method").data, "POST") != 0)
        grpc_http_refuse(s, "405");
    else if (!is_grpc(s))
        grpc_http_refuse(s, "415");
    else if (timeout.len > 0 && !grpc_parse_timeout(timeout.data, timeout.len, &timeout_ms))
        refuse(s, LKS_INVALID_ARGUMENT, LKS_REASON_NONE, "grpc-timeout: not a timeout");
    else if (s->all->draining)
        refuse(s, LKS_UNAVAILABLE, LKS_REASON_SHUTTING_DOWN, "the server is shutting down");
    else if (streaming)
        begin_streaming(s, streaming);
    else if (check_call(s, &who, path, 0, &error) != LKS_OK)
        grpc_stream_finish(s, &error);
    if (timeout_ms > 0)
        s->deadline_ns = s->received_ns + (uint64_t)timeout_ms * 1000000;
    s->timeout_ms = timeout_ms;
}

void grpc_call_begin(grpc_stream *s)
{
    bool is_http = s->from->site && !is_grpc(s);

    enter(s, is_http ? GRPC_HTTP : GRPC_READING);
    if (is_http)
        grpc_http_begin(s);
    else
        begin_grpc(s);
}

/* ---- the request -------------------------------------------------------------------- */

/* Takes a complete message and owns it. */
static void take_message(grpc_stream *s, uint8_t *message, size_t len)
{
    bool compressed = s->reader.prefix[0] != 0;

    if (compressed && !budget_claim_take(&s->held, len)) {
        free(message);
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_MANY_CALLS, too_much);
        return;
    }
    s->reading += compressed ? len : 0;
    if (s->phase == GRPC_STREAMING) {
        s->method->message(s->state, message, len);
        free(message);
        budget_claim_give(&s->held, s->reading);
        s->reading = 0;
        expect_input(s);
    } else if (s->request) {
        free(message);
        refuse(s, LKS_UNIMPLEMENTED, LKS_REASON_NONE, "a unary call must have exactly one message");
    } else {
        s->request = message;
        s->request_len = len;
    }
}

void grpc_call_data(grpc_stream *s, const uint8_t *data, size_t len)
{
    lks_error error = {0};

    if (s->phase == GRPC_ANSWERED)
        return;
    if (s->phase == GRPC_HTTP) {
        http_exchange_body(s->http, data, len);
        return;
    }
    if (!budget_claim_take(&s->held, len)) {
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_MANY_CALLS, too_much);
        return;
    }
    s->reading += len;
    while (len > 0 && s->phase != GRPC_ANSWERED) {
        uint8_t *message;
        size_t used, message_len;
        if (grpc_read(&s->reader, data, len, &used, &message, &message_len, &error) != LKS_OK) {
            grpc_stream_finish(s, &error);
            return;
        }
        if (message)
            take_message(s, message, message_len);
        data += used;
        len -= used;
    }
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added);

/* The call is parked and does not need its request any more: frees the arena. */
static void on_parked(void *arg)
{
    grpc_stream *s = arg;

    TAILQ_INIT(&s->headers);
    lks_rpc_arena_free(s->arena);
    s->arena = NULL;
    budget_claim_only(&s->held, RUNNING_BYTES);
}

static lks_rpc_arena *new_arena(void *arg)
{
    grpc_stream *s = arg;

    return s->arena = lks_rpc_arena_new();
}

static const sink_lender lender = {.give = on_parked, .take = new_arena};

static void run(grpc_stream *s)
{
    const sink *to = s->all->options.sink;
    const sink_call call = {
        .path = grpc_headers_value(s, ":path").data,
        .payload = s->request,
        .len = s->request_len,
        .timeout_ms = s->timeout_ms,
        .received_ns = s->received_ns,
        .caller = s->from->peer.caller,
        .who = grpc_headers_credentials(s),
        .unanswered_before = grpc_headers_value(s, "grpc-previous-rpc-attempts").len > 0,
        .handle = &s->running,
        .lender = &lender,
        .read_metadata = grpc_headers_read_metadata,
        .metadata = s,
    };
    enter(s, GRPC_RUNNING);
    to->take(to->arg, &call, s->arena, on_done, s);
    if (s->phase == GRPC_RUNNING && s->arena)
        keep_arena(s);
}

void grpc_call_half_close(grpc_stream *s)
{
    s->half_closed = true;
    if (s->phase == GRPC_ANSWERED)
        return;
    s->whole = true;
    s->from->n_whole++;
    if (s->phase == GRPC_HTTP)
        http_exchange_run(s->http);
    else if (!grpc_reader_idle(&s->reader))
        refuse(s, LKS_INTERNAL, LKS_REASON_NONE, "the last message is incomplete");
    else if (s->phase == GRPC_STREAMING)
        s->method->half_closed(s->state);
    else if (s->phase == GRPC_READING && !s->request)
        refuse(s, LKS_UNIMPLEMENTED, LKS_REASON_NONE, "a unary call must have exactly one message");
    else if (s->phase == GRPC_READING)
        run(s);
}

/* ---- the answer --------------------------------------------------------------------- */

/* Ends the answer. Afterwards tells a client that still sends to stop. */
static void submit_trailers(grpc_stream *s)
{
    grpc_nv f = {.n = 0};

    grpc_headers_status(s, &f);
    nghttp2_submit_trailer(s->from->session, s->id, f.list, f.n);
}

static ssize_t on_output(nghttp2_session *session, int32_t stream_id, uint8_t *data, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    grpc_stream *s = source->ptr;
    grpc_output *o = TAILQ_FIRST(&s->output);
    (void)session;
    (void)stream_id;
    (void)user;
    bool is_answered = s->phase == GRPC_ANSWERED;

    if (!o && !is_answered)
        return NGHTTP2_ERR_DEFERRED;
    size_t n = o ? (o->len - o->done < len ? o->len - o->done : len) : 0;
    if (n > 0)
        memcpy(data, o->data + o->done, n);
    if (o && (o->done += n) == o->len) {
        TAILQ_REMOVE(&s->output, o, next);
        free(o->data);
        free(o);
    }
    s->waiting -= n;
    grpc_output_waits(s->from, s->from->waiting - n);
    s->taken += n;
    budget_claim_give(&s->held, n);
    if (s->waiting == 0 || s->taken >= TAKEN_BYTES)
        note_moved(s);
    if (TAILQ_EMPTY(&s->output) && is_answered) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!s->is_http) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(s);
        }
    }
    return (ssize_t)n;
}

/* Sends headers with the first message, or with the end of the answer. */
static void respond(grpc_stream *s)
{
    const nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = on_output};
    grpc_nv f = {.n = 0};

    stream_produce(s->from->stream);
    if (s->responded) {
        nghttp2_session_resume_data(s->from->session, s->id);
        return;
    }
    s->responded = true;
    grpc_headers_head(s, &f);
    if (s->phase != GRPC_ANSWERED || !TAILQ_EMPTY(&s->output)) {
        nghttp2_submit_response(s->from->session, s->id, f.list, f.n, &provider);
    } else if (s->added && s->added->headers.n > 0) { /* which would become trailers */
        nghttp2_submit_headers(s->from->session, NGHTTP2_FLAG_NONE, s->id, NULL, f.list, f.n, NULL);
        submit_trailers(s);
    } else {
        grpc_headers_status(s, &f); /* trailers only */
        nghttp2_submit_response(s->from->session, s->id, f.list, f.n, NULL);
    }
}

void grpc_stream_finish(grpc_stream *s, const lks_error *status)
{
    if (!s->from || s->phase == GRPC_ANSWERED)
        return;
    enter(s, GRPC_ANSWERED);
    s->code = status->code;
    s->status = status->code == LKS_OK ? NULL : malloc(sizeof *s->status);
    if (s->status)
        *s->status = *status;
    drop_input(s);
    respond(s);
}

/* Takes ownership of the bytes. False: `data` is NULL, or there are too many bytes. */
static bool add_bytes(grpc_stream *s, uint8_t *data, size_t len)
{
    grpc_output *o = data ? malloc(sizeof *o) : NULL;

    if (!o || !budget_claim_take(&s->held, len)) {
        free(data);
        free(o);
        return false;
    }
    if (s->waiting == 0)
        note_moved(s);
    *o = (grpc_output){.data = data, .len = len};
    TAILQ_INSERT_TAIL(&s->output, o, next);
    s->waiting += len;
    grpc_output_waits(s->from, s->from->waiting + len);
    return true;
}

static bool add_output(grpc_stream *s, const void *message, size_t len)
{
    size_t written = 0;
    uint8_t *data = grpc_write(message, len, s->gzip && len >= GZIP_BYTES_MIN, &written);

    return add_bytes(s, data, written);
}

void grpc_call_answer_http(grpc_stream *s, const nghttp2_nv *fields, size_t n, uint8_t *body, size_t len)
{
    const nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = on_output};

    enter(s, GRPC_ANSWERED);
    s->is_http = true;
    if (body && !add_bytes(s, body, len)) {
        reset(s);
        return;
    }
    nghttp2_submit_response(s->from->session, s->id, fields, n, body ? &provider : NULL);
    stream_produce(s->from->stream);
}

static void answer_message(grpc_stream *s, const lks_rpc_method *method, const ProtobufCMessage *response)
{
    const lks_error ok = {0};
    lks_error error;
    size_t len = protobuf_c_message_get_packed_size(response);
    uint8_t *packed = len <= s->all->options.message_bytes_max ? lks_rpc_arena_alloc(s->arena, len + 1) : NULL;

    if (packed)
        protobuf_c_message_pack(response, packed);
    if (packed && add_output(s, packed, len)) {
        grpc_headers_hint(s, response);
        grpc_stream_finish(s, &ok);
        return;
    }
    bool too_long = len > s->all->options.message_bytes_max;
    lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, lks_rpc_applied_of(method),
                         too_long ? LKS_REASON_TOO_LARGE : LKS_REASON_TOO_MANY_CALLS, "%s",
                         too_long ? "the response is too long" : too_much);
    grpc_stream_finish(s, &error);
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added)
{
    grpc_stream *s = arg;

    if (!s->from) {
        free_call(s);
        return;
    }
    if (added) {
        http_fields_put(&s->reply_headers, s->arena, "", &added->headers);
        http_fields_put(&s->trailers, s->arena, "", &added->trailers);
    }
    s->added = added;
    if (error->code != LKS_OK)
        grpc_stream_finish(s, error);
    else
        answer_message(s, method, response);
    s->added = NULL;
    forget_arena(s);
}

/* ---- streaming methods ---------------------------------------------------------------- */

void grpc_stream_send(grpc_stream *s, const void *data, size_t len)
{
    if (!s->from || s->phase == GRPC_ANSWERED)
        return;
    if (s->waiting > WAITING_BYTES_MAX) { /* gRPC's text for RESOURCE_EXHAUSTED */
        reset(s);
        return;
    }
    if (!add_output(s, data, len)) {
        refuse(s, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_MANY_CALLS, too_much);
        return;
    }
    respond(s);
}

void grpc_call_stop(grpc_stream *s)
{
    if (s->phase == GRPC_STREAMING)
        refuse(s, LKS_UNAVAILABLE, LKS_REASON_SHUTTING_DOWN, "the server is shutting down");
}

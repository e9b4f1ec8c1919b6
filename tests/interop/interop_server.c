/* grpc.testing.TestService on the gRPC engine, for other projects' interoperability
 * clients: interop_server [CERTIFICATE KEY], with which it is over TLS. Writes its port on a
 * line, and serves until SIGTERM.
 *
 * What each method does: github.com/grpc/grpc, doc/interop-test-descriptions.md */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "grpc/testing/test.pb-c.h"
#include "net/grpc/grpc.h"

enum {
    MESSAGE_BYTES_MAX = 4 << 20,
    GREETING_MS = 10000,
    IDLE_MS = 60000,
    STALL_MS = 10000,
    IN_FLIGHT = 100,
    HELD_BYTES_MAX = 64 << 20
};

static struct {
    uv_loop_t loop;
    uv_signal_t on_term;
    budget *budget;
    streams *streams;
    grpc_server *server;
    tls_context *tls; /* NULL: none */
} here;

typedef struct call {
    grpc_stream *stream;
    int64_t received; /* payload bytes of StreamingInputCall */
} call;

/* ---- answers ---------------------------------------------------------------------------- */

static void echo_metadata(grpc_stream *s)
{
    const char *initial = grpc_stream_header(s, "x-grpc-test-echo-initial");
    const char *trailing = grpc_stream_header(s, "x-grpc-test-echo-trailing-bin");

    if (initial)
        grpc_stream_add_header(s, "x-grpc-test-echo-initial", initial);
    if (trailing)
        grpc_stream_add_trailer(s, "x-grpc-test-echo-trailing-bin", trailing);
}

static void end(call *c, lks_code code, const char *message)
{
    lks_error status = {0};

    if (code != LKS_OK)
        lks_error_set(&status, code, LKS_APPLIED_NO, "%s", message);
    grpc_stream_finish(c->stream, &status);
}

static void send_message(call *c, const ProtobufCMessage *message)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

    if (!bytes) {
        end(c, LKS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    grpc_stream_send(c->stream, bytes, protobuf_c_message_pack(message, bytes));
    free(bytes);
}

/* A payload of that many zero bytes; body.data NULL when there cannot be one. */
static Grpc__Testing__Payload payload_of(int32_t size)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;

    if (size < 0 || size > MESSAGE_BYTES_MAX)
        return payload;
    payload.body.len = (size_t)size;
    payload.body.data = calloc(1, (size_t)size + 1);
    return payload;
}

static bool compressed_as_said(const call *c, const Grpc__Testing__BoolValue *expected)
{
    return !expected || !expected->value || grpc_stream_compressed(c->stream);
}

/* ---- the methods -------------------------------------------------------------------------- */

static void *on_open(void *arg, grpc_stream *s)
{
    call *c = malloc(sizeof *c);
    (void)arg;

    if (c) {
        *c = (call){.stream = s};
        echo_metadata(s);
    }
    return c;
}

static void on_end_ok(void *state)
{
    end(state, LKS_OK, NULL);
}

static void on_empty(void *state, const uint8_t *data, size_t len)
{
    const Grpc__Testing__Empty response = GRPC__TESTING__EMPTY__INIT;
    (void)data;
    (void)len;

    send_message(state, &response.base);
}

static void answer_simple(call *c, const Grpc__Testing__SimpleRequest *request)
{
    Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;

    if (!compressed_as_said(c, request->expect_compressed)) {
        end(c, LKS_INVALID_ARGUMENT, "the message is not compressed");
        return;
    }
    if (request->response_status && request->response_status->code != 0) {
        end(c, (lks_code)request->response_status->code, request->response_status->message);
        return;
    }
    Grpc__Testing__Payload payload = payload_of(request->response_size);
    response.payload = &payload;
    if (payload.body.data)
        send_message(c, &response.base);
    else
        end(c, LKS_INVALID_ARGUMENT, "response_size");
    free(payload.body.data);
}

static void on_simple(void *state, const uint8_t *data, size_t len)
{
    Grpc__Testing__SimpleRequest *request = grpc__testing__simple_request__unpack(NULL, len, data);

    if (request)
        answer_simple(state, request);
    else
        end(state, LKS_INVALID_ARGUMENT, "not a request");
    grpc__testing__simple_request__free_unpacked(request, NULL);
}

static void answer_output(call *c, const Grpc__Testing__StreamingOutputCallRequest *request)
{
    if (request->response_status && request->response_status->code != 0) {
        end(c, (lks_code)request->response_status->code, request->response_status->message);
        return;
    }
    for (size_t i = 0; i < request->n_response_parameters; i++) {
        Grpc__Testing__StreamingOutputCallResponse response = GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
        Grpc__Testing__Payload payload = payload_of(request->response_parameters[i]->size);
        response.payload = &payload;
        if (payload.body.data)
            send_message(c, &response.base);
        else
            end(c, LKS_INVALID_ARGUMENT, "response_parameters.size");
        free(payload.body.data);
    }
}

static void on_output(void *state, const uint8_t *data, size_t len)
{
    Grpc__Testing__StreamingOutputCallRequest *request =
        grpc__testing__streaming_output_call_request__unpack(NULL, len, data);

    if (request)
        answer_output(state, request);
    else
        end(state, LKS_INVALID_ARGUMENT, "not a request");
    grpc__testing__streaming_output_call_request__free_unpacked(request, NULL);
}

static void on_input(void *state, const uint8_t *data, size_t len)
{
    call *c = state;
    Grpc__Testing__StreamingInputCallRequest *request =
        grpc__testing__streaming_input_call_request__unpack(NULL, len, data);

    if (!request)
        end(c, LKS_INVALID_ARGUMENT, "not a request");
    else if (!compressed_as_said(c, request->expect_compressed))
        end(c, LKS_INVALID_ARGUMENT, "the message is not compressed");
    else if (request->payload)
        c->received += (int64_t)request->payload->body.len;
    grpc__testing__streaming_input_call_request__free_unpacked(request, NULL);
}

static void on_input_end(void *state)
{
    call *c = state;
    Grpc__Testing__StreamingInputCallResponse response = GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;

    response.aggregated_payload_size = (int32_t)c->received;
    send_message(c, &response.base);
    end(c, LKS_OK, NULL);
}

/* Of some effect: requests to a method that is open to everybody are short. */
#define METHOD(name, on_message, on_half_closed)                                                    \
    {                                                                                               \
        .path = "/grpc.testing.TestService/" name, .effect = LKS_RPC_EFFECT_WRITE, .open = on_open, \
        .message = (on_message), .half_closed = (on_half_closed), .closed = free                    \
    }

static const grpc_streaming_method methods[] = {
    METHOD("EmptyCall", on_empty, on_end_ok),
    METHOD("UnaryCall", on_simple, on_end_ok),
    METHOD("StreamingOutputCall", on_output, on_end_ok),
    METHOD("FullDuplexCall", on_output, on_end_ok),
    METHOD("StreamingInputCall", on_input, on_input_end),
};

/* ---- the sink: no call reaches it, all methods are the engine's ---------------------------------- */

static caller *on_open_caller(void *arg, const sink_connection *c)
{
    (void)c;
    return arg;
}

static void on_lost(caller *c)
{
    (void)c;
}

static void on_hold(caller *c, bool held)
{
    (void)c;
    (void)held;
}

static bool on_queues(const caller *c)
{
    (void)c;
    return false;
}

static lks_code on_check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                         lks_error *error)
{
    (void)arg;
    (void)from;
    (void)who;
    (void)path;
    return effect ? LKS_OK : lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: not served here");
}

static const sink nobody = {
    .open = on_open_caller, .lost = on_lost, .hold = on_hold, .queues = on_queues, .check = on_check, .arg = &here};

/* ---- the server ---------------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    (void)arg;
    uv_close((uv_handle_t *)&here.on_term, NULL);
}

static void on_term(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    streams_close(here.streams, on_closed, NULL);
}

static lks_code start(const tls_files *files, uint16_t *port, lks_error *error)
{
    streams_options connections = {.loop = &here.loop,
                                   .connections_max = IN_FLIGHT,
                                   .greeting_ms = GREETING_MS,
                                   .idle_ms = IDLE_MS,
                                   .stall_ms = STALL_MS};

    if (files->key && tls_context_load(files, "h2", &here.tls, error) != LKS_OK)
        return error->code;
    here.budget = budget_new(HELD_BYTES_MAX);
    if (!here.budget)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    connections.budget = here.budget;
    if (streams_new(&connections, &here.streams, error) != LKS_OK)
        return error->code;
    const grpc_server_options options = {.streams = here.streams,
                                         .sink = &nobody,
                                         .message_bytes_max = MESSAGE_BYTES_MAX,
                                         .in_flight_per_peer = IN_FLIGHT,
                                         .methods = methods,
                                         .n_methods = sizeof methods / sizeof *methods};
    return grpc_server_new(&options, &here.server, error) == LKS_OK
               ? grpc_server_listen(here.server, "127.0.0.1:0", files->key ? &here.tls : NULL, port, error)
               : error->code;
}

int main(int argc, char **argv)
{
    const tls_files files = {.certificate = argc == 3 ? argv[1] : NULL, .key = argc == 3 ? argv[2] : NULL};
    lks_error error;
    uint16_t port = 0;

    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&here.loop);
    uv_signal_init(&here.loop, &here.on_term);
    uv_signal_start(&here.on_term, on_term, SIGTERM);
    if (start(&files, &port, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    grpc_server_free(here.server);
    budget_free(here.budget);
    tls_context_free(here.tls);
    return uv_loop_close(&here.loop) == 0 ? 0 : 1;
}

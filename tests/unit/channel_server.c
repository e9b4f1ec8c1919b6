/* The records of the server are protected by the lock of its listener.
 *
 *   handshake  00 'S' 'P' 00 00 31 00 00        (REP) either way, once
 *   message    8 bytes of length, request id (4 bytes, high bit set), Frame or Reply
 */
#include "channel_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/frame.h>

#include "base/container.h"
#include "channel.pb-c.h"
#include "support/listener.h"
#include "support/sp_peer.h"

enum { FAULTS_MAX = 32, LATE_S = 1, HANDSHAKE = 8, LENGTH = 8, ID = 4, HUGE_BYTES = 8 << 20 };

struct connection {
    struct server *server;
    int fd;
    bool handshake_done;
    uint8_t *data;
    size_t len;
};

struct call {
    char id[64];
    bool fails;
};

/* The calls of a message. */
struct asked {
    int fd;
    uint8_t sp_id[ID];
    size_t n;
    struct call *calls;
};

struct server {
    listener listener;
    uint16_t port;
    char url[64];
    bool dropping, releasing;
    server_fault faults[FAULTS_MAX];
    size_t n_faults;
    server_status status;
    server_request *seen;
    size_t n_seen, seen_max, n_frames, n_shaken;
    struct asked *holding;
    size_t n_holding;
};

#define METHOD(name, effect_, ...)                                                                          \
    {                                                                                                       \
        .path = "/lockstock.test.PingService/" name, .request = &lockstock__test__ping_request__descriptor, \
        .response = &lockstock__test__ping_response__descriptor, .effect = (effect_), __VA_ARGS__           \
    }
#define WRITE(name, ...) METHOD(name, LKS_RPC_EFFECT_WRITE, __VA_ARGS__)
const lks_rpc_method server_read = METHOD("Read", LKS_RPC_EFFECT_READ, .natural_id = NULL);
const lks_rpc_method server_write = WRITE("Write", .natural_id = "id", .first_try = "fresh");
const lks_rpc_method server_filled = WRITE("Filled", .natural_id = "id", .fill = LKS_RPC_FILL_RANDOM);
const lks_rpc_method server_plain = WRITE("Plain", .natural_id = NULL);
const lks_rpc_method server_shared = WRITE("Shared", .natural_id = "id", .coalesce = true);
const lks_rpc_method server_shared_plain = WRITE("SharedPlain", .coalesce = true);
const lks_rpc_method server_shared_settling = WRITE("SharedSettling", .settles = true, .coalesce = true);

/* ---- answering, on the thread ------------------------------------------------ */

static void must(bool done)
{
    if (!done)
        abort();
}

static void put_length(uint8_t out[LENGTH], uint64_t length)
{
    for (int i = 0; i < LENGTH; i++)
        out[i] = (uint8_t)(length >> (8 * (LENGTH - 1 - i)));
}

static void send_message(int fd, const uint8_t sp_id[ID], const void *body, size_t len)
{
    uint8_t *message = malloc(LENGTH + ID + len);

    put_length(message, ID + len);
    memcpy(message + LENGTH, sp_id, ID);
    if (len != 0)
        memcpy(message + LENGTH + ID, body, len);
    sp_peer_send(fd, message, LENGTH + ID + len);
    free(message);
}

static void send_reply(int fd, const uint8_t sp_id[ID], const Lockstock__Rpc__V1__Reply *reply)
{
    size_t len = lockstock__rpc__v1__reply__get_packed_size(reply);
    uint8_t *body = malloc(len + 1);

    lockstock__rpc__v1__reply__pack(reply, body);
    send_message(fd, sp_id, body, len);
    free(body);
}

/* NULL: a Reply without any. */
static void send_result(int fd, const uint8_t sp_id[ID], Lockstock__Rpc__V1__Result *result)
{
    Lockstock__Rpc__V1__Reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;

    reply.n_results = result != NULL;
    reply.results = &result;
    send_reply(fd, sp_id, &reply);
}

enum { ANSWER_BYTES = 128 };

static void fill_answer(const char *id, uint8_t payload[ANSWER_BYTES], Lockstock__Rpc__V1__Result *result)
{
    Lockstock__Test__PingResponse response = LOCKSTOCK__TEST__PING_RESPONSE__INIT;

    response.id = (char *)id;
    result->applied = LOCKSTOCK__RPC__V1__APPLIED__APPLIED_YES;
    result->payload =
        (ProtobufCBinaryData){.data = payload, .len = lockstock__test__ping_response__pack(&response, payload)};
}

static void fill_status(const struct server *server, Lockstock__Rpc__V1__Result *result)
{
    result->code = server->status.code;
    result->applied = (Lockstock__Rpc__V1__Applied)server->status.applied;
    if (server->status.reason)
        result->reason = (char *)(uintptr_t)server->status.reason;
    result->retry_after_ms = server->status.retry_after_ms;
    result->message = "scripted";
}

static void send_answers(struct server *server, const struct asked *asked)
{
    Lockstock__Rpc__V1__Reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;
    Lockstock__Rpc__V1__Result results[LKS_RPC_FRAME_CALLS_MAX], *list[LKS_RPC_FRAME_CALLS_MAX];
    uint8_t payloads[LKS_RPC_FRAME_CALLS_MAX][ANSWER_BYTES];

    for (size_t i = 0; i < asked->n; i++) {
        lockstock__rpc__v1__result__init(list[i] = &results[i]);
        if (asked->calls[i].fails)
            fill_status(server, &results[i]);
        else
            fill_answer(asked->calls[i].id, payloads[i], &results[i]);
    }
    reply.n_results = asked->n;
    reply.results = list;
    send_reply(asked->fd, asked->sp_id, &reply);
}

static void record_metadata(const Lockstock__Rpc__V1__Metadata *from, const char *key, char *text, size_t size)
{
    if (strcmp(from->key, key) == 0)
        snprintf(text, size, "%.*s", (int)from->value.len, (const char *)from->value.data);
}

static void record(struct server *server, const Lockstock__Rpc__V1__Frame *frame, size_t i, server_request *ret)
{
    const Lockstock__Rpc__V1__Call *call = frame->calls[i];
    Lockstock__Test__PingRequest *request =
        lockstock__test__ping_request__unpack(NULL, call->payload.len, call->payload.data);

    *ret = (server_request){.fresh = request && request->fresh,
                            .unanswered_before = call->unanswered_before,
                            .timeout_ms = call->timeout_ms,
                            .frame = server->n_frames};
    snprintf(ret->method, sizeof ret->method, "%s", call->method);
    snprintf(ret->id, sizeof ret->id, "%s", request ? request->id : "?");
    for (size_t m = 0; m < call->n_metadata; m++) {
        record_metadata(call->metadata[m], "lockstock-namespace", ret->ns, sizeof ret->ns);
        record_metadata(call->metadata[m], "authorization", ret->authorization, sizeof ret->authorization);
        record_metadata(call->metadata[m], "traceparent", ret->traceparent, sizeof ret->traceparent);
    }
    if (request)
        lockstock__test__ping_request__free_unpacked(request, NULL);
    if (server->n_seen == server->seen_max) {
        server->seen_max = 2 * server->seen_max + 64;
        server->seen = realloc(server->seen, server->seen_max * sizeof *server->seen);
    }
    server->seen[server->n_seen++] = *ret;
}

static server_fault_kind fault_of(struct server *server)
{
    for (size_t i = 0; i < server->n_faults; i++) {
        server_fault *fault = &server->faults[i];

        if (fault->after != 0) {
            fault->after--;
        } else if (fault->times != 0) {
            fault->times--;
            return fault->kind;
        }
    }
    return SERVER_ANSWERS;
}

static void send_status(const struct server *server, int fd, const uint8_t sp_id[ID])
{
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT;

    fill_status(server, &result);
    send_result(fd, sp_id, &result);
}

/* Notes the calls of a message. What the message as a whole gets. */
static server_fault_kind take_calls(struct server *server, const Lockstock__Rpc__V1__Frame *frame, struct asked *asked)
{
    server_fault_kind whole = SERVER_ANSWERS;

    for (size_t i = 0; i < frame->n_calls; i++) {
        server_request request;

        record(server, frame, i, &request);
        memcpy(asked->calls[i].id, request.id, sizeof request.id);
        server_fault_kind kind = fault_of(server);
        asked->calls[i].fails = kind == SERVER_FAILS;
        if (kind != SERVER_ANSWERS && kind != SERVER_FAILS)
            whole = kind;
    }
    server->n_frames++;
    return whole;
}

/* False = the connection is to be closed. */
static bool make_fault(struct server *server, server_fault_kind kind, int fd, const uint8_t *data)
{
    static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff};
    static uint8_t bad_text[] = {0x0a, 0x02, 0xc3, 0x28};
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT;
    uint8_t prefix[LENGTH];
    uint8_t *huge;

    switch (kind) {
    case SERVER_ANSWERS:
    case SERVER_HOLDS:
    case SERVER_DROPS_REPLY:
        break;
    case SERVER_CLOSES:
        return false;
    case SERVER_SENDS_GARBAGE:
        send_message(fd, data, garbage, sizeof garbage);
        break;
    case SERVER_SENDS_NO_RESULT:
        send_result(fd, data, NULL);
        break;
    case SERVER_SENDS_BAD_TEXT:
        result.payload = (ProtobufCBinaryData){.len = sizeof bad_text, .data = bad_text};
        send_result(fd, data, &result);
        break;
    case SERVER_SENDS_HUGE:
        huge = calloc(1, HUGE_BYTES);
        send_message(fd, data, huge, HUGE_BYTES);
        free(huge);
        break;
    case SERVER_CLAIMS_HUGE:
        put_length(prefix, UINT64_C(0xFFFFFFFFFFFFFFE0));
        sp_peer_send(fd, prefix, sizeof prefix);
        break;
    case SERVER_FAILS_LATE:
        sleep(LATE_S); /* the delay under test: a try must leave a server so much time */
        send_status(server, fd, data);
        break;
    case SERVER_FAILS:
    case SERVER_REFUSES_FRAME:
        send_status(server, fd, data);
        break;
    }
    return true;
}

/* False = the connection is to be closed. */
static bool handle(struct server *server, int fd, const uint8_t *data, size_t len)
{
    Lockstock__Rpc__V1__Frame *frame = lockstock__rpc__v1__frame__unpack(NULL, len - ID, data + ID);

    must(frame && frame->n_calls > 0 && frame->n_calls <= LKS_RPC_FRAME_CALLS_MAX);
    struct asked asked = {.fd = fd, .n = frame->n_calls, .calls = malloc(frame->n_calls * sizeof *asked.calls)};
    memcpy(asked.sp_id, data, ID);
    server_fault_kind kind = take_calls(server, frame, &asked);
    lockstock__rpc__v1__frame__free_unpacked(frame, NULL);
    if (kind == SERVER_HOLDS) {
        server->holding = realloc(server->holding, (server->n_holding + 1) * sizeof *server->holding);
        server->holding[server->n_holding++] = asked;
        return true;
    }
    if (kind == SERVER_ANSWERS)
        send_answers(server, &asked);
    free(asked.calls);
    return make_fault(server, kind, fd, data);
}

/* ---- connections, on the thread ---------------------------------------------- */

static void *open_connection(listener *l, int fd)
{
    static const uint8_t hello[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    struct connection *connection = calloc(1, sizeof *connection);

    must(connection);
    connection->server = container_of(l, struct server, listener);
    connection->fd = fd;
    sp_peer_send(fd, hello, sizeof hello);
    return connection;
}

static void close_connection(void *arg)
{
    struct connection *connection = arg;
    struct server *server = connection->server;
    size_t kept = 0;

    for (size_t i = 0; i < server->n_holding; i++)
        if (server->holding[i].fd != connection->fd)
            server->holding[kept++] = server->holding[i];
        else
            free(server->holding[i].calls);
    server->n_holding = kept;
    free(connection->data);
    free(connection);
}

static bool read_connection(void *arg, const uint8_t *data, size_t len)
{
    struct connection *connection = arg;
    struct server *server = connection->server;

    connection->data = realloc(connection->data, connection->len + len);
    memcpy(connection->data + connection->len, data, len);
    connection->len += len;

    size_t at = 0;
    bool open = true;
    if (!connection->handshake_done && connection->len >= HANDSHAKE) {
        connection->handshake_done = true;
        server->n_shaken++;
        at = HANDSHAKE;
    }
    while (open && connection->handshake_done && connection->len - at >= LENGTH) {
        uint64_t length = 0;

        for (size_t i = 0; i < LENGTH; i++)
            length = length << 8 | connection->data[at + i];
        if (connection->len - at - LENGTH < length)
            break;
        open = handle(server, connection->fd, connection->data + at + LENGTH, (size_t)length);
        at += LENGTH + (size_t)length;
    }
    memmove(connection->data, connection->data + at, connection->len - at);
    connection->len -= at;
    return open;
}

static void obey(listener *l)
{
    struct server *server = container_of(l, struct server, listener);

    for (size_t i = 0; server->releasing && i < server->n_holding; i++) {
        send_answers(server, &server->holding[i]);
        free(server->holding[i].calls);
    }
    if (server->releasing)
        server->n_holding = 0;
    if (server->dropping)
        listener_drop(l);
    server->releasing = server->dropping = false;
}

/* ---- the test's side --------------------------------------------------------- */

const char *server_scheme(void)
{
    return getenv("LOCKSTOCK_TEST_SCHEME") ? getenv("LOCKSTOCK_TEST_SCHEME") : "tcp";
}

struct server *server_start_at(const char *host, uint16_t port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *address;
    struct server *server = calloc(1, sizeof *server);
    char digits[8];
    int on = 1, fd;

    snprintf(digits, sizeof digits, "%u", port);
    must(getaddrinfo(host, digits, &hints, &address) == 0);
    fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
         getsockname(fd, address->ai_addr, &address->ai_addrlen) == 0);
    /* The port is at the same place in the addresses of both families. */
    server->port = ntohs(((const struct sockaddr_in *)(const void *)address->ai_addr)->sin_port);
    snprintf(server->url, sizeof server->url, strchr(host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", server_scheme(), host,
             server->port);
    freeaddrinfo(address);
    listener_start(&server->listener, (listener_events){open_connection, read_connection, close_connection, obey}, fd);
    return server;
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    listener_stop(&server->listener);
    free(server->seen);
    free(server->holding);
    free(server);
}

uint16_t server_port(struct server *server)
{
    return server->port;
}

const char *server_url(struct server *server)
{
    return server->url;
}

void server_add_fault(struct server *server, server_fault fault)
{
    pthread_mutex_lock(&server->listener.lock);
    must(server->n_faults < FAULTS_MAX);
    server->faults[server->n_faults++] = fault;
    pthread_mutex_unlock(&server->listener.lock);
}

void server_set_status(struct server *server, server_status status)
{
    pthread_mutex_lock(&server->listener.lock);
    server->status = status;
    pthread_mutex_unlock(&server->listener.lock);
}

static void set(struct server *server, bool *flag, bool value)
{
    pthread_mutex_lock(&server->listener.lock);
    *flag = value;
    listener_wake(&server->listener);
    pthread_mutex_unlock(&server->listener.lock);
}

void server_read_on(struct server *server, bool on)
{
    set(server, &server->listener.deaf, !on);
}

void server_release(struct server *server)
{
    pthread_mutex_lock(&server->listener.lock);
    for (size_t i = 0; i < server->n_faults; i++)
        if (server->faults[i].kind == SERVER_HOLDS)
            server->faults[i].times = 0;
    pthread_mutex_unlock(&server->listener.lock);
    set(server, &server->releasing, true);
}

void server_drop_connections(struct server *server)
{
    set(server, &server->dropping, true);
}

bool server_await(struct server *server, size_t n)
{
    return listener_await(&server->listener, &server->n_seen, n, SIZE_MAX);
}

bool server_await_accepted(struct server *server, size_t n)
{
    return listener_await(&server->listener, &server->n_shaken, n, SIZE_MAX);
}

bool server_settle(struct server *server)
{
    return listener_await(&server->listener, &server->listener.n, 0, 0);
}

int32_t server_count(struct server *server, const char *id)
{
    int32_t n = 0;

    pthread_mutex_lock(&server->listener.lock);
    for (size_t i = 0; i < server->n_seen; i++)
        n += strcmp(server->seen[i].id, id) == 0;
    pthread_mutex_unlock(&server->listener.lock);
    return n;
}

static size_t value_of(struct server *server, const size_t *value)
{
    pthread_mutex_lock(&server->listener.lock);
    size_t n = *value;
    pthread_mutex_unlock(&server->listener.lock);
    return n;
}

size_t server_frames(struct server *server)
{
    return value_of(server, &server->n_frames);
}

size_t server_seen(struct server *server)
{
    return value_of(server, &server->n_seen);
}

server_request server_request_at(struct server *server, size_t i)
{
    pthread_mutex_lock(&server->listener.lock);
    server_request request = server->seen[i];
    pthread_mutex_unlock(&server->listener.lock);
    return request;
}

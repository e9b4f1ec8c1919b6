/* One thread polls the listener and all connections; its records are protected by `lock`.
 *
 *   handshake  00 'S' 'P' 00 00 31 00 00        (REP) either way, once
 *   message    8 bytes of length, request id (4 bytes, high bit set), Frame or Reply
 */
#include "channel_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/frame.h>

#include "channel.pb-c.h"

enum { CONNECTIONS_MAX = 128, FAULTS_MAX = 32, LATE_S = 1, HANDSHAKE = 8, LENGTH = 8, ID = 4, HUGE_BYTES = 8 << 20 };

struct connection {
    int fd;
    bool handshake_done;
    uint8_t *data;
    size_t len, capacity;
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
    int listener, wake;
    uint16_t port;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, reading, dropping, releasing;
    server_fault faults[FAULTS_MAX];
    size_t n_faults;
    server_status status;
    server_request *seen;
    size_t n_seen, seen_max, n_frames, n_shaken;

    struct connection connections[CONNECTIONS_MAX]; /* the thread's own, from here */
    size_t n_connections;
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

static void write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len != 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        len -= (size_t)n;
    }
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
    write_all(fd, message, LENGTH + ID + len);
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
    pthread_cond_broadcast(&server->changed);
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
        write_all(fd, prefix, sizeof prefix);
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

static void forget_held(struct server *server, int fd)
{
    size_t kept = 0;

    for (size_t i = 0; i < server->n_holding; i++)
        if (server->holding[i].fd != fd)
            server->holding[kept++] = server->holding[i];
        else
            free(server->holding[i].calls);
    server->n_holding = kept;
}

static void close_connection(struct server *server, size_t i)
{
    forget_held(server, server->connections[i].fd);
    close(server->connections[i].fd);
    free(server->connections[i].data);
    server->connections[i] = server->connections[--server->n_connections];
    pthread_cond_broadcast(&server->changed);
}

static void accept_connection(struct server *server)
{
    static const uint8_t hello[HANDSHAKE] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    int fd = accept(server->listener, NULL, NULL);

    if (fd < 0)
        return;
    if (server->n_connections == CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    write_all(fd, hello, sizeof hello);
    server->connections[server->n_connections++] = (struct connection){.fd = fd};
}

/* False = the connection is to be closed. */
static bool read_connection(struct server *server, struct connection *connection)
{
    if (connection->capacity - connection->len < 65536) {
        connection->capacity = 2 * connection->capacity + 65536;
        connection->data = realloc(connection->data, connection->capacity);
    }
    ssize_t n = recv(connection->fd, connection->data + connection->len, connection->capacity - connection->len, 0);
    if (n <= 0)
        return false;
    connection->len += (size_t)n;

    size_t at = 0;
    bool open = true;
    if (!connection->handshake_done && connection->len >= HANDSHAKE) {
        connection->handshake_done = true;
        server->n_shaken++;
        pthread_cond_broadcast(&server->changed);
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

static void obey(struct server *server)
{
    for (size_t i = 0; server->releasing && i < server->n_holding; i++) {
        send_answers(server, &server->holding[i]);
        free(server->holding[i].calls);
    }
    if (server->releasing)
        server->n_holding = 0;
    if (server->dropping)
        while (server->n_connections != 0)
            close_connection(server, 0);
    server->releasing = server->dropping = false;
    pthread_cond_broadcast(&server->changed);
}

static void *serve(void *arg)
{
    struct server *server = arg;
    struct pollfd fds[CONNECTIONS_MAX + 2];
    uint64_t woken;

    pthread_mutex_lock(&server->lock);
    while (!server->stopping) {
        fds[0] = (struct pollfd){.fd = server->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        size_t n = server->n_connections;
        for (size_t i = 0; i < n; i++)
            fds[2 + i] = (struct pollfd){.fd = server->connections[i].fd, .events = server->reading ? POLLIN : 0};
        pthread_mutex_unlock(&server->lock);
        poll(fds, (nfds_t)(n + 2), -1);
        pthread_mutex_lock(&server->lock);
        for (size_t i = n; i-- != 0;) /* backwards: closing one moves the last in */
            if (fds[2 + i].revents != 0 && !read_connection(server, &server->connections[i]))
                close_connection(server, i);
        if (fds[1].revents != 0)
            accept_connection(server);
        if (fds[0].revents != 0 && read(server->wake, &woken, sizeof woken) > 0)
            obey(server);
    }
    while (server->n_connections != 0)
        close_connection(server, 0);
    pthread_mutex_unlock(&server->lock);
    return NULL;
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
    int on = 1;

    snprintf(digits, sizeof digits, "%u", port);
    must(getaddrinfo(host, digits, &hints, &address) == 0);
    server->reading = true;
    server->wake = eventfd(0, EFD_CLOEXEC);
    server->listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(bind(server->listener, address->ai_addr, address->ai_addrlen) == 0 && listen(server->listener, 64) == 0 &&
         getsockname(server->listener, address->ai_addr, &address->ai_addrlen) == 0);
    /* The port is at the same place in the addresses of both families. */
    server->port = ntohs(((const struct sockaddr_in *)(const void *)address->ai_addr)->sin_port);
    snprintf(server->url, sizeof server->url, strchr(host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", server_scheme(), host,
             server->port);
    freeaddrinfo(address);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    must(pthread_create(&server->thread, NULL, serve, server) == 0);
    return server;
}

static void wake(struct server *server)
{
    uint64_t one = 1;

    must(write(server->wake, &one, sizeof one) == sizeof one);
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    wake(server);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->thread, NULL);
    close(server->listener);
    close(server->wake);
    free(server->seen);
    free(server->holding);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
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
    pthread_mutex_lock(&server->lock);
    must(server->n_faults < FAULTS_MAX);
    server->faults[server->n_faults++] = fault;
    pthread_mutex_unlock(&server->lock);
}

void server_set_status(struct server *server, server_status status)
{
    pthread_mutex_lock(&server->lock);
    server->status = status;
    pthread_mutex_unlock(&server->lock);
}

static void set(struct server *server, bool *flag, bool value)
{
    pthread_mutex_lock(&server->lock);
    *flag = value;
    wake(server);
    pthread_mutex_unlock(&server->lock);
}

void server_read_on(struct server *server, bool on)
{
    set(server, &server->reading, on);
}

void server_release(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->n_faults; i++)
        if (server->faults[i].kind == SERVER_HOLDS)
            server->faults[i].times = 0;
    pthread_mutex_unlock(&server->lock);
    set(server, &server->releasing, true);
}

void server_drop_connections(struct server *server)
{
    set(server, &server->dropping, true);
}

/* Until the value is in a range. */
static bool await(struct server *server, const size_t *value, size_t least, size_t most)
{
    struct timespec until;
    int failed = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&server->lock);
    while ((*value < least || *value > most) && failed == 0)
        failed = pthread_cond_timedwait(&server->changed, &server->lock, &until);
    pthread_mutex_unlock(&server->lock);
    return failed == 0;
}

bool server_await(struct server *server, size_t n)
{
    return await(server, &server->n_seen, n, SIZE_MAX);
}

bool server_await_accepted(struct server *server, size_t n)
{
    return await(server, &server->n_shaken, n, SIZE_MAX);
}

bool server_settle(struct server *server)
{
    return await(server, &server->n_connections, 0, 0);
}

int32_t server_count(struct server *server, const char *id)
{
    int32_t n = 0;

    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->n_seen; i++)
        n += strcmp(server->seen[i].id, id) == 0;
    pthread_mutex_unlock(&server->lock);
    return n;
}

static size_t value_of(struct server *server, const size_t *value)
{
    pthread_mutex_lock(&server->lock);
    size_t n = *value;
    pthread_mutex_unlock(&server->lock);
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
    pthread_mutex_lock(&server->lock);
    server_request request = server->seen[i];
    pthread_mutex_unlock(&server->lock);
    return request;
}

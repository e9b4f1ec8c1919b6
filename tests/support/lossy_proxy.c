/* Each connection of a client has a thread for each direction, which reads a whole message and writes it to the
 * other end.
 *
 *   handshake  8 bytes each way
 *   message    length(8, big-endian)  request id(4)  frame
 */
#include "support/lossy_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "support/ports.h"

enum { HEADER = 8, ID = 4, MESSAGE_MAX = 4 << 20, LINKS_MAX = 256 };

typedef struct connection {
    lossy_proxy *proxy;
    int client, server;
    pthread_t up, down;
} connection;

/* A request that was forwarded. A call is known by a hash of its method and payload: the client may send it again in
 * another frame. */
typedef struct request {
    int client;
    uint32_t id;
    uint64_t *calls;
    size_t n_calls;
} request;

struct lossy_proxy {
    lossy_way way;
    unsigned short server_port;
    char url[64];
    int listener;
    pthread_t thread;
    connection links[LINKS_MAX];
    size_t n_links;
    pthread_mutex_t mutex; /* of what follows */
    request *requests;
    size_t n_requests;
    uint64_t *answered; /* calls whose first reply was lost */
    size_t n_answered;
    uint64_t hits;
};

/* FNV-1a, 64 bits */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *byte = data;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void note_request(connection *l, uint32_t id, const uint8_t *bytes, size_t len)
{
    lossy_proxy *p = l->proxy;
    Lockstock__Rpc__V1__Frame *frame = lockstock__rpc__v1__frame__unpack(NULL, len, bytes);
    request r = {l->client, id, calloc(frame ? frame->n_calls : 1, sizeof *r.calls), frame ? frame->n_calls : 0};

    for (size_t i = 0; i < r.n_calls; i++) {
        const Lockstock__Rpc__V1__Call *call = frame->calls[i];
        r.calls[i] = hash_bytes(UINT64_C(0xcbf29ce484222325), call->method, strlen(call->method) + 1);
        r.calls[i] = hash_bytes(r.calls[i], call->payload.data, call->payload.len);
    }
    lockstock__rpc__v1__frame__free_unpacked(frame, NULL);
    pthread_mutex_lock(&p->mutex);
    p->requests = realloc(p->requests, (p->n_requests + 1) * sizeof *p->requests);
    p->requests[p->n_requests++] = r;
    pthread_mutex_unlock(&p->mutex);
}

/* Adds the call to those whose first reply was lost. Returns true if it was new. */
static bool add_call(lossy_proxy *p, uint64_t call)
{
    for (size_t i = 0; i < p->n_answered; i++)
        if (p->answered[i] == call)
            return false;
    p->answered = realloc(p->answered, (p->n_answered + 1) * sizeof *p->answered);
    p->answered[p->n_answered++] = call;
    return true;
}

/* Whether the reply to that request is lost: it is the first one for a call in it. */
static bool is_lost(connection *l, uint32_t id)
{
    lossy_proxy *p = l->proxy;
    bool lost = false;

    pthread_mutex_lock(&p->mutex);
    for (size_t i = p->n_requests; i-- > 0;) {
        request one = p->requests[i];
        if (one.client != l->client || one.id != id)
            continue;
        p->requests[i] = p->requests[--p->n_requests];
        for (size_t k = 0; k < one.n_calls; k++)
            if ((p->way == LOSE_FIRST_REPLIES || p->hits == 0) && add_call(p, one.calls[k])) {
                p->hits++;
                lost = true;
            }
        free(one.calls);
        break;
    }
    pthread_mutex_unlock(&p->mutex);
    return lost;
}

static bool forward(int from, int to, uint8_t *bytes, size_t n)
{
    return recv(from, bytes, n, MSG_WAITALL) == (ssize_t)n && send(to, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void pump(connection *l, bool is_reply)
{
    int from = is_reply ? l->server : l->client, to = is_reply ? l->client : l->server;
    uint8_t *message = malloc(MESSAGE_MAX);
    bool good = forward(from, to, message, HEADER);

    while (good && recv(from, message, HEADER, MSG_WAITALL) == HEADER) {
        uint64_t len = 0;
        uint32_t id;
        for (int i = 0; i < HEADER; i++)
            len = len << 8 | message[i];
        good =
            len >= ID && len <= MESSAGE_MAX - HEADER && recv(from, message + HEADER, len, MSG_WAITALL) == (ssize_t)len;
        if (!good)
            break;
        memcpy(&id, message + HEADER, sizeof id);
        if (!is_reply)
            note_request(l, id, message + HEADER + ID, len - ID);
        if (is_reply && is_lost(l, id))
            good = l->proxy->way == LOSE_FIRST_REPLIES;
        else
            good = send(to, message, HEADER + len, MSG_NOSIGNAL) == (ssize_t)(HEADER + len);
    }
    free(message);
    shutdown(l->client, SHUT_RDWR);
    shutdown(l->server, SHUT_RDWR);
}

static void *pump_up(void *arg)
{
    pump(arg, false);
    return NULL;
}

static void *pump_down(void *arg)
{
    pump(arg, true);
    return NULL;
}

static void *accept_links(void *arg)
{
    lossy_proxy *p = arg;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(p->server_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (int client; p->n_links < LINKS_MAX && (client = accept(p->listener, NULL, NULL)) >= 0;) {
        connection *l = &p->links[p->n_links];
        *l = (connection){.proxy = p, .client = client, .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        if (connect(l->server, (struct sockaddr *)&address, sizeof address) != 0 ||
            pthread_create(&l->up, NULL, pump_up, l) != 0 || pthread_create(&l->down, NULL, pump_down, l) != 0)
            abort();
        p->n_links++;
    }
    return NULL;
}

lossy_proxy *lossy_proxy_start(unsigned short server_port, lossy_way way)
{
    lossy_proxy *p = calloc(1, sizeof *p);
    uint16_t port;

    p->way = way;
    p->server_port = server_port;
    p->listener = ports_bind(&port);
    pthread_mutex_init(&p->mutex, NULL);
    if (listen(p->listener, LINKS_MAX) == 0 && pthread_create(&p->thread, NULL, accept_links, p) == 0) {
        snprintf(p->url, sizeof p->url, "nng+tcp://127.0.0.1:%u", port);
        return p;
    }
    close(p->listener);
    free(p);
    return NULL;
}

const char *lossy_proxy_url(const lossy_proxy *proxy)
{
    return proxy->url;
}

uint64_t lossy_proxy_hits(lossy_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    uint64_t hits = proxy->hits;
    pthread_mutex_unlock(&proxy->mutex);
    return hits;
}

void lossy_proxy_stop(lossy_proxy *p)
{
    if (!p)
        return;
    shutdown(p->listener, SHUT_RDWR); /* ends accept */
    pthread_join(p->thread, NULL);
    close(p->listener);
    for (size_t i = 0; i < p->n_links; i++) {
        shutdown(p->links[i].client, SHUT_RDWR);
        shutdown(p->links[i].server, SHUT_RDWR);
        pthread_join(p->links[i].up, NULL);
        pthread_join(p->links[i].down, NULL);
        close(p->links[i].client);
        close(p->links[i].server);
    }
    pthread_mutex_destroy(&p->mutex);
    for (size_t i = 0; i < p->n_requests; i++)
        free(p->requests[i].calls);
    free(p->requests);
    free(p->answered);
    free(p);
}

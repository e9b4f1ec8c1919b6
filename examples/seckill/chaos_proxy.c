/* One thread, one poll loop. A link is a client's connection and ours to the
 * server for it; either end closing ends the link. No more is read from an end
 * than the other takes: memory a link is bounded by two messages each way.
 *
 *   SP over TCP   handshake  00 'S' 'P' 00  protocol(2)  00 00      each way
 *                 message    length(8, big-endian)  body            body = request id(4) frame
 */
#include "chaos_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HANDSHAKE = 8, HEADER = 8, MESSAGE_MAX = 4 << 20, UNSENT_MAX = 1 << 20, READ_SIZE = 65536, LINKS_MAX = 1024 };

typedef struct bytes {
    uint8_t *data;
    size_t len, capacity;
} bytes;

/* One direction of a link. */
typedef struct stream {
    bytes in;  /* read, not yet a whole message */
    bytes out; /* to be written to the other end */
    bool greeted;
} stream;

typedef struct end_pair {
    int client, server;
    bool connecting, broken;
    stream up, down; /* client to server; server to client */
    chaos_open_requests open;
} end_pair;

struct chaos_proxy {
    unsigned short server_port;
    char url[64];
    int listener, stop_fd;
    pthread_t thread;
    chaos_faults *faults; /* the thread's own */
    end_pair **links;
    size_t n_links;
    atomic_uint_least64_t hits;
};

static bool bytes_append(bytes *to, const void *data, size_t n)
{
    if (to->len + n > to->capacity) {
        size_t capacity = (to->len + n) * 2;
        uint8_t *grown = realloc(to->data, capacity);
        if (!grown)
            return false;
        to->data = grown;
        to->capacity = capacity;
    }
    memcpy(to->data + to->len, data, n);
    to->len += n;
    return true;
}

static void bytes_consume(bytes *from, size_t n)
{
    from->len -= n;
    memmove(from->data, from->data + n, from->len);
}

static uint64_t big_endian(const uint8_t *data)
{
    uint64_t value = 0;

    for (size_t i = 0; i < 8; i++)
        value = value << 8 | data[i];
    return value;
}

/* The copy's id is one that no client uses: nng counts up from a random id with
 * the highest bit set, and keeps the answer of its own id only. */
static bool append_double(bytes *out, const uint8_t *message, size_t len)
{
    size_t at = out->len;

    if (!bytes_append(out, message, len) || len < HEADER + 4)
        return false;
    out->data[at + HEADER + 1] ^= 0x40;
    return true;
}

/* Judges one whole message and passes it on, or not. False = close the link. */
static bool forward(chaos_proxy *proxy, end_pair *link, bool is_reply, const uint8_t *message, size_t len)
{
    stream *way = is_reply ? &link->down : &link->up;
    chaos_verdict verdict = is_reply ? chaos_faults_reply(proxy->faults, &link->open, message + HEADER, len - HEADER)
                                     : chaos_faults_request(proxy->faults, &link->open, message + HEADER, len - HEADER);

    atomic_store(&proxy->hits, chaos_faults_hits(proxy->faults));
    switch (verdict) {
    case CHAOS_PASS:
        return bytes_append(&way->out, message, len);
    case CHAOS_DOUBLE:
        return bytes_append(&way->out, message, len) && append_double(&way->out, message, len);
    case CHAOS_DROP:
        return true;
    case CHAOS_CUT:
        break;
    }
    return false;
}

/* Takes whole messages off what was read. False = close the link. */
static bool cut_messages(chaos_proxy *proxy, end_pair *link, bool is_reply)
{
    stream *way = is_reply ? &link->down : &link->up;
    size_t used = 0;
    bool good = true;

    if (!way->greeted && way->in.len >= HANDSHAKE) {
        way->greeted = true;
        used = HANDSHAKE;
        good = bytes_append(&way->out, way->in.data, HANDSHAKE);
    }
    while (good && way->greeted && way->in.len - used >= HEADER) {
        uint64_t body = big_endian(way->in.data + used);
        if (body > MESSAGE_MAX) {
            good = false;
        } else if (way->in.len - used - HEADER < body) {
            break;
        } else {
            good = forward(proxy, link, is_reply, way->in.data + used, HEADER + (size_t)body);
            used += HEADER + (size_t)body;
        }
    }
    bytes_consume(&way->in, used);
    return good;
}

static bool is_only_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static bool read_some(chaos_proxy *proxy, end_pair *link, bool is_reply)
{
    uint8_t buffer[READ_SIZE];
    stream *way = is_reply ? &link->down : &link->up;
    ssize_t n = recv(is_reply ? link->server : link->client, buffer, sizeof buffer, 0);

    if (n <= 0)
        return is_only_later(n);
    return bytes_append(&way->in, buffer, (size_t)n) && cut_messages(proxy, link, is_reply);
}

static bool write_some(end_pair *link, bool is_reply)
{
    bytes *out = is_reply ? &link->down.out : &link->up.out;

    if (out->len == 0)
        return true;
    ssize_t n = send(is_reply ? link->client : link->server, out->data, out->len, MSG_NOSIGNAL);
    if (n < 0)
        return is_only_later(n);
    bytes_consume(out, (size_t)n);
    return true;
}

static void accept_link(chaos_proxy *proxy)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(proxy->server_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    int client = accept4(proxy->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    end_pair *link = calloc(1, sizeof *link);

    if (client >= 0 && server >= 0 && link && proxy->n_links < LINKS_MAX) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        int connected = connect(server, (struct sockaddr *)&address, sizeof address);
        if (connected == 0 || errno == EINPROGRESS) {
            *link = (end_pair){.client = client, .server = server, .connecting = connected != 0};
            proxy->links[proxy->n_links++] = link;
            return;
        }
    }
    if (client >= 0)
        close(client);
    if (server >= 0)
        close(server);
    free(link);
}

static void free_link(end_pair *link)
{
    close(link->client);
    close(link->server);
    free(link->up.in.data);
    free(link->up.out.data);
    free(link->down.in.data);
    free(link->down.out.data);
    chaos_open_requests_clear(&link->open);
    free(link);
}

static struct pollfd wanted_of(int fd, const stream *from_it, const stream *to_it)
{
    return (struct pollfd){
        .fd = fd, .events = (short)((from_it->out.len < UNSENT_MAX ? POLLIN : 0) | (to_it->out.len > 0 ? POLLOUT : 0))};
}

/* Serves what poll found on the two ends. False = close the link. */
static bool serve(chaos_proxy *proxy, end_pair *link, short client_events, short server_events)
{
    if (link->connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        if (server_events == 0)
            return (client_events & (POLLERR | POLLHUP)) == 0;
        getsockopt(link->server, SOL_SOCKET, SO_ERROR, &error, &size);
        link->connecting = false;
        return error == 0;
    }
    bool good = true;
    if ((client_events & (POLLIN | POLLERR | POLLHUP)) != 0)
        good = read_some(proxy, link, false);
    if (good && (server_events & (POLLIN | POLLERR | POLLHUP)) != 0)
        good = read_some(proxy, link, true);
    /* What was read before an end closed is still passed on, as far as it goes. */
    bool written = write_some(link, false);
    return write_some(link, true) && written && good;
}

static void *run(void *arg)
{
    chaos_proxy *proxy = arg;
    struct pollfd *wanted = calloc(2 + 2 * LINKS_MAX, sizeof *wanted);

    while (wanted) {
        size_t n = proxy->n_links;
        wanted[0] = (struct pollfd){.fd = proxy->stop_fd, .events = POLLIN};
        wanted[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (size_t i = 0; i < n; i++) {
            end_pair *link = proxy->links[i];
            wanted[2 + 2 * i] = wanted_of(link->client, &link->up, &link->down);
            wanted[3 + 2 * i] = link->connecting ? (struct pollfd){.fd = link->server, .events = POLLOUT}
                                                 : wanted_of(link->server, &link->down, &link->up);
            if (link->connecting)
                wanted[2 + 2 * i].events = 0;
        }
        if (poll(wanted, (nfds_t)(2 + 2 * n), -1) < 0 && errno != EINTR)
            break;
        if (wanted[0].revents != 0)
            break;
        for (size_t i = 0; i < n; i++) {
            proxy->links[i]->broken =
                !serve(proxy, proxy->links[i], wanted[2 + 2 * i].revents, wanted[3 + 2 * i].revents);
        }
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if (proxy->links[i]->broken)
                free_link(proxy->links[i]);
            else
                proxy->links[kept++] = proxy->links[i];
        proxy->n_links = kept;
        if ((wanted[1].revents & POLLIN) != 0)
            accept_link(proxy);
    }
    free(wanted);
    return NULL;
}

static int listen_anywhere(unsigned short *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 256) != 0 ||
                    getsockname(fd, (struct sockaddr *)&address, &size) != 0)) {
        close(fd);
        fd = -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

chaos_proxy *chaos_proxy_start(unsigned short server_port, const chaos_fault faults[], size_t n)
{
    chaos_proxy *proxy = calloc(1, sizeof *proxy);
    unsigned short port = 0;

    if (!proxy)
        return NULL;
    proxy->server_port = server_port;
    proxy->listener = listen_anywhere(&port);
    proxy->stop_fd = eventfd(0, EFD_CLOEXEC);
    proxy->faults = chaos_faults_new(faults, n);
    proxy->links = calloc(LINKS_MAX, sizeof(end_pair *));
    snprintf(proxy->url, sizeof proxy->url, "nng+tcp://127.0.0.1:%u", port);
    if (proxy->listener >= 0 && proxy->stop_fd >= 0 && proxy->faults && proxy->links &&
        pthread_create(&proxy->thread, NULL, run, proxy) == 0)
        return proxy;
    if (proxy->listener >= 0)
        close(proxy->listener);
    if (proxy->stop_fd >= 0)
        close(proxy->stop_fd);
    chaos_faults_free(proxy->faults);
    free(proxy->links);
    free(proxy);
    return NULL;
}

const char *chaos_proxy_url(const chaos_proxy *proxy)
{
    return proxy->url;
}

uint64_t chaos_proxy_hits(chaos_proxy *proxy)
{
    return atomic_load(&proxy->hits);
}

void chaos_proxy_stop(chaos_proxy *proxy)
{
    static const uint64_t one = 1;

    if (!proxy)
        return;
    ssize_t ignored = write(proxy->stop_fd, &one, sizeof one);
    (void)ignored;
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < proxy->n_links; i++)
        free_link(proxy->links[i]);
    close(proxy->listener);
    close(proxy->stop_fd);
    chaos_faults_free(proxy->faults);
    free(proxy->links);
    free(proxy);
}

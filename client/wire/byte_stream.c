#include "client/wire/byte_stream.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "net/resolve.h"

enum { HANDSHAKE_MS = 3000, CIPHER_BYTES = 32 * 1024, PIECE_BYTES = 16 * 1024 };

/* ---- the end ------------------------------------------------------------------------------ */

static void close_fd(byte_stream *b)
{
    if (b->source.fd < 0)
        return;
    loop_unwatch(b->loop, &b->source);
    close(b->source.fd);
    b->source.fd = -1;
}

static void drop_addresses(byte_stream *b)
{
    if (b->addresses)
        freeaddrinfo(b->addresses);
    b->addresses = NULL;
}

void bytes_close(byte_stream *b)
{
    dial_cancel(&b->dial);
    close_fd(b);
    heap_clear(&b->loop->timers, &b->timer);
    drop_addresses(b);
    tls_free(b->tls);
    free(b->cipher);
    b->tls = NULL;
    b->cipher = NULL;
    b->state = BYTES_CLOSED;
}

static void fail(byte_stream *b, const char *what, const char *why)
{
    snprintf(b->why, sizeof b->why, "%s: %s", what, why);
    b->failed(b);
}

/* ---- bytes -------------------------------------------------------------------------- */

/* Returns how many bytes the kernel took. An error is found when the stream is read. */
static size_t put(byte_stream *b, const struct iovec *parts, size_t n)
{
    struct msghdr header = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n};
    ssize_t sent;

    do {
        sent = sendmsg(b->source.fd, &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent;
    b->blocked = true;
    loop_set_events(b->loop, &b->source, POLLIN | POLLOUT);
    return 0;
}

bool bytes_flush(byte_stream *b)
{
    while (b->tls && !b->blocked) {
        if (b->cipher_done == b->cipher_len) {
            b->cipher_done = 0;
            b->cipher_len = tls_take(b->tls, b->cipher, CIPHER_BYTES);
        }
        if (b->cipher_len == 0)
            break;
        struct iovec part = {b->cipher + b->cipher_done, b->cipher_len - b->cipher_done};
        b->cipher_done += put(b, &part, 1);
    }
    return !b->blocked;
}

size_t bytes_write(byte_stream *b, const struct iovec *parts, size_t n)
{
    size_t taken = 0;

    if (b->blocked)
        return 0;
    if (!b->tls)
        return put(b, parts, n);
    for (size_t i = 0; i < n && tls_pending(b->tls) < CIPHER_BYTES; i++) {
        if (!tls_write(b->tls, parts[i].iov_base, parts[i].iov_len)) {
            b->blocked = true;
            shutdown(b->source.fd, SHUT_RDWR); /* the next read finds the end */
            break;
        }
        taken += parts[i].iov_len;
    }
    bytes_flush(b);
    return taken;
}

static ssize_t receive(byte_stream *b, uint8_t *data, size_t len)
{
    ssize_t n;

    if (b->drained)
        return 0;
    do {
        n = recv(b->source.fd, data, len, 0);
    } while (n < 0 && errno == EINTR);
    b->drained = n > 0 && (size_t)n < len;
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    snprintf(b->why, sizeof b->why, "%s", n == 0 ? "closed by the server" : strerror(errno));
    return -1;
}

/* Feeds TLS once plain bytes run out. */
ssize_t bytes_read(byte_stream *b, uint8_t *data, size_t len)
{
    uint8_t piece[PIECE_BYTES];
    ssize_t n;

    if (!b->tls)
        return receive(b, data, len);
    do {
        n = tls_read(b->tls, data, len);
        if (n < 0)
            snprintf(b->why, sizeof b->why, "TLS: %s", tls_why(b->tls));
        if (n != 0)
            return n;
        n = receive(b, piece, sizeof piece);
        if (n > 0 && !tls_feed(b->tls, piece, (size_t)n)) {
            snprintf(b->why, sizeof b->why, "out of memory");
            return -1;
        }
    } while (n > 0);
    return n;
}

/* ---- connecting ------------------------------------------------------------------------ */

static void set_up(byte_stream *b)
{
    heap_clear(&b->loop->timers, &b->timer);
    b->state = BYTES_UP;
    loop_set_events(b->loop, &b->source, b->blocked ? POLLIN | POLLOUT : POLLIN);
    b->up(b);
}

/* Sends the output of OpenSSL also when the handshake failed: it tells the server why. */
static void handshake(byte_stream *b)
{
    tls_state state = tls_handshake(b->tls);

    bytes_flush(b);
    if (state == TLS_OVER) {
        fail(b, "TLS", tls_why(b->tls));
    } else if (state == TLS_UP) {
        set_up(b);
        b->readable(b); /* bytes may have come with the handshake */
    }
}

static void continue_handshake(byte_stream *b)
{
    uint8_t piece[PIECE_BYTES];
    ssize_t n = receive(b, piece, sizeof piece);

    if (n < 0) {
        char why[BYTES_WHY_MAX / 2];
        snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, b->why);
        fail(b, "TLS", why);
    } else if (n > 0 && !tls_feed(b->tls, piece, (size_t)n)) {
        fail(b, "TLS", "out of memory");
    } else {
        handshake(b);
    }
}

static void connected(byte_stream *b)
{
    if (!b->tls_context) {
        set_up(b);
        return;
    }
    b->tls = tls_connect(b->tls_context, b->server_name ? b->server_name : b->address.host, b->alpn);
    b->cipher = malloc(CIPHER_BYTES);
    if (!b->tls || !b->cipher) {
        fail(b, "TLS", "out of memory");
        return;
    }
    b->state = BYTES_HANDSHAKE;
    heap_set(&b->loop->timers, &b->timer, clock_in_ms(HANDSHAKE_MS));
    handshake(b);
}

static void on_dialled(dial *d, int fd, int failed)
{
    byte_stream *b = container_of(d, byte_stream, dial);

    drop_addresses(b);
    if (fd < 0) {
        fail(b, "cannot connect", strerror(failed));
        return;
    }
    b->source.fd = fd;
    b->source.events = POLLIN;
    if (!loop_watch(b->loop, &b->source)) {
        b->source.fd = -1;
        close(fd);
        fail(b, "cannot connect", strerror(EMFILE));
        return;
    }
    connected(b);
}

static void connect_path(byte_stream *b)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct addrinfo only = {
        .ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof address};

    strcpy(address.sun_path, b->path); /* its length was checked with the URL */
    b->state = BYTES_CONNECTING;
    dial_start(&b->dial, &only, 0);
}

static void connect_addresses(byte_stream *b)
{
    b->state = BYTES_CONNECTING;
    dial_start(&b->dial, b->addresses, b->first_address);
}

static void post_resolved(void *arg)
{
    byte_stream *b = arg;

    loop_post(b->loop, &b->resolved);
}

static void start_resolving(byte_stream *b)
{
    b->state = BYTES_RESOLVING;
    if (!b->resolution)
        b->resolution = resolve_start(b->address.host, b->address.port, post_resolved, b);
    if (!b->resolution)
        fail(b, "cannot resolve the host", "out of memory or threads");
}

static void run_resolved(loop_task *task)
{
    byte_stream *b = container_of(task, byte_stream, resolved);
    const char *why;

    b->addresses = resolve_end(b->resolution, &why);
    b->resolution = NULL;
    if (b->state != BYTES_RESOLVING)
        drop_addresses(b);
    else if (b->addresses)
        connect_addresses(b);
    else
        fail(b, "cannot resolve the host", why);
}

void bytes_open(byte_stream *b)
{
    b->blocked = b->drained = false;
    b->cipher_len = b->cipher_done = 0;
    if (b->path) {
        connect_path(b);
        return;
    }
    b->addresses = resolve_numeric(b->address.host, b->address.port);
    if (b->addresses)
        connect_addresses(b);
    else
        start_resolving(b);
}

/* ---- events ---------------------------------------------------------------------------- */

static void run_due(struct timer *timer)
{
    fail(container_of(timer, byte_stream, timer), "TLS", strerror(ETIMEDOUT));
}

static void run_ready(loop_source *source, short found)
{
    byte_stream *b = container_of(source, byte_stream, source);

    b->drained = false;
    if ((found & POLLOUT) != 0) {
        b->blocked = false;
        loop_set_events(b->loop, source, POLLIN);
    }
    if (b->state == BYTES_HANDSHAKE)
        continue_handshake(b);
    else if ((found & ~POLLOUT) != 0)
        b->readable(b);
}

bool bytes_aim(byte_stream *b, const char *scheme, const char *address)
{
    struct sockaddr_un path;

    b->path = strstr(scheme, "unix://") ? address : NULL;
    if (b->path)
        return address[0] == '/' && address[1] != '\0' && strlen(address) < sizeof path.sun_path;
    return !address_parse(address, strlen(address), 0, &b->address) && b->address.port != 0;
}

void bytes_init(byte_stream *b)
{
    b->source = (loop_source){.fd = -1, .ready = run_ready};
    b->timer.due = run_due;
    b->resolved.run = run_resolved;
    dial_init(&b->dial, b->loop, on_dialled);
}

void bytes_fini(byte_stream *b)
{
    bytes_close(b);
    resolve_cancel(b->resolution);
}

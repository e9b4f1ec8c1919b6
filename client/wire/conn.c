/* Invariant: `fd` is watched exactly while it is open, that is CONNECTING, SHAKING or UP;
 * ciphertext in `cipher` goes out before any other. */
#include "client/wire/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/resolve.h"

enum {
    ATTEMPT_MS = 3000,         /* to connect to one address, TLS included */
    UNACKNOWLEDGED_MS = 20000, /* then the peer's host is gone */
    KEEPALIVE_S = 15,
    KEEPALIVE_INTERVAL_S = 3,
    KEEPALIVE_PROBES = 3,
    CIPHER_BYTES = 32 * 1024,
    WHY_BYTES_MAX = 128
};

typedef enum conn_state { CONN_STARTING, CONN_RESOLVING, CONN_CONNECTING, CONN_SHAKING, CONN_UP, CONN_OVER } conn_state;

struct conn {
    conn_options options;
    conn_state state;
    loop_source source; /* with fd */
    struct timer timer;
    struct resolution *resolution;
    loop_task resolved;
    struct addrinfo *addresses, *next_address;
    bool blocked; /* the kernel takes no more at present */
    bool drained; /* it gave all it had, since the source was found ready */
    char why[WHY_BYTES_MAX];

    tls *tls; /* NULL = plain */
    uint8_t *cipher;
    size_t cipher_len, cipher_done;
};

/* ---- the connection lost ------------------------------------------------------------ */

static void hang_up(conn *c)
{
    if (c->source.fd >= 0) {
        loop_unwatch(c->options.loop, &c->source);
        close(c->source.fd);
        c->source.fd = -1;
    }
}

static void finish(conn *c)
{
    hang_up(c);
    heap_clear(&c->options.loop->timers, &c->timer);
    c->state = CONN_OVER;
}

static void end(conn *c, const char *what, const char *why)
{
    snprintf(c->why, sizeof c->why, "%s: %s", what, why);
    finish(c);
    c->options.over(c->options.arg);
}

static void wake_in(conn *c, uint64_t ms)
{
    heap_set(&c->options.loop->timers, &c->timer, clock_in_ms(ms));
}

/* ---- bytes -------------------------------------------------------------------------- */

/* Bytes given to the kernel. What is wrong with the connection shows when it is read. */
static size_t put(conn *c, const struct iovec *parts, size_t n)
{
    struct msghdr header = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n};
    ssize_t sent;

    do {
        sent = sendmsg(c->source.fd, &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent;
    c->blocked = true;
    loop_look_for(c->options.loop, &c->source, POLLIN | POLLOUT);
    return 0;
}

bool conn_flush(conn *c)
{
    while (c->tls && !c->blocked) {
        if (c->cipher_done == c->cipher_len) {
            c->cipher_done = 0;
            c->cipher_len = tls_take(c->tls, c->cipher, CIPHER_BYTES);
        }
        if (c->cipher_len == 0)
            break;
        struct iovec part = {c->cipher + c->cipher_done, c->cipher_len - c->cipher_done};
        c->cipher_done += put(c, &part, 1);
    }
    return !c->blocked;
}

size_t conn_write(conn *c, const struct iovec *parts, size_t n)
{
    size_t taken = 0;

    if (c->blocked)
        return 0;
    if (!c->tls)
        return put(c, parts, n);
    for (size_t i = 0; i < n && tls_pending(c->tls) < CIPHER_BYTES; i++) {
        if (!tls_write(c->tls, parts[i].iov_base, parts[i].iov_len)) {
            c->blocked = true;
            shutdown(c->source.fd, SHUT_RDWR); /* reading finds it over */
            break;
        }
        taken += parts[i].iov_len;
    }
    conn_flush(c);
    return taken;
}

static ssize_t receive(conn *c, uint8_t *data, size_t len)
{
    ssize_t n;

    if (c->drained)
        return 0;
    do {
        n = recv(c->source.fd, data, len, 0);
    } while (n < 0 && errno == EINTR);
    c->drained = n > 0 && (size_t)n < len;
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    snprintf(c->why, sizeof c->why, "%s", n == 0 ? "closed by the server" : strerror(errno));
    return -1;
}

/* Once plain bytes run out, the next piece of ciphertext. */
ssize_t conn_read(conn *c, uint8_t *data, size_t len)
{
    uint8_t piece[16 * 1024];
    ssize_t n;

    if (!c->tls)
        return receive(c, data, len);
    do {
        n = tls_read(c->tls, data, len);
        if (n < 0)
            snprintf(c->why, sizeof c->why, "TLS: %s", tls_why(c->tls));
        if (n != 0)
            return n;
        n = receive(c, piece, sizeof piece);
        if (n > 0 && !tls_feed(c->tls, piece, (size_t)n)) {
            snprintf(c->why, sizeof c->why, "out of memory");
            return -1;
        }
    } while (n > 0);
    return n;
}

/* ---- the connection made -------------------------------------------------------------- */

static void set_up(conn *c)
{
    heap_clear(&c->options.loop->timers, &c->timer);
    c->state = CONN_UP;
    loop_look_for(c->options.loop, &c->source, c->blocked ? POLLIN | POLLOUT : POLLIN);
    c->options.up(c->options.arg);
}

/* What OpenSSL wants to say goes out also when the handshake failed: it tells the server
 * why. */
static void shake(conn *c)
{
    tls_state state = tls_shake(c->tls);

    conn_flush(c);
    if (state == TLS_OVER) {
        end(c, "TLS", tls_why(c->tls));
    } else if (state == TLS_UP) {
        set_up(c);
        if (c->state == CONN_UP)
            c->options.readable(c->options.arg); /* it may have come with the handshake */
    }
}

static void shake_on(conn *c)
{
    uint8_t piece[16 * 1024];
    ssize_t n = receive(c, piece, sizeof piece);

    if (n < 0) {
        char why[WHY_BYTES_MAX];
        memcpy(why, c->why, sizeof why);
        end(c, "TLS", why);
        return;
    }
    if (n > 0 && !tls_feed(c->tls, piece, (size_t)n)) {
        end(c, "TLS", "out of memory");
        return;
    }
    shake(c);
}

static void connected(conn *c)
{
    if (!c->options.tls) {
        set_up(c);
        return;
    }
    c->tls = tls_connect(c->options.tls, c->options.server_name);
    c->cipher = malloc(CIPHER_BYTES);
    if (!c->tls || !c->cipher) {
        end(c, "TLS", "out of memory");
        return;
    }
    c->state = CONN_SHAKING;
    loop_look_for(c->options.loop, &c->source, POLLIN);
    shake(c);
}

static void set_options(int fd)
{
    static const int on = 1, unacknowledged_ms = UNACKNOWLEDGED_MS, idle_s = KEEPALIVE_S,
                     interval_s = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;

    /* Each is an improvement only: nothing is lost where a kernel refuses one. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* 0, EINPROGRESS, or why it failed. */
static int begin(conn *c, int family, const struct sockaddr *address, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (family != AF_UNIX)
        set_options(fd);
    int failed = connect(fd, address, len) == 0 ? 0 : errno;
    if (failed != 0 && failed != EINPROGRESS) {
        close(fd);
        return failed;
    }
    c->source.fd = fd;
    c->source.events = POLLOUT;
    if (!loop_watch(c->options.loop, &c->source)) {
        c->source.fd = -1;
        close(fd);
        return EMFILE;
    }
    c->state = CONN_CONNECTING;
    wake_in(c, ATTEMPT_MS);
    return failed;
}

/* `failed`: why the last address did not do. */
static void connect_next(conn *c, int failed)
{
    hang_up(c);
    while (c->next_address) {
        const struct addrinfo *address = c->next_address;

        c->next_address = address->ai_next;
        failed = begin(c, address->ai_family, address->ai_addr, address->ai_addrlen);
        if (failed == EINPROGRESS)
            return;
        if (failed == 0) {
            connected(c);
            return;
        }
    }
    end(c, "cannot connect", strerror(failed));
}

static void connect_path(conn *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    strcpy(address.sun_path, c->options.path); /* its length was checked with the URL */
    int failed = begin(c, AF_UNIX, (const struct sockaddr *)&address, sizeof address);
    if (failed == 0)
        connected(c);
    else if (failed != EINPROGRESS)
        end(c, "cannot connect", strerror(failed));
}

static void post_resolved(void *arg)
{
    conn *c = arg;

    loop_post(c->options.loop, &c->resolved);
}

static void dial(conn *c)
{
    if (c->options.path) {
        connect_path(c);
        return;
    }
    c->next_address = c->addresses = resolve_numeric(c->options.host, c->options.port);
    if (c->addresses) {
        connect_next(c, 0);
        return;
    }
    c->resolution = resolve_start(c->options.host, c->options.port, post_resolved, c);
    if (!c->resolution) {
        end(c, "cannot resolve the host", "out of memory or threads");
        return;
    }
    c->state = CONN_RESOLVING;
    ++*c->options.holds;
}

static void run_resolved(loop_task *task)
{
    conn *c = (conn *)((char *)task - offsetof(conn, resolved));
    const char *why;

    --*c->options.holds;
    c->next_address = c->addresses = resolve_end(c->resolution, &why);
    c->resolution = NULL;
    if (c->state == CONN_OVER)
        return;
    if (c->addresses)
        connect_next(c, 0);
    else
        end(c, "cannot resolve the host", why);
}

static void run_due(struct timer *timer)
{
    conn *c = (conn *)((char *)timer - offsetof(conn, timer));

    if (c->state == CONN_STARTING)
        dial(c);
    else if (c->state == CONN_CONNECTING)
        connect_next(c, ETIMEDOUT);
    else
        end(c, "TLS", strerror(ETIMEDOUT));
}

static void run_ready(loop_source *source, short found)
{
    conn *c = (conn *)((char *)source - offsetof(conn, source));

    c->drained = false;
    if (c->state == CONN_CONNECTING) {
        int failed = 0;
        socklen_t len = sizeof failed;

        if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0 || failed != 0)
            connect_next(c, failed);
        else
            connected(c);
        return;
    }
    if ((found & POLLOUT) != 0) {
        c->blocked = false;
        loop_look_for(c->options.loop, source, POLLIN);
    }
    if (c->state == CONN_SHAKING)
        shake_on(c);
    else if ((found & ~POLLOUT) != 0)
        c->options.readable(c->options.arg);
}

/* ---- opening and closing ---------------------------------------------------------------- */

conn *conn_open(const conn_options *options)
{
    conn *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->options = *options;
    c->source = (loop_source){.fd = -1, .ready = run_ready};
    c->timer.due = run_due;
    c->resolved.run = run_resolved;
    wake_in(c, 0);
    return c;
}

void conn_abandon(conn *c)
{
    finish(c);
}

void conn_close(conn *c)
{
    if (!c)
        return;
    finish(c);
    resolve_cancel(c->resolution);
    if (c->addresses)
        freeaddrinfo(c->addresses);
    tls_free(c->tls);
    free(c->cipher);
    free(c);
}

const char *conn_why(const conn *c)
{
    return c->why;
}

loop_source *conn_source(conn *c)
{
    return &c->source;
}

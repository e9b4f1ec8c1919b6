#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/err.h>

#include "support/process.h"

enum { CONNECT_MS = 2000, SLICE_MS = 20, DROP_BYTES = 65536 };

/* Speaks "h2", which a wire of SP does not look at. */
static SSL_CTX *context;

static void make_context(void)
{
    context = SSL_CTX_new(TLS_client_method());
    if (!context)
        abort();
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\2h2", 3);
}

void raw_cleanup(void)
{
    SSL_CTX_free(context);
    context = NULL;
}

static bool stopped(const raw *r)
{
    return atomic_load_explicit(r->stop, memory_order_relaxed);
}

/* Waits for events, up to timeout_ms or until it is stopped. timeout_ms < 0: the time is over. */
static bool wait_for(const raw *r, short events, int timeout_ms)
{
    struct pollfd wanted = {.fd = r->fd, .events = events};
    long long end = process_now_ms() + timeout_ms;
    int slice_ms = timeout_ms < 0 ? 0 : timeout_ms < SLICE_MS ? timeout_ms : SLICE_MS;

    do {
        if (poll(&wanted, 1, slice_ms) > 0)
            return true;
    } while (!stopped(r) && process_now_ms() < end);
    return false;
}

static int connect_socket(const raw *r, wire w, unsigned address)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + address)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    int on = 1, failed = 0;
    socklen_t len = sizeof failed;

    if (w == WIRE_UNIX) {
        snprintf(path.sun_path, sizeof path.sun_path, "%s", target_url(w) + strlen("unix://"));
        return connect(r->fd, (struct sockaddr *)&path, sizeof path);
    }
    setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef IP_BIND_ADDRESS_NO_PORT
    setsockopt(r->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
#endif
    if (address > 0 && bind(r->fd, (struct sockaddr *)&from, sizeof from) != 0)
        return -1;
    to.sin_port = htons(target_port(w));
    if (connect(r->fd, (struct sockaddr *)&to, sizeof to) == 0)
        return 0;
    if (errno != EINPROGRESS || !wait_for(r, POLLOUT, CONNECT_MS))
        return -1;
    getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &failed, &len);
    return failed;
}

bool raw_connect(raw *r, wire w, unsigned address, const atomic_bool *stop)
{
    *r = (raw){.fd = socket(w == WIRE_UNIX ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
               .stop = stop};
    if (r->fd >= 0 && connect_socket(r, w, address) == 0)
        return true;
    raw_close(r);
    return false;
}

/* What a TLS call that returned n waits for; 0 = it failed. */
static short wanted_by(const raw *r, int n)
{
    int error = SSL_get_error(r->tls, n);

    ERR_clear_error();
    return error == SSL_ERROR_WANT_READ ? POLLIN : error == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
}

bool raw_open(raw *r, wire w, unsigned address, const atomic_bool *stop)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int n;
    short events;

    if (!raw_connect(r, w, address, stop))
        return false;
    if (!target_has_tls(w))
        return true;
    pthread_once(&once, make_context);
    r->tls = SSL_new(context);
    if (r->tls && SSL_set_fd(r->tls, r->fd) == 1) {
        while ((n = SSL_connect(r->tls)) != 1 && (events = wanted_by(r, n)) != 0 && wait_for(r, events, CONNECT_MS)) {
        }
        if (n == 1)
            return true;
    }
    raw_close(r);
    return false;
}

/* As recv: -1 with errno EAGAIN when there is nothing. */
static ssize_t receive_some(const raw *r, void *data, size_t len)
{
    if (!r->tls)
        return recv(r->fd, data, len, 0);
    ERR_clear_error();
    int n = SSL_read(r->tls, data, (int)len);
    if (n > 0)
        return n;
    errno = wanted_by(r, n) != 0 ? EAGAIN : ECONNRESET;
    return -1;
}

static ssize_t send_some(const raw *r, const void *data, size_t len)
{
    if (!r->tls)
        return send(r->fd, data, len, MSG_NOSIGNAL);
    ERR_clear_error();
    int n = SSL_write(r->tls, data, (int)len);
    if (n > 0)
        return n;
    errno = wanted_by(r, n) != 0 ? EAGAIN : ECONNRESET;
    return -1;
}

bool raw_drop(raw *r)
{
    static _Thread_local char bytes[DROP_BYTES];
    ssize_t n;

    while ((n = receive_some(r, bytes, sizeof bytes)) > 0 && !stopped(r)) {
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool raw_send(raw *r, const void *data, size_t len)
{
    const char *at = data;
    long long last = process_now_ms();

    r->stalled = false;
    while (len > 0 && !stopped(r)) {
        ssize_t n = send_some(r, at, len);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            last = process_now_ms();
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (r->patience_ms > 0 && process_now_ms() - last > r->patience_ms) {
            r->stalled = true;
            return false;
        } else {
            wait_for(r, (short)(POLLOUT | (r->deaf ? 0 : POLLIN)), SLICE_MS);
        }
        if (!r->deaf && !raw_drop(r))
            return false;
    }
    return len == 0;
}

ssize_t raw_receive(raw *r, void *data, size_t len, int timeout_ms)
{
    long long end = process_now_ms() + timeout_ms;

    do {
        ssize_t n = receive_some(r, data, len);
        if (n > 0)
            return n;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
    } while (wait_for(r, POLLIN, (int)(end - process_now_ms())));
    return 0;
}

bool raw_ends(raw *r, int timeout_ms)
{
    char bytes[4096];
    long long end = process_now_ms() + timeout_ms;
    ssize_t n = 0;

    while (process_now_ms() < end && !stopped(r) && (n = raw_receive(r, bytes, sizeof bytes, SLICE_MS)) >= 0) {
    }
    return n < 0;
}

void raw_close(raw *r)
{
    SSL_free(r->tls);
    if (r->fd >= 0)
        close(r->fd);
    *r = (raw){.fd = -1};
}

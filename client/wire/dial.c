/* Invariant: an attempt is watched exactly while it is under way, and the timer is set exactly while an attempt is
 * under way. */
#include "client/wire/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"

enum {
    STAGGER_MS = 250,          /* RFC 8305, 5: the Connection Attempt Delay */
    LAST_MS = 3000,            /* for all attempts that are under way, after the last one began */
    UNACKNOWLEDGED_MS = 20000, /* after this the peer's host counts as gone */
    KEEPALIVE_S = 15,
    KEEPALIVE_INTERVAL_S = 3,
    KEEPALIVE_PROBES = 3
};

static void set_options(int fd)
{
    static const int on = 1, unacknowledged_ms = UNACKNOWLEDGED_MS, idle_s = KEEPALIVE_S,
                     interval_s = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;

    /* Ignores errors: the connection also works without an option that the kernel refuses. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static void close_attempt(dial_attempt *a)
{
    if (a->source.fd < 0)
        return;
    loop_unwatch(a->dial->loop, &a->source);
    close(a->source.fd);
    a->source.fd = -1;
}

void dial_cancel(dial *d)
{
    heap_clear(&d->loop->timers, &d->timer);
    for (size_t i = 0; i < d->next; i++)
        close_attempt(&d->attempts[i]);
    d->n = d->next = 0;
}

static void finish(dial *d, int fd, int failed)
{
    dial_cancel(d);
    d->done(d, fd, failed);
}

/* Returns 0 with a connected socket, EINPROGRESS when the attempt is under way, or the error. */
static int begin(dial_attempt *a, const struct addrinfo *address, int *fd)
{
    *fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    if (address->ai_family != AF_UNIX)
        set_options(*fd);
    int failed = connect(*fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
        a->source.fd = *fd;
        a->source.events = POLLOUT;
        if (loop_watch(a->dial->loop, &a->source))
            return failed;
        a->source.fd = -1;
        failed = EMFILE;
    }
    if (failed != 0)
        close(*fd);
    return failed;
}

static bool is_under_way(const dial *d)
{
    for (size_t i = 0; i < d->next; i++)
        if (d->attempts[i].source.fd >= 0)
            return true;
    return false;
}

/* Begins the next attempt. Ends the dial when no address is left and no attempt is under way. */
static void begin_next(dial *d)
{
    while (d->next < d->n) {
        size_t i = d->next++;
        int fd, failed = begin(&d->attempts[i], d->order[i], &fd);

        heap_set(&d->loop->timers, &d->timer, clock_in_ms(d->next < d->n ? STAGGER_MS : LAST_MS));
        if (failed == EINPROGRESS)
            return;
        if (failed == 0) {
            finish(d, fd, 0);
            return;
        }
        d->failed = failed;
    }
    if (!is_under_way(d))
        finish(d, -1, d->failed);
}

static void run_due(struct timer *timer)
{
    dial *d = container_of(timer, dial, timer);

    if (d->next < d->n)
        begin_next(d);
    else
        finish(d, -1, ETIMEDOUT);
}

static void run_ready(loop_source *source, short found)
{
    dial_attempt *a = container_of(source, dial_attempt, source);
    dial *d = a->dial;
    int failed = 0, fd = source->fd;
    socklen_t len = sizeof failed;
    (void)found;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
        failed = errno;
    if (failed == 0) {
        loop_unwatch(d->loop, source);
        source->fd = -1;
        finish(d, fd, 0);
        return;
    }
    close_attempt(a);
    d->failed = failed;
    begin_next(d);
}

/* The next address from `from` on that is of the family (`is`), or is not. */
static const struct addrinfo *find(const struct addrinfo *from, int family, bool is)
{
    while (from && (from->ai_family == family) != is)
        from = from->ai_next;
    return from;
}

void dial_start(dial *d, const struct addrinfo *addresses, uint32_t first)
{
    int family = addresses->ai_family;
    const struct addrinfo *same = addresses, *other = find(addresses, family, false);
    const struct addrinfo *found[DIAL_ADDRESSES_MAX];
    size_t n = 0;

    while (n < DIAL_ADDRESSES_MAX && (same || other)) {
        bool takes_same = same && (!other || n % 2 == 0);

        found[n++] = takes_same ? same : other;
        if (takes_same)
            same = find(same->ai_next, family, true);
        else
            other = find(other->ai_next, family, false);
    }
    for (size_t i = 0; i < n; i++)
        d->order[i] = found[(i + first) % n];
    d->n = n;
    d->next = 0;
    begin_next(d);
}

void dial_init(dial *d, struct loop *loop, void (*done)(dial *d, int fd, int failed))
{
    *d = (dial){.loop = loop, .done = done, .timer.due = run_due};
    for (size_t i = 0; i < DIAL_ADDRESSES_MAX; i++)
        d->attempts[i] = (dial_attempt){.source = {.fd = -1, .ready = run_ready}, .dial = d};
}

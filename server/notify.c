/* Invariant: each datagram has the complete state, so a later one replaces one that could not be sent. Called by
 * server.c. */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <uv.h>

#include "log.h"
#include "memory.h"
#include "base/clock.h"

enum { RETRY_MS = 100, REASON_BYTES = 256, US_PER_MS = 1000 };

typedef enum phase { STARTING, SERVING, RELOADING, STOPPING } phase;

struct notify {
    uv_timer_t timer;
    int fd;
    struct sockaddr_un to;
    socklen_t to_len;
    uint64_t beat_ms;   /* 0: no watchdog */
    uint64_t within_us; /* the time limit of STOPPING */
    phase phase;
    bool ready;
    bool unsent;                /* the manager does not have the latest state */
    bool failed;                /* the last send failed, and that was logged */
    char reason[REASON_BYTES];  /* why it is not ready, a warning, or why it ends; empty: none */
    char failure[REASON_BYTES]; /* of the last reload; empty: none */
};

static void on_timer(uv_timer_t *timer);

/* Returns false if there is no room for the datagram now. After any other failure the text is not sent again. */
static bool send_text(notify *n, const char *text)
{
    ssize_t sent = sendto(n->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&n->to, n->to_len);
    bool full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);

    if (sent < 0 && !n->failed)
        log_warn("notify-failed", "reason=\"%s\"", strerror(errno));
    n->failed = sent < 0;
    return !full;
}

/* Copies text as one line of the protocol. */
static void copy_line(char *to, const char *from)
{
    snprintf(to, REASON_BYTES, "%s", from ? from : "");
    for (char *c = to; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

static const char *status(const notify *n)
{
    if (n->phase == STOPPING)
        return n->reason[0] ? "stopped: " : "draining";
    if (n->ready)
        return n->reason[0] ? "ready, but " : "ready";
    return n->reason[0] ? "not ready: " : "starting";
}

static void send_state(notify *n)
{
    char text[1024], state[80] = "";

    if (n->phase == SERVING)
        snprintf(state, sizeof state, "READY=1\n");
    else if (n->phase == RELOADING)
        snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", clock_now_ns() / 1000);
    else if (n->phase == STOPPING)
        snprintf(state, sizeof state, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64 "\n", n->within_us);
    snprintf(text, sizeof text, "%sSTATUS=%s%s%s%s", state, status(n), n->reason,
             n->failure[0] ? "; the last reload failed: " : "", n->failure);
    n->unsent = !send_text(n, text);
    if (n->unsent)
        uv_timer_start(&n->timer, on_timer, RETRY_MS, n->beat_ms);
}

static void on_timer(uv_timer_t *timer)
{
    notify *n = timer->data;

    if (n->beat_ms > 0)
        send_text(n, "WATCHDOG=1");
    if (n->unsent)
        send_state(n);
}

/* Reads "/path", or "@name" of an abstract socket. */
static bool read_address(notify *n, const char *text)
{
    size_t len = strlen(text);

    n->to.sun_family = AF_UNIX;
    if ((*text != '/' && *text != '@') || len < 2 || len >= sizeof n->to.sun_path)
        return false;
    memcpy(n->to.sun_path, text, len + 1);
    if (*text == '@')
        n->to.sun_path[0] = '\0';
    n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*text == '/'));
    return true;
}

/* Returns half of the manager's limit; 0: no watchdog, or it is for another process. */
static uint64_t read_beat(void)
{
    const char *time = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (!time || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    return strtoull(time, NULL, 10) / (2 * US_PER_MS);
}

notify *notify_open(struct uv_loop_s *loop)
{
    const char *address = getenv("NOTIFY_SOCKET");
    notify *n = NULL;

    if (address && *address) {
        n = memory_alloc(sizeof *n);
        bool good = read_address(n, address);
        n->fd = good ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
        if (n->fd < 0) {
            log_warn("notify-failed", "reason=\"%s\"", good ? strerror(errno) : "NOTIFY_SOCKET must be /path or @name");
            free(n);
            n = NULL;
        }
    }
    if (n) {
        n->beat_ms = read_beat();
        uv_timer_init(loop, &n->timer);
        n->timer.data = n;
        if (n->beat_ms > 0)
            uv_timer_start(&n->timer, on_timer, n->beat_ms, n->beat_ms);
        send_state(n);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return n;
}

void notify_store(notify *n, bool ready, const char *reason)
{
    if (!n || n->phase == STOPPING)
        return;
    if (ready && n->phase == STARTING)
        n->phase = SERVING;
    n->ready = ready;
    copy_line(n->reason, reason);
    send_state(n);
}

void notify_reloading(notify *n)
{
    if (n && n->phase == SERVING) {
        n->phase = RELOADING;
        send_state(n);
    }
}

void notify_reloaded(notify *n, const char *failure)
{
    if (!n || n->phase == STOPPING)
        return;
    if (n->phase == RELOADING)
        n->phase = SERVING;
    copy_line(n->failure, failure);
    send_state(n);
}

void notify_stopping(notify *n, const char *failure, uint64_t within_ms)
{
    if (!n || n->phase == STOPPING)
        return;
    n->phase = STOPPING;
    n->ready = false;
    n->within_us = within_ms * US_PER_MS;
    n->failure[0] = '\0';
    copy_line(n->reason, failure);
    send_state(n);
}

static void on_closed(uv_handle_t *timer)
{
    notify *n = timer->data;

    close(n->fd);
    free(n);
}

void notify_close(notify *n)
{
    if (n)
        uv_close((uv_handle_t *)&n->timer, on_closed);
}

/* Invariant: libuv polls a duplicate of the library's descriptor, because each function of the library may close its
 * descriptor and reuse the number. Both refer to the same socket as long as their inodes are equal.
 *
 *   DOWN --connected--> UP --connection lost--> DOWN        both --a member refuses--> EXPIRED, REFUSED
 *
 *   each: --session_close--> the library's handle is freed --> LEAVING, if it was UP --> closed
 *
 * This file works around three behaviours of the library (3.8):
 * - zookeeper_close blocks for up to 4.5 s if the handle is connected. So this file replaces the library's socket by a
 *   dead one first, and sends the request that ends the session itself. In LEAVING it waits for the answer.
 * - A request that finds the connection broken closes the socket, but leaves the sent requests in the library's queues,
 *   where the next connection finds them. clear_queues() makes the library clear them.
 * - Each zookeeper_interest resolves the hosts, unless zoo_set_servers_resolution_delay is -1. Then each connection
 *   resolves them, which takes no time for numeric addresses. */
#include "ensemble/session.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <uv.h>

#include <zookeeper/zookeeper.h>

#include "memory.h"
#include "net/close_barrier.h"

enum {
    WHY_BYTES = 160,
    PACKETS_MAX = 64,    /* read in one loop turn */
    LEAVING_MS = 1000,   /* how long to wait for the answer to CLOSE_SESSION */
    INTEREST_TRIES = 4,  /* zookeeper_interest fails once for each member that refuses at once */
    CLOSE_SESSION = -11, /* the type of the request that ends a session */
    AFTER_ERROR_MS = 10, /* until the library is called again */
    TURN_MAX_MS = 60000, /* from one turn to the next */
};

/* How informative a failure is. The most informative failure of the tried members is reported. */
typedef enum rank { RANK_NONE, RANK_REFUSED, RANK_SILENT, RANK_NO_QUORUM } rank;

/* A duplicate of the library's socket, and the handle that polls it. */
typedef struct link {
    uv_poll_t poll;
    session *owner; /* NULL: the link is closing */
    close_barrier *barrier;
    int fd;
    ino_t inode;
    int watched; /* libuv events */
} link_to;

struct session {
    uv_loop_t *loop;
    zhandle_t *zh; /* NULL after it was closed */
    session_events on;
    uv_timer_t timer;
    int fd; /* the library's descriptor; valid if its inode is that of the link */
    link_to *link;
    session_state state;
    int failure; /* errno of the failed connection, until note_failure has used it */
    char why[WHY_BYTES];
    bool why_changed;  /* since the last on.changed */
    rank worst;        /* in this round through the members */
    rank shown;        /* the rank of `why`: the worst of this round and the previous one */
    unsigned n, tried; /* members; failed attempts in this round */
    bool broken;       /* the library has closed the socket inside a request */
    bool closing;
    close_barrier barrier;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void turn(session *s);

/* ---- the link ------------------------------------------------------------------------ */

static void on_link_closed(uv_handle_t *handle)
{
    link_to *l = handle->data;
    close_barrier *barrier = l->barrier;

    free(l);
    close_barrier_done(barrier);
}

static void detach(session *s)
{
    link_to *l = s->link;

    s->link = NULL;
    if (!l)
        return;
    l->owner = NULL;
    uv_close((uv_handle_t *)&l->poll, on_link_closed);
    close(l->fd);
}

static ino_t inode_of(int fd)
{
    struct stat status;

    return fd >= 0 && fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static bool is_attached(const session *s)
{
    return s->link && inode_of(s->fd) == s->link->inode;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Polls the library's socket. Returns false if no descriptor is left. */
static bool attach(session *s, int fd)
{
    s->fd = fd;
    if (is_attached(s))
        return true;
    detach(s);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return false;
    link_to *l = memory_alloc(sizeof *l);
    *l = (link_to){.owner = s, .barrier = &s->barrier, .fd = own, .inode = inode_of(own)};
    if (uv_poll_init(s->loop, &l->poll, own) < 0) {
        close(own);
        free(l);
        return false;
    }
    l->poll.data = l;
    close_barrier_add(&s->barrier);
    s->link = l;
    return true;
}

static void watch(link_to *l, int interest)
{
    int events = (interest & ZOOKEEPER_READ ? UV_READABLE : 0) | (interest & ZOOKEEPER_WRITE ? UV_WRITABLE : 0);

    if (events != l->watched)
        uv_poll_start(&l->poll, events, on_poll);
    l->watched = events;
}

/* ---- why it is down ------------------------------------------------------------------ */

static void set_why(session *s, const char *what, int failure)
{
    const char *reason = failure ? strerror(failure) : NULL;
    char why[WHY_BYTES];

    if (reason)
        snprintf(why, sizeof why, "%s: %c%s", what, tolower((unsigned char)reason[0]), reason + 1);
    else
        snprintf(why, sizeof why, "%s", what);
    s->why_changed = s->why_changed || strcmp(why, s->why) != 0;
    memcpy(s->why, why, sizeof s->why);
}

/* before: the library's state before the call that ended the connection. */
static void note_failure(session *s, int before, int rc)
{
    rank now = RANK_REFUSED;

    if (before == ZOO_CONNECTED_STATE) {
        set_why(s,
                rc == ZOPERATIONTIMEOUT ? "the lock store does not answer" : "the connection to the lock store broke",
                s->failure);
        s->worst = s->shown = RANK_NONE;
        s->tried = 0;
        return;
    }
    if (rc == ZOPERATIONTIMEOUT)
        now = RANK_SILENT;
    else if (before == ZOO_ASSOCIATING_STATE && s->failure == 0)
        now = RANK_NO_QUORUM;
    if (s->tried++ >= s->n) {
        s->tried = 1;
        s->shown = s->worst;
        s->worst = RANK_NONE;
    }
    s->worst = now > s->worst ? now : s->worst;
    if (now < s->shown)
        return;
    s->shown = now;
    if (now == RANK_NO_QUORUM)
        set_why(s, "the lock store has no quorum", 0);
    else if (now == RANK_SILENT)
        set_why(s, "the lock store is unreachable: it does not answer", 0);
    else
        set_why(s, "the lock store is unreachable", s->failure ? s->failure : ECONNREFUSED);
}

/* ---- running the library ------------------------------------------------------------- */

static session_state state_now(const session *s)
{
    int state = zoo_state(s->zh);

    if (state == ZOO_CONNECTED_STATE)
        return s->broken ? SESSION_DOWN : SESSION_UP;
    if (state == ZOO_EXPIRED_SESSION_STATE)
        return SESSION_EXPIRED;
    return state == ZOO_AUTH_FAILED_STATE ? SESSION_REFUSED : SESSION_DOWN;
}

static void report(session *s)
{
    session_state now = state_now(s);

    if (s->closing || (now == s->state && !s->why_changed))
        return;
    s->state = now;
    s->why_changed = false;
    if (now == SESSION_UP) {
        s->worst = s->shown = RANK_NONE;
        s->tried = 0;
    }
    s->on.changed(s->on.arg);
}

/* Shuts down the library's socket and reads to its end, so that the library finds it broken and clears its queues. */
static void clear_queues(session *s)
{
    int fd = -1, interest;
    struct timeval until;

    s->broken = false;
    detach(s);
    note_failure(s, ZOO_CONNECTED_STATE, ZCONNECTIONLOSS);
    s->why_changed = true; /* report it even if the reason is the same: session_submitted has already set the state */
    for (int i = 0; i < INTEREST_TRIES && fd < 0; i++)
        if (zookeeper_interest(s->zh, &fd, &interest, &until) != ZOK)
            return; /* the failure has cleared the queues */
    if (fd < 0)
        return;
    shutdown(fd, SHUT_RDWR);
    while (zookeeper_process(s->zh, ZOOKEEPER_READ) == ZOK)
        ; /* until all received data is read */
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static uint64_t milliseconds(const struct timeval *until)
{
    uint64_t ms = (uint64_t)until->tv_sec * 1000 + (uint64_t)until->tv_usec / 1000 + 1;

    return until->tv_sec < 0 || ms > TURN_MAX_MS ? TURN_MAX_MS : ms;
}

static void finish(session *s);

/* Asks the library for its socket and the events that it waits for, and polls them. Returns when to call the library
 * again at the latest, in milliseconds. */
static uint64_t update_poll(session *s)
{
    int fd = -1, interest = 0, before = zoo_state(s->zh);
    struct timeval until = {0};

    errno = 0;
    int rc = zookeeper_interest(s->zh, &fd, &interest, &until);
    if (rc != ZOK) {
        s->failure = rc == ZCONNECTIONLOSS ? errno : 0; /* the connection was refused at once */
        note_failure(s, before, rc);
        s->failure = 0;
        detach(s);
        return AFTER_ERROR_MS;
    }
    if (fd < 0) {
        detach(s);
        return milliseconds(&until);
    }
    if (!attach(s, fd)) {
        set_why(s, "the lock store is unreachable", EMFILE);
        return AFTER_ERROR_MS;
    }
    watch(s->link, interest);
    return milliseconds(&until);
}

static void turn(session *s)
{
    if (s->broken && !s->closing)
        clear_queues(s);
    if (zoo_state(s->zh) >= 0)
        uv_timer_start(&s->timer, on_timer, update_poll(s), 0);
    if (zoo_state(s->zh) < 0) {
        detach(s);
        uv_timer_stop(&s->timer);
    }
    if (s->closing)
        finish(s);
    else
        report(s);
}

/* Returns the error of a failed connection. The library only finds it when it writes. */
static int failure_of(const link_to *l)
{
    int failure = 0;
    socklen_t size = sizeof failure;

    return getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 ? failure : errno;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    link_to *l = poll->data;
    session *s = l->owner;

    if (!s)
        return;
    int before = zoo_state(s->zh), rc = ZOK;
    int ready = (events & UV_READABLE ? ZOOKEEPER_READ : 0) | (events & UV_WRITABLE ? ZOOKEEPER_WRITE : 0);
    if (status < 0) {
        ready = ZOOKEEPER_READ | ZOOKEEPER_WRITE;
        l->watched = 0; /* libuv has stopped the poll */
    }
    s->failure = before == ZOO_CONNECTING_STATE ? failure_of(l) : 0;
    for (int i = 0; i < PACKETS_MAX && rc == ZOK && !s->closing && !s->broken; i++) {
        before = zoo_state(s->zh);
        rc = zookeeper_process(s->zh, i == 0 ? ready : ZOOKEEPER_READ);
        if (!(ready & ZOOKEEPER_READ))
            break;
    }
    if (rc != ZOK && rc != ZNOTHING)
        note_failure(s, before, rc);
    s->failure = 0;
    turn(s);
}

/* ---- life ---------------------------------------------------------------------------- */

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
    session *s = arg;

    (void)zh, (void)state;
    if (type != ZOO_SESSION_EVENT && type != ZOO_NOTWATCHING_EVENT && !s->closing)
        s->on.watch(s->on.arg, path);
}

session_state session_state_of(const session *s)
{
    return s->state;
}

bool session_is_up(const session *s)
{
    return s->state == SESSION_UP && state_now(s) == SESSION_UP && !s->closing;
}

const char *session_why(const session *s)
{
    return s->why[0] == '\0' ? NULL : s->why;
}

int64_t session_id(const session *s)
{
    return zoo_client_id(s->zh)->client_id;
}

zhandle_t *session_handle(session *s)
{
    return s->zh;
}

/* Starts a turn, which asks the library whether it has written everything. */
bool session_submitted(session *s)
{
    if (zoo_state(s->zh) != ZOO_CONNECTED_STATE)
        s->broken = true;
    uv_timer_start(&s->timer, on_timer, 0, 0);
    if (s->broken)
        s->state = SESSION_DOWN;
    return !s->broken;
}

static unsigned count(const char *addresses)
{
    unsigned n = 1;

    for (const char *at = addresses; (at = strchr(at, ',')); at++)
        n++;
    return n;
}

void session_set_addresses(session *s, const char *addresses)
{
    if (state_now(s) != SESSION_DOWN || s->broken || s->closing)
        return;
    detach(s); /* the library may close its socket */
    s->n = count(addresses);
    zoo_set_servers(s->zh, addresses);
    uv_timer_start(&s->timer, on_timer, 0, 0);
}

session *session_open(uv_loop_t *loop, const char *addresses, uint32_t timeout_ms, const char *credentials,
                      const session_events *events)
{
    zoo_set_debug_level(0); /* the library would write to standard error; session_why gives the reason */
    session *s = memory_alloc(sizeof *s);
    *s = (session){.loop = loop, .on = *events, .fd = -1, .n = count(addresses)};
    s->zh = zookeeper_init(addresses, on_watch, (int)timeout_ms, NULL, s, ZOO_NO_LOG_CLIENTENV);
    if (!s->zh) {
        free(s); /* keeps errno */
        return NULL;
    }
    zoo_set_servers_resolution_delay(s->zh, -1);
    if (credentials)
        zoo_add_auth(s->zh, "digest", credentials, (int)strlen(credentials), NULL, NULL);
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_timer, 0, 0);
    return s;
}

/* ---- closing ------------------------------------------------------------------------- */

static void release(session *s)
{
    detach(s);
    close_barrier_handle(&s->barrier, &s->timer);
    close_barrier_begin(&s->barrier, s, free, s->closed, s->closed_arg);
}

static void on_close_answer(uv_poll_t *poll, int status, int events)
{
    link_to *l = poll->data;
    char bytes[4096];

    (void)events;
    if (!l->owner)
        return;
    ssize_t n = status < 0 ? 0 : recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        release(l->owner);
}

static void on_close_timeout(uv_timer_t *timer)
{
    release(timer->data);
}

/* Sends the request that ends the session. Returns false if not all of it could be sent. */
static bool send_close_session(const session *s)
{
    const uint32_t request[] = {htonl(8), htonl(0), htonl((uint32_t)CLOSE_SESSION)};

    return send(s->link->fd, request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof request;
}

/* Replaces the library's socket by a dead one. */
static void replace_socket(const session *s)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        shutdown(s->fd, SHUT_RDWR); /* also works, but ends the connection for send_close_session too */
        return;
    }
    close(pair[1]);
    dup3(pair[0], s->fd, O_CLOEXEC);
    close(pair[0]);
}

/* Frees the library's handle, which runs the callbacks of all requests. After that, only this file uses the
 * connection. */
static void finish(session *s)
{
    bool up = state_now(s) == SESSION_UP;
    bool can_send = up && is_attached(s) && !(s->link->watched & UV_WRITABLE); /* no request is half written */

    if (up)
        replace_socket(s);
    zookeeper_close(s->zh);
    s->zh = NULL;
    if (!can_send || !send_close_session(s)) {
        release(s);
        return;
    }
    uv_poll_start(&s->link->poll, UV_READABLE, on_close_answer);
    uv_timer_start(&s->timer, on_close_timeout, LEAVING_MS, 0);
}

void session_close(session *s, void (*closed)(void *arg), void *arg)
{
    s->closing = true;
    s->closed = closed;
    s->closed_arg = arg;
    uv_timer_start(&s->timer, on_timer, 0, 0);
}

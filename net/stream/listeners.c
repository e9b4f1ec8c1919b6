/* Invariant: a listener is `pending` exactly while libuv has a connection of it that was not accepted; libuv then
 * accepts no further connection on it. `later` runs while any listener is pending. Called by stream.c. */
#include "net/stream/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "base/clock.h"
#include "net/close_barrier.h"
#include "net/stream/address_bind.h"

enum {
    BACKLOG = 1024,
    TURN_NS = 200 * 1000, /* of each turn of the loop, for accepting */
};

typedef struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } on;
    listeners *all;
    served what;
    bool pending;
    TAILQ_ENTRY(listener) next;
} listener;

struct listeners {
    listeners_options options;
    TAILQ_HEAD(, listener) open;
    uv_idle_t later; /* accepts pending connections; keeps the loop from blocking */
    uv_prepare_t turn_end;
    uint64_t used_ns; /* of this turn */
    close_barrier closing;
};

/* ---- the end ---------------------------------------------------------------------- */

static void on_listener_closed(uv_handle_t *handle)
{
    listener *l = handle->data;
    close_barrier *closing = &l->all->closing;

    free(l);
    close_barrier_done(closing);
}

static void close_listener(listener *l)
{
    TAILQ_REMOVE(&l->all->open, l, next);
    uv_close(&l->on.handle, on_listener_closed);
}

void listeners_stop(listeners *all)
{
    listener *l;

    while ((l = TAILQ_FIRST(&all->open)))
        close_listener(l);
    uv_idle_stop(&all->later);
}

void listeners_close(listeners *all, void (*closed)(void *arg), void *arg)
{
    listeners_stop(all);
    close_barrier_handle(&all->closing, &all->later);
    close_barrier_handle(&all->closing, &all->turn_end);
    close_barrier_begin(&all->closing, all, free, closed, arg);
}

/* ---- accepting -------------------------------------------------------------------- */

static void take(listener *l)
{
    listeners *all = l->all;
    uint64_t began_ns = clock_now_ns();

    all->options.accept(all->options.arg, &l->on.stream, &l->what);
    all->used_ns += clock_now_ns() - began_ns;
}

static void on_later(uv_idle_t *later)
{
    listeners *all = later->data;
    listener *l;

    uv_idle_stop(later);
    TAILQ_FOREACH(l, &all->open, next) {
        if (l->pending) {
            l->pending = false;
            take(l);
        }
    }
}

static void on_turn_end(uv_prepare_t *prepare)
{
    ((listeners *)prepare->data)->used_ns = 0;
}

/* libuv accepts no further connection until this one is accepted. */
static void on_connection(uv_stream_t *listening, int status)
{
    listener *l = listening->data;
    listeners *all = l->all;

    if (status != 0) {
        all->options.refused(all->options.arg, &l->what);
    } else if (all->used_ns < TURN_NS) {
        take(l);
    } else {
        l->pending = true;
        uv_idle_start(&all->later, on_later);
    }
}

/* ---- listening -------------------------------------------------------------------- */

static lks_code out_of_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static listener *new_listener(listeners *all, const served *what)
{
    listener *l = malloc(sizeof *l);

    if (!l)
        return NULL;
    *l = (listener){.all = all, .what = *what};
    if (what->is_unix)
        uv_pipe_init(all->options.loop, &l->on.pipe, 0);
    else
        uv_tcp_init(all->options.loop, &l->on.tcp);
    l->on.handle.data = l;
    close_barrier_add(&all->closing);
    TAILQ_INSERT_TAIL(&all->open, l, next);
    return l;
}

/* Stops listening on an address; `failed` is libuv's error. */
static lks_code listen_on(listener *l, int failed, lks_error *error)
{
    if (failed == 0)
        failed = uv_listen(&l->on.stream, BACKLOG, on_connection);
    if (failed == 0)
        return LKS_OK;
    close_listener(l);
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", uv_strerror(failed));
}

static uint16_t port_of(const uv_tcp_t *tcp)
{
    struct sockaddr_storage name = {0};
    int len = sizeof name;

    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&name, &len) != 0)
        return 0;
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&name)->sin6_port
                                            : ((struct sockaddr_in *)(void *)&name)->sin_port);
}

static lks_code add_tcp(listeners *all, const char *address, const served *what, listener **ret, lks_error *error)
{
    struct addrinfo *found = NULL;

    lks_code code = address_resolve(address, &found, error);
    if (code != LKS_OK)
        return code;
    listener *l = *ret = new_listener(all, what);
    code = l ? listen_on(l, uv_tcp_bind(&l->on.tcp, found->ai_addr, 0), error) : out_of_memory(error);
    freeaddrinfo(found);
    return code;
}

static lks_code add_unix(listeners *all, const char *path, const served *what, lks_error *error)
{
    listener *l = new_listener(all, what);

    if (!l)
        return out_of_memory(error);
    lks_code code = address_bind_unix(&l->on.pipe, path, error);
    if (code == LKS_OK)
        return listen_on(l, 0, error);
    close_listener(l);
    return code;
}

/* Whether a listener has the same socket, under any descriptor. */
static bool has_socket(const listeners *all, const struct stat *wanted)
{
    const listener *l;
    struct stat found;
    uv_os_fd_t fd;

    TAILQ_FOREACH(l, &all->open, next)
        if (uv_fileno(&l->on.handle, &fd) == 0 && fstat(fd, &found) == 0 && found.st_ino == wanted->st_ino &&
            found.st_dev == wanted->st_dev)
            return true;
    return false;
}

static lks_code add_fd(listeners *all, int fd, const served *what, listener **ret, lks_error *error)
{
    struct stat socket;

    if (fstat(fd, &socket) == 0 && has_socket(all, &socket))
        return lks_error_set(error, LKS_ALREADY_EXISTS, LKS_APPLIED_NO, "a listener already has this socket");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", strerror(errno));
    listener *l = *ret = new_listener(all, what);
    if (!l) {
        close(own);
        return out_of_memory(error);
    }
    int failed = what->is_unix ? uv_pipe_open(&l->on.pipe, own) : uv_tcp_open(&l->on.tcp, own);
    if (failed != 0)
        close(own);
    return listen_on(l, failed, error);
}

lks_code listeners_add(listeners *all, const stream_address *at, const served *what, uint16_t *bound, lks_error *error)
{
    listener *added = NULL;

    lks_code code = !at->text     ? add_fd(all, at->fd, what, &added, error)
                    : at->is_unix ? add_unix(all, at->text, what, error)
                                  : add_tcp(all, at->text, what, &added, error);
    if (code == LKS_OK)
        *bound = at->is_unix ? 0 : port_of(&added->on.tcp);
    return code;
}

/* ---- all of them ------------------------------------------------------------------ */

listeners *listeners_new(const listeners_options *options)
{
    listeners *all = malloc(sizeof *all);

    if (!all)
        return NULL;
    *all = (listeners){.options = *options};
    TAILQ_INIT(&all->open);
    uv_idle_init(options->loop, &all->later);
    uv_prepare_init(options->loop, &all->turn_end);
    all->later.data = all->turn_end.data = all;
    uv_prepare_start(&all->turn_end, on_turn_end);
    uv_unref((uv_handle_t *)&all->turn_end);
    return all;
}

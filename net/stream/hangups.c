/* Invariant: the descriptor `ends` becomes readable only when a peer closes; bytes alone do not wake an epoll that
 * waits for EPOLLRDHUP. Called by stream.c. */
#include "net/stream/hangups.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <uv.h>

#include "net/close_barrier.h"

struct hangups {
    uv_poll_t poll;
    int ends; /* an epoll of all watched descriptors */
    void (*hung_up)(void *owner);
    close_barrier closing;
};

/* Reads one event at a time: its callback may call hangups_forget for the next one. */
static void on_ends(uv_poll_t *poll, int status, int events)
{
    hangups *all = poll->data;
    struct epoll_event end;
    (void)status;
    (void)events;

    while (epoll_wait(all->ends, &end, 1, 0) == 1)
        all->hung_up(end.data.ptr);
}

hangups *hangups_new(uv_loop_t *loop, void (*hung_up)(void *owner))
{
    hangups *all = malloc(sizeof *all);

    if (!all)
        return NULL;
    *all = (hangups){.hung_up = hung_up, .ends = epoll_create1(EPOLL_CLOEXEC)};
    if (all->ends < 0 || uv_poll_init(loop, &all->poll, all->ends) != 0) {
        if (all->ends >= 0)
            close(all->ends);
        free(all);
        return NULL;
    }
    all->poll.data = all;
    uv_poll_start(&all->poll, UV_READABLE, on_ends);
    uv_unref((uv_handle_t *)&all->poll);
    return all;
}

bool hangups_watch(hangups *all, int fd, void *owner)
{
    struct epoll_event wanted = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = owner};

    return epoll_ctl(all->ends, EPOLL_CTL_ADD, fd, &wanted) == 0;
}

void hangups_forget(hangups *all, int fd)
{
    struct epoll_event none = {0};

    epoll_ctl(all->ends, EPOLL_CTL_DEL, fd, &none);
}

static void release(void *owner)
{
    hangups *all = owner;

    close(all->ends);
    free(all);
}

void hangups_close(hangups *all, void (*closed)(void *arg), void *arg)
{
    close_barrier_handle(&all->closing, &all->poll);
    close_barrier_begin(&all->closing, all, release, closed, arg);
}

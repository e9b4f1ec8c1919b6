#include "support/listener.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 65536, WAIT_S = 30 };

static void close_connection(listener *l, size_t i)
{
    l->on.closed(l->connections[i].record);
    close(l->connections[i].fd);
    l->connections[i] = l->connections[--l->n];
}

void listener_drop(listener *l)
{
    while (l->n > 0)
        close_connection(l, 0);
}

static void accept_connection(listener *l)
{
    const int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (l->n == LISTENER_CONNECTIONS_MAX)
        abort();
    l->connections[l->n].fd = fd;
    l->connections[l->n].record = l->on.opened(l, fd);
    l->n++;
}

static void read_some(listener *l, size_t i)
{
    uint8_t data[READ_BYTES];
    const ssize_t n = recv(l->connections[i].fd, data, sizeof data, 0);

    if (n <= 0 || !l->on.received(l->connections[i].record, data, (size_t)n))
        close_connection(l, i);
}

static void *serve(void *arg)
{
    listener *l = arg;
    struct pollfd fds[LISTENER_CONNECTIONS_MAX + 2];
    eventfd_t woken;

    pthread_mutex_lock(&l->lock);
    while (!l->stopping) {
        const size_t n = l->n;
        fds[0] = (struct pollfd){.fd = l->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = l->fd, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            fds[2 + i] = (struct pollfd){.fd = l->connections[i].fd, .events = l->deaf ? 0 : POLLIN};
        pthread_mutex_unlock(&l->lock);
        poll(fds, (nfds_t)(n + 2), -1);
        pthread_mutex_lock(&l->lock);
        for (size_t i = n; i-- != 0;) /* backwards: closing one moves the last in */
            if (fds[2 + i].revents != 0)
                read_some(l, i);
        if (fds[1].revents != 0)
            accept_connection(l);
        if (fds[0].revents != 0)
            eventfd_read(l->wake, &woken);
        l->on.turned(l);
        pthread_cond_broadcast(&l->changed);
    }
    listener_drop(l);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void listener_start(listener *l, listener_events on, int fd)
{
    l->on = on;
    l->fd = fd;
    l->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (listen(fd, LISTENER_CONNECTIONS_MAX) != 0 || pthread_create(&l->thread, NULL, serve, l) != 0)
        abort();
}

void listener_wake(listener *l)
{
    eventfd_write(l->wake, 1);
}

void listener_stop(listener *l)
{
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_mutex_unlock(&l->lock);
    listener_wake(l);
    pthread_join(l->thread, NULL);
    close(l->fd);
    close(l->wake);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
}

bool listener_await(listener *l, const size_t *value, size_t least, size_t most)
{
    struct timespec until;
    int failed = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&l->lock);
    while ((*value < least || *value > most) && failed == 0)
        failed = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    pthread_mutex_unlock(&l->lock);
    return failed == 0;
}

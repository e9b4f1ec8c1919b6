/* Invariant: `end` points at the last task's `next`, or at `first` when empty; wake_fd is
 * written to only while the loop thread sleeps, once. */
#include "client/loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "net/clock.h"

bool loop_init(struct loop *loop)
{
    *loop = (struct loop){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (loop->wake_fd < 0)
        return false;
    pthread_mutex_init(&loop->lock, NULL);
    loop->end = &loop->first;
    TAILQ_INIT(&loop->sources);
    return true;
}

void loop_fini(struct loop *loop)
{
    pthread_mutex_destroy(&loop->lock);
    close(loop->wake_fd);
    heap_free(&loop->timers);
}

void loop_post(struct loop *loop, loop_task *task)
{
    pthread_mutex_lock(&loop->lock);
    if (!loop->closed) {
        task->next = NULL;
        *loop->end = task;
        loop->end = &task->next;
    }
    if (loop->asleep) {
        loop->asleep = false;
        loop->woken = eventfd_write(loop->wake_fd, 1) == 0;
    }
    pthread_mutex_unlock(&loop->lock);
}

void loop_raise(struct loop *loop, loop_signal *signal)
{
    if (!atomic_exchange(&signal->raised, true))
        loop_post(loop, &signal->task);
}

void loop_lower(loop_signal *signal)
{
    atomic_store(&signal->raised, false);
}

void loop_close(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->closed = true;
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
}

/* Looks at wake_fd and all sources; waits while nothing is found, until `until_ns`. */
static void look(struct loop *loop, uint64_t until_ns)
{
    struct pollfd fds[1 + LOOP_SOURCES_MAX] = {{.fd = loop->wake_fd, .events = POLLIN}};
    loop_source *source;
    nfds_t n = 1;
    int found;

    TAILQ_FOREACH(source, &loop->sources, in_list)
        fds[n++] = (struct pollfd){.fd = source->fd, .events = source->events};
    do {
        uint64_t now = until_ns == 0 || until_ns == CLOCK_NEVER ? 0 : lks_rpc_now_ns();
        uint64_t left = until_ns > now ? until_ns - now : 0;
        struct timespec timeout = clock_timespec(left);

        found = ppoll(fds, n, until_ns == CLOCK_NEVER ? NULL : &timeout, NULL);
    } while (found < 0 && errno == EINTR);
    n = 1;
    TAILQ_FOREACH(source, &loop->sources, in_list)
        source->found = found > 0 ? fds[n++].revents : 0;
}

loop_task *loop_wait(struct loop *loop, uint64_t until_ns)
{
    eventfd_t count;

    pthread_mutex_lock(&loop->lock);
    bool empty = !loop->first;
    loop->asleep = empty && until_ns != 0;
    pthread_mutex_unlock(&loop->lock);
    if (empty || loop->n_sources != 0)
        look(loop, empty ? until_ns : 0);
    pthread_mutex_lock(&loop->lock);
    if (loop->woken)
        eventfd_read(loop->wake_fd, &count);
    loop->asleep = loop->woken = false;
    loop_task *tasks = loop->first;
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    return tasks;
}

bool loop_watch(struct loop *loop, loop_source *source)
{
    if (loop->n_sources == LOOP_SOURCES_MAX)
        return false;
    source->found = 0;
    TAILQ_INSERT_TAIL(&loop->sources, source, in_list);
    loop->n_sources++;
    return true;
}

void loop_unwatch(struct loop *loop, loop_source *source)
{
    TAILQ_REMOVE(&loop->sources, source, in_list);
    loop->n_sources--;
}

/* From the first again after each: one may take others away. */
void loop_run_ready(struct loop *loop)
{
    loop_source *source;

    do {
        TAILQ_FOREACH(source, &loop->sources, in_list)
            if (source->found != 0)
                break;
        if (source) {
            short found = source->found;
            source->found = 0;
            source->ready(source, found);
        }
    } while (source);
}

/* Invariant: `end` points at the last task's `next`, or at `first` when empty; wake_fd is
 * written to only while the loop thread sleeps, once. What is the loop thread's is touched by it while it is awake and
 * by a guest while it is not, never by both: it does not leave loop_wait while a guest is in. */
#include "client/loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "net/clock.h"

/* Each guest's call has a deadline, and would wake the loop thread for it: which wakes once in such a time by itself
 * while guests come. */
enum { VISITED_MS = 1000, UNKNOWN = -1 /* source.looked */ };

bool loop_init(struct loop *loop)
{
    *loop = (struct loop){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (loop->wake_fd < 0)
        return false;
    pthread_mutex_init(&loop->lock, NULL);
    pthread_cond_init(&loop->guest_left, NULL);
    loop->end = &loop->first;
    TAILQ_INIT(&loop->sources);
    return true;
}

void loop_fini(struct loop *loop)
{
    pthread_cond_destroy(&loop->guest_left);
    pthread_mutex_destroy(&loop->lock);
    close(loop->wake_fd);
    heap_free(&loop->timers);
}

static void wake(struct loop *loop)
{
    if (loop->asleep) {
        loop->asleep = false;
        loop->woken = eventfd_write(loop->wake_fd, 1) == 0;
    }
}

void loop_post(struct loop *loop, loop_task *task)
{
    pthread_mutex_lock(&loop->lock);
    if (!loop->closed) {
        task->next = NULL;
        *loop->end = task;
        loop->end = &task->next;
    }
    wake(loop);
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

/* ---- guests ------------------------------------------------------------------- */

bool loop_enter(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool enters = loop->asleep && !loop->guest && !loop->first && !loop->closed;
    if (enters)
        loop->guest = loop->visited = true;
    pthread_mutex_unlock(&loop->lock);
    return enters;
}

/* Whether the loop thread sleeps as it would if it fell asleep now, or not for longer. */
static bool sleeps_well(const struct loop *loop)
{
    const loop_source *source;

    TAILQ_FOREACH(source, &loop->sources, in_list)
        if (source->looked != source->events)
            return false;
    return !loop->fewer && heap_next_ns(&loop->timers) >= loop->sleeps_until_ns;
}

void loop_leave(struct loop *loop, bool rouse)
{
    rouse = rouse || !sleeps_well(loop);
    pthread_mutex_lock(&loop->lock);
    loop->guest = false;
    if (rouse)
        wake(loop);
    pthread_cond_signal(&loop->guest_left); /* under the lock: then the loop may be gone */
    pthread_mutex_unlock(&loop->lock);
}

/* ---- the loop thread ------------------------------------------------------------ */

static nfds_t gather(struct loop *loop, struct pollfd *fds)
{
    loop_source *source;
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = loop->wake_fd, .events = POLLIN};
    TAILQ_FOREACH(source, &loop->sources, in_list) {
        fds[n++] = (struct pollfd){.fd = source->fd, .events = source->events};
        source->looked = source->events;
    }
    loop->fewer = false;
    return n;
}

/* Waits while nothing is found, until `until_ns`. */
static int look(struct pollfd *fds, nfds_t n, uint64_t until_ns)
{
    int found;

    do {
        uint64_t now = until_ns == 0 || until_ns == CLOCK_NEVER ? 0 : lks_rpc_now_ns();
        uint64_t left = until_ns > now ? until_ns - now : 0;
        struct timespec timeout = clock_timespec(left);

        found = ppoll(fds, n, until_ns == CLOCK_NEVER ? NULL : &timeout, NULL);
    } while (found < 0 && errno == EINTR);
    return found;
}

/* Of sources that a guest has added or taken away the next look tells. */
static void tell(struct loop *loop, const struct pollfd *fds, int found)
{
    loop_source *source;

    TAILQ_FOREACH(source, &loop->sources, in_list)
        source->found = found > 0 && !loop->fewer && source->looked != UNKNOWN ? (++fds)->revents : 0;
}

loop_task *loop_wait(struct loop *loop, uint64_t until_ns)
{
    struct pollfd fds[1 + LOOP_SOURCES_MAX];
    eventfd_t count;
    int found = 0;

    if (loop->visited && until_ns != 0) {
        uint64_t soon_ns = clock_in_ms(VISITED_MS);
        until_ns = until_ns < soon_ns ? until_ns : soon_ns;
    }
    loop->visited = false;
    loop->sleeps_until_ns = until_ns;
    nfds_t n = gather(loop, fds);
    pthread_mutex_lock(&loop->lock);
    bool empty = !loop->first;
    loop->asleep = empty && until_ns != 0;
    pthread_mutex_unlock(&loop->lock);
    if (empty || n > 1)
        found = look(fds, n, empty ? until_ns : 0);
    pthread_mutex_lock(&loop->lock);
    while (loop->guest)
        pthread_cond_wait(&loop->guest_left, &loop->lock);
    if (loop->woken)
        eventfd_read(loop->wake_fd, &count);
    loop->asleep = loop->woken = false;
    loop_task *tasks = loop->first;
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    tell(loop, fds, found);
    return tasks;
}

bool loop_watch(struct loop *loop, loop_source *source)
{
    if (loop->n_sources == LOOP_SOURCES_MAX)
        return false;
    source->found = 0;
    source->looked = UNKNOWN;
    TAILQ_INSERT_TAIL(&loop->sources, source, in_list);
    loop->n_sources++;
    return true;
}

void loop_unwatch(struct loop *loop, loop_source *source)
{
    TAILQ_REMOVE(&loop->sources, source, in_list);
    loop->n_sources--;
    loop->fewer = true;
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

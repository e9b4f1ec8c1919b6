/* Invariants: `end` points at the last task's `next`, or at `first` when there is none. wake_fd is written once for
 * each sleep of the loop thread, at most. The loop thread and a borrower never run at the same time: the loop thread
 * does not leave loop_wait while there is a borrower, except for one that waits in loop_wait_for_source. From that
 * borrower it reclaims the loop, and the borrower then only takes the lock once more.
 *
 * wake_fd is edge-triggered for the loop thread, which need not read it, and level-triggered for a borrower. */
#include "client/loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    /* The longest sleep of the loop thread while borrowers come, so that it need not wake for their timers. */
    BORROWERS_MS = 1000,
    BORROWER_WAIT_MS = 1000, /* how long a borrower waits; for slower answers one more thread switch does not matter */
    EVENTS_MAX = 64
};

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP, "one set");

static bool control_epoll(const struct loop *loop, int operation, loop_source *source, short events)
{
    struct epoll_event event = {.events = (uint32_t)events, .data.ptr = source};

    return epoll_ctl(loop->epoll_fd, operation, source->fd, &event) == 0;
}

bool loop_init(struct loop *loop)
{
    struct epoll_event wakes = {.events = EPOLLIN | EPOLLET};

    *loop = (struct loop){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (loop->wake_fd < 0 || loop->epoll_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &wakes) != 0) {
        close(loop->wake_fd);
        close(loop->epoll_fd);
        return false;
    }
    pthread_mutex_init(&loop->lock, NULL);
    pthread_cond_init(&loop->borrower_left, NULL);
    loop->end = &loop->first;
    TAILQ_INIT(&loop->sources);
    return true;
}

void loop_fini(struct loop *loop)
{
    pthread_cond_destroy(&loop->borrower_left);
    pthread_mutex_destroy(&loop->lock);
    close(loop->wake_fd);
    close(loop->epoll_fd);
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

void loop_close(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->closed = true;
    while (loop->waiting)
        pthread_cond_wait(&loop->borrower_left, &loop->lock);
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
}

/* ---- borrowers ------------------------------------------------------------------- */

bool loop_enter(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool enters = loop->asleep && !loop->borrower && !loop->first && !loop->closed;
    if (enters)
        loop->borrower = loop->borrowers_came = true;
    pthread_mutex_unlock(&loop->lock);
    if (enters)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &loop->cancel_state);
    return enters;
}

/* The next borrower probably waits for the same source, so the source is given back only when needed. */
static void take(struct loop *loop, loop_source *source)
{
    if (loop->taken == source)
        return;
    loop_give_back(loop);
    loop->taken = source;
    control_epoll(loop, EPOLL_CTL_MOD, source, POLLRDHUP);
}

void loop_give_back(struct loop *loop)
{
    loop_source *source = loop->taken;

    if (!source)
        return;
    loop->taken = NULL;
    control_epoll(loop, EPOLL_CTL_MOD, source, source->events);
}

/* Returns false if the loop thread is needed, or an earlier borrower has not noticed yet that its loop was
 * reclaimed. */
static bool begin_wait(struct loop *loop, loop_source *source)
{
    eventfd_t count;

    pthread_mutex_lock(&loop->lock);
    bool waits = loop->asleep && !loop->waiting;
    if (waits && loop->woken)
        loop->woken = eventfd_read(loop->wake_fd, &count) != 0; /* left from the last time it was woken */
    if (waits) {
        take(loop, source);
        loop->waiting = true;
    }
    pthread_mutex_unlock(&loop->lock);
    return waits;
}

/* Returns false if the loop thread has reclaimed the loop, which may soon be freed. */
static bool end_wait(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool in = !loop->reclaimed;
    loop->waiting = loop->reclaimed = false;
    pthread_cond_signal(&loop->borrower_left);
    pthread_mutex_unlock(&loop->lock);
    return in;
}

static int await(struct pollfd fds[2], uint64_t until_ns)
{
    int found;

    do {
        uint64_t now_ns = clock_now_ns();
        struct timespec left = clock_timespec(until_ns > now_ns ? until_ns - now_ns : 0);

        found = ppoll(fds, 2, &left, NULL);
    } while (found < 0 && errno == EINTR);
    return found;
}

bool loop_wait_for_source(struct loop *loop, loop_source *source)
{
    uint64_t timer_ns = heap_next_ns(&loop->timers), long_ns = clock_in_ms(BORROWER_WAIT_MS);
    struct pollfd fds[] = {{.fd = loop->wake_fd, .events = POLLIN}, {.fd = source->fd, .events = source->events}};
    int found = 0, cancel_state = loop->cancel_state;

    if (begin_wait(loop, source)) {
        found = await(fds, timer_ns < long_ns ? timer_ns : long_ns);
        if (!end_wait(loop)) {
            pthread_setcancelstate(cancel_state, NULL);
            return false;
        }
    }
    if (found > 0 && fds[1].revents != 0) {
        source->ready(source, fds[1].revents);
        return true;
    }
    loop_give_back(loop);
    loop_leave(loop, false);
    return false;
}

void loop_leave(struct loop *loop, bool wake_thread)
{
    int cancel_state = loop->cancel_state;

    wake_thread = wake_thread || heap_next_ns(&loop->timers) < loop->sleeps_until_ns;
    pthread_mutex_lock(&loop->lock);
    loop->borrower = false;
    if (wake_thread)
        wake(loop);
    pthread_cond_signal(&loop->borrower_left); /* under the lock, because the loop may be freed afterwards */
    pthread_mutex_unlock(&loop->lock);
    pthread_setcancelstate(cancel_state, NULL);
}

/* ---- the loop thread ------------------------------------------------------------ */

/* Waits until there are events, but not longer than `until_ns`. */
static int poll_events(const struct loop *loop, struct epoll_event *events, uint64_t until_ns)
{
    int found;

    do {
        uint64_t now_ns = until_ns == 0 || until_ns == CLOCK_NEVER ? 0 : clock_now_ns();
        uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;

        found = epoll_wait(loop->epoll_fd, events, EVENTS_MAX,
                           until_ns == CLOCK_NEVER ? -1 : (int)(left_ms < INT_MAX ? left_ms : INT_MAX));
    } while (found < 0 && errno == EINTR);
    return found;
}

/* Reports nothing if a borrower has unwatched a source meanwhile: the next poll reports the other sources. */
static void note_found(const struct loop *loop, const struct epoll_event *events, int found)
{
    for (int i = 0; i < found && !loop->unwatched; i++) {
        loop_source *source = events[i].data.ptr;

        if (source)
            source->found = (short)events[i].events;
    }
}

/* While borrowers come, the loop thread wakes by itself before their timers would wake it. */
static uint64_t sleep_until(struct loop *loop, uint64_t until_ns)
{
    if (loop->borrowers_came)
        loop->borrowers_until_ns = clock_in_ms(BORROWERS_MS);
    loop->borrowers_came = false;
    return until_ns > loop->borrowers_until_ns && clock_now_ns() < loop->borrowers_until_ns ? loop->borrowers_until_ns
                                                                                            : until_ns;
}

/* Reclaims the loop from a borrower that waits. Does not wait for the borrower, which may not be scheduled for
 * long. */
static void take_back(struct loop *loop)
{
    if (!loop->borrower || !loop->waiting || loop->reclaimed)
        return;
    wake(loop);
    loop->reclaimed = true;
    loop->borrower = false;
}

loop_task *loop_wait(struct loop *loop, uint64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];

    loop->sleeps_until_ns = sleep_until(loop, until_ns);
    loop->unwatched = false;
    pthread_mutex_lock(&loop->lock);
    bool empty = !loop->first;
    loop->asleep = empty && until_ns != 0;
    pthread_mutex_unlock(&loop->lock);
    int found = poll_events(loop, events, empty ? loop->sleeps_until_ns : 0);
    pthread_mutex_lock(&loop->lock);
    take_back(loop);
    while (loop->borrower)
        pthread_cond_wait(&loop->borrower_left, &loop->lock);
    loop->asleep = false;
    loop_task *tasks = loop->first;
    loop->first = NULL;
    loop->end = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    loop_give_back(loop);
    note_found(loop, events, found);
    return tasks;
}

void loop_allow_borrowing(struct loop *loop)
{
    loop->sleeps_until_ns = heap_next_ns(&loop->timers);
    pthread_mutex_lock(&loop->lock);
    loop->asleep = true;
    if (loop->first)
        wake(loop);
    pthread_mutex_unlock(&loop->lock);
}

void loop_resume(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    while (loop->borrower)
        pthread_cond_wait(&loop->borrower_left, &loop->lock);
    loop->asleep = false;
    pthread_mutex_unlock(&loop->lock);
}

bool loop_watch(struct loop *loop, loop_source *source)
{
    if (!control_epoll(loop, EPOLL_CTL_ADD, source, source->events))
        return false;
    source->found = 0;
    TAILQ_INSERT_TAIL(&loop->sources, source, in_list);
    return true;
}

void loop_set_events(struct loop *loop, loop_source *source, short events)
{
    if (source->events == events)
        return;
    source->events = events;
    if (source != loop->taken)
        control_epoll(loop, EPOLL_CTL_MOD, source, events);
}

void loop_unwatch(struct loop *loop, loop_source *source)
{
    if (source == loop->taken)
        loop->taken = NULL;
    control_epoll(loop, EPOLL_CTL_DEL, source, 0);
    TAILQ_REMOVE(&loop->sources, source, in_list);
    loop->unwatched = true;
}

/* Starts from the first source again after each callback, because it may unwatch other sources. */
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

/* Invariant: `end` points at the last item's `next`, or at `first` when empty; wake_fd is
 * written to only while the driver sleeps, once. */
#include "inbox.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

bool inbox_init(struct inbox *inbox)
{
    *inbox = (struct inbox){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (inbox->wake_fd < 0)
        return false;
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->end = &inbox->first;
    TAILQ_INIT(&inbox->sources);
    return true;
}

void inbox_fini(struct inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
    close(inbox->wake_fd);
}

void inbox_push(struct inbox *inbox, inbox_item *item)
{
    pthread_mutex_lock(&inbox->lock);
    if (!inbox->closed) {
        item->next = NULL;
        *inbox->end = item;
        inbox->end = &item->next;
    }
    if (inbox->asleep) {
        inbox->asleep = false;
        inbox->woken = eventfd_write(inbox->wake_fd, 1) == 0;
    }
    pthread_mutex_unlock(&inbox->lock);
}

void inbox_raise(struct inbox *inbox, inbox_signal *signal)
{
    if (!atomic_exchange(&signal->raised, true))
        inbox_push(inbox, &signal->item);
}

void inbox_lower(inbox_signal *signal)
{
    atomic_store(&signal->raised, false);
}

void inbox_close(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
}

/* Looks at wake_fd and all sources; waits while nothing is found, until `until_ns`. */
static void look(struct inbox *inbox, uint64_t until_ns)
{
    struct pollfd fds[1 + INBOX_SOURCES_MAX] = {{.fd = inbox->wake_fd, .events = POLLIN}};
    inbox_source *source;
    nfds_t n = 1;
    int found;

    TAILQ_FOREACH(source, &inbox->sources, in_list)
        fds[n++] = (struct pollfd){.fd = source->fd, .events = source->events};
    do {
        uint64_t now = until_ns == 0 || until_ns == CLOCK_NEVER ? 0 : clock_now_ns();
        uint64_t left = until_ns > now ? until_ns - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};

        found = ppoll(fds, n, until_ns == CLOCK_NEVER ? NULL : &timeout, NULL);
    } while (found < 0 && errno == EINTR);
    n = 1;
    TAILQ_FOREACH(source, &inbox->sources, in_list)
        source->found = found > 0 ? fds[n++].revents : 0;
}

inbox_item *inbox_take(struct inbox *inbox, uint64_t until_ns)
{
    eventfd_t count;

    pthread_mutex_lock(&inbox->lock);
    bool empty = inbox->first == NULL;
    inbox->asleep = empty && until_ns != 0;
    pthread_mutex_unlock(&inbox->lock);
    if (empty || inbox->n_sources != 0)
        look(inbox, empty ? until_ns : 0);
    pthread_mutex_lock(&inbox->lock);
    if (inbox->woken)
        eventfd_read(inbox->wake_fd, &count);
    inbox->asleep = inbox->woken = false;
    inbox_item *items = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    pthread_mutex_unlock(&inbox->lock);
    return items;
}

bool inbox_watch(struct inbox *inbox, inbox_source *source)
{
    if (inbox->n_sources == INBOX_SOURCES_MAX)
        return false;
    source->found = 0;
    TAILQ_INSERT_TAIL(&inbox->sources, source, in_list);
    inbox->n_sources++;
    return true;
}

void inbox_unwatch(struct inbox *inbox, inbox_source *source)
{
    TAILQ_REMOVE(&inbox->sources, source, in_list);
    inbox->n_sources--;
}

/* From the first again after each: one may take others away. */
void inbox_run_ready(struct inbox *inbox)
{
    inbox_source *source;

    do {
        TAILQ_FOREACH(source, &inbox->sources, in_list)
            if (source->found != 0)
                break;
        if (source != NULL) {
            short found = source->found;
            source->found = 0;
            source->ready(source, found);
        }
    } while (source != NULL);
}

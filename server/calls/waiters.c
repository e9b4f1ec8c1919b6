/* Invariant: a waiter is in the list, in the table by its key and among the deadlines,
 * and watches its alarms, from waiters_enter to waiters_leave. One timer serves all
 * deadlines. */
#include "calls/waiters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "memory.h"
#include "net/loop_timers.h"

struct waiters {
    alarms *alarms;
    key_table by_key;
    TAILQ_HEAD(, waiter) waiters;
    struct loop_timers deadlines;
    bool stopping;
    void (*closed)(void *arg);
    void *arg;
};

/* ---- waiters ------------------------------------------------------------------ */

static void tell(waiter *w, service_event event)
{
    if (w->parked) {
        w->parked = false;
        w->on_event(w, event);
    } else {
        w->pending |= 1U << event;
    }
}

static void run_deadline(struct timer *timer)
{
    tell((waiter *)((char *)timer - offsetof(waiter, deadline)), SERVICE_DEADLINE);
}

void waiters_enter(waiters *all, waiter *w, service_watch *watches, uint64_t deadline_ns)
{
    w->watches = alarms_watch(all->alarms, watches);
    key_table_add(&all->by_key, &w->by_key);
    w->registered = true;
    TAILQ_INSERT_TAIL(&all->waiters, w, in_all);
    if (all->stopping)
        w->pending = 1U << SERVICE_STOPPING;
    w->deadline.due = run_deadline;
    memory_reserve_timers(&all->deadlines.heap, all->deadlines.heap.n + 1);
    loop_timers_set(&all->deadlines, &w->deadline, deadline_ns);
}

void waiters_leave(waiters *all, waiter *w)
{
    if (!w->registered)
        return;
    w->registered = false;
    free(waiters_take_reply(w));
    key_table_remove(&all->by_key, &w->by_key);
    TAILQ_REMOVE(&all->waiters, w, in_all);
    heap_clear(&all->deadlines.heap, &w->deadline);
    alarms_unwatch(all->alarms, w->watches);
}

char *waiters_take_reply(waiter *w)
{
    char *reply = w->reply;

    w->reply = NULL;
    return reply;
}

void waiters_moved(waiter *w, lks_rpc_slice key, watched *watches)
{
    w->by_key.key = key;
    w->watches = watches;
}

bool waiters_any(const waiters *all)
{
    return !TAILQ_EMPTY(&all->waiters);
}

/* The gravest first: service_event's order. */
static bool take_pending(waiter *w, service_event *event)
{
    for (int e = 0; e < SERVICE_N_EVENTS; e++) {
        if (w->pending & (1U << e)) {
            w->pending &= ~(1U << e);
            *event = (service_event)e;
            return true;
        }
    }
    return false;
}

bool waiters_park(waiters *all, waiter *w, service_event *event)
{
    (void)all;
    w->parked = !take_pending(w, event);
    return !w->parked;
}

/* An event may end any waiter, so the list is walked by moving each told one to
 * its end, for as many as there were. */
static void tell_all(waiters *all, service_event event)
{
    size_t n = 0;
    waiter *w;

    for (w = TAILQ_FIRST(&all->waiters); w; w = TAILQ_NEXT(w, in_all))
        n++;
    for (; n > 0 && (w = TAILQ_FIRST(&all->waiters)); n--) {
        TAILQ_REMOVE(&all->waiters, w, in_all);
        TAILQ_INSERT_TAIL(&all->waiters, w, in_all);
        tell(w, event);
    }
}

void waiters_missed(waiters *all)
{
    tell_all(all, SERVICE_WOKEN);
}

void waiters_abandon(waiters *all, waiter *w)
{
    (void)all;
    if (w->registered)
        tell(w, SERVICE_ABANDONED);
}

void waiters_stop(waiters *all)
{
    all->stopping = true;
    tell_all(all, SERVICE_STOPPING);
}

/* Whether anybody waits with the key. One that is BUSY asks anew: what it asks now may be older than the reply. */
static bool wake_key(waiters *all, lks_rpc_slice key, lks_rpc_slice reply)
{
    keyed *k = key_table_find(&all->by_key, key), *next;
    bool any = k;

    /* Several, where a caller sent the same call again: each is answered. */
    for (; k; k = next) {
        waiter *w = (waiter *)((char *)k - offsetof(waiter, by_key));
        next = key_table_next(k);
        if (w->parked && reply.len > 0) {
            w->reply = memory_alloc(reply.len + 1);
            memcpy(w->reply, reply.data, reply.len);
        }
        tell(w, SERVICE_WOKEN);
    }
    return any;
}

/* ---- messages ----------------------------------------------------------------- */

/* Cuts the next word off; "" when there is none. */
static lks_rpc_slice word(lks_rpc_slice *rest)
{
    const char *space = memchr(rest->data, ' ', rest->len);
    size_t len = space ? (size_t)(space - rest->data) : rest->len;
    lks_rpc_slice first = {.data = rest->data, .len = len};

    rest->data += len + !!space;
    rest->len -= len + !!space;
    return first;
}

/* False: it does not fit. */
static bool text_of(char *text, size_t bytes, lks_rpc_slice slice)
{
    return slice.len < bytes && snprintf(text, bytes, "%.*s", (int)slice.len, slice.data) >= 0;
}

void waiters_message(waiters *all, const char *data, size_t len)
{
    lks_rpc_slice rest = {.data = data, .len = len};
    lks_rpc_slice kind = word(&rest);
    char number[24], name[64];

    if (kind.len != 1)
        return;
    if (*kind.data == 'W') {
        wake_key(all, rest, (lks_rpc_slice){.len = 0});
    } else if (*kind.data == 'A') {
        lks_rpc_slice ms = word(&rest), base = word(&rest), function = word(&rest);
        if (text_of(number, sizeof number, ms) && text_of(name, sizeof name, function))
            alarms_set(all->alarms, base, name, rest, strtoll(number, NULL, 10));
    } else if (*kind.data == 'R') {
        lks_rpc_slice reply = word(&rest), key = word(&rest), base = word(&rest), function = word(&rest);
        if (text_of(name, sizeof name, function) && !wake_key(all, key, reply))
            alarms_set_lasting(all->alarms, base, name, rest, 0);
    }
}

/* ---- beginning and end ---------------------------------------------------------- */

waiters *waiters_new(uv_loop_t *loop, alarms *asked)
{
    waiters *all = memory_alloc(sizeof *all);

    all->alarms = asked;
    TAILQ_INIT(&all->waiters);
    loop_timers_init(&all->deadlines, loop, all);
    return all;
}

static void on_timer_closed(uv_handle_t *handle)
{
    waiters *all = handle->data;
    void (*closed)(void *arg) = all->closed;
    void *arg = all->arg;

    heap_free(&all->deadlines.heap);
    key_table_clear(&all->by_key);
    free(all);
    closed(arg);
}

void waiters_close(waiters *all, void (*closed)(void *arg), void *arg)
{
    all->closed = closed;
    all->arg = arg;
    uv_close((uv_handle_t *)&all->deadlines.uv, on_timer_closed);
}

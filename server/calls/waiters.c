/* Invariant: from waiters_enter to waiters_leave a waiter is in the list, in the table by its key and among the
 * deadlines, and watches its alarms. One timer serves all deadlines. */
#include "calls/waiters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/container.h"
#include "memory.h"
#include "net/close_barrier.h"
#include "net/loop_timers.h"

struct waiters {
    alarms *alarms;
    waiter *by_key; /* uthash */
    TAILQ_HEAD(, waiter) waiters;
    struct loop_timers deadlines;
    bool stopping;
    close_barrier closing;
};

/* ---- waiters ------------------------------------------------------------------ */

static void send_kind(waiter *w, service_event_kind kind)
{
    w->on_event(w, (service_event){.kind = kind});
}

static void on_deadline(struct timer *timer)
{
    send_kind(container_of(timer, waiter, deadline), SERVICE_WAIT_OVER);
}

void waiters_enter(waiters *all, waiter *w, lks_rpc_slice key, service_watch *watches, uint64_t deadline_ns)
{
    w->watches = alarms_watch(all->alarms, watches);
    HASH_ADD_KEYPTR(hh, all->by_key, key.data, key.len, w);
    w->registered = true;
    TAILQ_INSERT_TAIL(&all->waiters, w, in_all);
    w->deadline.due = on_deadline;
    memory_reserve_timers(&all->deadlines.heap, all->deadlines.heap.n + 1);
    loop_timers_set(&all->deadlines, &w->deadline, deadline_ns);
    if (all->stopping)
        send_kind(w, SERVICE_STOPPING);
}

void waiters_leave(waiters *all, waiter *w)
{
    if (!w->registered)
        return;
    w->registered = false;
    HASH_DELETE(hh, all->by_key, w);
    TAILQ_REMOVE(&all->waiters, w, in_all);
    heap_clear(&all->deadlines.heap, &w->deadline);
    alarms_unwatch(all->alarms, w->watches);
}

void waiters_moved(waiter *w, const char *key, watched *watches)
{
    w->hh.key = key;
    w->watches = watches;
}

/* An event may end any waiter, so each waiter moves to the end of the list before it gets the event. */
static void send_all(waiters *all, service_event_kind kind)
{
    size_t n = 0;
    waiter *w;

    TAILQ_FOREACH(w, &all->waiters, in_all)
        n++;
    for (; n > 0 && (w = TAILQ_FIRST(&all->waiters)); n--) {
        TAILQ_REMOVE(&all->waiters, w, in_all);
        TAILQ_INSERT_TAIL(&all->waiters, w, in_all);
        send_kind(w, kind);
    }
}

void waiters_missed(waiters *all)
{
    send_all(all, SERVICE_WOKEN);
}

void waiters_stop(waiters *all)
{
    all->stopping = true;
    send_all(all, SERVICE_STOPPING);
}

/* The next waiter of the same key. */
static waiter *next_of_key(const waiter *w)
{
    for (const UT_hash_handle *h = w->hh.hh_next; h; h = h->hh_next)
        if (h->hashv == w->hh.hashv && h->keylen == w->hh.keylen && memcmp(h->key, w->hh.key, h->keylen) == 0)
            return container_of(h, waiter, hh);
    return NULL;
}

/* Several waiters have one key when a caller repeated a call. Returns false if no waiter has the key. */
static bool send_to_key(waiters *all, lks_rpc_slice key, service_event event)
{
    waiter *w, *next;

    HASH_FIND(hh, all->by_key, key.data, key.len, w);
    bool any = w;
    for (; w; w = next) {
        next = next_of_key(w);
        w->on_event(w, event);
    }
    return any;
}

/* ---- messages ----------------------------------------------------------------- */

/* Cuts off and returns the next word; "" at the end. */
static lks_rpc_slice word(lks_rpc_slice *rest)
{
    const char *space = memchr(rest->data, ' ', rest->len);
    size_t len = space ? (size_t)(space - rest->data) : rest->len;
    lks_rpc_slice first = {.data = rest->data, .len = len};

    rest->data += len + !!space;
    rest->len -= len + !!space;
    return first;
}

/* Returns false if it does not fit. */
static bool text_of(char *text, size_t bytes, lks_rpc_slice slice)
{
    return slice.len < bytes && snprintf(text, bytes, "%.*s", (int)slice.len, slice.data) >= 0;
}

/* Parses "<number>[,<number>...]"; drops the numbers that do not fit. */
static uint32_t numbers_of(lks_rpc_slice text, int64_t numbers[SERVICE_TARGETS_MAX])
{
    const char *end = text.data + text.len;
    uint32_t n = 0;

    for (const char *c = text.data; c < end && n < SERVICE_TARGETS_MAX; c++) {
        char *after;
        numbers[n++] = strtoll(c, &after, 10);
        c = after;
    }
    return n;
}

static void set_releaser(waiters *all, lks_rpc_slice key, lks_rpc_slice trace)
{
    waiter *w;

    HASH_FIND(hh, all->by_key, key.data, key.len, w);
    for (; w; w = next_of_key(w))
        if (w->released_by)
            trace_context_read(trace.data, trace.len, w->released_by);
}

void waiters_message(waiters *all, const char *data, size_t len)
{
    lks_rpc_slice rest = {.data = data, .len = len};
    lks_rpc_slice kind = word(&rest);
    char number[24], name[64];

    if (kind.len != 1)
        return;
    if (*kind.data == 'W') {
        send_to_key(all, rest, (service_event){.kind = SERVICE_WOKEN});
    } else if (*kind.data == 'T') {
        lks_rpc_slice trace = word(&rest);
        set_releaser(all, rest, trace);
    } else if (*kind.data == 'A') {
        lks_rpc_slice ms = word(&rest), base = word(&rest), function = word(&rest);
        if (text_of(number, sizeof number, ms) && text_of(name, sizeof name, function))
            alarms_set(
                all->alarms,
                &(service_alarm){.base = base, .function = name, .argument = rest, .in_ms = strtoll(number, NULL, 10)});
    } else if (*kind.data == 'R') {
        int64_t numbers[SERVICE_TARGETS_MAX];
        uint32_t n = numbers_of(word(&rest), numbers);
        lks_rpc_slice key = word(&rest), base = word(&rest), function = word(&rest);
        if (text_of(name, sizeof name, function) &&
            !send_to_key(all, key, (service_event){SERVICE_GRANTED, n, numbers, .to = rest}))
            alarms_set(all->alarms,
                       &(service_alarm){.base = base, .function = name, .argument = rest, .lasting = true});
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

static void release(void *owner)
{
    waiters *all = owner;

    heap_free(&all->deadlines.heap);
    free(all);
}

void waiters_close(waiters *all, void (*closed)(void *arg), void *arg)
{
    close_barrier_handle(&all->closing, &all->deadlines.uv);
    close_barrier_begin(&all->closing, all, release, closed, arg);
}

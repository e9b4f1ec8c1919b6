/* Invariant: a room exists exactly while a waiter of its base is registered or it has
 * a chore, and owns that base's alarms; so nothing but chores is asked of the store when
 * nobody waits. One timer serves all deadlines and alarms. */
#include "waiters.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <uv.h>

enum { ALARM_TIMEOUT_MS = 5000, ALARM_RETRY_MS = 500, ALARM_WEIGHT = 32, CHORES_MAX = 65536 };

typedef struct room room;

typedef struct alarm_clock {
    wake when;
    waiters *all;
    room *room; /* NULL: the room went while the store was being asked */
    bool lasting; /* a chore */
    bool asking;
    bool again; /* its moment came while asking */
    char *base, *function, *argument; /* copies: the room may go while the store is asked */
    store_call call;
    lks_rpc_slice args[1];
    TAILQ_ENTRY(alarm_clock) in_room;
    TAILQ_ENTRY(alarm_clock) in_chores;
} alarm_clock;

struct room {
    lks_rpc_slice base; /* its own copy */
    TAILQ_HEAD(, waiter) waiters;
    TAILQ_HEAD(, alarm_clock) alarms;
};

struct waiters {
    uv_loop_t *loop;
    store *store;
    void *rooms; /* tsearch, by base */
    TAILQ_HEAD(, waiter) waiters;
    TAILQ_HEAD(, alarm_clock) chores;
    size_t n_chores;
    wakes deadlines, alarms;
    uv_timer_t timer;
    bool stopping;
    void (*closed)(void *arg);
    void *arg;
};

static void arm_timer(waiters *all);

/* ---- rooms -------------------------------------------------------------------- */

static int compare_bases(const void *a, const void *b)
{
    const lks_rpc_slice *x = a, *y = b;
    int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static room *find_room(waiters *all, lks_rpc_slice base)
{
    void *found = tfind(&base, &all->rooms, compare_bases);
    return found ? *(room **)found : NULL;
}

/* The room of a base, made when there is none; NULL when out of memory. */
static room *enter_room(waiters *all, lks_rpc_slice base)
{
    room *r = find_room(all, base);
    if (r)
        return r;
    r = malloc(sizeof *r + base.len);
    if (!r)
        return NULL;
    *r = (room){.base = {.data = (char *)(r + 1), .len = base.len}};
    memcpy(r + 1, base.data, base.len);
    TAILQ_INIT(&r->waiters);
    TAILQ_INIT(&r->alarms);
    if (!tsearch(r, &all->rooms, compare_bases)) {
        free(r);
        return NULL;
    }
    return r;
}

static void free_alarm(alarm_clock *a)
{
    free(a->base);
    free(a->function);
    free(a->argument);
    free(a);
}

/* Ends what nobody wants any more, the room too when that is all of it. */
static void leave_room(waiters *all, room *r)
{
    alarm_clock *next;

    if (!TAILQ_EMPTY(&r->waiters))
        return;
    for (alarm_clock *a = TAILQ_FIRST(&r->alarms); a; a = next) {
        next = TAILQ_NEXT(a, in_room);
        if (a->lasting)
            continue;
        TAILQ_REMOVE(&r->alarms, a, in_room);
        wakes_remove(&all->alarms, &a->when);
        a->room = NULL;
        if (!a->asking)
            free_alarm(a);
    }
    if (!TAILQ_EMPTY(&r->alarms))
        return;
    tdelete(r, &all->rooms, compare_bases);
    free(r);
}

/* It is an alarm like any other from now on, and goes when nobody waits. */
static void end_chore(waiters *all, alarm_clock *a)
{
    a->lasting = false;
    TAILQ_REMOVE(&all->chores, a, in_chores);
    all->n_chores--;
    leave_room(all, a->room);
}

/* The base a key begins with. */
static lks_rpc_slice base_of(lks_rpc_slice key)
{
    const char *end = memmem(key.data, key.len, "}:", 2);
    return (lks_rpc_slice){.data = key.data, .len = end ? (size_t)(end - key.data) + 2 : key.len};
}

/* ---- waiters ------------------------------------------------------------------ */

bool waiters_enter(waiters *all, waiter *w, uint64_t deadline_ns)
{
    room *r = enter_room(all, base_of(w->key));
    if (!r)
        return false;
    w->room = r;
    TAILQ_INSERT_TAIL(&r->waiters, w, in_room);
    TAILQ_INSERT_TAIL(&all->waiters, w, in_all);
    if (all->stopping)
        w->pending = 1U << SERVICE_STOPPING;
    wakes_set(&all->deadlines, &w->deadline, deadline_ns);
    arm_timer(all);
    return true;
}

void waiters_leave(waiters *all, waiter *w)
{
    room *r = w->room;
    if (!r)
        return;
    w->room = NULL;
    TAILQ_REMOVE(&r->waiters, w, in_room);
    TAILQ_REMOVE(&all->waiters, w, in_all);
    wakes_remove(&all->deadlines, &w->deadline);
    leave_room(all, r);
    arm_timer(all);
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

static void tell(waiter *w, service_event event)
{
    if (w->parked) {
        w->parked = false;
        w->on_event(w, event);
    } else {
        w->pending |= 1U << event;
    }
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
    if (w->room)
        tell(w, SERVICE_ABANDONED);
}

static void end_chores(waiters *all)
{
    alarm_clock *a;

    while ((a = TAILQ_FIRST(&all->chores)))
        end_chore(all, a);
}

void waiters_stop(waiters *all)
{
    all->stopping = true;
    end_chores(all);
    tell_all(all, SERVICE_STOPPING);
}

static void wake_key(waiters *all, lks_rpc_slice key)
{
    room *r = find_room(all, base_of(key));
    waiter *next;

    /* Several, where a caller sent the same call again: each is answered. */
    for (waiter *w = r ? TAILQ_FIRST(&r->waiters) : NULL; w; w = next) {
        next = TAILQ_NEXT(w, in_room);
        if (w->key.len == key.len && memcmp(w->key.data, key.data, key.len) == 0)
            tell(w, SERVICE_WOKEN);
    }
}

/* ---- alarms ------------------------------------------------------------------- */

static uint64_t in_ms_from_now(int64_t ms)
{
    return lks_rpc_now_ns() + (uint64_t)(ms > 0 ? ms : 0) * 1000000;
}

static void set_alarm(waiters *all, alarm_clock *a, uint64_t at_ns)
{
    if (a->when.place > 0 && a->when.at_ns <= at_ns)
        return;
    wakes_set(&all->alarms, &a->when, at_ns);
    arm_timer(all);
}

static void ring(waiters *all, alarm_clock *a);

static void on_alarm_reply(void *arg, const store_result *result)
{
    alarm_clock *a = arg;
    const store_value *v = result->value;
    bool ok = result->code == LKS_OK && v->type == STORE_ARRAY && v->n == 2 && v->element[1].type == STORE_INTEGER;
    int64_t again_ms = ok ? v->element[1].integer : ALARM_RETRY_MS;

    a->asking = false;
    if (!a->room)
        free_alarm(a);
    else if (a->again)
        ring(a->all, a);
    else if (again_ms >= 0)
        set_alarm(a->all, a, in_ms_from_now(again_ms));
    else if (a->lasting && a->when.place == 0)
        end_chore(a->all, a);
}

static void ring(waiters *all, alarm_clock *a)
{
    wakes_remove(&all->alarms, &a->when);
    a->again = a->asking;
    if (a->asking)
        return;
    a->asking = true;
    store_submit(all->store, &a->call, in_ms_from_now(ALARM_TIMEOUT_MS), on_alarm_reply, a);
}

static alarm_clock *find_alarm(room *r, const char *function, lks_rpc_slice argument)
{
    alarm_clock *a;
    for (a = TAILQ_FIRST(&r->alarms); a; a = TAILQ_NEXT(a, in_room)) {
        if (strcmp(a->function, function) == 0 && a->args[0].len == argument.len &&
            memcmp(a->argument, argument.data, argument.len) == 0)
            break;
    }
    return a;
}

/* A copy with a NUL. Not strndup: the address sanitizer wants text for that. */
static char *copy_slice(lks_rpc_slice slice)
{
    char *copy = malloc(slice.len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, slice.data, slice.len);
    copy[slice.len] = '\0';
    return copy;
}

static alarm_clock *add_alarm(waiters *all, room *r, const char *function, lks_rpc_slice argument)
{
    alarm_clock *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->base = copy_slice(r->base);
    a->function = strdup(function);
    a->argument = copy_slice(argument);
    if (!a->base || !a->function || !a->argument) {
        free_alarm(a);
        return NULL;
    }
    a->all = all;
    a->room = r;
    a->args[0] = (lks_rpc_slice){.data = a->argument, .len = argument.len};
    a->call = (store_call){.base = {.data = a->base, .len = r->base.len}, .function = a->function, .n_args = 1, .max_args = 1, .args = a->args,
                           .weight = ALARM_WEIGHT, .repeatable = true};
    TAILQ_INSERT_TAIL(&r->alarms, a, in_room);
    return a;
}

static alarm_clock *enter_alarm(waiters *all, room *r, const char *function, lks_rpc_slice argument)
{
    alarm_clock *a = find_alarm(r, function, argument);

    return a ? a : add_alarm(all, r, function, argument);
}

void waiters_alarm(waiters *all, lks_rpc_slice base, const char *function, lks_rpc_slice argument, int64_t in_ms)
{
    room *r = in_ms < 0 ? NULL : find_room(all, base);
    alarm_clock *a = r ? enter_alarm(all, r, function, argument) : NULL;

    if (a)
        set_alarm(all, a, in_ms_from_now(in_ms));
}

void waiters_chore(waiters *all, lks_rpc_slice base, const char *function, int64_t in_ms)
{
    bool wanted = in_ms >= 0 && !all->stopping && all->n_chores < CHORES_MAX;
    room *r = wanted ? enter_room(all, base) : NULL;
    alarm_clock *a = r ? enter_alarm(all, r, function, lks_rpc_slice_of("")) : NULL;

    if (a && !a->lasting) {
        a->lasting = true;
        TAILQ_INSERT_TAIL(&all->chores, a, in_chores);
        all->n_chores++;
    }
    if (a)
        set_alarm(all, a, in_ms_from_now(in_ms));
    else if (r)
        leave_room(all, r);
}

/* ---- messages ----------------------------------------------------------------- */

/* Cuts the next word off; "" when there is none. */
static lks_rpc_slice word(lks_rpc_slice *rest)
{
    const char *space = memchr(rest->data, ' ', rest->len);
    size_t len = space ? (size_t)(space - rest->data) : rest->len;
    lks_rpc_slice first = {.data = rest->data, .len = len};

    rest->data += len + (space != NULL);
    rest->len -= len + (space != NULL);
    return first;
}

void waiters_message(waiters *all, const char *data, size_t len)
{
    lks_rpc_slice rest = {.data = data, .len = len};
    lks_rpc_slice kind = word(&rest);
    char number[24], name[64];

    if (kind.len != 1)
        return;
    if (*kind.data == 'W') {
        wake_key(all, rest);
    } else if (*kind.data == 'A') {
        lks_rpc_slice ms = word(&rest), base = word(&rest), function = word(&rest);
        if (ms.len >= sizeof number || function.len >= sizeof name)
            return;
        snprintf(number, sizeof number, "%.*s", (int)ms.len, ms.data);
        snprintf(name, sizeof name, "%.*s", (int)function.len, function.data);
        waiters_alarm(all, base, name, rest, strtoll(number, NULL, 10));
    }
}

/* ---- the timer ---------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    waiters *all = timer->data;
    uint64_t now = lks_rpc_now_ns();
    wake *first;

    while ((first = wakes_first(&all->deadlines)) && first->at_ns <= now) {
        wakes_remove(&all->deadlines, first);
        tell((waiter *)((char *)first - offsetof(waiter, deadline)), SERVICE_DEADLINE);
    }
    while ((first = wakes_first(&all->alarms)) && first->at_ns <= now)
        ring(all, (alarm_clock *)((char *)first - offsetof(alarm_clock, when)));
    arm_timer(all);
}

static void arm_timer(waiters *all)
{
    const wake *a = wakes_first(&all->deadlines);
    const wake *b = wakes_first(&all->alarms);
    const wake *first = a && b ? (a->at_ns < b->at_ns ? a : b) : a ? a : b;

    if (!first) {
        uv_timer_stop(&all->timer);
        return;
    }
    uint64_t now = lks_rpc_now_ns();
    uint64_t left_ns = first->at_ns > now ? first->at_ns - now : 0;
    uv_update_time(all->loop);
    uv_timer_start(&all->timer, on_timer, (left_ns + 999999) / 1000000, 0);
}

lks_code waiters_new(uv_loop_t *loop, store *backing, waiters **ret, lks_error *error)
{
    waiters *all = calloc(1, sizeof *all);
    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    all->loop = loop;
    all->store = backing;
    TAILQ_INIT(&all->waiters);
    TAILQ_INIT(&all->chores);
    uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    *ret = all;
    return LKS_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    waiters *all = handle->data;
    void (*closed)(void *arg) = all->closed;
    void *arg = all->arg;

    wakes_clear(&all->deadlines);
    wakes_clear(&all->alarms);
    free(all);
    closed(arg);
}

void waiters_close(waiters *all, void (*closed)(void *arg), void *arg)
{
    all->closed = closed;
    all->arg = arg;
    end_chores(all);
    uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}

/* Invariant: an alarm is in the table while it is watched, is lasting, or has a store call under way. One timer serves
 * all alarms. At most ASKED_MAX store calls are under way; the other alarms that rang wait in `due`, in order, so that
 * these calls do not delay the calls of clients. */
#include "calls/alarms.h"

#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>
#include <uv.h>

#include "base/clock.h"
#include "base/container.h"
#include "hashed.h"
#include "memory.h"
#include "net/close_barrier.h"
#include "net/loop_timers.h"

enum {
    TIMEOUT_MS = 5000,
    RETRY_MS = 500,
    ALARM_WEIGHT = 32,
    ASKED_MAX = 256,
    LASTING_MAX = 262144,
    NAME_BYTES_MAX = 4096
};

typedef struct alarm_clock {
    UT_hash_handle hh; /* by `text` */
    struct timer when;
    alarms *all;
    struct question *asking; /* NULL: no store call is under way */
    uint32_t watchers;
    uint16_t base_len;
    bool lasting;
    bool again; /* it rang during its store call */
    bool is_due;
    TAILQ_ENTRY(alarm_clock) in_lasting, in_due;
    char text[]; /* base, function, NUL, argument; the call and the key point into it */
} alarm_clock;

/* The store call of an alarm, until the reply. */
typedef struct question {
    store_call call;
    lks_rpc_slice args[1];
} question;

struct alarms {
    store *store;
    alarm_clock *table; /* uthash */
    TAILQ_HEAD(, alarm_clock) lasting;
    size_t n_lasting;
    TAILQ_HEAD(, alarm_clock) due;
    size_t n_asked;
    struct loop_timers timers;
    bool stopping;
    void (*called)(void *arg, const store_call *call); /* NULL: none */
    void *called_arg;
    close_barrier closing;
};

/* ---- the table ---------------------------------------------------------------- */

/* Writes the table's key to `text`. Returns len 0 if it does not fit; such an alarm is not kept. */
static lks_rpc_slice name_of(char text[NAME_BYTES_MAX], lks_rpc_slice base, const char *function,
                             lks_rpc_slice argument)
{
    size_t function_len = strlen(function) + 1;
    size_t len = base.len + function_len + argument.len;

    if (len > NAME_BYTES_MAX)
        return (lks_rpc_slice){.data = text};
    memcpy(text, base.data, base.len);
    memcpy(text + base.len, function, function_len);
    memcpy(text + base.len + function_len, argument.data, argument.len);
    return (lks_rpc_slice){.data = text, .len = len};
}

static alarm_clock *find(const alarms *all, lks_rpc_slice name)
{
    alarm_clock *a = NULL;

    if (name.len > 0)
        HASH_FIND(hh, all->table, name.data, name.len, a);
    return a;
}

static void fire(alarm_clock *a);

static void run_due(struct timer *timer)
{
    fire(container_of(timer, alarm_clock, when));
}

static alarm_clock *add(alarms *all, lks_rpc_slice name, size_t base_len)
{
    alarm_clock *a = memory_alloc(sizeof *a + name.len);

    a->all = all;
    memcpy(a->text, name.data, name.len);
    a->base_len = (uint16_t)base_len;
    a->when.due = run_due;
    HASH_ADD_KEYPTR(hh, all->table, a->text, name.len, a);
    memory_reserve_timers(&all->timers.heap, HASH_COUNT(all->table));
    return a;
}

/* Finds or makes an alarm; NULL: its name is too long. */
static alarm_clock *enter(alarms *all, lks_rpc_slice base, const char *function, lks_rpc_slice argument)
{
    char text[NAME_BYTES_MAX];
    lks_rpc_slice name = name_of(text, base, function, argument);
    alarm_clock *a = find(all, name);

    return a || name.len == 0 ? a : add(all, name, base.len);
}

static void set_due(alarm_clock *a, bool due)
{
    if (a->is_due && !due)
        TAILQ_REMOVE(&a->all->due, a, in_due);
    else if (!a->is_due && due)
        TAILQ_INSERT_TAIL(&a->all->due, a, in_due);
    a->is_due = due;
}

/* Frees an alarm that is not watched, lasting, or in use. */
static void free_if_unused(alarm_clock *a)
{
    alarms *all = a->all;

    if (a->watchers > 0 || a->lasting)
        return;
    heap_clear(&all->timers.heap, &a->when);
    set_due(a, false);
    if (a->asking)
        return;
    HASH_DELETE(hh, all->table, a);
    free(a);
}

static void end_lasting(alarm_clock *a)
{
    alarms *all = a->all;

    a->lasting = false;
    TAILQ_REMOVE(&all->lasting, a, in_lasting);
    all->n_lasting--;
    free_if_unused(a);
}

/* ---- ringing ------------------------------------------------------------------ */

static uint64_t in_ms_from_now(int64_t ms)
{
    return clock_in_ms((uint64_t)(ms > 0 ? ms : 0));
}

static void set(alarm_clock *a, uint64_t at_ns)
{
    if (a->when.place > 0 && a->when.at_ns <= at_ns)
        return;
    loop_timers_set(&a->all->timers, &a->when, at_ns);
}

static bool is_transient(lks_code code)
{
    return code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED || code == LKS_RESOURCE_EXHAUSTED ||
           code == LKS_ABORTED;
}

/* Returns the number in the reply: ms until the alarm rings again, or -1. RETRY_MS if the reply has another form. */
static int64_t reply_of(const store_value *v)
{
    return v->type == STORE_ARRAY && v->n == 2 && v->element[1].type == STORE_INTEGER ? v->element[1].integer
                                                                                      : RETRY_MS;
}

/* Returns the ms until the alarm rings again by itself; -1: it does not. */
static int64_t again_in_ms(const alarm_clock *a, const store_result *result)
{
    if (result->code != LKS_OK)
        return is_transient(result->code) || !a->lasting ? RETRY_MS : -1;
    return reply_of(result->value);
}

static void ask_due(alarms *all);

static void on_reply(void *arg, const store_result *result)
{
    alarm_clock *a = arg;
    alarms *all = a->all;
    int64_t again_ms = again_in_ms(a, result);

    if (all->called)
        all->called(all->called_arg, &a->asking->call);
    free(a->asking);
    a->asking = NULL;
    all->n_asked--;
    if (a->watchers == 0 && !a->lasting)
        free_if_unused(a);
    else if (a->again)
        fire(a);
    else if (again_ms >= 0)
        set(a, in_ms_from_now(again_ms));
    else if (a->lasting && a->when.place == 0)
        end_lasting(a);
    ask_due(all);
}

static void fill_question(question *q, lks_rpc_slice base, const char *function, lks_rpc_slice argument,
                          unsigned weight)
{
    q->args[0] = argument;
    q->call = (store_call){
        .base = base, .function = function, .n_args = 1, .args = q->args, .weight = weight, .repeatable = true};
}

static question *new_question(const alarm_clock *a)
{
    question *q = memory_alloc(sizeof *q);
    const char *function = a->text + a->base_len;
    const char *argument = function + strlen(function) + 1;
    size_t argument_len = a->hh.keylen - (size_t)(argument - a->text);

    fill_question(q, (lks_rpc_slice){a->text, a->base_len}, function, (lks_rpc_slice){argument, argument_len},
                  ALARM_WEIGHT);
    return q;
}

static void ask_due(alarms *all)
{
    alarm_clock *a;

    while (!all->stopping && all->n_asked < ASKED_MAX && (a = TAILQ_FIRST(&all->due))) {
        set_due(a, false);
        all->n_asked++;
        a->asking = new_question(a);
        store_submit(all->store, &a->asking->call, in_ms_from_now(TIMEOUT_MS), on_reply, a);
    }
}

static void fire(alarm_clock *a)
{
    heap_clear(&a->all->timers.heap, &a->when);
    a->again = a->asking;
    if (a->asking)
        return;
    set_due(a, true);
    ask_due(a->all);
}

/* ---- what others call --------------------------------------------------------- */

watched *alarms_watch(alarms *all, service_watch *list)
{
    for (service_watch *w = list; w; w = w->next) {
        w->as =
            (watched){.next = w->next ? &w->next->as : NULL, .alarm = enter(all, w->base, w->function, w->argument)};
        if (w->as.alarm)
            w->as.alarm->watchers++;
    }
    return list ? &list->as : NULL;
}

void alarms_unwatch(alarms *all, watched *list)
{
    (void)all;
    for (watched *w = list; w; w = w->next) {
        if (!w->alarm)
            continue;
        w->alarm->watchers--;
        free_if_unused(w->alarm);
        w->alarm = NULL;
    }
}

static void set_watched(alarms *all, const service_alarm *what)
{
    char text[NAME_BYTES_MAX];
    alarm_clock *a = find(all, name_of(text, what->base, what->function, what->argument));

    if (a && (a->watchers > 0 || a->lasting))
        set(a, in_ms_from_now(what->in_ms));
}

static void set_lasting(alarms *all, const service_alarm *what)
{
    char text[NAME_BYTES_MAX];
    alarm_clock *a = find(all, name_of(text, what->base, what->function, what->argument));
    bool counts = a && a->lasting; /* an alarm that is lasting already may be set again even without room for more */

    if (all->stopping || (!counts && all->n_lasting >= LASTING_MAX))
        return;
    if (!a && !(a = enter(all, what->base, what->function, what->argument)))
        return;
    if (!counts) {
        a->lasting = true;
        TAILQ_INSERT_TAIL(&all->lasting, a, in_lasting);
        all->n_lasting++;
    }
    set(a, in_ms_from_now(what->in_ms));
}

void alarms_set(alarms *all, const service_alarm *what)
{
    if (what->in_ms >= 0)
        (what->lasting ? set_lasting : set_watched)(all, what);
}

typedef struct single_call {
    alarms *alarms;
    question question;
    void (*done)(void *arg, bool is_done);
    void *arg;
} single_call;

static void on_single_reply(void *arg, const store_result *result)
{
    single_call *c = arg;

    if (c->alarms->called)
        c->alarms->called(c->alarms->called_arg, &c->question.call);
    c->done(c->arg, result->code == LKS_OK && reply_of(result->value) < 0);
    free(c);
}

void alarms_call(alarms *all, const service_alarm *what, unsigned weight, void (*done)(void *arg, bool is_done),
                 void *arg)
{
    single_call *c = memory_alloc(sizeof *c);

    *c = (single_call){.alarms = all, .done = done, .arg = arg};
    fill_question(&c->question, what->base, what->function, what->argument, weight);
    store_submit(all->store, &c->question.call, in_ms_from_now(TIMEOUT_MS), on_single_reply, c);
}

void alarms_on_call(alarms *all, void (*called)(void *arg, const store_call *call), void *arg)
{
    all->called = called;
    all->called_arg = arg;
}

static void end_all_lasting(alarms *all)
{
    alarm_clock *a;

    while ((a = TAILQ_FIRST(&all->lasting)))
        end_lasting(a);
}

void alarms_stop(alarms *all)
{
    all->stopping = true;
    end_all_lasting(all);
}

alarms *alarms_new(uv_loop_t *loop, store *backing)
{
    alarms *all = memory_alloc(sizeof *all);

    all->store = backing;
    TAILQ_INIT(&all->lasting);
    TAILQ_INIT(&all->due);
    loop_timers_init(&all->timers, loop, all);
    return all;
}

static void release(void *owner)
{
    alarms *all = owner;

    heap_free(&all->timers.heap);
    free(all);
}

void alarms_close(alarms *all, void (*closed)(void *arg), void *arg)
{
    end_all_lasting(all);
    close_barrier_handle(&all->closing, &all->timers.uv);
    close_barrier_begin(&all->closing, all, release, closed, arg);
}

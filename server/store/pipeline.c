/* Invariant: a submitted call ends exactly once, and never inside pipeline_submit. NO only if no byte of it can have
 * reached Redis, or Redis refused it before running it.
 *
 *   submit --> QUEUED --turn--> OUT --reply--> done
 *      |        ^  |             | \--deadline--> ABANDONED (done, MAYBE) --reply, loss--> freed
 *      |        |  |             |
 *      |        |  |             +-- lost: unsent, or repeatable --> QUEUED, else done, MAYBE
 *      |        |  |             +-- function missing, once --> QUEUED (held until it is loaded)
 *      |        |  |             +-- READONLY, TRYAGAIN... --> PAUSED --moment over--> QUEUED
 *      |        |  |             +-- MOVED --> QUEUED, there
 *      |        |  \--deadline, or 1 s without a connection--> done (NO; MAYBE if it was OUT and lost)
 *      \--no room--> REFUSED --next turn--> done, NO
 *
 * A call that is QUEUED again goes to the pipeline that `route` names then. */
#include "store/pipeline.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "base/clock.h"
#include "base/container.h"
#include "net/close_barrier.h"
#include "net/loop_timers.h"
#include "store/batch.h"
#include "store/confirm.h"
#include "store/errors.h"
#include "store/fcall.h"
#include "store/value.h"

enum {
    GRACE_MS = 1000,
    PAUSE_MS = 50,
    FCALLS_ENOUGH = 2, /* FCALLs under way after which calls wait to fill the next. 1 for a node of Redis Cluster: it
                        * gets fewer calls, and small FCALLs cost most */
    MOVES_AT_ONCE = 3, /* after this many, each waits for a pause: nodes may not agree yet */
    BYTES_MAX = 64 * 1024 * 1024,
    CALL_BYTES = 128,
};

/* DOWN --pipeline_up--> UP --a function is missing--> LOADING --pipeline_resume--> UP; pipeline_down leads from both to
 * DOWN, pipeline_close from each to ENDED. Calls are sent in UP. Only set_state() changes it. */
typedef enum pipeline_state { DOWN, UP, LOADING, ENDED } pipeline_state;

struct pipeline {
    pipeline_options options;
    pipeline_state state;
    connection *link;      /* in UP and LOADING */
    const char *base;      /* base of keys on its node of Redis Cluster; NULL: no cluster */
    bool logged_forbidden; /* logged since pipeline_up */
    kept_fault fault;      /* why it is DOWN */
    message_list messages; /* not confirmed, and no WAIT sent for them yet */
    bool asks_for_messages;
    pending_list queue;
    pending_list refused;
    struct loop_timers timers; /* of all calls except REFUSED and ABANDONED */
    size_t fcalls;             /* FCALLs and WAITs that wait for a reply */
    size_t in_flight;          /* all calls except REFUSED */
    size_t bytes;              /* of these calls */
    lks_rpc_arena *scratch;    /* for one sub-call's reply */
    uv_idle_t turn;            /* runs once before the loop sleeps */
    close_barrier barrier;
};

static void set_state(pipeline *p, pipeline_state to);
static void on_turn(uv_idle_t *turn);
static void pass_messages(pipeline *p, message_list *messages, bool enough);
static void run_due(struct timer *timer);

static bool has_link(const pipeline *p)
{
    return p->state == UP || p->state == LOADING;
}

/* ---- counts ---------------------------------------------------------------------- */

static void enter(pipeline *p, pending *c)
{
    c->pipeline = p;
    p->in_flight++;
    memory_reserve_timers(&p->timers.heap, p->in_flight);
    p->bytes += c->bytes;
}

static void leave(pipeline *p, pending *c)
{
    heap_clear(&p->timers.heap, &c->timer);
    p->in_flight--;
    p->bytes -= c->bytes;
}

/* ---- ends ---------------------------------------------------------------------- */

static void end(pipeline *p, pending *c, const store_result *result)
{
    store_done *done = c->done;
    void *arg = c->arg;

    if (c->phase != PENDING_REFUSED)
        leave(p, c);
    free(c);
    if (done)
        done(arg, result);
}

static void fail(pipeline *p, pending *c, lks_code code, lks_applied applied, uint32_t retry_after_ms,
                 store_fault fault)
{
    const store_result result = {.code = code,
                                 .applied = applied,
                                 .retry_after_ms = retry_after_ms,
                                 .reason = fault.reason,
                                 .message = fault.text};

    end(p, c, &result);
}

/* Reports the deadline; the reply is still expected. */
static void abandon(pipeline *p, pending *c)
{
    const store_result result = {
        .code = LKS_DEADLINE_EXCEEDED, .applied = LKS_APPLIED_MAYBE, .message = "the store did not answer in time"};
    store_done *done = c->done;

    heap_clear(&p->timers.heap, &c->timer);
    c->phase = PENDING_ABANDONED;
    c->done = NULL;
    done(c->arg, &result);
}

static lks_applied applied_if_lost(const pending *c)
{
    return c->may_have_run ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO;
}

/* ---- queue --------------------------------------------------------------------- */

/* Without a link a call waits 1 s for one. A call that may have taken effect waits until its deadline, because only a
 * repetition shows whether it did. */
static uint64_t wait_limit_ns(const pipeline *p, const pending *c)
{
    if (has_link(p) || c->may_have_run)
        return c->deadline_ns;
    uint64_t grace = clock_in_ms(GRACE_MS);
    return grace > c->deadline_ns ? c->deadline_ns : grace;
}

static pipeline *route(pipeline *p, const pending *c)
{
    pipeline *to = p->options.route(p->options.arg, &c->call);

    return to ? to : p;
}

static void enqueue(pipeline *from, pending *c)
{
    pipeline *p = route(from, c);

    if (p != from) {
        leave(from, c);
        enter(p, c);
        c->reloaded = false; /* each node loads its functions */
    }
    c->phase = PENDING_QUEUED;
    pending_push(&p->queue, c);
    loop_timers_set(&p->timers, &c->timer, wait_limit_ns(p, c));
    uv_idle_start(&p->turn, on_turn);
}

void pipeline_submit(pipeline *asked, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    pending *c = memory_alloc(sizeof *c);

    *c = (pending){.timer = {.due = run_due},
                   .call = *call,
                   .bytes = CALL_BYTES,
                   .deadline_ns = deadline_ns,
                   .done = done,
                   .arg = arg};
    for (size_t i = 0; i < call->n_args; i++)
        c->bytes += call->args[i].len;
    pipeline *p = c->pipeline = route(asked, c);
    if (p->state == ENDED || p->in_flight >= p->options.in_flight_max || p->bytes + c->bytes > BYTES_MAX) {
        c->phase = PENDING_REFUSED;
        pending_push(&p->refused, c);
        uv_idle_start(&p->turn, on_turn);
        return;
    }
    enter(p, c);
    enqueue(p, c);
}

void pipeline_reroute(pipeline *p)
{
    pending_list queue = p->queue;

    p->queue = (pending_list){0};
    for (pending *c; (c = pending_pop(&queue));)
        if (route(p, c) == p)
            pending_push(&p->queue, c);
        else
            enqueue(p, c);
}

static void end_refused(pipeline *p)
{
    pending_list refused = p->refused;

    p->refused = (pending_list){0};
    for (pending *c; (c = pending_pop(&refused));)
        if (p->state == ENDED)
            fail(p, c, LKS_UNAVAILABLE, LKS_APPLIED_NO, 0, STORE_FAULT(SHUTTING_DOWN, "the store is closing"));
        else
            fail(p, c, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 100,
                 STORE_FAULT(TOO_MANY_CALLS, "too many calls to the store are under way"));
}

/* ---- time ---------------------------------------------------------------------- */

static void fail_late(pipeline *p, pending *c)
{
    lks_reason unsent = c->may_have_run ? LKS_REASON_DEADLINE_EXCEEDED : LKS_REASON_DEADLINE_BEFORE_START;

    fail(p, c, LKS_DEADLINE_EXCEEDED, applied_if_lost(c), 0,
         c->refusal ? errors_fault(c->refusal) : (store_fault){unsent, "the store was not reached in time"});
}

/* Sends the call again after a pause. If its deadline is earlier, the call fails now, because at the deadline its
 * caller is gone. */
static void pause_call(pipeline *p, pending *c)
{
    if (clock_in_ms(2 * PAUSE_MS) >= c->deadline_ns) {
        fail_late(p, c);
        return;
    }
    c->phase = PENDING_PAUSED;
    loop_timers_set(&p->timers, &c->timer, clock_in_ms(PAUSE_MS));
    uv_idle_start(&p->turn, on_turn);
}

static void run_due(struct timer *timer)
{
    pending *c = container_of(timer, pending, timer);
    pipeline *p = c->pipeline;
    bool late = clock_now_ns() >= c->deadline_ns;

    if (c->phase == PENDING_OUT || c->phase == PENDING_HELD) {
        abandon(p, c);
        return;
    }
    if (c->phase == PENDING_PAUSED && !late) {
        enqueue(p, c);
        return;
    }
    if (c->phase == PENDING_QUEUED)
        pending_remove(&p->queue, c);
    if (late)
        fail_late(p, c);
    else
        fail(p, c, LKS_UNAVAILABLE, applied_if_lost(c), 500, fault_of(&p->fault));
}

/* ---- out and back -------------------------------------------------------------- */

static void on_lost(pipeline *p, pending *c, bool sent)
{
    c->may_have_run = c->may_have_run || sent;
    if (c->phase == PENDING_ABANDONED)
        end(p, c, NULL);
    else if (sent && !c->call.repeatable)
        fail(p, c, LKS_UNAVAILABLE, applied_if_lost(c), 500,
             STORE_FAULT(STORE_UNREACHABLE, "the connection to the store was lost"));
    else
        enqueue(p, c);
}

static void on_error(pipeline *p, pending *c, const errors_row *row)
{
    if (c->phase == PENDING_ABANDONED) {
        end(p, c, NULL);
    } else if (row->action == ERRORS_RELOAD && !c->reloaded) {
        c->reloaded = true;
        enqueue(p, c);
    } else if (row->action == ERRORS_MOVED && c->moves++ < MOVES_AT_ONCE) {
        enqueue(p, c);
    } else if (row->action == ERRORS_RETRY || row->action == ERRORS_MOVING || row->action == ERRORS_ELSEWHERE ||
               row->action == ERRORS_MOVED) {
        c->refusal = row;
        pause_call(p, c);
    } else {
        /* An earlier attempt may have taken effect. */
        fail(p, c, row->code, c->may_have_run ? LKS_APPLIED_MAYBE : row->applied, row->retry_after_ms,
             errors_fault(row));
    }
}

static void on_answer(pipeline *p, pending *c, const redisReply *reply, confirm *confirms)
{
    if (c->phase == PENDING_ABANDONED) {
        end(p, c, NULL);
        return;
    }
    lks_rpc_arena_reset(p->scratch);
    const store_value *value = value_of(p->scratch, reply);
    if (fcall_is_elsewhere(value)) {
        c->alone = true;
        enqueue(p, c);
        return;
    }
    store_result result = fcall_result(value, c->call.function);
    if (result.code != LKS_OK && c->may_have_run)
        result.applied = LKS_APPLIED_MAYBE;
    if (!confirms) {
        end(p, c, &result);
        return;
    }
    c->phase = PENDING_HELD;
    confirm_hold(confirms, c, &result);
}

static const errors_row unconfirmed = {.action = ERRORS_RETRY,
                                       .code = LKS_UNAVAILABLE,
                                       .applied = LKS_APPLIED_MAYBE,
                                       .retry_after_ms = 500,
                                       .reason = LKS_REASON_STORE_TOO_FEW_REPLICAS,
                                       .message = "too few of the store's replicas have confirmed it"};

/* The call's writes may be lost with this Redis. */
static void on_unconfirmed(pipeline *p, pending *c)
{
    c->may_have_run = true;
    c->refusal = &unconfirmed;
    if (c->call.repeatable)
        pause_call(p, c);
    else
        fail(p, c, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, 500, errors_fault(c->refusal));
}

static void on_confirmed(void *arg, const redisReply *reply)
{
    confirm *k = arg;
    pipeline *p = k->pipeline;
    bool enough = reply && confirm_enough(reply, p->options.wait_replicas);

    p->fcalls--;
    if (!STAILQ_EMPTY(&k->messages))
        p->asks_for_messages = false;
    if (p->queue.n > 0 || !STAILQ_EMPTY(&p->messages))
        uv_idle_start(&p->turn, on_turn);
    pass_messages(p, &k->messages, enough);
    for (pending *c; (c = pending_pop(&k->calls));) {
        const store_result held = c->held;
        if (c->phase == PENDING_ABANDONED)
            end(p, c, NULL);
        else if (enough)
            end(p, c, &held);
        else if (!reply)
            on_lost(p, c, true);
        else
            on_unconfirmed(p, c);
    }
    if (reply && reply->type == REDIS_REPLY_ERROR && has_link(p))
        p->options.on_useless(p->options.arg, errors_fault(errors_find(reply->str, reply->len)));
    confirm_free(k);
}

static void react(pipeline *p, const errors_row *row)
{
    if (!has_link(p))
        return; /* the connection is already being retired */
    if (row->action == ERRORS_RELOAD && p->state == UP) {
        set_state(p, LOADING);
        p->options.on_missing(p->options.arg);
    } else if (row->action == ERRORS_DENIED || row->action == ERRORS_ELSEWHERE) {
        p->options.on_useless(p->options.arg, errors_fault(row));
    }
}

/* While Redis runs one FCALL and has the next, calls wait until they fill one: sent now, they would only wait in Redis'
 * socket. */
static bool waits_for_others(const pipeline *p)
{
    return p->fcalls >= (p->base ? 1 : FCALLS_ENOUGH) && p->queue.weight < STORE_WEIGHT_MAX;
}

static void on_batch(void *arg, const redisReply *reply);

static void send_queued(pipeline *p)
{
    gathering g = {.first = NULL};
    confirm *confirms = NULL;
    pending_list late = {0};
    uint64_t now_ns = clock_now_ns();

    if (p->state != UP || p->queue.n == 0 || waits_for_others(p))
        return;
    for (pending *c; (c = pending_pop(&p->queue));) {
        if (now_ns >= c->deadline_ns) {
            pending_push(&late, c);
            continue;
        }
        c->phase = PENDING_OUT;
        if (c->timer.at_ns != c->deadline_ns)
            loop_timers_set(&p->timers, &c->timer, c->deadline_ns);
        batch_gather(&g, p, c);
    }
    if (g.first && p->options.wait_replicas > 0)
        confirms = confirm_new(p);
    for (batch *b = g.first, *next; b; b = next) {
        next = b->next;
        b->confirm = confirms;
        batch_send(b, p->link, p->options.digest, p->base, on_batch);
        p->fcalls++;
    }
    if (confirms) {
        confirm_ask(p->link, p->options.wait_replicas, p->options.wait_ms, p->base, on_confirmed, confirms);
        p->fcalls++;
    } else {
        connection_flush(p->link);
    }
    for (pending *c; (c = pending_pop(&late));)
        fail_late(p, c);
}

/* For a slot whose move takes too long: a call that is sent again would end after its caller is gone. */
static const errors_row stuck = {
    "ASK", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 1000, LKS_REASON_STORE_SLOT_MOVING, ERRORS_SLOT_MOVES};

/* Whether the reply is one call's reply, or a list with an element for each call. */
static bool is_of_calls(const redisReply *reply, size_t n)
{
    if (n == 1)
        return reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_STRING ||
               (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0);
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == n;
}

static void on_batch(void *arg, const redisReply *reply)
{
    batch *b = arg;
    pipeline *p = b->pipeline;
    pending_list calls = b->calls;
    confirm *confirms = b->confirm;
    bool sent = !reply && connection_was_sent(b->link);
    const errors_row *row = NULL;
    size_t i = 0, n = calls.n;

    free(b);
    p->fcalls--;
    if (p->queue.n > 0)
        uv_idle_start(&p->turn, on_turn);
    if (reply && !is_of_calls(reply, n)) {
        bool error = reply->type == REDIS_REPLY_ERROR;
        row = errors_find(error ? reply->str : "", error ? reply->len : 0);
        if (row->prefix[0] == '\0') /* cut, because Redis may quote arguments after that */
            log_error("store-failed", "function=%s error=\"%.80s\"", calls.first->call.function,
                      error ? reply->str : "a reply of another shape");
        if (row->action == ERRORS_FORBIDDEN && !p->logged_forbidden)
            log_error("store-forbidden", "function=%s reason=\"%s\"", calls.first->call.function, row->message);
        p->logged_forbidden = p->logged_forbidden || row->action == ERRORS_FORBIDDEN;
        if ((row->action == ERRORS_MOVED || row->action == ERRORS_MOVING || row->action == ERRORS_DOWN) &&
            p->options.on_moved(p->options.arg, reply->str, reply->len))
            row = &stuck;
    }
    if (reply && !row)
        send_queued(p); /* Redis runs the next calls while the results are reported */
    for (pending *c; (c = pending_pop(&calls)); i++)
        if (!reply)
            on_lost(p, c, sent);
        else if (row)
            on_error(p, c, row);
        else
            on_answer(p, c, n == 1 ? reply : reply->element[i], confirms);
    if (row)
        react(p, row);
}

/* ---- messages ------------------------------------------------------------------- */

static void pass_messages(pipeline *p, message_list *messages, bool enough)
{
    bool missed = !STAILQ_EMPTY(messages) && !enough;

    for (message *m; (m = STAILQ_FIRST(messages));) {
        STAILQ_REMOVE_HEAD(messages, next);
        if (enough)
            p->options.on_message(p->options.arg, m->data, m->len);
        free(m);
    }
    if (missed)
        p->options.on_missed(p->options.arg);
}

void pipeline_hear(pipeline *p, const char *data, size_t len)
{
    message_add(&p->messages, data, len);
    uv_idle_start(&p->turn, on_turn);
}

/* At most one WAIT for messages is under way. */
static void confirm_messages(pipeline *p)
{
    if (STAILQ_EMPTY(&p->messages) || p->asks_for_messages)
        return;
    if (!has_link(p)) {
        pass_messages(p, &p->messages, false);
        return;
    }
    confirm *k = confirm_new(p);
    STAILQ_CONCAT(&k->messages, &p->messages);
    p->asks_for_messages = true;
    p->fcalls++;
    confirm_ask(p->link, p->options.wait_replicas, p->options.wait_ms, p->base, on_confirmed, k);
}

static void on_turn(uv_idle_t *turn)
{
    pipeline *p = turn->data;

    uv_idle_stop(turn);
    end_refused(p);
    heap_run(&p->timers.heap);
    send_queued(p);
    confirm_messages(p);
}

/* ---- the link ------------------------------------------------------------------ */

/* The time that queued calls wait depends on whether there is a link. */
static void set_state(pipeline *p, pipeline_state to)
{
    bool had_link = has_link(p);

    p->state = to;
    for (pending *c = has_link(p) == had_link ? NULL : p->queue.first; c; c = c->next)
        loop_timers_set(&p->timers, &c->timer, wait_limit_ns(p, c));
    uv_idle_start(&p->turn, on_turn);
}

void pipeline_up(pipeline *p, connection *link, const char *base)
{
    p->link = link;
    p->base = base;
    p->logged_forbidden = false;
    set_state(p, UP);
}

void pipeline_down(pipeline *p, store_fault fault)
{
    fault_keep(&p->fault, fault);
    if (has_link(p))
        set_state(p, DOWN);
}

void pipeline_resume(pipeline *p)
{
    if (p->state == LOADING)
        set_state(p, UP);
}

/* ---- beginning and end --------------------------------------------------------- */

pipeline *pipeline_new(const pipeline_options *options)
{
    pipeline *p = memory_alloc(sizeof *p);

    *p = (pipeline){.options = *options};
    STAILQ_INIT(&p->messages);
    fault_keep(&p->fault, STORE_FAULT(STORE_UNREACHABLE, "the store is not connected yet"));
    p->scratch = memory_arena();
    uv_idle_init(options->loop, &p->turn);
    loop_timers_init(&p->timers, options->loop, p);
    p->turn.data = p;
    return p;
}

static void release(void *owner)
{
    pipeline *p = owner;

    heap_free(&p->timers.heap);
    lks_rpc_arena_free(p->scratch);
    free(p);
}

void pipeline_close(pipeline *p, close_barrier *within)
{
    close_barrier_add(within);
    set_state(p, ENDED);
    for (struct timer *first; (first = heap_first(&p->timers.heap));) {
        pending *c = container_of(first, pending, timer);
        if (c->phase == PENDING_QUEUED)
            pending_remove(&p->queue, c);
        if (route(p, c) != p)
            enqueue(p, c);
        else
            fail(p, c, LKS_UNAVAILABLE, applied_if_lost(c), 0, STORE_FAULT(SHUTTING_DOWN, "the store is closing"));
    }
    while (p->refused.n > 0)
        end_refused(p);
    pass_messages(p, &p->messages, false);
    close_barrier_handle(&p->barrier, &p->turn);
    close_barrier_handle(&p->barrier, &p->timers.uv);
    close_barrier_begin(&p->barrier, p, release, close_barrier_done, within);
}

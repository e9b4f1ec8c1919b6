/* Invariant: at most one step is under way, and the next begins STEP_MS after its
 * reply and what it asks for; so a pass costs the store a small share of its time, however many keys it
 * has. A pass goes through one part of the store after the other; one that fails is left
 * for the next pass. Called by server.c. */
#include "calls/sweep.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <uv.h>

#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"
#include "services/stock_home.h"

enum { STEP_MS = 20, STEP_TIMEOUT_MS = 5000, CURSOR_BYTES = 24 };

struct sweep {
    uv_timer_t timer;
    store *store;
    alarms *alarms;
    uint64_t interval_ms;
    bool passing, stopped;
    store_part part;           /* where the pass is */
    char cursor[CURSOR_BYTES]; /* "": the part is done */
    lks_rpc_slice args[1];
    store_call call;
    lks_rpc_arena *arena;     /* what the step has found: */
    const store_value *found; /* a reply, of which element `at` is under way */
    size_t at;
    stock_home home;
};

static void on_timer(uv_timer_t *timer);

static void next_in(sweep *s, uint64_t ms)
{
    if (!s->stopped)
        uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* Goes on with the first part from that slot on; false: there is none. */
static bool enter_part(sweep *s, uint32_t from)
{
    strcpy(s->cursor, "0");
    s->passing = store_part_from(s->store, from, &s->part);
    return s->passing;
}

static void end_step(sweep *s)
{
    bool more = s->cursor[0] != '\0' || enter_part(s, s->part.slot + 1U);

    next_in(s, more ? STEP_MS : s->interval_ms);
}

/* ---- units on their way -------------------------------------------------------- */

static void bring_home(sweep *s);

static void submit(sweep *s, const store_call *call, store_done *done)
{
    store_submit(s->store, call, lks_rpc_now_ns() + (uint64_t)STEP_TIMEOUT_MS * 1000000, done, s);
}

static void on_sent(void *arg, const store_result *result)
{
    (void)result;
    bring_home(arg);
}

/* {'OK'}; else it does not come yet. */
static void on_received(void *arg, const store_result *result)
{
    sweep *s = arg;

    if (result->code == LKS_OK && answer_says(result->value, "OK") && !s->stopped)
        submit(s, &s->home.sent, on_sent);
    else
        bring_home(s);
}

/* What the step has found, one after the other; then comes the next step. */
static void bring_home(sweep *s)
{
    while (!s->stopped && s->at < s->found->n)
        if (stock_home_plan(&s->found->element[s->at++], s->arena, &s->home)) {
            submit(s, &s->home.receive, on_received);
            return;
        }
    end_step(s);
}

/* ---- steps --------------------------------------------------------------------- */

/* {'OK', cursor or '' at the end, base of a group or a move...} */
static void on_found(void *arg, const store_result *result)
{
    sweep *s = arg;
    const store_value *reply = result->value;

    s->cursor[0] = '\0';
    if (result->code != LKS_OK || !answer_says(reply, "OK") || reply->n < 2 || reply->element[1].type != STORE_STRING) {
        end_step(s);
        return;
    }
    lks_rpc_slice cursor = reply->element[1].string;
    if (cursor.len < CURSOR_BYTES) {
        memcpy(s->cursor, cursor.data, cursor.len);
        s->cursor[cursor.len] = '\0';
    }
    for (size_t i = 2; i < reply->n; i++)
        if (reply->element[i].type == STORE_STRING)
            alarms_set_lasting(s->alarms, reply->element[i].string, fn_stock_expire.name, lks_rpc_slice_of(""), 0);
    lks_rpc_arena_reset(s->arena);
    s->found = store_value_copy(s->arena, reply);
    s->at = 2;
    bring_home(s);
}

static void on_timer(uv_timer_t *timer)
{
    sweep *s = timer->data;

    if (!s->passing && !enter_part(s, 0)) {
        next_in(s, s->interval_ms);
        return;
    }
    s->call.slot = s->part.slot;
    s->args[0] = lks_rpc_slice_of(s->cursor);
    submit(s, &s->call, on_found);
}

void sweep_begin(sweep *s)
{
    if (!s->passing)
        next_in(s, 0);
}

void sweep_stop(sweep *s)
{
    if (s) {
        s->stopped = true;
        uv_timer_stop(&s->timer);
    }
}

sweep *sweep_new(uv_loop_t *loop, store *backing, alarms *lasting, uint64_t interval_ms)
{
    sweep *s = memory_alloc(sizeof *s);

    *s = (sweep){.store = backing, .alarms = lasting, .interval_ms = interval_ms, .arena = memory_arena()};
    /* It spans groups; its own base only names the call. */
    s->call = (store_call){.base = lks_rpc_slice_of("ls:{sweep}:"),
                           .function = fn_stock_find_overdue.name,
                           .n_args = 1,
                           .max_args = 1,
                           .args = s->args,
                           .of_part = true,
                           .repeatable = true};
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    return s;
}

static void on_closed(uv_handle_t *handle)
{
    sweep *s = handle->data;

    lks_rpc_arena_free(s->arena);
    free(s);
}

void sweep_close(sweep *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->timer, on_closed);
}

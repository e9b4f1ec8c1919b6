/* Called by sweep.c and quotas.c. */
#include "calls/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/clock.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"

/* When a server starts, it begins a pass unless another server began one in the last START_MS: a server that died
 * earlier may have left something. While a server walks, it renews its claim every MARK_STEPS. */
enum { CURSOR_BYTES = 24, NUMBER_BYTES = 24, CLAIM_ARGS = 2, START_MS = 10000, MARK_STEPS = 100, RETRY_MS = 1000 };

struct pass {
    uv_timer_t timer;
    pass_options options;
    bool passing, stopped;
    bool began;                /* this server has claimed a pass before, with or without success */
    uint32_t steps;            /* of this pass */
    store_part part;           /* the part that the pass is in */
    char cursor[CURSOR_BYTES]; /* "": the part is done */
    lks_rpc_slice args[1];
    store_call call;
    char apart[NUMBER_BYTES];
    lks_rpc_slice claim_args[CLAIM_ARGS];
    store_call claim;
};

static void on_timer(uv_timer_t *timer);

static void next_in(pass *p, uint64_t ms)
{
    if (!p->stopped)
        uv_timer_start(&p->timer, on_timer, ms, 0);
}

/* Continues with the first part at or after that slot; returns false if there is none. */
static bool enter_part(pass *p, uint32_t from)
{
    strcpy(p->cursor, "0");
    p->passing = store_part_from(p->options.store, from, &p->part);
    return p->passing;
}

void pass_continue(pass *p)
{
    bool more = p->cursor[0] != '\0' || enter_part(p, p->part.slot + 1U);

    if (!more && p->options.on_end)
        p->options.on_end(p->options.arg);
    next_in(p, more ? PASS_STEP_MS : p->options.interval_ms);
}

static void on_found(void *arg, const store_result *result)
{
    pass *p = arg;
    const store_value *reply = result->value;

    p->cursor[0] = '\0';
    if (result->code != LKS_OK || !answer_says(reply, "OK") || reply->n < 2 || reply->element[1].type != STORE_STRING) {
        p->options.on_step(p->options.arg, NULL);
        return;
    }
    lks_rpc_slice cursor = reply->element[1].string;
    if (cursor.len < CURSOR_BYTES) {
        memcpy(p->cursor, cursor.data, cursor.len);
        p->cursor[cursor.len] = '\0';
    }
    p->options.on_step(p->options.arg, reply);
}

static void step(pass *p)
{
    p->call.slot = p->part.slot;
    p->args[0] = lks_rpc_slice_of(p->cursor);
    store_submit(p->options.store, &p->call, clock_in_ms(PASS_STEP_TIMEOUT_MS), on_found, p);
}

static void begin(pass *p)
{
    p->steps = 0;
    if (enter_part(p, 0))
        step(p);
    else
        next_in(p, p->options.interval_ms);
}

/* ---- one server of all ---- */

static void claim(pass *p, uint64_t apart_ms, store_done *done)
{
    snprintf(p->apart, sizeof p->apart, "%llu", (unsigned long long)apart_ms);
    p->claim_args[ARG_SERVER_BEGIN_PASS_NAME] = lks_rpc_slice_of(p->options.shared_as);
    p->claim_args[ARG_SERVER_BEGIN_PASS_APART_MS] = lks_rpc_slice_of(p->apart);
    store_submit(p->options.store, &p->claim, clock_in_ms(PASS_STEP_TIMEOUT_MS), done, p);
}

static void on_marked(void *arg, const store_result *result)
{
    (void)result;
    step(arg);
}

/* The reply is {'OK', 1 or 0, ms until another pass may begin}. */
static void on_claimed(void *arg, const store_result *result)
{
    pass *p = arg;
    const store_value *reply = result->value;
    const bool good = result->code == LKS_OK && answer_says(reply, "OK") && reply->n > 2 &&
                      reply->element[1].type == STORE_INTEGER && reply->element[2].type == STORE_INTEGER;

    if (good && reply->element[1].integer != 0 && !p->stopped)
        begin(p);
    else
        next_in(p, good ? (uint64_t)reply->element[2].integer : RETRY_MS);
}

static void on_timer(uv_timer_t *timer)
{
    pass *p = timer->data;
    const bool starts = !p->began;

    if (p->passing && p->options.shared_as && ++p->steps % MARK_STEPS == 0) {
        claim(p, 0, on_marked);
    } else if (p->passing) {
        step(p);
    } else if (p->options.shared_as) {
        p->began = true;
        claim(p, starts && p->options.interval_ms > START_MS ? START_MS : p->options.interval_ms, on_claimed);
    } else {
        begin(p);
    }
}

void pass_begin(pass *p)
{
    if (!p->passing)
        next_in(p, 0);
}

void pass_stop(pass *p)
{
    if (p) {
        p->stopped = true;
        uv_timer_stop(&p->timer);
    }
}

bool pass_is_stopped(const pass *p)
{
    return p->stopped;
}

pass *pass_new(const pass_options *options)
{
    pass *p = memory_alloc(sizeof *p);

    *p = (pass){.options = *options};
    /* The call spans groups; this base is only its name. */
    p->call = (store_call){.base = lks_rpc_slice_of("ls:{pass}:"),
                           .function = options->function,
                           .n_args = 1,
                           .args = p->args,
                           .whole_shard = true,
                           .repeatable = true};
    p->claim = (store_call){.base = lks_rpc_slice_of(STORE_META_BASE),
                            .function = fn_server_begin_pass.name,
                            .n_args = CLAIM_ARGS,
                            .args = p->claim_args,
                            .repeatable = true};
    uv_timer_init(options->loop, &p->timer);
    p->timer.data = p;
    return p;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void pass_close(pass *p)
{
    if (p)
        uv_close((uv_handle_t *)&p->timer, on_closed);
}

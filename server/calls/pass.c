/* Called by sweep.c and quotas.c. */
#include "calls/pass.h"

#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/clock.h"
#include "memory.h"
#include "services/service.h"

enum { CURSOR_BYTES = 24 };

struct pass {
    uv_timer_t timer;
    pass_options options;
    bool passing, stopped;
    store_part part;           /* where the pass is */
    char cursor[CURSOR_BYTES]; /* "": the part is done */
    lks_rpc_slice args[1];
    store_call call;
};

static void on_timer(uv_timer_t *timer);

static void next_in(pass *p, uint64_t ms)
{
    if (!p->stopped)
        uv_timer_start(&p->timer, on_timer, ms, 0);
}

/* Goes on with the first part from that slot on; false: there is none. */
static bool enter_part(pass *p, uint32_t from)
{
    strcpy(p->cursor, "0");
    p->passing = store_part_from(p->options.store, from, &p->part);
    return p->passing;
}

void pass_go_on(pass *p)
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

static void on_timer(uv_timer_t *timer)
{
    pass *p = timer->data;

    if (!p->passing && !enter_part(p, 0)) {
        next_in(p, p->options.interval_ms);
        return;
    }
    p->call.slot = p->part.slot;
    p->args[0] = lks_rpc_slice_of(p->cursor);
    store_submit(p->options.store, &p->call, clock_now_ns() + (uint64_t)PASS_STEP_TIMEOUT_MS * 1000000, on_found, p);
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
    /* It spans groups; its own base only names the call. */
    p->call = (store_call){.base = lks_rpc_slice_of("ls:{pass}:"),
                           .function = options->function,
                           .n_args = 1,
                           .max_args = 1,
                           .args = p->args,
                           .whole_shard = true,
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

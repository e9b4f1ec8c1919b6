/* Invariant: at most one call is under way; `mark` is what the last answer said, "" when
 * there was none yet. Called by server.c. */
#include "calls/loss.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <uv.h>

#include "functions/arguments.h"
#include "log.h"
#include "memory.h"

enum { LOOK_MS = 1000, TIMEOUT_MS = 5000, MARK_BYTES = 64 };

struct loss {
    uv_timer_t timer;
    store *store;
    waiters *waiters;
    bool asking;
    char mark[MARK_BYTES];
    char offered[LKS_RPC_RANDOM_ID_LEN + 1]; /* where there is none: another each time */
    lks_rpc_slice args[1];
    store_call call;
};

static void on_mark(void *arg, const store_result *result)
{
    loss *l = arg;
    const store_value *reply = result->value;

    l->asking = false;
    if (result->code != LKS_OK || reply->type != STORE_ARRAY || reply->n != 2)
        return;
    lks_rpc_slice mark = reply->element[1].string;
    bool same = strlen(l->mark) == mark.len && memcmp(l->mark, mark.data, mark.len) == 0;
    bool known = l->mark[0] != '\0';

    if (same || mark.len >= sizeof l->mark)
        return;
    memcpy(l->mark, mark.data, mark.len);
    l->mark[mark.len] = '\0';
    if (!known)
        return;
    log_warn("store-lost-data", "%s", "reason=\"its mark is gone: all that it kept is lost\"");
    waiters_missed(l->waiters);
}

static void ask(loss *l)
{
    if (l->asking)
        return;
    l->asking = true;
    lks_rpc_random_id(l->offered);
    l->args[0] = lks_rpc_slice_of(l->offered);
    store_submit(l->store, &l->call, lks_rpc_now_ns() + (uint64_t)TIMEOUT_MS * 1000000, on_mark, l);
}

static void on_timer(uv_timer_t *timer)
{
    loss *l = timer->data;

    if (waiters_any(l->waiters))
        ask(l);
}

void loss_begin(loss *l)
{
    ask(l);
    uv_timer_start(&l->timer, on_timer, LOOK_MS, LOOK_MS);
}

loss *loss_new(uv_loop_t *loop, store *backing, waiters *waiting)
{
    loss *l = memory_alloc(sizeof *l);

    *l = (loss){.store = backing, .waiters = waiting};
    l->call = (store_call){.base = lks_rpc_slice_of("ls:{meta}:"),
                           .function = fn_mark_read.name,
                           .n_args = 1,
                           .max_args = 1,
                           .args = l->args,
                           .repeatable = true};
    uv_timer_init(loop, &l->timer);
    l->timer.data = l;
    return l;
}

void loss_stop(loss *l)
{
    if (l)
        uv_timer_stop(&l->timer);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void loss_close(loss *l)
{
    if (l)
        uv_close((uv_handle_t *)&l->timer, on_closed);
}

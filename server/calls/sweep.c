/* The results of a step are handled before the pass continues. Called by server.c. */
#include "calls/sweep.h"

#include <stdlib.h>

#include "base/clock.h"
#include "calls/pass.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"
#include "services/stock_home.h"

struct sweep {
    store *store;
    alarms *alarms;
    pass *pass;
    lks_rpc_arena *arena;     /* of `found` */
    const store_value *found; /* the reply of the step; element `at` is being handled */
    size_t at;
    stock_home home;
};

/* ---- units on their way -------------------------------------------------------- */

static void handle_found(sweep *s);

static void submit(sweep *s, const store_call *call, store_done *done)
{
    store_submit(s->store, call, clock_in_ms(PASS_STEP_TIMEOUT_MS), done, s);
}

static void on_sent(void *arg, const store_result *result)
{
    (void)result;
    handle_found(arg);
}

/* The reply is {'OK'} if the units were received; otherwise a later pass tries again. */
static void on_received(void *arg, const store_result *result)
{
    sweep *s = arg;

    if (result->code == LKS_OK && answer_says(result->value, "OK") && !pass_is_stopped(s->pass))
        submit(s, &s->home.sent, on_sent);
    else
        handle_found(s);
}

/* Handles the results of the step one after another, then continues the pass. */
static void handle_found(sweep *s)
{
    while (!pass_is_stopped(s->pass) && s->at < s->found->n)
        if (stock_home_plan(&s->found->element[s->at++], s->arena, &s->home)) {
            submit(s, &s->home.receive, on_received);
            return;
        }
    pass_continue(s->pass);
}

/* ---- steps --------------------------------------------------------------------- */

/* Each element from the second on is the base of a group, or a move. */
static void on_step(void *arg, const store_value *reply)
{
    sweep *s = arg;

    if (!reply) {
        pass_continue(s->pass);
        return;
    }
    for (size_t i = 2; i < reply->n; i++)
        if (reply->element[i].type == STORE_STRING)
            alarms_set(s->alarms, &(service_alarm){.base = reply->element[i].string,
                                                   .function = fn_stock_expire.name,
                                                   .argument = lks_rpc_slice_of(""),
                                                   .lasting = true});
    lks_rpc_arena_reset(s->arena);
    s->found = store_value_copy(s->arena, reply);
    s->at = 2;
    handle_found(s);
}

void sweep_begin(sweep *s)
{
    pass_begin(s->pass);
}

void sweep_stop(sweep *s)
{
    if (s)
        pass_stop(s->pass);
}

sweep *sweep_new(struct uv_loop_s *loop, store *backing, alarms *lasting, uint64_t interval_ms)
{
    sweep *s = memory_alloc(sizeof *s);
    const pass_options options = {.loop = loop,
                                  .store = backing,
                                  .function = fn_stock_find_overdue.name,
                                  .interval_ms = interval_ms,
                                  .shared_as = "sweep",
                                  .on_step = on_step,
                                  .arg = s};

    *s = (sweep){.store = backing, .alarms = lasting, .pass = pass_new(&options), .arena = memory_arena()};
    return s;
}

void sweep_close(sweep *s)
{
    if (!s)
        return;
    pass_close(s->pass);
    lks_rpc_arena_free(s->arena);
    free(s);
}

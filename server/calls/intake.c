/* Keeps no state. Called by the engines. */
#include "calls/intake.h"

static caller *on_open(void *arg, const sink_connection *connection)
{
    const intake *i = arg;
    caller *c = caller_new(i->callers, connection->bytes, connection->on_room, connection->arg);

    if (c)
        caller_name(c, connection->peer.wire, connection->peer.address);
    if (c && connection->origin)
        caller_set_owner(c, connection->origin);
    return c;
}

static const lks_rpc_method *on_method(void *arg, const char *path)
{
    const intake *i = arg;

    return dispatch_method(i->dispatch, path);
}

static lks_code on_check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                         lks_error *error)
{
    const intake *i = arg;
    const lks_rpc_method elsewhere = {.path = path, .effect = effect};

    return effect ? dispatch_check(i->dispatch, from, who, &elsewhere, error)
                  : dispatch_check_path(i->dispatch, from, who, path, error);
}

static void on_take(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg)
{
    const intake *i = arg;

    dispatch_call_start(i->dispatch, call, arena, done, done_arg);
}

sink intake_sink(intake *i)
{
    return (sink){.open = on_open,
                  .lost = caller_lost,
                  .hold = caller_hold,
                  .queues = caller_queues,
                  .method = on_method,
                  .check = on_check,
                  .take = on_take,
                  .abandon = dispatch_abandon,
                  .arg = i};
}

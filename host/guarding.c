#include "host/guarding.h"

#include <lockstock/guard.h>

#include "base/container.h"
#include "running.h"

enum {
    /* Of arena, kept while guards are asked; a larger request is unpacked again later, so that waiting calls need
     * little more memory than their bytes, which are counted. */
    KEPT_BYTES = 16 * 1024
};

/* The guards have admitted or refused the call, or have been left. Runs on the channel's completion thread, or inside
 * the function that asks them. */
static void on_done(void *arg)
{
    struct running *r = arg;

    lks_host_finish(r->guarding, r->error.code, &r->error);
}

static void on_cancel(void *arg)
{
    lks_guard_cancel(arg);
}

static lks_code defer(struct running *r, lks_error *error)
{
    r->guarding = lks_host_defer(&r->context);
    return r->guarding ? LKS_OK : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static lks_code before(void *arg, void **own, lks_rpc_context *context, ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error)
{
    (void)arg, (void)own, (void)response;
    struct running *r = container_of(context, struct running, context);
    const serve_target *target = r->route->target;
    calls *all = r->all;

    if (defer(r, error) != LKS_OK)
        return error->code;
    if (lks_guarded_enter(all->options.guards, target->binding->guard, r->route->method, request, context->deadline_ns,
                          r->unanswered_before, on_done, r, &context->guarded, error) != LKS_OK) {
        lks_host_finish(r->guarding, error->code, error);
        return LKS_OK;
    }
    if (all->options.n_interceptors == 0 && lks_rpc_arena_bytes(r->arena) > KEPT_BYTES) {
        give_arena(all, r->arena);
        r->arena = NULL;
        r->request = r->response = NULL;
    }
    lks_host_on_cancel(r->guarding, on_cancel, context->guarded);
    return LKS_OK;
}

static lks_code after(void *arg, void **own, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error)
{
    (void)arg, (void)own, (void)request;
    struct running *r = container_of(context, struct running, context);

    if (defer(r, error) != LKS_OK)
        return error->code;
    lks_guarded_leave(context->guarded, error->code, response, error, on_done, r);
    return LKS_OK;
}

const lks_host_interceptor guarding = {.before = before, .after = after};

void guarding_answer(struct running *r)
{
    if (r->arena || (r->arena = lks_rpc_arena_new()))
        lks_guard_answer(r->context.guarded, r->arena, &r->response, &r->error);
    else
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory");
}

bool guarding_refuses(struct running *r)
{
    if (lks_guard_runs(r->context.guarded))
        return false;
    if (atomic_load(&r->stopped) != LKS_OK)
        refuse_stopped(r);
    else
        guarding_answer(r);
    return true;
}

/* Invariant: a line of the file of effects is written at once, so that those of several processes do not mix. */
#include "e2e/guarded_shop.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/guard.h>
#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/ratelimit.lks.h>

#include "support/process.h"

enum { HOUR_MS = 3600000, WAIT_MS = 60000 };

/* ---- guards --------------------------------------------------------------------------------- */

static const char *const by_buyer[] = {"buyer_id", NULL}, *const by_order[] = {"order_id", NULL},
                         *const by_items[] = {"items", NULL}, *const by_both[] = {"buyer_id", "order_id", NULL};

static const lks_rpc_guard_limit
    wide = {.key = by_buyer, .group = "", .policy = "", .limit = 100000, .period_ms = HOUR_MS},
    narrow = {.key = by_buyer,
              .group = "",
              .policy = "",
              .limit = 3,
              .period_ms = HOUR_MS,
              .denied = LOCKSTOCK__TEST__BOUGHT__BOUGHT_LIMITED},
    coded = {.key = by_buyer, .group = "", .policy = "", .limit = 3, .period_ms = HOUR_MS},
    shared = {.key = by_buyer, .name = "calls", .group = "", .policy = "", .limit = 1, .period_ms = HOUR_MS},
    bucket = {.key = by_buyer,
              .group = "",
              .policy = "",
              .limit = 1,
              .period_ms = HOUR_MS,
              .algorithm = LKS_ALGORITHM_TOKEN_BUCKET,
              .burst = 5},
    open_limit = {.key = by_buyer, .group = "", .policy = "", .limit = 1, .period_ms = HOUR_MS, .fail_open = true};
static const lks_rpc_guard_idempotency
    once = {.scope = "buy", .key = by_order, .group = "", .wait_ms = WAIT_MS},
    short_once = {.scope = "short", .key = by_order, .group = "", .wait_ms = WAIT_MS, .lease_ms = SHORT_MS},
    told_once = {.scope = "told",
                 .key = by_order,
                 .group = "",
                 .in_progress = LOCKSTOCK__TEST__BOUGHT__BOUGHT_RUNNING,
                 .mismatch = LOCKSTOCK__TEST__BOUGHT__BOUGHT_OTHER},
    coded_once = {.scope = "coded", .key = by_order, .group = ""},
    alone_once = {.scope = "alone", .key = by_both, .group = "shop", .key_alone = true};
static const lks_rpc_guard_lock
    locks = {.prefix = "item", .keys = by_items, .group = "items", .wait_ms = WAIT_MS},
    short_locks = {.prefix = "item", .keys = by_items, .group = "items", .wait_ms = WAIT_MS, .lease_ms = SHORT_MS},
    told_locks = {.prefix = "item", .keys = by_items, .group = "items", .busy = LOCKSTOCK__TEST__BOUGHT__BOUGHT_BUSY},
    coded_locks = {.prefix = "item", .keys = by_items, .group = "items"};

#define GUARD(its_limit, its_once, its_locks)          \
    (&(const lks_rpc_guard){.rate_limit = (its_limit), \
                            .idempotency = (its_once), \
                            .lock = (its_locks),       \
                            .outcome = "outcome",      \
                            .retry_after = "retry_after_ms"})
#define GUARDED_METHODS(X)                                    \
    X(buy, Buy, GUARD(&wide, &once, &locks))                  \
    X(once, Once, GUARD(NULL, &once, NULL))                   \
    X(short, Short, GUARD(NULL, &short_once, &short_locks))   \
    X(told, Told, GUARD(&narrow, &told_once, &told_locks))    \
    X(coded, Coded, GUARD(&coded, &coded_once, &coded_locks)) \
    X(lock, Lock, GUARD(NULL, NULL, &coded_locks))            \
    X(queue, Queue, GUARD(NULL, NULL, &locks))                \
    X(open, Open, GUARD(&open_limit, NULL, NULL))             \
    X(limit, Limit, GUARD(&coded, NULL, NULL))                \
    X(one, One, GUARD(&shared, NULL, NULL))                   \
    X(other, Other, GUARD(&shared, NULL, NULL))               \
    X(bucket, Bucket, GUARD(&bucket, NULL, NULL))             \
    X(alone, Alone, GUARD(NULL, &alone_once, NULL))           \
    X(free, Free, NULL)

/* ---- the handler ----------------------------------------------------------------------------- */

static void write_effect(const guarded_shop *shop, const char *order, int64_t attempt)
{
    char line[128];
    int fd = open(shop->effects, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int len = snprintf(line, sizeof line, "%s %" PRId64 "\n", order, attempt);

    if (fd < 0 || write(fd, line, (size_t)len) != len)
        abort();
    close(fd);
}

/* Whether the protected resource accepts a write of the holder of the first lock. */
static bool is_taken(const guarded_shop *shop, const lks_rpc_context *context)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_check_fence_response *response = NULL;

    if (!shop->channel || lks_guard_n_locks(context) == 0)
        return true;
    request.resource = (char *)lks_guard_lock_name(context, 0);
    request.fence = lks_guard_fence(context, 0);
    bool taken = lks_lock_check_fence(shop->channel, &request, NULL, &response, NULL) == LKS_OK &&
                 response->outcome == LKS_CHECK_FENCE_OUTCOME_OK;
    lks_check_fence_response_free(response);
    return taken;
}

/* Returns when the gate is open, or `until` is set (NULL = never). The gate is a file that is polled: the
 * shop may run in several processes, which are stopped and killed, and none of them needs to receive a
 * message. */
static void await_gate(const guarded_shop *shop, const atomic_bool *until)
{
    while (access(shop->gate, F_OK) != 0 && !(until && atomic_load(until)))
        process_pause();
}

static lks_code sell(const guarded_shop *shop, lks_rpc_context *context, const buy_request *in, buy_response *out,
                     lks_error *error)
{
    if (!is_taken(shop, context)) {
        printf("stale %s attempt=%" PRId64 " lost=%d\n", in->order_id, lks_guard_attempt(context),
               lks_guard_is_lost(context));
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "a later holder was here");
    }
    write_effect(shop, in->order_id, lks_guard_attempt(context));
    out->outcome = LOCKSTOCK__TEST__BOUGHT__BOUGHT_YES;
    out->attempt = lks_guard_attempt(context);
    out->receipt = lks_rpc_arena_printf(context->arena, "%s by %d, lost=%d", in->order_id, (int)getpid(),
                                        lks_guard_is_lost(context));
    out->n_fences = lks_guard_n_locks(context);
    out->fences = lks_rpc_arena_alloc(context->arena, out->n_fences * sizeof *out->fences);
    for (size_t i = 0; i < out->n_fences; i++)
        out->fences[i] = lks_guard_fence(context, i);
    return LKS_OK;
}

struct job {
    guarded_shop *shop;
    lks_host_call *call;
    lks_rpc_context *context;
    const buy_request *in;
    buy_response *out;
    atomic_bool cancelled;
};

static void on_cancel(void *arg)
{
    struct job *job = arg;

    atomic_store(&job->cancelled, true);
    printf("cancelled %s\n", job->in->order_id);
}

static void *go_on(void *arg)
{
    struct job *job = arg;
    lks_error error = {0};

    await_gate(job->shop, &job->cancelled);
    lks_code code = lks_host_is_cancelled(job->context)
                        ? lks_error_set(&error, LKS_CANCELLED, LKS_APPLIED_NO, "nobody waits for it")
                        : sell(job->shop, job->context, job->in, job->out, &error);
    lks_host_finish(job->call, code, &error);
    free(job);
    return NULL;
}

/* As in docs/guards.md: the work that the call waits for cannot be started. */
static lks_code end_unstarted(lks_rpc_context *context, const buy_request *in, lks_error *error)
{
    lks_host_call *call = lks_host_defer(context);
    lks_code code = lks_error_set(error, (lks_code)in->code, LKS_APPLIED_NO, "cannot be started");

    lks_host_finish(call, code, error);
    return LKS_OK;
}

static lks_code defer(guarded_shop *shop, lks_rpc_context *context, const buy_request *in, buy_response *out)
{
    struct job *job = malloc(sizeof *job);
    pthread_t thread;

    *job = (struct job){.shop = shop, .call = lks_host_defer(context), .context = context, .in = in, .out = out};
    lks_host_on_cancel(job->call, on_cancel, job);
    printf("deferred %s\n", in->order_id);
    if (pthread_create(&thread, NULL, go_on, job) != 0)
        abort();
    pthread_detach(thread);
    return LKS_INTERNAL; /* which is ignored */
}

static lks_code act(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                    ProtobufCMessage *response, lks_error *error)
{
    guarded_shop *shop = service->self;
    const buy_request *in = (const buy_request *)request;
    buy_response *out = (buy_response *)response;

    printf("running %s attempt=%" PRId64 "\n", in->order_id, lks_guard_attempt(context));
    switch ((int)in->doing) {
    case LOCKSTOCK__TEST__DOING__DOING_FAIL:
        if (in->applied != LKS_APPLIED_NO)
            write_effect(shop, in->order_id, lks_guard_attempt(context));
        lks_error_set(error, (lks_code)in->code, (lks_applied)in->applied, "order_id: attempt %" PRId64,
                      lks_guard_attempt(context));
        return (lks_code)in->code;
    case LOCKSTOCK__TEST__DOING__DOING_WAIT:
        await_gate(shop, NULL);
        if (in->code != 0)
            return lks_error_set(error, (lks_code)in->code, LKS_APPLIED_NO, "order_id: not now");
        break;
    case LOCKSTOCK__TEST__DOING__DOING_FILL:
        out->body.len = (size_t)in->bytes;
        out->body.data = lks_rpc_arena_alloc(context->arena, out->body.len);
        break;
    case LOCKSTOCK__TEST__DOING__DOING_DEFER:
        return defer(shop, context, in, out);
    case LOCKSTOCK__TEST__DOING__DOING_END:
        if (in->code != 0)
            return end_unstarted(context, in, error);
        sell(shop, context, in, out, error);
        lks_host_finish(lks_host_defer(context), LKS_OK, NULL);
        return LKS_INTERNAL;
    default:
        break;
    }
    return sell(shop, context, in, out, error);
}

/* ---- the service ------------------------------------------------------------------------------ */

#define METHOD(name, Name, its_guard)                           \
    static const lks_rpc_method guarded_##name = {              \
        .path = "/lockstock.test.ShopService/" #Name,           \
        .request = &lockstock__test__buy_request__descriptor,   \
        .response = &lockstock__test__buy_response__descriptor, \
        .effect = LKS_RPC_EFFECT_WRITE,                         \
        .natural_id = "order_id",                               \
    };
#define BINDING(name, Name, its_guard) {&guarded_##name, act, its_guard},
GUARDED_METHODS(METHOD)
static const lks_rpc_binding bindings[] = {GUARDED_METHODS(BINDING)};
#define ADDRESS(name, Name, its_guard) &guarded_##name,
const lks_rpc_method *const guarded_methods[] = {GUARDED_METHODS(ADDRESS)};
const size_t guarded_methods_len = sizeof guarded_methods / sizeof *guarded_methods;

lks_rpc_service guarded_service(guarded_shop *shop)
{
    return (lks_rpc_service){.name = "lockstock.test.ShopService",
                             .n_bindings = sizeof bindings / sizeof *bindings,
                             .bindings = bindings,
                             .self = shop};
}

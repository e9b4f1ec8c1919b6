/* AdminService: what this server knows of itself and of its store. A ready store is asked for its clock; of one that is
 * not, the server tells what it knows. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "functions/arguments.h"
#include "lockstock/v1/admin.lks.h"
#include "memory.h"
#include "services/service.h"

#include <lockstock/rpc/exchange.h>
#include <lockstock/version.h>

typedef struct admin_state {
    uint64_t opened_ns;
    void (*look)(const store *store, store_view *ret);
    const store *store;
} admin_state;

static void *admin_open(const service_options *options)
{
    admin_state *s = memory_alloc(sizeof *s);

    *s = (admin_state){.opened_ns = lks_rpc_now_ns(), .look = options->look, .store = options->store};
    return s;
}

static store_view view_of(const admin_state *s)
{
    store_view view = {.reason = "", .version = "", .fsync = ""};

    if (s->look)
        s->look(s->store, &view);
    return view;
}

static void get_status_prepare(const lks_get_status_request *request, plan *p)
{
    (void)request;
    if (view_of(p->state).ready)
        plan_call(p, &fn_admin_clock, "status", NULL, 0);
}

static lks_persistence persistence_of(const store_view *view)
{
    if (!view->known)
        return LKS_PERSISTENCE_UNSPECIFIED;
    if (view->appends)
        return LKS_PERSISTENCE_APPEND_ONLY;
    return view->snapshots ? LKS_PERSISTENCE_SNAPSHOTS : LKS_PERSISTENCE_NONE;
}

static lks_fsync fsync_of(const store_view *view)
{
    static const struct {
        const char *word;
        lks_fsync fsync;
    } words[] = {{"always", LKS_FSYNC_ALWAYS}, {"everysec", LKS_FSYNC_EVERYSEC}, {"no", LKS_FSYNC_NO}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(view->fsync, words[i].word) == 0)
            return words[i].fsync;
    return LKS_FSYNC_UNSPECIFIED;
}

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char *copy(answer *a, const char *text)
{
    char *kept = memory_in(a->arena, strlen(text) + 1);

    return strcpy(kept, text);
}

static void get_status_finish(const lks_get_status_request *request, answer *a, lks_get_status_response *response)
{
    const admin_state *state = a->plan->state;
    const store_view view = view_of(state);
    lks_store_status *status =
        ((lks_store_status **)answer_messages(a, &lockstock__v1__store_status__descriptor, 1))[0];

    (void)request;
    response->version = LOCKSTOCK_VERSION;
    response->up_ms = (int64_t)((a->now_ns - state->opened_ns) / 1000000);
    response->at_ms = wall_ms();
    response->store = status;
    status->kind = view.embedded ? LKS_STORE_KIND_EMBEDDED : LKS_STORE_KIND_REDIS;
    status->ready = view.ready;
    status->reason = copy(a, view.reason);
    status->version = copy(a, view.version);
    status->persistence = persistence_of(&view);
    status->fsync = fsync_of(&view);
    status->evicts = view.evicts;
    status->cluster = view.cluster;
    status->fails_over = view.fails_over;
    status->wait_replicas = view.wait_replicas;
    if (a->n_replies > 0) {
        status->round_trip_us = (int64_t)((a->now_ns - a->plan->asked_ns) / 1000);
        status->at_ms = answer_int(a, a->replies[0], 1);
    }
}

LKS_ADMIN_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_ADMIN_METHODS(SERVICE_ROW)};

const service admin_service = {
    .n_methods = sizeof methods / sizeof methods[0],
    .methods = methods,
    .open = admin_open,
    .close = free,
};

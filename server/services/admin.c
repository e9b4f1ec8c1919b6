/* AdminService: the state of this server and of its store, as the server knows it. It does not ask the store, which may
 * not answer. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "commit.h"
#include "conditions.h"
#include "lockstock/v1/admin.lks.h"
#include "memory.h"
#include "services/service.h"

#include <lockstock/version.h>

typedef struct admin_state {
    uint64_t opened_ns;
    service_options options;
} admin_state;

static void *admin_open(const service_options *options)
{
    admin_state *s = memory_alloc(sizeof *s);

    *s = (admin_state){.opened_ns = clock_now_ns(), .options = *options};
    return s;
}

static store_view view_of(const admin_state *s)
{
    store_view view = {.version = "", .fsync = ""};

    if (s->options.look)
        s->options.look(s->options.store, &view);
    return view;
}

static void get_status_prepare(const lks_get_status_request *request, plan *p)
{
    (void)request;
    (void)p;
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

static const char *copy(lks_rpc_arena *arena, const char *text)
{
    return memory_copy_in(arena, text, strlen(text));
}

static void fill_primary(const store_primary *from, answer *a, lks_primary_status *p)
{
    p->address = copy(a->arena, from->address);
    p->tells_replicas = from->tells_replicas;
    p->min_replicas_to_write = from->min_replicas;
    p->min_replicas_max_lag_ms = from->min_replicas_max_lag_s < 0 ? -1 : from->min_replicas_max_lag_s * 1000;
    p->n_replicas = from->n_replicas;
    p->replicas = answer_messages(a, &lockstock__v1__replica_status__descriptor, from->n_replicas);
    for (size_t i = 0; i < from->n_replicas; i++) {
        const store_replica *one = &from->replicas[i];
        p->replicas[i]->address = copy(a->arena, one->address);
        p->replicas[i]->behind_bytes = (int64_t)one->behind_bytes;
        p->replicas[i]->silent_ms = one->silent_s < 0 ? -1 : one->silent_s * 1000;
    }
}

static void fill_primaries(const service_options *of, answer *a, lks_store_status *status)
{
    store_primary one;
    size_t n = 0;

    while (of->look_primary && of->look_primary(of->store, n, &one))
        n++;
    status->primaries = answer_messages(a, &lockstock__v1__primary_status__descriptor, n);
    for (; status->n_primaries < n && of->look_primary(of->store, status->n_primaries, &one); status->n_primaries++)
        fill_primary(&one, a, status->primaries[status->n_primaries]);
}

static void fill_conditions(const conditions *from, answer *a, lks_get_status_response *response)
{
    condition one;
    size_t n = 0;

    while (from && conditions_look(from, n, &one))
        n++;
    response->conditions = answer_messages(a, &lockstock__v1__condition__descriptor, n);
    for (; response->n_conditions < n && conditions_look(from, response->n_conditions, &one);
         response->n_conditions++) {
        lks_condition *to = response->conditions[response->n_conditions];
        to->about = one.about;
        to->text = copy(a->arena, one.text);
        to->blocks = one.blocks;
        to->since_ms = one.since_ms;
    }
}

static lks_lock_store_status *fill_lock_store(const service_options *of, answer *a)
{
    lks_lock_store_status *status =
        ((lks_lock_store_status **)answer_messages(a, &lockstock__v1__lock_store_status__descriptor, 1))[0];

    status->ready = of->lock_store_ready(of->lock_store);
    return status;
}

static void get_status_finish(const lks_get_status_request *request, answer *a, lks_get_status_response *response)
{
    const admin_state *state = a->plan->state;
    const store_view view = view_of(state);
    lks_store_status *status =
        ((lks_store_status **)answer_messages(a, &lockstock__v1__store_status__descriptor, 1))[0];

    (void)request;
    response->version = LOCKSTOCK_VERSION;
    response->commit = LOCKSTOCK_COMMIT;
    response->up_ms = (int64_t)((a->now_ns - state->opened_ns) / 1000000);
    response->at_ms = clock_unix_ms();
    response->store = status;
    status->kind = view.embedded ? LKS_STORE_KIND_EMBEDDED : LKS_STORE_KIND_REDIS;
    status->ready = view.ready;
    status->reason = copy(a->arena, view.fault.text ? view.fault.text : "");
    status->reason_word = lks_reason_name(view.fault.reason);
    status->version = copy(a->arena, view.version);
    status->persistence = persistence_of(&view);
    status->fsync = fsync_of(&view);
    status->evicts = view.evicts;
    status->cluster = view.cluster;
    status->fails_over = view.fails_over;
    status->wait_replicas = view.wait_replicas;
    status->sentinels = view.sentinels;
    status->sentinels_answering = view.sentinels_answering;
    fill_primaries(&state->options, a, status);
    status->round_trip_us = view.ready ? view.round_trip_us : 0;
    status->at_ms = view.ready ? view.at_ms : 0;
    fill_conditions(state->options.conditions, a, response);
    if (state->options.lock_store)
        response->lock_store = fill_lock_store(&state->options, a);
}

static void get_metrics_prepare(const lks_get_metrics_request *request, plan *p)
{
    (void)request;
    (void)p;
}

static void get_metrics_finish(const lks_get_metrics_request *request, answer *a, lks_get_metrics_response *response)
{
    const service_options *of = &((const admin_state *)a->plan->state)->options;
    lks_rpc_slice text = {.data = ""};

    if (of->metrics)
        text = of->metrics(of->metrics_arg, request->openmetrics, a->arena);
    if (!text.data) {
        lks_error_set(&a->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        return;
    }
    response->text = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text.data, .len = text.len};
}

/* The principal is valid until this returns, because the policy may be read again at any time. */
static void who_am_i_prepare(const lks_who_am_i_request *request, plan *p)
{
    const service_caller *caller = p->caller;
    lks_who_am_i_response *kept = memory_in(p->arena, sizeof *kept);
    (void)request;

    *kept = (lks_who_am_i_response)LKS_WHO_AM_I_RESPONSE_INIT;
    p->kept = kept;
    if (!caller || !caller->principal)
        return;
    kept->policy = true;
    kept->principal = copy(p->arena, caller->principal);
    kept->namespace_ = copy(p->arena, caller->ns ? caller->ns : "");
    kept->token_ends_at_ms = caller->token_ends * 1000;
    service_right right;
    size_t n = 0;
    while (caller->right(caller->of, n, &right))
        n++;
    kept->rights = memory_in(p->arena, n * sizeof(lks_right *));
    for (; kept->n_rights < n && caller->right(caller->of, kept->n_rights, &right); kept->n_rights++) {
        lks_right *to = kept->rights[kept->n_rights] = memory_in(p->arena, sizeof *to);
        *to = (lks_right)LKS_RIGHT_INIT;
        to->service = copy(p->arena, right.service);
        to->read = right.read;
        to->write = right.write;
        to->admin = right.admin;
    }
}

static void who_am_i_finish(const lks_who_am_i_request *request, answer *a, lks_who_am_i_response *response)
{
    (void)request;
    *response = *(const lks_who_am_i_response *)a->plan->kept;
}

LKS_ADMIN_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_ADMIN_METHODS(SERVICE_ROW)};

const service admin_service = {
    .n_methods = sizeof methods / sizeof methods[0],
    .methods = methods,
    .open = admin_open,
    .close = free,
};

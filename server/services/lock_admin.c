/* LockService: Inspect, List, ForceRelease and its watch, and the fence register. Invariant: a page token only says
 * where a scan continues; the namespace is always the caller's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "services/lock.h"
#include "services/walk.h"

LKS_LOCK_METHODS(SERVICE_DECLARE)

enum {
    WATCH_MS_MAX = 86400000,
    PAGE_MAX = 1000,
    PAGE_DEFAULT = 100,
    PAGE_TOKEN_BYTES_MAX = 1024,
    HOLDERS_WEIGHT = 48, /* weight of a function that returns thousands of holders, or removes them */
    DESCRIBED_MAX = 256, /* holders that one lock_describe reads */
    DESCRIBE_WEIGHT = 20,
};

/* The group, and the rest of the key, of calls that watch for a ForceRelease: functions/lock_views.lua has both. */
static const char FORCED[] = "forced";

/* The result of the first round of Inspect and ForceRelease. A second round reads the holders, because one call of a
 * function cannot read thousands. */
typedef struct found {
    const char *group, *name;
    const store_value *reply;
    size_t first;               /* the element with the first holder's token; its entry follows, then the next holder */
    const store_value *waiting; /* for Inspect */
} found;

static void name_prepare(const plan_function *function, const char *group, const char *name, plan *p)
{
    plan_check_name(p, "name", name);
    plan_check_name_or_empty(p, "group", group);
    plan_call(p, function, group, name, 0);
    plan_weighs(p, HOLDERS_WEIGHT);
    args_lock_inspect(p, .name = name);
    found *f = p->kept = memory_in(p->arena, sizeof *f);
    f->group = group;
    f->name = name;
}

void inspect_prepare(const lks_inspect_request *request, plan *p)
{
    name_prepare(&fn_lock_inspect, request->group, request->name, p);
    plan_call(p, &fn_lock_waiting, request->group, request->name, 0);
    plan_weighs(p, HOLDERS_WEIGHT);
    args_lock_inspect(p, .name = request->name);
}

void force_release_prepare(const lks_force_release_request *request, plan *p)
{
    name_prepare(&fn_lock_force_release, request->group, request->name, p);
}

/* The store has no data for this call, but a call waits only while the store answers. lock_force_release wakes all such
 * calls of the namespace, on every server. */
void watch_force_releases_prepare(const lks_watch_force_releases_request *request, plan *p)
{
    plan_check_range(p, "wait_ms", request->wait_ms, 1, WATCH_MS_MAX);
    plan_call(p, &fn_lock_describe, FORCED, NULL, 0);
    plan_waits(p, plan_last_base(p), FORCED);
    if (p->event.kind != SERVICE_NO_EVENT)
        p->n_calls = 0;
}

void watch_force_releases_finish(const lks_watch_force_releases_request *request, answer *a,
                                 lks_watch_force_releases_response *response)
{
    (void)request;
    response->released = a->plan->event.kind == SERVICE_WOKEN;
    if (a->plan->event.kind == SERVICE_NO_EVENT)
        answer_waits(a);
}

static void describe_holders(const ProtobufCMessage *request, plan *p)
{
    const found *f = p->kept;
    (void)request;

    for (size_t at = f->first; at + 1 < f->reply->n; at += 2) {
        if ((at - f->first) / 2 % DESCRIBED_MAX == 0) {
            plan_call(p, &fn_lock_describe, f->group, f->name, DESCRIBED_MAX);
            plan_weighs(p, DESCRIBE_WEIGHT);
        }
        each_lock_describe(p, .token = f->reply->element[at].string, .entry = f->reply->element[at + 1].string);
    }
}

/* Whether lock_list can have returned it: a SCAN cursor and any number of ".<12 hex digits>". */
static bool is_page_token(const char *token)
{
    size_t digits = strspn(token, "0123456789");
    const char *rest = token + digits;

    errno = 0;
    strtoull(token, NULL, 10);
    if (digits == 0 || errno != 0)
        return false;
    while (*rest == '.' && strspn(rest + 1, "0123456789abcdef") == 12)
        rest += 13;
    return *rest == '\0' && strlen(token) <= PAGE_TOKEN_BYTES_MAX;
}

void list_prepare(const lks_list_request *request, plan *p)
{
    const walk *w = walk_read(p->arena, request->page_token);
    const char *cursor = w && w->rest[0] ? w->rest : "0";

    p->kept = (void *)w;
    plan_check_name_or_empty(p, "prefix", request->prefix);
    plan_check_range(p, "page_size", request->page_size, 0, PAGE_MAX);
    if (!w || !is_page_token(cursor))
        plan_invalid(p, "page_token: must be a token that List returned");
    /* Any group: the function reads the whole namespace. */
    plan_call(p, &fn_lock_list, "list", NULL, 0);
    args_lock_list(p, .prefix = request->prefix, .page_size = request->page_size ? request->page_size : PAGE_DEFAULT,
                   .page_cursor = cursor, .node = w ? w->node : "", .listed = w ? walk_listed(p->arena, w) : "");
    plan_weighs(p, STORE_WEIGHT_MAX);
    walk_place(w, p);
}

static void fence_prepare(const plan_function *function, const char *resource, uint64_t fence, uint64_t min, plan *p)
{
    plan_check_name(p, "resource", resource);
    if (fence < min || fence > (uint64_t)SERVICE_QUANTITY_MAX)
        plan_invalid(p, "fence: must be %llu to %lld", (unsigned long long)min, (long long)SERVICE_QUANTITY_MAX);
    plan_call(p, function, resource, NULL, 0);
    args_lock_check_fence(p, .presented = (int64_t)fence);
}

void check_fence_prepare(const lks_check_fence_request *request, plan *p)
{
    fence_prepare(&fn_lock_check_fence, request->resource, request->fence, 1, p);
}

void reset_fence_prepare(const lks_reset_fence_request *request, plan *p)
{
    fence_prepare(&fn_lock_reset_fence, request->resource, request->fence, 0, p);
}

/* Keeps the result of the first round, whose holders begin at element `first`. Returns false if there are none, or in
 * the second round. */
static bool find_holders(answer *a, size_t first)
{
    found *f = a->plan->kept;

    if (a->plan->round > 0)
        return false;
    f->reply = a->replies[0];
    f->first = first;
    f->waiting = a->n_replies > 1 ? a->replies[1] : NULL;
    return answer_count(a, f->reply) > first;
}

static int by_fence(const void *a, const void *b)
{
    const lks_lock_holder *const *left = a, *const *right = b;

    return ((*left)->fence > (*right)->fence) - ((*left)->fence < (*right)->fence);
}

/* Returns the holders that the second round has described. */
static lks_lock_holder **new_holders(answer *a, size_t *n)
{
    size_t at = 0;

    *n = 0;
    for (size_t i = 0; a->plan->round > 0 && i < a->n_replies; i++)
        if (answer_count(a, a->replies[i]) > 0)
            *n += a->replies[i]->n - 1;
    lks_lock_holder **holders = answer_messages(a, &lockstock__v1__lock_holder__descriptor, *n);
    for (size_t i = 0; *n > 0 && i < a->n_replies; i++) {
        for (size_t j = 1; j < a->replies[i]->n; j++, at++) {
            const store_value *row = answer_at(a, a->replies[i], j);
            holders[at]->owner = answer_decoded(a, row, 0);
            holders[at]->fence = (uint64_t)answer_int(a, row, 1);
            holders[at]->lease_ms = lock_holder_lease(a->plan, answer_int(a, row, 2));
            holders[at]->held_ms = answer_int(a, row, 3);
            holders[at]->permits = answer_int(a, row, 4);
        }
    }
    if (*n > 0)
        qsort(holders, *n, sizeof *holders, by_fence);
    return holders;
}

static lks_lock_waiter **new_queue(answer *a, const store_value *waiting, size_t *n)
{
    size_t elements = answer_count(a, waiting);

    *n = elements > 0 ? elements - 1 : 0;
    lks_lock_waiter **queue = answer_messages(a, &lockstock__v1__lock_waiter__descriptor, *n);
    for (size_t i = 0; i < *n; i++) {
        const store_value *row = answer_at(a, waiting, 1 + i);
        queue[i]->owner = answer_decoded(a, row, 0);
        queue[i]->waited_ms = answer_int(a, row, 1);
        queue[i]->left_ms = answer_int(a, row, 2);
    }
    return queue;
}

void inspect_finish(const lks_inspect_request *request, answer *a, lks_inspect_response *response)
{
    if (find_holders(a, 5)) {
        answer_next_round(a, describe_holders);
        return;
    }
    const found *f = a->plan->kept;
    const store_value *reply = f->reply;
    response->group = answer_group(request->group, request->name);
    response->name = request->name;
    response->holders = new_holders(a, &response->n_holders);
    if (response->n_holders > 0) {
        response->mode = (lks_lock_mode)answer_enum(a, reply, 1, &lockstock__v1__lock_mode__descriptor);
        response->capacity = answer_int(a, reply, 2);
    }
    response->last_fence = (uint64_t)answer_int(a, reply, 3);
    response->waiters = answer_int(a, reply, 4);
    response->queue = new_queue(a, f->waiting, &response->n_queue);
}

void list_finish(const lks_list_request *request, answer *a, lks_list_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    response->next_page_token = (char *)walk_next(a->arena, a->plan->kept, answer_text(a, reply, 2),
                                                  answer_text(a, reply, 3), answer_text(a, reply, 1));
    response->n_locks = a->error.code == LKS_OK ? answer_count(a, reply) - 4 : 0;
    response->locks = answer_messages(a, &lockstock__v1__lock_summary__descriptor, response->n_locks);
    for (size_t i = 0; i < response->n_locks; i++) {
        const store_value *row = answer_at(a, reply, 4 + i);
        lks_lock_summary *lock = response->locks[i];
        lock->group = answer_decoded(a, row, 0);
        lock->name = answer_decoded(a, row, 1);
        lock->mode = (lks_lock_mode)answer_enum(a, row, 2, &lockstock__v1__lock_mode__descriptor);
        lock->holders = answer_int(a, row, 3);
        lock->lease_ms = lock_holder_lease(a->plan, answer_int(a, row, 4));
        lock->owner = answer_decoded(a, row, 5);
        lock->waiters = answer_int(a, row, 6);
    }
}

void force_release_finish(const lks_force_release_request *request, answer *a, lks_force_release_response *response)
{
    (void)request;
    if (find_holders(a, 1))
        answer_next_round_applied(a, describe_holders);
    else
        response->removed = new_holders(a, &response->n_removed);
}

void check_fence_finish(const lks_check_fence_request *request, answer *a, lks_check_fence_response *response)
{
    (void)request;
    response->outcome =
        (lks_check_fence_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__check_fence_outcome__descriptor);
    response->high_water = (uint64_t)answer_int(a, a->replies[0], 1);
}

void reset_fence_finish(const lks_reset_fence_request *request, answer *a, lks_reset_fence_response *response)
{
    (void)request;
    response->high_water = (uint64_t)answer_int(a, a->replies[0], 1);
}

/* LockService: who holds what, taking it away, and the fence register. Invariant:
 * a page token only says where a scan goes on; the namespace is the caller's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "services/lock.h"

enum { PAGE_MAX = 1000, PAGE_DEFAULT = 100, PAGE_TOKEN_BYTES_MAX = 1024 };

static void name_prepare(const char *function, const char *group, const char *name, plan *p)
{
    plan_check_name_or_empty(p, "group", group);
    plan_check_name(p, "name", name);
    plan_call(p, function, group, name, 1);
    plan_arg_encoded(p, name);
}

void inspect_prepare(const lks_inspect_request *request, plan *p)
{
    name_prepare("lock_inspect", request->group, request->name, p);
}

void force_release_prepare(const lks_force_release_request *request, plan *p)
{
    name_prepare("lock_force_release", request->group, request->name, p);
}

/* Whether it is what lock_list gives: a SCAN cursor and any number of ".<12 hex digits>". */
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
    const char *cursor = request->page_token[0] ? request->page_token : "0";

    plan_check_name_or_empty(p, "prefix", request->prefix);
    plan_check_range(p, "page_size", request->page_size, 0, PAGE_MAX);
    if (!is_page_token(cursor))
        plan_invalid(p, "page_token: not one that List gave");
    /* The group is of no matter: the function looks at all of the namespace. */
    plan_call(p, "lock_list", "list", NULL, 3);
    plan_arg_encoded(p, request->prefix);
    plan_arg_int(p, request->page_size ? request->page_size : PAGE_DEFAULT);
    plan_arg(p, cursor);
    if (!plan_failed(p))
        p->calls[0].combinable = false; /* several scans as one would hold Redis up */
}

void check_fence_prepare(const lks_check_fence_request *request, plan *p)
{
    plan_check_name(p, "resource", request->resource);
    if (request->fence < 1 || request->fence > (uint64_t)SERVICE_QUANTITY_MAX)
        plan_invalid(p, "fence: must be 1 to %lld", (long long)SERVICE_QUANTITY_MAX);
    plan_call(p, "lock_check_fence", request->resource, NULL, 1);
    plan_arg_int(p, (int64_t)request->fence);
}

/* The elements of `reply` from `first` on. */
static lks_lock_holder **new_holders(answer *a, const store_value *reply, size_t first, size_t *n)
{
    size_t count = answer_count(a, reply);

    *n = count > first ? count - first : 0;
    lks_lock_holder **holders = lock_messages(a, &lockstock__v1__lock_holder__descriptor, n);
    for (size_t i = 0; i < *n; i++) {
        const store_value *row = answer_at(a, reply, first + i);
        holders[i]->owner = lock_text(a, row, 0);
        holders[i]->fence = (uint64_t)answer_int(a, row, 1);
        holders[i]->lease_ms = answer_int(a, row, 2);
        holders[i]->held_ms = answer_int(a, row, 3);
        holders[i]->permits = answer_int(a, row, 4);
    }
    return holders;
}

void inspect_finish(const lks_inspect_request *request, answer *a, lks_inspect_response *response)
{
    const store_value *reply = a->replies[0];

    response->group = lock_group(request->group, request->name);
    response->name = request->name;
    response->holders = new_holders(a, reply, 5, &response->n_holders);
    if (response->n_holders > 0)
        response->mode = (lks_lock_mode)answer_enum(a, reply, 1, &lockstock__v1__lock_mode__descriptor);
    response->capacity = answer_int(a, reply, 2);
    response->last_fence = (uint64_t)answer_int(a, reply, 3);
    response->waiters = answer_int(a, reply, 4);
}

void list_finish(const lks_list_request *request, answer *a, lks_list_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    response->next_page_token = answer_text(a, reply, 1);
    response->n_locks = answer_count(a, reply) - 2;
    response->locks = lock_messages(a, &lockstock__v1__lock_summary__descriptor, &response->n_locks);
    for (size_t i = 0; i < response->n_locks; i++) {
        const store_value *row = answer_at(a, reply, 2 + i);
        lks_lock_summary *lock = response->locks[i];
        lock->group = lock_text(a, row, 0);
        lock->name = lock_text(a, row, 1);
        lock->mode = (lks_lock_mode)answer_enum(a, row, 2, &lockstock__v1__lock_mode__descriptor);
        lock->holders = answer_int(a, row, 3);
        lock->lease_ms = answer_int(a, row, 4);
    }
}

void force_release_finish(const lks_force_release_request *request, answer *a, lks_force_release_response *response)
{
    (void)request;
    response->removed = new_holders(a, a->replies[0], 1, &response->n_removed);
}

void check_fence_finish(const lks_check_fence_request *request, answer *a, lks_check_fence_response *response)
{
    (void)request;
    response->outcome =
        (lks_check_fence_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__check_fence_outcome__descriptor);
    response->high_water = (uint64_t)answer_int(a, a->replies[0], 1);
}

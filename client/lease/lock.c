/* Invariant: a thread's holds are in that thread's own tree, so that no other thread
 * can unlock them or take itself for their holder; and each hold and each attempt at
 * one counts in its lock's `holds` until the last use of the lock. */
#include "client/lease/lock.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/v1/lock.lks_client.h>

#include "client/away.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "client/lease/lease.h"
#include "base/clock.h"

enum {
    OWNER_BYTES = 128,
    BATCH_MAX = 256 /* leases in one Renew, as the contract allows */
};

static _Thread_local void *mine; /* the holds of this thread, by channel, group and name */

static lks_code succeed(lks_error *error)
{
    if (error)
        *error = (lks_error){.code = LKS_OK};
    return LKS_OK;
}

/* ---- leases of holds ----------------------------------------------------------- */

static void renewed(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;
    lks_error wrong;

    if (code == LKS_OK && response->n_results != batch->n) {
        code = lks_error_set(&wrong, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer without a result for each lease");
        error = &wrong;
    }
    for (size_t i = 0; i < batch->n && code == LKS_OK; i++) {
        const lks_lease_result *result = response->results[i];

        batch->renewals[i].left_ms = result->outcome == LKS_RENEW_OUTCOME_RENEWED ? result->lease_ms : 0;
    }
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_code renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    lks_lease leases[BATCH_MAX], *list[BATCH_MAX];
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;

    for (size_t i = 0; i < batch->n; i++) {
        const struct hold *hold = (const struct hold *)batch->renewals[i].lease;

        leases[i] = (lks_lease)LKS_LEASE_INIT;
        leases[i].group = hold->lock->group;
        leases[i].token = hold->token;
        leases[i].lease_ms = hold->lease.lease_ms;
        list[i] = &leases[i];
    }
    request.n_leases = batch->n;
    request.leases = list;
    return lks_lock_renew_start(channel, &request, &options, renewed, batch, NULL, error);
}

static void lost(struct lease *lease, lks_loss_reason reason)
{
    const struct hold *hold = (const struct hold *)lease;
    const struct lock *lock = hold->lock;
    const lks_lock_loss loss = {.group = lock->group, .name = lock->name, .fence = hold->fence, .reason = reason};

    if (lock->on_lost)
        lock->on_lost(lock->arg, &loss);
}

static void free_hold(struct lease *lease)
{
    free(lease);
}

static const lease_kind kind = {.batch_max = BATCH_MAX, .renew = renew, .lost = lost, .free = free_hold};

/* ---- locks -------------------------------------------------------------------- */

char *lock_own_name(void)
{
    char *owner = malloc(OWNER_BYTES + 1), pid[16];

    if (!owner)
        return NULL;
    size_t room = OWNER_BYTES + 1 - (size_t)snprintf(pid, sizeof pid, "/%d", (int)getpid());
    if (gethostname(owner, room) != 0)
        owner[0] = '\0';
    owner[room - 1] = '\0';
    return strcat(owner, pid);
}

static void lock_destroy(struct lock *lock)
{
    free(lock->group);
    free(lock->name);
    free(lock->owner);
    free(lock);
}

static lks_code check_options(const char *name, const lks_lock_options *options, lks_error *error)
{
    if (!name || *name == '\0')
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "name: must not be empty");
    return lease_check_ms(options->lease_ms, error);
}

lks_code lock_new(lks_channel *channel, const char *name, int64_t capacity, const lks_lock_options *options,
                  struct lock **ret, lks_error *error)
{
    static const lks_lock_options defaults = {0};
    lks_code code = lease_check_process(error);

    options = options ? options : &defaults;
    if (code != LKS_OK || (code = check_options(name, options, error)) != LKS_OK)
        return code;
    struct lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lock->channel = channel;
    lock->name = strdup(name);
    lock->group = strdup(options->group && *options->group != '\0' ? options->group : name);
    lock->owner = options->owner ? strdup(options->owner) : lock_own_name();
    lock->capacity = capacity;
    lock->lease_ms = options->lease_ms != 0 ? options->lease_ms : LEASE_DEFAULT_MS;
    lock->renew_ms = options->renew_ms;
    lock->max_hold_ms = options->max_hold_ms;
    lock->on_lost = options->on_lost;
    lock->arg = options->arg;
    if (!lock->name || !lock->group || !lock->owner) {
        lock_destroy(lock);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    *ret = lock;
    return succeed(error);
}

/* The hold of a lease; NULL for a lease of another kind. */
static const struct hold *lost_hold(const struct lease *lease)
{
    return lease && lease->kind == &kind ? (const struct hold *)lease : NULL;
}

static bool is_of(const struct lease *lease, const void *lock)
{
    const struct hold *hold = lost_hold(lease);

    return hold && hold->lock == lock;
}

lks_code lock_free(struct lock *lock)
{
    if (!lock)
        return LKS_OK;
    const struct hold *lost = lost_hold(lease_reporting());
    if (lease_check_process(NULL) != LKS_OK || atomic_load(&lock->holds) != 0 || (lost && lost->lock == lock))
        return LKS_FAILED_PRECONDITION;
    lease_quiesce(is_of, lock);
    lock_destroy(lock);
    return LKS_OK;
}

/* ---- giving back -------------------------------------------------------------- */

void lock_release_later(lks_channel *of, const char *group, const char *token)
{
    const lks_call_options options = {.timeout_ms = LEASE_TOMBSTONE_MS, .insist = true};
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = group;
    request.token = token;
    lks_lock_release_start(of, &request, &options, NULL, NULL, NULL, NULL);
}

/* timeout_ms 0 is the channel's. */
static lks_code release_now(const struct lock *lock, const char *token, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_release_response *response = NULL;

    request.group = lock->group;
    request.token = token;
    lks_code code = lks_lock_release(lock->channel, &request, &options, &response, error);
    if (code != LKS_OK)
        lock_release_later(lock->channel, lock->group, token);
    else if (response->outcome != LKS_RELEASE_OUTCOME_RELEASED)
        code = lks_error_set_reason(error, LKS_ABORTED, LKS_APPLIED_YES, LKS_REASON_LEASE_LOST,
                                    "the lock had been taken away before");
    lks_release_response_free(response);
    return code;
}

static lks_code tell_lost(lks_error *error)
{
    return lks_error_set_reason(error, LKS_ABORTED, LKS_APPLIED_YES, LKS_REASON_LEASE_LOST,
                                "the lock had been lost before");
}

lks_code lock_give_back(struct hold *hold, lks_error *error)
{
    struct lock *lock = hold->lock;
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    bool lost = lease_end(&hold->lease);
    if (!lost && !lease_reporting() && !channel_on_completion_thread())
        code = release_now(lock, hold->token, 0, error);
    else
        lock_release_later(lock->channel, lock->group, hold->token);
    if (lost)
        code = tell_lost(error);
    lease_drop(&hold->lease);
    atomic_fetch_sub(&lock->holds, 1);
    return code;
}

bool lock_is_lost(const struct hold *hold)
{
    return lease_is_lost(&hold->lease);
}

uint64_t lock_left_ns(const struct hold *hold)
{
    return lease_left_ns(&hold->lease);
}

/* ---- taking ------------------------------------------------------------------- */

static lks_lock_result refuse(lks_error *error, lks_lock_result result, lks_code code, lks_reason reason,
                              const char *text)
{
    lks_error_set_reason(error, code, LKS_APPLIED_NO, reason, "%s", text);
    return result;
}

/* An answer that says neither: it may have been a grant. */
static lks_lock_result puzzle(lks_error *error, const char *text)
{
    lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s", text);
    return LKS_LOCK_FAILED;
}

static lks_lock_result outcome_result(lks_acquire_outcome outcome, lks_error *error)
{
    switch ((int)outcome) {
    case LKS_ACQUIRE_OUTCOME_ACQUIRED:
        return LKS_LOCK_ACQUIRED;
    case LKS_ACQUIRE_OUTCOME_BUSY:
        return refuse(error, LKS_LOCK_BUSY, LKS_ABORTED, LKS_REASON_BUSY, "others hold the lock");
    case LKS_ACQUIRE_OUTCOME_TIMED_OUT:
        return refuse(error, LKS_LOCK_TIMED_OUT, LKS_DEADLINE_EXCEEDED, LKS_REASON_BUSY,
                      "others held the lock until the timeout");
    case LKS_ACQUIRE_OUTCOME_TOKEN_SPENT:
        return refuse(error, LKS_LOCK_FAILED, LKS_ABORTED, LKS_REASON_LEASE_LOST,
                      "granted, and over again before it was known");
    default:
        return puzzle(error, "an answer of an unknown kind");
    }
}

/* Asks for the hold's token. *left_ms is what is left of the lease, from when the
 * request was sent. */
static lks_lock_result acquire(struct hold *hold, int64_t permits, uint32_t timeout_ms, int64_t *left_ms,
                               lks_error *error)
{
    const struct lock *lock = hold->lock;
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};

    target.name = lock->name;
    target.mode = hold->mode;
    target.permits = permits;
    target.capacity = lock->capacity;
    request.group = lock->group;
    request.n_targets = 1;
    request.targets = targets;
    request.token = hold->token;
    request.owner = lock->owner;
    request.lease_ms = lock->lease_ms;
    request.wait_ms = lease_wait_ms(timeout_ms);
    if (lks_lock_acquire(lock->channel, &request, NULL, &response, error) != LKS_OK)
        return LKS_LOCK_FAILED;
    bool doubtful = error_is_doubtful(error);
    lks_lock_result result = outcome_result(response->outcome, error);
    if (result != LKS_LOCK_ACQUIRED && doubtful)
        error->applied = LKS_APPLIED_MAYBE;
    if (result == LKS_LOCK_ACQUIRED && response->n_fences != 1)
        result = puzzle(error, "an answer without a fence");
    if (result == LKS_LOCK_ACQUIRED) {
        hold->fence = response->fences[0]->fence;
        *left_ms = response->lease_ms;
    }
    lks_acquire_response_free(response);
    return result;
}

/* After a wait in the queue the lease, counted from when the request was sent, may
 * seem to be over although it has just begun: only a renewal tells. */
static lks_lock_result confirm(const struct hold *hold, int64_t *left_ms, lks_error *error)
{
    const lks_call_options options = {.insist = true};
    const struct lock *lock = hold->lock;
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_renew_response *response = NULL;
    lks_lease lease = LKS_LEASE_INIT, *leases[] = {&lease};

    lease.group = lock->group;
    lease.token = hold->token;
    lease.lease_ms = lock->lease_ms;
    request.n_leases = 1;
    request.leases = leases;
    if (lks_lock_renew(lock->channel, &request, &options, &response, error) != LKS_OK)
        return LKS_LOCK_FAILED;
    bool renewed = response->n_results == 1 && response->results[0]->outcome == LKS_RENEW_OUTCOME_RENEWED;
    if (renewed)
        *left_ms = response->results[0]->lease_ms;
    lks_renew_response_free(response);
    return renewed ? LKS_LOCK_ACQUIRED : outcome_result(LKS_ACQUIRE_OUTCOME_TOKEN_SPENT, error);
}

/* What may be granted, also after the refusal of a later try, is given back. A refusal is true once a server has
 * answered that. */
static void give_back_unreturned(const struct hold *hold, lks_lock_result result, lks_error *error)
{
    const struct lock *lock = hold->lock;

    if (result != LKS_LOCK_BUSY && result != LKS_LOCK_TIMED_OUT) {
        lock_release_later(lock->channel, lock->group, hold->token);
        return;
    }
    lks_code code = release_now(lock, hold->token, LEASE_REFUSED_MS, NULL);
    if (code == LKS_OK || code == LKS_ABORTED)
        error->applied = LKS_APPLIED_NO;
}

/* Waits for a grant and has it watched. A grant that may have been made and is not
 * returned is given back. */
static lks_lock_result await_grant(struct hold *hold, int64_t permits, uint32_t timeout_ms, lks_error *error)
{
    int64_t left_ms = 0;
    uint64_t sent_ns = clock_now_ns();
    lks_lock_result result = acquire(hold, permits, timeout_ms, &left_ms, error);
    uint64_t now_ns = clock_now_ns();
    bool granted = result == LKS_LOCK_ACQUIRED || error->applied != LKS_APPLIED_NO;

    if (result == LKS_LOCK_ACQUIRED && lease_is_doubtful(hold->lock->lease_ms, sent_ns, now_ns)) {
        sent_ns = now_ns;
        result = confirm(hold, &left_ms, error);
    }
    if (result == LKS_LOCK_ACQUIRED)
        lease_begin(&hold->lease, sent_ns, left_ms);
    else if (granted)
        give_back_unreturned(hold, result, error);
    return result;
}

lks_lock_result lock_take(struct lock *lock, lks_lock_mode mode, int64_t permits, uint32_t timeout_ms,
                          struct hold **ret, lks_error *error)
{
    lks_error unwanted;

    error = error ? error : &unwanted;
    if (lease_check_process(error) != LKS_OK)
        return LKS_LOCK_FAILED;
    if (lease_reporting())
        return refuse(error, LKS_LOCK_FAILED, LKS_FAILED_PRECONDITION, LKS_REASON_NONE,
                      "locking blocks, and on_lost must not");
    struct hold *hold = malloc(sizeof *hold);
    if (!hold)
        return refuse(error, LKS_LOCK_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NONE, "out of memory");
    *hold = (struct hold){.lock = lock, .mode = mode, .count = 1};
    hold->lease = (struct lease){.kind = &kind,
                                 .channel = lock->channel,
                                 .lease_ms = lock->lease_ms,
                                 .renew_ms = lock->renew_ms,
                                 .keep_ms = lock->max_hold_ms != 0 ? lock->max_hold_ms : LEASE_ALWAYS};
    lks_rpc_random_id(hold->token);
    if (lease_expect(&hold->lease, error) != LKS_OK) {
        free(hold);
        return LKS_LOCK_FAILED;
    }
    atomic_fetch_add(&lock->holds, 1);
    lks_lock_result result = await_grant(hold, permits, timeout_ms, error);
    if (result == LKS_LOCK_ACQUIRED) {
        *ret = hold;
        succeed(error);
        return result;
    }
    lease_end(&hold->lease);
    lease_drop(&hold->lease);
    atomic_fetch_sub(&lock->holds, 1);
    return result;
}

/* ---- a thread's own ----------------------------------------------------------- */

static int compare_locks(const struct lock *a, const struct lock *b)
{
    if (a->channel != b->channel)
        return (uintptr_t)a->channel < (uintptr_t)b->channel ? -1 : 1;
    int groups = strcmp(a->group, b->group);
    return groups != 0 ? groups : strcmp(a->name, b->name);
}

static int compare(const void *a, const void *b)
{
    return compare_locks(((const struct hold *)a)->lock, ((const struct hold *)b)->lock);
}

static struct hold *find(const struct lock *lock)
{
    const struct hold key = {.lock = (struct lock *)lock};
    struct hold **node = tfind(&key, &mine, compare);

    return node ? *node : NULL;
}

const struct hold *lock_mine(const struct lock *lock)
{
    return lease_check_process(NULL) == LKS_OK ? find(lock) : NULL;
}

static lks_lock_result enter_again(struct hold *hold, lks_lock_mode mode, lks_error *error)
{
    if (lease_is_lost(&hold->lease))
        return refuse(error, LKS_LOCK_LOST, LKS_FAILED_PRECONDITION, LKS_REASON_LEASE_LOST,
                      "this thread has lost the lock and must unlock it first");
    if (mode == LKS_LOCK_MODE_EXCLUSIVE && hold->mode == LKS_LOCK_MODE_SHARED)
        return refuse(error, LKS_LOCK_FAILED, LKS_FAILED_PRECONDITION, LKS_REASON_NONE,
                      "this thread holds the lock for reading: to write it must unlock it first");
    hold->count++;
    succeed(error);
    return LKS_LOCK_ACQUIRED;
}

lks_lock_result lock_enter(struct lock *lock, lks_lock_mode mode, uint32_t timeout_ms, lks_error *error)
{
    if (lease_check_process(error) != LKS_OK)
        return LKS_LOCK_FAILED;
    struct hold *hold = find(lock);
    if (hold)
        return enter_again(hold, mode, error);
    lks_lock_result result = lock_take(lock, mode, 0, timeout_ms, &hold, error);
    if (result != LKS_LOCK_ACQUIRED || tsearch(hold, &mine, compare))
        return result;
    lock_give_back(hold, NULL);
    return refuse(error, LKS_LOCK_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NONE, "out of memory");
}

lks_code lock_leave(struct lock *lock, lks_error *error)
{
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    const struct hold *lost = lost_hold(lease_reporting());
    if (lost && compare_locks(lost->lock, lock) == 0) {
        lock_release_later(lock->channel, lock->group, lost->token);
        return tell_lost(error);
    }
    struct hold *hold = find(lock);
    if (!hold)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "this thread does not hold the lock");
    if (--hold->count != 0)
        return lease_is_lost(&hold->lease) ? tell_lost(error) : succeed(error);
    tdelete(hold, &mine, compare);
    return lock_give_back(hold, error);
}

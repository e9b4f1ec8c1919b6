/* Entering: Check, Begin, Acquire, each started by the answer to the one before it. Invariant: what was taken for a
 * call that is not admitted is given back, whether its caller is still there or not; what may have been taken
 * without an answer, too. */
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/idempotency.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/ratelimit.lks_client.h>

#include "client/away.h"
#include "client/call/channel.h"
#include "client/guard/guarded.h"
#include "client/lease/lease_time.h"
#include "client/lease/lock.h"
#include "client/once_back.h"
#include "base/clock.h"

enum {
    LIMIT_MS = 1000, /* of a Check, as with lks_limiter */
    TEXT_BYTES = 128,
    SPARE_PART = 10, /* of what is left of a call: for its answer to come in time */
    SPARE_MS_MAX = 1000
};

/* ---- memory ----------------------------------------------------------------------------- */

void guarded_ref(lks_guarded *guarded)
{
    atomic_fetch_add(&guarded->references, 1);
}

void guarded_unref(lks_guarded *guarded)
{
    if (atomic_fetch_sub(&guarded->references, 1) != 1)
        return;
    for (size_t i = 0; i < guarded->n_names; i++)
        free(guarded->names[i]);
    free(guarded->limit_key);
    free(guarded->key);
    free(guarded->answer.body);
    free(guarded->result.body.data);
    pthread_mutex_destroy(&guarded->lock);
    free(guarded);
}

void lks_guard_free(lks_guarded *guarded)
{
    if (guarded)
        guarded_unref(guarded);
}

/* ---- ending --------------------------------------------------------------------------------- */

void guarded_release(const lks_guarded *g)
{
    lock_release_later(g->channel, guarded_group(g), g->locks.token);
}

/* Gives back what was taken, in reverse order. */
static void unwind(lks_guarded *g)
{
    if (g->locks.granted)
        guarded_release(g);
    if (g->attempt.granted)
        once_fail(g->channel, g->guard->idempotency->scope, g->key, g->fence);
    guarded_end(&g->locks);
    guarded_end(&g->attempt);
}

/* The chain ends; nobody is told when its caller has been told already. */
static void settle(lks_guarded *g, guard_state state, guard_answer *answer)
{
    if (state != GUARD_ADMITTED)
        unwind(g);
    pthread_mutex_lock(&g->lock);
    bool cancelled = g->cancelled;
    if (!cancelled) {
        g->state = state;
        if (answer)
            g->answer = *answer;
    }
    pthread_mutex_unlock(&g->lock);
    if (!cancelled) {
        g->done(g->arg);
        return;
    }
    if (state == GUARD_ADMITTED)
        unwind(g);
    if (answer)
        free(answer->body);
}

/* Of a call that is refused: its handler does not run, but that of an earlier try may have run. */
static lks_applied applied_of(const lks_guarded *g)
{
    return g->unanswered_before ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO;
}

/* An outcome would tell the caller that nothing was done, but what holds the lock or used the limit may be an earlier
 * try of the same call. */
static void refuse(lks_guarded *g, lks_code code, lks_reason reason, int outcome, int64_t retry_after_ms,
                   const char *before, const char *const *paths, const char *after)
{
    guard_answer answer = {.outcome = g->unanswered_before ? 0 : outcome};
    char text[TEXT_BYTES];

    guard_paths(paths, text, sizeof text);
    lks_error_set_reason(&answer.error, code, applied_of(g), reason, "%s%s%s", before, text, after);
    if (retry_after_ms > 0)
        answer.error.retry_after_ms = retry_after_ms < UINT32_MAX ? (uint32_t)retry_after_ms : UINT32_MAX;
    settle(g, GUARD_REFUSED, &answer);
}

static void fail(lks_guarded *g, const char *guard, const lks_error *why)
{
    guard_answer answer = {.outcome = 0};

    guard_failed(guard, why, &answer.error);
    answer.error.applied = applied_of(g);
    settle(g, GUARD_REFUSED, &answer);
}

static void puzzle(lks_guarded *g, const char *guard)
{
    lks_error why;

    lks_error_set(&why, LKS_INTERNAL, LKS_APPLIED_NO, "an answer of an unknown kind");
    fail(g, guard, &why);
}

/* ---- calls ---------------------------------------------------------------------------------- */

uint32_t guarded_usable_ms(const lks_guarded *g, uint64_t most)
{
    uint64_t now = clock_now_ns();
    uint64_t left = now < g->deadline_ns ? (g->deadline_ns - now) / CLOCK_NS_PER_MS : 0;
    uint64_t spare = left / SPARE_PART < SPARE_MS_MAX ? left / SPARE_PART : SPARE_MS_MAX;
    uint64_t usable = left - spare;

    return (uint32_t)(usable < most ? usable : most);
}

/* Of a call that the chain makes. One that waits has the channel's time for its answer beside; a server cuts its wait
 * to what the call has. */
static lks_call_options asking(const lks_guarded *g, int64_t waits_ms, bool insist)
{
    uint32_t timeout_ms = guarded_usable_ms(g, (uint64_t)waits_ms + g->channel->options.timeout_ms);

    return (lks_call_options){.timeout_ms = timeout_ms > 0 ? timeout_ms : 1, .insist = insist};
}

/* Before a call of the chain is started: it has a reference, and is under the lock, so that a cancel sees it. False:
 * the chain was cancelled, and is over. */
static bool begin_call(lks_guarded *g)
{
    pthread_mutex_lock(&g->lock);
    if (!g->cancelled) {
        guarded_ref(g);
        return true;
    }
    pthread_mutex_unlock(&g->lock);
    unwind(g);
    return false;
}

/* False: it was not started. */
static bool started(lks_guarded *g, lks_code code)
{
    pthread_mutex_unlock(&g->lock);
    return code == LKS_OK;
}

static void not_started(lks_guarded *g, const char *guard, const lks_error *error)
{
    fail(g, guard, error);
    guarded_unref(g);
}

/* The call of the chain has been answered. */
static void end_call(lks_guarded *g)
{
    pthread_mutex_lock(&g->lock);
    lks_call_free(g->call);
    g->call = NULL;
    pthread_mutex_unlock(&g->lock);
}

/* ---- the locks ------------------------------------------------------------------------------- */

static const char lock_guard[] = "lock";

static void hold(lks_guarded *g, int64_t left_ms)
{
    lease_begin(&g->locks.lease, g->locks.sent_ns, left_ms);
    settle(g, GUARD_ADMITTED, NULL);
}

static void confirmed_locks(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    lks_guarded *g = arg;
    int64_t left_ms = code == LKS_OK ? guarded_renewed_ms(response) : 0;

    end_call(g);
    if (code != LKS_OK)
        fail(g, lock_guard, error);
    else if (left_ms > 0)
        hold(g, left_ms);
    else
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "the lock on ", g->guard->lock->keys,
               " ended before it was known to be held");
    guarded_unref(g);
}

/* After a wait in the queue the lease, counted from when the request was sent, may seem to be over although it has
 * just begun: only a renewal tells. */
static void confirm_locks(lks_guarded *g)
{
    const lks_call_options options = asking(g, 0, true);
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_lease one = guarded_renewal(g), *leases[] = {&one};
    lks_error error;

    request.n_leases = 1;
    request.leases = leases;
    g->locks.sent_ns = clock_now_ns();
    if (begin_call(g) &&
        !started(g, lks_lock_renew_start(g->channel, &request, &options, confirmed_locks, g, &g->call, &error)))
        not_started(g, lock_guard, &error);
}

static bool take_fences(lks_guarded *g, const lks_acquire_response *response)
{
    for (size_t i = 0; i < response->n_fences && i < g->n_names; i++)
        g->fences[i] = response->fences[i]->fence;
    return response->n_fences == g->n_names;
}

static void acquired(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_lock *guard = g->guard->lock;
    lks_acquire_outcome outcome = code == LKS_OK ? response->outcome : LKS_ACQUIRE_OUTCOME_UNSPECIFIED;

    end_call(g);
    g->locks.granted = outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED || error_is_doubtful(error);
    switch ((int)outcome) {
    case LKS_ACQUIRE_OUTCOME_ACQUIRED:
        if (!take_fences(g, response))
            puzzle(g, lock_guard);
        else if (lease_is_doubtful(g->locks.lease.lease_ms, g->locks.sent_ns, clock_now_ns()))
            confirm_locks(g);
        else
            hold(g, response->lease_ms);
        break;
    case LKS_ACQUIRE_OUTCOME_BUSY:
    case LKS_ACQUIRE_OUTCOME_TIMED_OUT:
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->busy, 0, "the lock on ", guard->keys, " is held by others");
        break;
    case LKS_ACQUIRE_OUTCOME_TOKEN_SPENT:
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "the lock on ", guard->keys,
               " ended before it was known to be held");
        break;
    default:
        if (code != LKS_OK)
            fail(g, lock_guard, error);
        else
            puzzle(g, lock_guard);
    }
    guarded_unref(g);
}

static void begin_locks(lks_guarded *g)
{
    const lks_rpc_guard_lock *guard = g->guard->lock;
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target targets[GUARD_NAMES_MAX], *list[GUARD_NAMES_MAX];
    lks_error error;

    if (!guard) {
        settle(g, GUARD_ADMITTED, NULL);
        return;
    }
    for (size_t i = 0; i < g->n_names; i++) {
        targets[i] = (lks_target)LKS_TARGET_INIT;
        targets[i].name = g->names[i];
        targets[i].mode = LKS_LOCK_MODE_EXCLUSIVE;
        list[i] = &targets[i];
    }
    char *owner = lock_own_name();
    request.group = guarded_group(g);
    request.n_targets = g->n_names;
    request.targets = list;
    request.token = g->locks.token;
    if (owner)
        request.owner = owner;
    request.lease_ms = g->locks.lease.lease_ms;
    request.wait_ms = guard->wait_ms;
    const lks_call_options options = asking(g, request.wait_ms, false);
    g->locks.sent_ns = clock_now_ns();
    if (begin_call(g) &&
        !started(g, lks_lock_acquire_start(g->channel, &request, &options, acquired, g, &g->call, &error)))
        not_started(g, lock_guard, &error);
    free(owner);
}

/* ---- the attempt ------------------------------------------------------------------------------ */

static const char call_guard[] = "idempotency";

static lks_begin_request begin_request(lks_guarded *g)
{
    const lks_rpc_guard_idempotency *guard = g->guard->idempotency;
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = guard->scope;
    request.key = g->key;
    request.attempt_token = g->attempt.token;
    if (!guard->key_alone)
        request.fingerprint = (ProtobufCBinaryData){.len = sizeof g->fingerprint, .data = g->fingerprint};
    request.lease_ms = g->attempt.lease.lease_ms;
    request.retain_ms = guard->retain_ms;
    request.wait_ms = guard->wait_ms;
    return request;
}

static void attempt(lks_guarded *g)
{
    lease_begin(&g->attempt.lease, g->attempt.sent_ns, g->attempt.lease.lease_ms);
    begin_locks(g);
}

static void confirmed_attempt(void *arg, lks_code code, const lks_extend_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    end_call(g);
    if (code != LKS_OK)
        fail(g, call_guard, error);
    else if (response->outcome == LKS_EXTEND_OUTCOME_EXTENDED)
        attempt(g);
    else
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "", g->guard->idempotency->key,
               ": a call took over before this one was known to have begun");
    guarded_unref(g);
}

/* As with the locks. */
static void confirm_attempt(lks_guarded *g)
{
    const lks_call_options options = asking(g, 0, true);
    const lks_extend_request request = guarded_extend(g);
    lks_error error;

    g->attempt.sent_ns = clock_now_ns();
    if (begin_call(g) && !started(g, lks_idempotency_extend_start(g->channel, &request, &options, confirmed_attempt, g,
                                                                  &g->call, &error)))
        not_started(g, call_guard, &error);
}

static void replay(lks_guarded *g, const lks_stored_result *stored)
{
    guard_answer answer = {.outcome = 0};

    guard_replay(stored, &answer);
    settle(g, GUARD_REFUSED, &answer);
}

static void begun(void *arg, lks_code code, const lks_begin_response *response, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_idempotency *guard = g->guard->idempotency;
    lks_begin_outcome outcome = code == LKS_OK ? response->outcome : LKS_BEGIN_OUTCOME_UNSPECIFIED;

    end_call(g);
    switch ((int)outcome) {
    case LKS_BEGIN_OUTCOME_EXECUTE:
        g->attempt.granted = true;
        g->number = response->attempt;
        g->fence = response->fence;
        if (lease_is_doubtful(g->attempt.lease.lease_ms, g->attempt.sent_ns, clock_now_ns()))
            confirm_attempt(g);
        else
            attempt(g);
        break;
    case LKS_BEGIN_OUTCOME_REPLAY:
        replay(g, response->result);
        break;
    case LKS_BEGIN_OUTCOME_IN_PROGRESS:
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->in_progress, response->retry_after_ms, "", guard->key,
               ": an earlier call with it has not ended: it runs, or its process is gone and its lease goes on");
        break;
    case LKS_BEGIN_OUTCOME_MISMATCH:
        refuse(g, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED, guard->mismatch, 0, "", guard->key,
               ": was used for another request; only with key_alone the key alone counts");
        break;
    default:
        if (code != LKS_OK && error->applied != LKS_APPLIED_NO) {
            const lks_begin_request request = begin_request(g);
            once_give_back(g->channel, &request);
        }
        if (code != LKS_OK)
            fail(g, call_guard, error);
        else
            puzzle(g, call_guard);
    }
    guarded_unref(g);
}

/* Nobody cancels it: a server that lets it wait would begin the attempt of a call that was given up. It goes on, and
 * what it begins is given back. */
static void begin_attempt(lks_guarded *g)
{
    lks_error error;

    if (!g->guard->idempotency) {
        begin_locks(g);
        return;
    }
    const lks_begin_request request = begin_request(g);
    const lks_call_options options = asking(g, request.wait_ms, false);
    g->attempt.sent_ns = clock_now_ns();
    if (begin_call(g) &&
        !started(g, lks_idempotency_begin_start(g->channel, &request, &options, begun, g, NULL, &error)))
        not_started(g, call_guard, &error);
}

/* ---- the limit -------------------------------------------------------------------------------- */

static const char limit_guard[] = "rate limit";

static void checked(void *arg, lks_code code, const lks_check_response *response, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_limit *guard = g->guard->rate_limit;

    end_call(g);
    if (code != LKS_OK && guard->fail_open && error_is_away(error))
        begin_attempt(g);
    else if (code != LKS_OK)
        fail(g, limit_guard, error);
    else if (response->outcome == LKS_CHECK_OUTCOME_ALLOWED)
        begin_attempt(g);
    else if (response->n_rules == 1)
        refuse(g, LKS_RESOURCE_EXHAUSTED, LKS_REASON_RATE_LIMITED, guard->denied, response->rules[0]->retry_after_ms,
               "over the limit of ", guard->key, "");
    else
        puzzle(g, limit_guard);
    guarded_unref(g);
}

static void begin_limit(lks_guarded *g)
{
    const lks_rpc_guard_limit *guard = g->guard->rate_limit;
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_limit limit = LKS_LIMIT_INIT;
    lks_error error;

    if (!guard) {
        begin_attempt(g);
        return;
    }
    rule.key = g->limit_key;
    if (*guard->policy != '\0') {
        lks_rule_set_policy(&rule, guard->policy);
    } else {
        limit.algorithm = guard->algorithm != 0 ? (lks_algorithm)guard->algorithm : LKS_ALGORITHM_SLIDING_WINDOW;
        limit.limit = guard->limit;
        limit.period_ms = guard->period_ms;
        limit.burst = guard->burst;
        lks_rule_set_limit(&rule, &limit);
    }
    request.group = guard->group;
    request.n_rules = 1;
    request.rules = rules;
    uint32_t timeout_ms = guarded_usable_ms(g, LIMIT_MS);
    const lks_call_options options = {.timeout_ms = timeout_ms > 0 ? timeout_ms : 1};
    if (!begin_call(g) ||
        started(g, lks_rate_limit_check_start(g->channel, &request, &options, checked, g, &g->call, &error)))
        return;
    if (guard->fail_open && error_is_away(&error)) {
        begin_attempt(g);
        guarded_unref(g);
    } else {
        not_started(g, limit_guard, &error);
    }
}

/* ---- the whole -------------------------------------------------------------------------------- */

/* What stands before the key, so that each method has counters of its own. */
static const char *limit_name(const lks_guarded *g)
{
    const char *name = g->guard->rate_limit->name;

    return name && *name != '\0' ? name : g->method->path;
}

static lks_code read_request(lks_guarded *g, ProtobufCMessage *request, lks_error *error)
{
    const lks_rpc_guard *guard = g->guard;
    lks_code code = LKS_OK;

    guard_order_maps(request);
    if (guard->rate_limit)
        code = guard_key(request, guard->rate_limit->key, limit_name(g), GUARD_LIMIT_KEY_MAX, &g->limit_key, error);
    if (code == LKS_OK && guard->idempotency)
        code =
            guard_key(request, guard->idempotency->key, guard->idempotency->group, GUARD_CALL_KEY_MAX, &g->key, error);
    if (code == LKS_OK && guard->lock)
        code =
            guard_names(request, guard->lock->keys, guard->lock->prefix, GUARD_NAME_MAX, g->names, &g->n_names, error);
    if (code == LKS_OK && g->n_names > 1 && *guard->lock->group == '\0')
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "%s: leads to several locks, which need a group", guard->lock->keys[0]);
    if (code == LKS_OK && guard->idempotency && !guard->idempotency->key_alone)
        code = guard_fingerprint(g->method, request, g->fingerprint, error);
    return code;
}

lks_code lks_guard_enter(lks_channel *channel, const lks_rpc_guard *guard, const lks_rpc_method *method,
                         ProtobufCMessage *request, uint64_t deadline_ns, bool unanswered_before, lks_guard_done *done,
                         void *arg, lks_guarded **ret, lks_error *error)
{
    lks_guarded *g = calloc(1, sizeof *g);

    lks_error_clear(error);
    if (!g)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    g->channel = channel;
    g->guard = guard;
    g->method = method;
    g->deadline_ns = deadline_ns;
    g->unanswered_before = unanswered_before;
    g->done = done;
    g->arg = arg;
    g->references = 2; /* the owner's, and this function's */
    pthread_mutex_init(&g->lock, NULL);
    lks_code code = read_request(g, request, error);
    if (code == LKS_OK)
        code = guarded_expect(g, error);
    if (code == LKS_OK) {
        *ret = g;
        begin_limit(g);
    } else {
        unwind(g);
        guarded_unref(g);
    }
    guarded_unref(g);
    return code;
}

void lks_guard_cancel(lks_guarded *g)
{
    pthread_mutex_lock(&g->lock);
    bool cancels = g->state == GUARD_ENTERING && !g->cancelled;
    if (cancels) {
        g->cancelled = true;
        g->state = GUARD_REFUSED;
        lks_error_set(&g->answer.error, LKS_CANCELLED, LKS_APPLIED_NO, "the caller is gone");
        if (g->call)
            lks_call_cancel(g->call);
    }
    pthread_mutex_unlock(&g->lock);
    if (cancels)
        g->done(g->arg);
}

bool lks_guard_runs(const lks_guarded *guarded)
{
    return guarded->state == GUARD_ADMITTED;
}

/* ---- for handlers ------------------------------------------------------------------------------ */

bool lks_guard_is_lost(const lks_rpc_context *context)
{
    lks_guarded *g = context->guarded;

    return g && ((g->guard->lock && lease_is_lost(&g->locks.lease)) ||
                 (g->guard->idempotency && lease_is_lost(&g->attempt.lease)));
}

size_t lks_guard_n_locks(const lks_rpc_context *context)
{
    return context->guarded ? context->guarded->n_names : 0;
}

const char *lks_guard_lock_name(const lks_rpc_context *context, size_t i)
{
    return i < lks_guard_n_locks(context) ? context->guarded->names[i] : NULL;
}

uint64_t lks_guard_fence(const lks_rpc_context *context, size_t i)
{
    return i < lks_guard_n_locks(context) ? context->guarded->fences[i] : 0;
}

uint64_t lks_guard_fence_of(const lks_rpc_context *context, const char *name)
{
    for (size_t i = 0; i < lks_guard_n_locks(context); i++)
        if (strcmp(context->guarded->names[i], name) == 0)
            return context->guarded->fences[i];
    return 0;
}

int64_t lks_guard_attempt(const lks_rpc_context *context)
{
    return context->guarded ? context->guarded->number : 0;
}

uint64_t lks_guard_attempt_fence(const lks_rpc_context *context)
{
    return context->guarded ? context->guarded->fence : 0;
}

/* Entering: the guards are asked one after the other, each when the one before it admitted the call. Invariant: what
 * was taken for a call that is not admitted is given back. */
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/ratelimit.lks_client.h>

#include "base/clock.h"
#include "host/guard/guarded.h"
#include "rpc/away.h"

enum {
    LIMIT_MS = 1000, /* of a Check, as with lks_limiter */
    TEXT_BYTES = 128,
    SPARE_PART = 10, /* of what is left of a call: for its answer to arrive in time */
    SPARE_MS_MAX = 1000
};

/* ---- memory ----------------------------------------------------------------------------- */

void guarded_ref(lks_guarded *g)
{
    atomic_fetch_add(&g->references, 1);
}

/* Gives back what was taken, in reverse order, in the background. */
static void unwind(lks_guarded *g)
{
    lks_hold_free(g->hold);
    lks_once_free(g->attempt);
    g->hold = NULL;
    g->attempt = NULL;
}

void guarded_unref(lks_guarded *g)
{
    if (atomic_fetch_sub(&g->references, 1) != 1)
        return;
    unwind(g);
    lks_call_free(g->check);
    for (size_t i = 0; i < g->n_names; i++)
        free(g->names[i]);
    free(g->limit_key);
    free(g->key);
    free(g->answer.body);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void lks_guard_free(lks_guarded *guarded)
{
    if (guarded)
        guarded_unref(guarded);
}

uint32_t guarded_usable_ms(const lks_guarded *g)
{
    uint64_t now = clock_now_ns();
    uint64_t left = now < g->deadline_ns ? (g->deadline_ns - now) / CLOCK_NS_PER_MS : 0;
    uint64_t spare = left / SPARE_PART < SPARE_MS_MAX ? left / SPARE_PART : SPARE_MS_MAX;
    uint64_t usable = left - spare;

    return usable == 0 ? 1 : usable < UINT32_MAX ? (uint32_t)usable : UINT32_MAX;
}

/* ---- refusing --------------------------------------------------------------------------- */

/* Unless the call was cancelled: then its caller has an answer, and what was taken is given back with the last
 * reference, because the cancel may still use it. */
static void settle_refused(lks_guarded *g, guard_answer *answer)
{
    pthread_mutex_lock(&g->lock);
    bool cancelled = g->state == GUARD_REFUSED;
    if (!cancelled) {
        g->state = GUARD_REFUSED;
        g->answer = *answer;
    }
    pthread_mutex_unlock(&g->lock);
    if (cancelled) {
        free(answer->body);
        return;
    }
    unwind(g);
    g->done(g->arg);
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
    settle_refused(g, &answer);
}

/* The operation of that state failed. */
static void fail(lks_guarded *g, guard_state state, const lks_error *why)
{
    static const char *const guards[] = {
        [GUARD_LIMITING] = "rate limit", [GUARD_BEGINNING] = "idempotency", [GUARD_LOCKING] = "lock"};
    guard_answer answer = {.outcome = 0};

    guard_failed(guards[state], why, &answer.error);
    answer.error.applied = applied_of(g);
    settle_refused(g, &answer);
}

/* ---- the locks ---------------------------------------------------------------------------- */

static void go_on(lks_guarded *g);

static void held(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_lock *guard = g->guard->lock;

    (void)hold;
    if (result == LKS_LOCK_ACQUIRED)
        go_on(g);
    else if (result == LKS_LOCK_BUSY || result == LKS_LOCK_TIMED_OUT)
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->busy, 0, "the lock on ", guard->keys, " is held by others");
    else if (error->reason == LKS_REASON_LEASE_LOST)
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "the lock on ", guard->keys,
               " ended before it was known to be held");
    else
        fail(g, GUARD_LOCKING, error);
    guarded_unref(g);
}

static lks_code lock(lks_guarded *g, lks_error *error)
{
    const lks_rpc_guard_lock *guard = g->guard->lock;
    const lks_hold_options options = {.names = (const char *const *)g->names,
                                      .n_names = g->n_names,
                                      .group = guard->group,
                                      .lease_ms = (uint32_t)guard->lease_ms,
                                      .wait_ms = (uint32_t)guard->wait_ms,
                                      .timeout_ms = guarded_usable_ms(g)};

    return lks_hold_acquire(g->channel, &options, held, g, &g->hold, error);
}

/* ---- the attempt -------------------------------------------------------------------------- */

static void begun(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_idempotency *guard = g->guard->idempotency;
    guard_answer answer = {.outcome = 0};

    if (outcome == LKS_ONCE_BEGUN) {
        go_on(g);
    } else if (outcome == LKS_ONCE_REPLAYED) {
        guard_replay(result, &answer);
        settle_refused(g, &answer);
    } else if (outcome == LKS_ONCE_IN_PROGRESS && error->reason == LKS_REASON_LEASE_LOST) {
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "", guard->key,
               ": a call took over before this one was known to have begun");
    } else if (outcome == LKS_ONCE_IN_PROGRESS) {
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->in_progress, error->retry_after_ms, "", guard->key,
               ": an earlier call with it has not ended: it runs, or its process is gone and its lease goes on");
    } else if (outcome == LKS_ONCE_MISMATCH) {
        refuse(g, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED, guard->mismatch, 0, "", guard->key,
               ": was used for another request; only with key_alone the key alone counts");
    } else if (error->code == LKS_INTERNAL && error->origin == LKS_ORIGIN_LOCAL) {
        answer.error = *error; /* the answer cannot be understood: another attempt may have run */
        settle_refused(g, &answer);
    } else {
        fail(g, GUARD_BEGINNING, error);
    }
    lks_once_result_free(result);
    guarded_unref(g);
}

static lks_code begin(lks_guarded *g, lks_error *error)
{
    const lks_rpc_guard_idempotency *guard = g->guard->idempotency;
    const lks_once_options options = {.scope = guard->scope,
                                      .key = g->key,
                                      .fingerprint = guard->key_alone ? NULL : g->fingerprint,
                                      .fingerprint_len = guard->key_alone ? 0 : sizeof g->fingerprint,
                                      .lease_ms = (uint32_t)guard->lease_ms,
                                      .retain_ms = (uint64_t)guard->retain_ms,
                                      .wait_ms = (uint32_t)guard->wait_ms};

    return lks_once_begin(g->channel, &options, guarded_usable_ms(g), begun, g, &g->attempt, error);
}

/* ---- the limit ---------------------------------------------------------------------------- */

static void checked(void *arg, lks_code code, const lks_check_response *response, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard_limit *guard = g->guard->rate_limit;
    lks_error wrong;

    if (code != LKS_OK && guard->fail_open && error_is_away(error)) {
        go_on(g);
    } else if (code != LKS_OK) {
        fail(g, GUARD_LIMITING, error);
    } else if (response->outcome == LKS_CHECK_OUTCOME_ALLOWED) {
        go_on(g);
    } else if (response->n_rules == 1) {
        refuse(g, LKS_RESOURCE_EXHAUSTED, LKS_REASON_RATE_LIMITED, guard->denied, response->rules[0]->retry_after_ms,
               "over the limit of ", guard->key, "");
    } else {
        lks_error_set(&wrong, LKS_INTERNAL, LKS_APPLIED_NO, "an answer of an unknown kind");
        fail(g, GUARD_LIMITING, &wrong);
    }
    guarded_unref(g);
}

static lks_code limit(lks_guarded *g, lks_error *error)
{
    const lks_rpc_guard_limit *guard = g->guard->rate_limit;
    uint32_t usable_ms = guarded_usable_ms(g);
    const lks_call_options options = {.timeout_ms = usable_ms < LIMIT_MS ? usable_ms : LIMIT_MS};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_limit own = LKS_LIMIT_INIT;

    rule.key = g->limit_key;
    if (*guard->policy != '\0') {
        lks_rule_set_policy(&rule, guard->policy);
    } else {
        own.algorithm = guard->algorithm != 0 ? (lks_algorithm)guard->algorithm : LKS_ALGORITHM_SLIDING_WINDOW;
        own.limit = guard->limit;
        own.period_ms = guard->period_ms;
        own.burst = guard->burst;
        lks_rule_set_limit(&rule, &own);
    }
    request.group = guard->group;
    request.n_rules = 1;
    request.rules = rules;
    return lks_rate_limit_check_start(g->channel, &request, &options, checked, g, &g->check, error);
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Under the lock: asks the guard of a state. The operation has a reference, and its callback does not run before the
 * lock is released. */
static lks_code ask(lks_guarded *g, guard_state state, lks_error *error)
{
    lks_code code;

    guarded_ref(g);
    if (state == GUARD_LIMITING)
        code = limit(g, error);
    else if (state == GUARD_BEGINNING)
        code = begin(g, error);
    else
        code = lock(g, error);
    if (code != LKS_OK)
        guarded_unref(g); /* not the last one: the caller has one */
    return code;
}

static bool has(const lks_guarded *g, guard_state state)
{
    const lks_rpc_guard *guard = g->guard;

    return (state == GUARD_LIMITING && guard->rate_limit) || (state == GUARD_BEGINNING && guard->idempotency) ||
           (state == GUARD_LOCKING && guard->lock);
}

/* Asks the next guard; after the last one the call is admitted. */
static void go_on(lks_guarded *g)
{
    lks_code code = LKS_OK;
    lks_error error;

    pthread_mutex_lock(&g->lock);
    while (g->state < GUARD_ADMITTED) {
        if (!has(g, ++g->state))
            continue;
        code = ask(g, g->state, &error);
        if (code == LKS_OK || !(g->state == GUARD_LIMITING && g->guard->rate_limit->fail_open && error_is_away(&error)))
            break;
        code = LKS_OK;
    }
    guard_state state = g->state;
    pthread_mutex_unlock(&g->lock);
    if (code != LKS_OK)
        fail(g, state, &error);
    else if (state == GUARD_ADMITTED)
        g->done(g->arg);
}

/* The prefix of the key, so that each method has counters of its own. */
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

lks_code lks_guarded_enter(lks_channel *channel, const lks_rpc_guard *guard, const lks_rpc_method *method,
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
    if (code == LKS_OK) {
        *ret = g;
        go_on(g);
    } else {
        guarded_unref(g);
    }
    guarded_unref(g);
    return code;
}

void lks_guard_cancel(lks_guarded *g)
{
    pthread_mutex_lock(&g->lock);
    guard_state state = g->state;
    if (state < GUARD_ADMITTED) {
        g->state = GUARD_REFUSED;
        lks_error_set(&g->answer.error, LKS_CANCELLED, LKS_APPLIED_NO, "the caller is gone");
    }
    pthread_mutex_unlock(&g->lock);
    if (state >= GUARD_ADMITTED)
        return;
    /* What could not be started is not there. */
    if (state == GUARD_LIMITING && g->check)
        lks_call_cancel(g->check);
    else if (state == GUARD_BEGINNING && g->attempt)
        lks_once_cancel(g->attempt);
    else if (state == GUARD_LOCKING && g->hold)
        lks_hold_cancel(g->hold);
    g->done(g->arg);
}

bool lks_guard_runs(const lks_guarded *guarded)
{
    return guarded->state == GUARD_ADMITTED;
}

/* ---- for handlers ------------------------------------------------------------------------------ */

bool lks_guard_is_lost(const lks_rpc_context *context)
{
    const lks_guarded *g = context->guarded;

    return g && ((g->hold && lks_hold_is_lost(g->hold)) || (g->attempt && lks_once_is_lost(g->attempt)));
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
    return i < lks_guard_n_locks(context) && context->guarded->hold ? lks_hold_fence(context->guarded->hold, i) : 0;
}

uint64_t lks_guard_fence_of(const lks_rpc_context *context, const char *name)
{
    for (size_t i = 0; i < lks_guard_n_locks(context); i++)
        if (strcmp(context->guarded->names[i], name) == 0)
            return lks_guard_fence(context, i);
    return 0;
}

int64_t lks_guard_attempt(const lks_rpc_context *context)
{
    return context->guarded && context->guarded->attempt ? lks_once_number(context->guarded->attempt) : 0;
}

uint64_t lks_guard_attempt_fence(const lks_rpc_context *context)
{
    return context->guarded && context->guarded->attempt ? lks_once_fence(context->guarded->attempt) : 0;
}

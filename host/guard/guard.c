/* Entering: one Enter asks all guards of a call. Invariant: whatever was taken for a call that is not admitted is given
 * back. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/guard/guarded.h"
#include "rpc/transient.h"

enum {
    LIMIT_MS = 1000, /* with limits alone, as with lks_limiter */
    TEXT_BYTES = 128,
    SPARE_PART = 10, /* of the rest of a call's time, for its answer to arrive */
    SPARE_MS_MAX = 1000
};

/* ---- memory ----------------------------------------------------------------------------- */

void guarded_ref(lks_guarded *g)
{
    atomic_fetch_add(&g->references, 1);
}

void guarded_unref(lks_guarded *g)
{
    if (atomic_fetch_sub(&g->references, 1) != 1)
        return;
    lks_entry_free(g->entry);
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

/* Refuses the call, unless it was cancelled and so is already answered. */
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
    g->done(g->arg);
}

/* The `applied` of a refused call: its handler does not run, but that of an earlier try may have run. */
static lks_applied applied_of(const lks_guarded *g)
{
    return g->unanswered_before ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO;
}

/* Uses no outcome after an unanswered try: it would tell the caller that nothing was done, but an earlier try of the
 * same call may hold the lock or have used the limit. */
static void refuse(lks_guarded *g, lks_code code, lks_reason reason, int outcome, uint32_t retry_after_ms,
                   const char *before, const char *const *paths, const char *after)
{
    guard_answer answer = {.outcome = g->unanswered_before ? 0 : outcome};
    char text[TEXT_BYTES];

    guard_paths(paths, text, sizeof text);
    lks_error_set_reason(&answer.error, code, applied_of(g), reason, "%s%s%s", before, text, after);
    answer.error.retry_after_ms = retry_after_ms;
    settle_refused(g, &answer);
}

/* Whether the call runs when no server can be asked: with only a rate limit that has fail_open. */
static bool fails_open(const lks_rpc_guard *guard)
{
    return guard->rate_limit && guard->rate_limit->fail_open && !guard->idempotency && !guard->lock;
}

static void fail(lks_guarded *g, const lks_error *why)
{
    guard_answer answer = {.outcome = 0};

    guard_failed(g->guard, why, &answer.error);
    answer.error.applied = applied_of(g);
    settle_refused(g, &answer);
}

/* ---- entering --------------------------------------------------------------------------- */

/* Admits the call, with or without an entry, unless it was cancelled: then the entry is given back with the last
 * reference. */
static void admit(lks_guarded *g)
{
    pthread_mutex_lock(&g->lock);
    bool cancelled = g->state == GUARD_REFUSED;
    if (!cancelled)
        g->state = GUARD_ADMITTED;
    pthread_mutex_unlock(&g->lock);
    if (!cancelled)
        g->done(g->arg);
}

static void replay(lks_guarded *g, const lks_stored_result *stored)
{
    guard_answer answer = {.outcome = 0};

    guard_replay(stored, &answer);
    settle_refused(g, &answer);
}

/* Ends a call without an answer from which the guards' decision is known. */
static void end_unanswered(lks_guarded *g, const lks_error *error)
{
    const lks_rpc_guard *guard = g->guard;
    guard_answer answer = {.error = *error};

    if (error->code == LKS_ABORTED && error->reason == LKS_REASON_LEASE_LOST)
        refuse(g, LKS_ABORTED, LKS_REASON_LEASE_LOST, 0, 0, "what the guards of ",
               guard->lock ? guard->lock->keys : guard->idempotency->key, " took expired before the answer arrived");
    else if (error->code == LKS_INTERNAL && error->origin == LKS_ORIGIN_LOCAL)
        settle_refused(g, &answer); /* the answer is unknown: another attempt may have run */
    else if (fails_open(guard) && error_is_transient(error))
        admit(g);
    else
        fail(g, error);
}

static void entered(void *arg, lks_entry *entry, lks_enter_outcome outcome, const lks_error *error)
{
    lks_guarded *g = arg;
    const lks_rpc_guard *guard = g->guard;

    switch ((int)outcome) {
    case LKS_ENTER_OUTCOME_ENTERED:
        admit(g);
        break;
    case LKS_ENTER_OUTCOME_REPLAY:
        replay(g, lks_entry_answer(entry)->result);
        break;
    case LKS_ENTER_OUTCOME_LIMITED:
        refuse(g, LKS_RESOURCE_EXHAUSTED, LKS_REASON_RATE_LIMITED, guard->rate_limit->denied, error->retry_after_ms,
               "over the limit of ", guard->rate_limit->key, "");
        break;
    case LKS_ENTER_OUTCOME_IN_PROGRESS:
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->idempotency->in_progress, error->retry_after_ms, "",
               guard->idempotency->key,
               ": an earlier call with it has not ended: it is running, or its process is gone and its lease has not "
               "expired");
        break;
    case LKS_ENTER_OUTCOME_MISMATCH:
        refuse(g, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED, guard->idempotency->mismatch, 0, "",
               guard->idempotency->key, ": was already used for a different request");
        break;
    case LKS_ENTER_OUTCOME_BUSY:
    case LKS_ENTER_OUTCOME_TIMED_OUT:
        refuse(g, LKS_ABORTED, LKS_REASON_BUSY, guard->lock->busy, 0, "the lock on ", guard->lock->keys,
               " is held by others");
        break;
    default:
        end_unanswered(g, error);
    }
    guarded_unref(g);
}

/* ---- the request --------------------------------------------------------------------------- */

/* The parts of an Enter, which point into the call. */
typedef struct parts {
    lks_enter_request request;
    lks_guard_once once;
    lks_guard_limits limits;
    lks_guard_locks locks;
    lks_rule rule, *rules[1];
    lks_limit limit;
    lks_target target[GUARD_NAMES_MAX], *targets[GUARD_NAMES_MAX];
} parts;

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void ask_once(parts *p, const lks_guarded *g)
{
    const lks_rpc_guard_idempotency *guard = g->guard->idempotency;

    p->once = (lks_guard_once)LKS_GUARD_ONCE_INIT;
    p->once.scope = guard->scope;
    p->once.key = g->key;
    p->once.retain_ms = guard->retain_ms;
    p->once.no_wait = guard->wait_ms == 0;
    if (!guard->key_alone)
        p->once.fingerprint =
            (ProtobufCBinaryData){.len = sizeof g->fingerprint, .data = (uint8_t *)(uintptr_t)g->fingerprint};
    p->request.once = &p->once;
    p->request.lease_ms = guard->lease_ms;
    p->request.wait_ms = guard->wait_ms;
}

static void ask_limit(parts *p, const lks_guarded *g)
{
    const lks_rpc_guard_limit *guard = g->guard->rate_limit;

    p->rule = (lks_rule)LKS_RULE_INIT;
    p->rule.key = g->limit_key;
    if (*guard->policy != '\0') {
        lks_rule_set_policy(&p->rule, guard->policy);
    } else {
        p->limit = (lks_limit)LKS_LIMIT_INIT;
        p->limit.algorithm = guard->algorithm != 0 ? (lks_algorithm)guard->algorithm : LKS_ALGORITHM_SLIDING_WINDOW;
        p->limit.limit = guard->limit;
        p->limit.period_ms = guard->period_ms;
        p->limit.burst = guard->burst;
        lks_rule_set_limit(&p->rule, &p->limit);
    }
    p->limits = (lks_guard_limits)LKS_GUARD_LIMITS_INIT;
    p->limits.group = guard->group;
    p->limits.n_rules = 1;
    p->limits.rules = p->rules;
    p->rules[0] = &p->rule;
    p->request.limits = &p->limits;
}

static void ask_locks(parts *p, const lks_guarded *g)
{
    const lks_rpc_guard_lock *guard = g->guard->lock;

    p->locks = (lks_guard_locks)LKS_GUARD_LOCKS_INIT;
    p->locks.group = guard->group;
    p->locks.n_targets = g->n_names;
    p->locks.targets = p->targets;
    p->locks.no_wait = guard->wait_ms == 0;
    for (size_t i = 0; i < g->n_names; i++) {
        p->target[i] = (lks_target)LKS_TARGET_INIT;
        p->target[i].name = g->names[i];
        p->targets[i] = &p->target[i];
    }
    p->request.locks = &p->locks;
    p->request.lease_ms = longer(p->request.lease_ms, guard->lease_ms);
    p->request.wait_ms = longer(p->request.wait_ms, guard->wait_ms);
}

static lks_code ask(lks_guarded *g, lks_error *error)
{
    const lks_rpc_guard *guard = g->guard;
    const uint32_t usable_ms = guarded_usable_ms(g);
    const bool only_limits = !guard->idempotency && !guard->lock;
    parts p = {.request = LKS_ENTER_REQUEST_INIT};

    p.request.group = guard_group(guard);
    if (guard->idempotency)
        ask_once(&p, g);
    if (guard->rate_limit)
        ask_limit(&p, g);
    if (guard->lock)
        ask_locks(&p, g);
    guarded_ref(g);
    pthread_mutex_lock(&g->lock); /* g->entry is set before `entered` can read it */
    lks_code code = lks_enter_start(g->channel, &p.request, only_limits && usable_ms > LIMIT_MS ? LIMIT_MS : usable_ms,
                                    entered, g, &g->entry, error);
    pthread_mutex_unlock(&g->lock);
    if (code != LKS_OK)
        guarded_unref(g); /* not the last one: the caller has another */
    return code;
}

/* ---- enter and cancel --------------------------------------------------------------------- */

/* The prefix of the key, so that each method has its own counters. */
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
    if (code == LKS_OK && g->n_names > 1 && *guard->lock->group == '\0' && *guard_group(guard) == '\0')
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: gives several locks, which need a group",
                             guard->lock->keys[0]);
    if (code == LKS_OK && guard->idempotency && !guard->idempotency->key_alone)
        code = guard_fingerprint(g->method, request, g->fingerprint, error);
    return code;
}

lks_code lks_guarded_enter(lks_channel *channel, const lks_rpc_guard *guard, const lks_rpc_method *method,
                           ProtobufCMessage *request, uint64_t deadline_ns, bool unanswered_before,
                           lks_guard_done *done, void *arg, lks_guarded **ret, lks_error *error)
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
        lks_error failed;
        if (ask(g, &failed) != LKS_OK)
            end_unanswered(g, &failed);
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
    if (g->entry)
        lks_enter_cancel(g->entry);
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

    return g && g->entry && lks_entry_is_lost(g->entry);
}

size_t lks_guard_n_locks(const lks_rpc_context *context)
{
    return context->guarded ? context->guarded->n_names : 0;
}

const char *lks_guard_lock_name(const lks_rpc_context *context, size_t i)
{
    return i < lks_guard_n_locks(context) ? context->guarded->names[i] : NULL;
}

/* The answer that admitted the call; NULL: without guards, or when no server could be asked about the limit. */
static const lks_enter_response *answer_of(const lks_rpc_context *context)
{
    const lks_guarded *g = context->guarded;

    return g && g->entry ? lks_entry_answer(g->entry) : NULL;
}

uint64_t lks_guard_fence(const lks_rpc_context *context, size_t i)
{
    const lks_enter_response *answer = answer_of(context);

    return answer && i < answer->n_fences ? answer->fences[i]->fence : 0;
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
    return answer_of(context) ? answer_of(context)->attempt : 0;
}

uint64_t lks_guard_attempt_fence(const lks_rpc_context *context)
{
    return answer_of(context) ? answer_of(context)->attempt_fence : 0;
}

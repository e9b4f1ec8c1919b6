/* A hold is acquired by Acquire and, after a long wait, a Renew. It ends with a Release. */
#include "client/lease/hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/lock.lks_client.h>

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"

enum {
    BATCH_MAX = 256,  /* the most leases in one Renew, by the contract */
    WATCH_MS = 60000, /* the longest wait of a watch, in case the server hangs */
};

static lks_hold *of(struct grant *grant)
{
    return (lks_hold *)grant;
}

/* ---- the lease ----------------------------------------------------------------- */

static lks_lease lease_of(const lks_hold *hold)
{
    lks_lease lease = LKS_LEASE_INIT;

    lease.group = hold->spec->group;
    lease.token = hold->token;
    lease.lease_ms = hold->spec->lease_ms;
    return lease;
}

static int64_t renewed_ms(const lks_renew_response *response, size_t i)
{
    const lks_lease_result *result = response->results[i];

    return result->outcome == LKS_RENEW_OUTCOME_RENEWED ? result->lease_ms : 0;
}

static void renewed(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;
    lks_error wrong;

    if (code == LKS_OK && response->n_results != batch->n) {
        code = lks_error_set(&wrong, LKS_INTERNAL, LKS_APPLIED_MAYBE,
                             "the answer does not have one result for each lease");
        error = &wrong;
    }
    for (size_t i = 0; i < batch->n && code == LKS_OK; i++)
        batch->renewals[i].left_ms = renewed_ms(response, i);
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_code renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    lks_lease leases[BATCH_MAX], *list[BATCH_MAX];
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;

    for (size_t i = 0; i < batch->n; i++) {
        leases[i] = lease_of((const lks_hold *)batch->renewals[i].lease);
        list[i] = &leases[i];
    }
    request.n_leases = batch->n;
    request.leases = list;
    return lks_lock_renew_start(channel, &request, &options, renewed, batch, NULL, error);
}

static void watched(void *arg, lks_code code, const lks_watch_force_releases_response *response, const lks_error *error)
{
    (void)response;
    lease_watched(arg, code == LKS_OK ? NULL : error);
}

lks_code hold_watch(lks_channel *channel, struct lease_watch *w, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = 2 * WATCH_MS};
    lks_watch_force_releases_request request = LKS_WATCH_FORCE_RELEASES_REQUEST_INIT;

    request.wait_ms = WATCH_MS;
    return lks_lock_watch_force_releases_start(channel, &request, &options, watched, w, &w->call, error);
}

static void lost(struct lease *lease, lks_loss_reason reason)
{
    const lks_hold *hold = (const lks_hold *)lease;
    const struct hold_spec *spec = hold->spec;
    const lks_lock_loss loss = {
        .group = spec->group, .name = spec->names[0], .fence = hold->fences[0], .reason = reason};

    if (spec->on_lost)
        spec->on_lost(spec->arg, &loss);
}

static const lease_kind kind = {
    .batch_max = BATCH_MAX, .renew = renew, .watch = hold_watch, .lost = lost, .free = grant_free_lease};

lks_hold *hold_reporting(void)
{
    struct lease *lease = lease_reporting();

    return lease && lease->kind == &kind ? (lks_hold *)lease : NULL;
}

static bool is_of(const struct lease *lease, const void *spec)
{
    return lease->kind == &kind && ((const lks_hold *)lease)->spec == spec;
}

void hold_quiesce(const struct hold_spec *spec)
{
    lease_quiesce(is_of, spec);
}

/* ---- releasing ------------------------------------------------------------------ */

lks_code hold_set_lost(lks_error *error)
{
    return lks_error_set_reason(error, LKS_ABORTED, LKS_APPLIED_YES, LKS_REASON_LEASE_LOST,
                                "the lock had been lost before");
}

static lks_code send_release(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = of(grant)->spec->group;
    request.token = of(grant)->token;
    return grant_send(grant, call, &lks_lock_release_method, &request.base, error);
}

/* A Release that failed continues in the background. */
static void released(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_hold *hold = of(grant);

    grant->error = *error;
    if (code != LKS_OK)
        grant_give_back_later(grant);
    if (hold->result == LKS_LOCK_LOST)
        hold_set_lost(&grant->error);
    else if (code == LKS_OK && ((const lks_release_response *)response)->outcome != LKS_RELEASE_OUTCOME_RELEASED)
        lks_error_set_reason(&grant->error, LKS_ABORTED, LKS_APPLIED_YES, LKS_REASON_LEASE_LOST,
                             "the lock was lost before the release");
    if (hold->released)
        hold->released(hold->arg, grant->error.code, &grant->error);
}

lks_code lks_hold_release(lks_hold *hold, uint32_t timeout_ms, lks_hold_released *done, void *arg, lks_error *error)
{
    uint32_t channel_ms = hold->spec->channel->options.timeout_ms;
    const struct grant_call call = {
        .kind = GRANT_ENDS, .timeout_ms = timeout_ms < channel_ms ? timeout_ms : channel_ms, .next = released};
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    if (lease_end(&hold->grant.lease))
        hold->result = LKS_LOCK_LOST;
    hold->released = done;
    hold->arg = arg;
    code = send_release(&hold->grant, &call, error);
    lease_drop(&hold->grant.lease);
    return code;
}

static void keep_error(void *arg, lks_code code, const lks_error *error)
{
    (void)code;
    *(lks_error *)arg = *error;
}

lks_code hold_give_back(lks_hold *hold, lks_error *error)
{
    const bool lost = lks_hold_is_lost(hold);
    lks_error result = {.code = LKS_OK};

    if (lost || lease_reporting() || channel_on_completion_thread())
        lks_hold_free(hold);
    else
        lks_hold_release(hold, 0, keep_error, &result, NULL);
    if (lost)
        hold_set_lost(&result);
    if (error)
        *error = result;
    return result.code;
}

void lks_hold_free(lks_hold *hold)
{
    grant_free((struct grant *)hold);
}

/* ---- acquiring -------------------------------------------------------------------- */

static grant_answer refuse(lks_hold *hold, lks_lock_result result, lks_code code, lks_reason reason, const char *text)
{
    hold->result = result;
    lks_error_set_reason(&hold->grant.error, code, LKS_APPLIED_NO, reason, "%s", text);
    return GRANT_REFUSED;
}

static grant_answer expire(lks_hold *hold)
{
    refuse(hold, LKS_LOCK_FAILED, LKS_ABORTED, LKS_REASON_LEASE_LOST, "the lease expired before the grant arrived");
    return GRANT_FAILED;
}

/* Fails because of an unexpected answer, which may have been a grant. */
static grant_answer fail_unexpected(lks_hold *hold, const char *text)
{
    lks_error_set(&hold->grant.error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s", text);
    return GRANT_FAILED;
}

static lks_code send_acquire(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_hold *hold = of(grant);
    const struct hold_spec *spec = hold->spec;
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target *targets = malloc(spec->n_names * (sizeof *targets + sizeof(lks_target *)));

    if (!targets)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    request.targets = (lks_target **)(void *)(targets + spec->n_names);
    for (size_t i = 0; i < spec->n_names; i++) {
        targets[i] = (lks_target)LKS_TARGET_INIT;
        targets[i].name = spec->names[i];
        targets[i].mode = hold->mode;
        targets[i].permits = hold->permits;
        targets[i].capacity = spec->capacity;
        request.targets[i] = &targets[i];
    }
    request.group = spec->group;
    request.n_targets = spec->n_names;
    request.token = hold->token;
    request.owner = spec->owner;
    request.lease_ms = spec->lease_ms;
    request.wait_ms = hold->wait_ms;
    lks_code code = grant_send(grant, call, &lks_lock_acquire_method, &request.base, error);
    free(targets);
    return code;
}

static grant_answer take_grant(lks_hold *hold, const lks_acquire_response *response)
{
    if (response->n_fences != hold->spec->n_names)
        return fail_unexpected(hold, "the answer has no fence");
    for (size_t i = 0; i < response->n_fences; i++)
        hold->fences[i] = response->fences[i]->fence;
    hold->result = LKS_LOCK_ACQUIRED;
    hold->grant.left_ms = response->lease_ms;
    return grant_is_late(&hold->grant) ? GRANT_UNCONFIRMED : GRANT_GRANTED;
}

static grant_answer acquired(struct grant *grant, const ProtobufCMessage *message)
{
    const lks_acquire_response *response = (const lks_acquire_response *)message;
    lks_hold *hold = of(grant);

    switch ((int)response->outcome) {
    case LKS_ACQUIRE_OUTCOME_ACQUIRED:
        return take_grant(hold, response);
    case LKS_ACQUIRE_OUTCOME_BUSY:
        return refuse(hold, LKS_LOCK_BUSY, LKS_ABORTED, LKS_REASON_BUSY, "others hold the lock");
    case LKS_ACQUIRE_OUTCOME_TIMED_OUT:
        return refuse(hold, LKS_LOCK_TIMED_OUT, LKS_DEADLINE_EXCEEDED, LKS_REASON_BUSY,
                      "others held the lock until the timeout");
    case LKS_ACQUIRE_OUTCOME_TOKEN_SPENT:
        return expire(hold);
    default:
        return fail_unexpected(hold, "the answer has an unknown outcome");
    }
}

static lks_code send_renew(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_lease lease = lease_of(of(grant)), *leases[] = {&lease};

    request.n_leases = 1;
    request.leases = leases;
    return grant_send(grant, call, &lks_lock_renew_method, &request.base, error);
}

static int64_t left_ms(const struct grant *grant, const ProtobufCMessage *message)
{
    const lks_renew_response *response = (const lks_renew_response *)message;

    (void)grant;
    return response->n_results == 1 ? renewed_ms(response, 0) : 0;
}

static grant_answer unconfirmed(struct grant *grant, bool answered)
{
    of(grant)->result = LKS_LOCK_FAILED;
    return answered ? expire(of(grant)) : GRANT_FAILED;
}

static void given_back(struct grant *grant, const ProtobufCMessage *response)
{
    (void)response;
    grant->error.applied = LKS_APPLIED_NO;
}

static void settled(struct grant *grant)
{
    lks_hold *hold = of(grant);

    if (hold->done)
        hold->done(hold->arg, hold, hold->result, &grant->error);
}

static const grant_kind chain = {.begin = send_acquire,
                                 .begun = acquired,
                                 .confirm = send_renew,
                                 .left_ms = left_ms,
                                 .unconfirmed = unconfirmed,
                                 .give_back = send_release,
                                 .give_back_ms = LEASE_TOMBSTONE_MS,
                                 .given_back = given_back,
                                 .settled = settled};

/* ---- making ----------------------------------------------------------------------- */

void hold_own_name(char owner[HOLD_OWNER_BYTES + 1])
{
    char pid[16];
    size_t room = HOLD_OWNER_BYTES + 1 - (size_t)snprintf(pid, sizeof pid, "/%d", (int)getpid());

    if (gethostname(owner, room) != 0)
        owner[0] = '\0';
    owner[room - 1] = '\0';
    strcat(owner, pid);
}

size_t hold_spec_bytes(const struct hold_spec *from)
{
    size_t bytes = from->n_names * sizeof(char *) + strlen(from->group) + 1 +
                   (from->owner ? strlen(from->owner) : HOLD_OWNER_BYTES) + 1;

    for (size_t i = 0; i < from->n_names; i++)
        bytes += strlen(from->names[i]) + 1;
    return bytes;
}

void hold_spec_copy(struct hold_spec *to, const struct hold_spec *from, void *at)
{
    const char **names = at;
    char *text = (char *)(names + from->n_names);

    *to = *from;
    to->names = names;
    for (size_t i = 0; i < from->n_names; i++) {
        names[i] = text;
        text = stpcpy(text, from->names[i]) + 1;
    }
    to->group = text;
    text = stpcpy(text, from->group) + 1;
    to->owner = text;
    if (from->owner)
        strcpy(text, from->owner);
    else
        hold_own_name(text);
}

lks_code hold_check(struct hold_spec *spec, lks_error *error)
{
    if (!spec->group || *spec->group == '\0')
        spec->group = spec->names[0];
    lks_code code = lease_check_ms(spec->lease_ms, error);
    if (spec->lease_ms == 0)
        spec->lease_ms = LEASE_DEFAULT_MS;
    return code;
}

/* Allocates `room` more bytes behind the hold for the caller. */
static lks_code hold_new(const struct hold_spec *spec, size_t room, uint32_t timeout_ms, lks_hold **ret,
                         lks_error *error)
{
    size_t size = sizeof(lks_hold) + spec->n_names * sizeof(uint64_t);
    lks_hold *hold = calloc(1, size + room);

    if (!hold)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    hold->spec = spec;
    hold->count = 1;
    hold->result = LKS_LOCK_FAILED;
    hold->grant.kind = &chain;
    hold->grant.lease = (struct lease){.kind = &kind,
                                       .channel = spec->channel,
                                       .lease_ms = spec->lease_ms,
                                       .renew_ms = spec->renew_ms,
                                       .keep_ms = spec->max_hold_ms != 0 ? spec->max_hold_ms : LEASE_ALWAYS};
    lks_rpc_random_id(hold->token);
    lks_code code = grant_init(&hold->grant, timeout_ms, error);
    if (code == LKS_OK)
        *ret = hold;
    return code;
}

lks_lock_result hold_take(const struct hold_spec *spec, lks_lock_mode mode, int64_t permits, uint32_t wait_ms,
                          lks_hold **ret, lks_error *error)
{
    lks_hold *hold = NULL;

    if (lease_reporting()) {
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "locking blocks and is not allowed in on_lost");
        return LKS_LOCK_FAILED;
    }
    if (hold_new(spec, 0, 0, &hold, error) != LKS_OK)
        return LKS_LOCK_FAILED;
    hold->mode = mode;
    hold->permits = permits;
    hold->wait_ms = lease_wait_ms(wait_ms);
    grant_run(&hold->grant, hold->wait_ms);
    lks_lock_result result = hold->result;
    *error = hold->grant.error;
    if (result == LKS_LOCK_ACQUIRED)
        *ret = hold;
    else
        lks_hold_free(hold);
    return result;
}

static lks_code check_names(const lks_hold_options *o, lks_error *error)
{
    if (o->n_names == 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.names: must have at least one name");
    for (size_t i = 0; i < o->n_names; i++)
        if (!o->names[i] || *o->names[i] == '\0')
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.names[%zu]: must not be empty",
                                 i);
    if (o->n_names > 1 && (!o->group || *o->group == '\0'))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options.group: must be given with several names");
    return LKS_OK;
}

lks_code lks_hold_acquire_sized(lks_channel *channel, const lks_hold_options *options, size_t options_bytes,
                                lks_hold_done *done, void *arg, lks_hold **ret, lks_error *error)
{
    lks_hold_options wanted;
    lks_code code = lks_rpc_options_read(&wanted, sizeof wanted, options, options_bytes, "lks_hold_options", error);

    if (code != LKS_OK)
        return code;
    struct hold_spec spec = {.channel = channel,
                             .group = wanted.group,
                             .owner = wanted.owner,
                             .names = wanted.names,
                             .n_names = wanted.n_names,
                             .capacity = wanted.capacity,
                             .lease_ms = wanted.lease_ms,
                             .renew_ms = wanted.renew_ms,
                             .max_hold_ms = wanted.max_hold_ms,
                             .on_lost = wanted.on_lost,
                             .arg = wanted.arg};
    lks_hold *hold = NULL;

    if ((code = check_names(&wanted, error)) != LKS_OK || (code = hold_check(&spec, error)) != LKS_OK ||
        (code = hold_new(&spec, sizeof spec + hold_spec_bytes(&spec), wanted.timeout_ms, &hold, error)) != LKS_OK)
        return code;
    struct hold_spec *own = (struct hold_spec *)(void *)(hold->fences + spec.n_names);
    hold_spec_copy(own, &spec, own + 1);
    hold->spec = own;
    hold->mode = wanted.mode != 0 ? wanted.mode : LKS_LOCK_MODE_EXCLUSIVE;
    hold->permits = wanted.permits;
    hold->wait_ms = lease_wait_ms(wanted.wait_ms);
    hold->done = done;
    hold->arg = arg;
    *ret = hold; /* before the callback can run */
    code = grant_start(&hold->grant, hold->wait_ms, error);
    if (code != LKS_OK)
        *ret = NULL;
    return code;
}

void lks_hold_cancel(lks_hold *hold)
{
    lks_error error;

    if (grant_cancel(&hold->grant, &error))
        hold->done(hold->arg, hold, LKS_LOCK_FAILED, &error);
}

bool lks_hold_is_lost(const lks_hold *hold)
{
    return lease_is_lost(&hold->grant.lease);
}

uint32_t lks_hold_left_ms(const lks_hold *hold)
{
    return (uint32_t)(lease_left_ns(&hold->grant.lease) / CLOCK_NS_PER_MS);
}

uint64_t lks_hold_fence(const lks_hold *hold, size_t i)
{
    return i < hold->spec->n_names ? hold->fences[i] : 0;
}

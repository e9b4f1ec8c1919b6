/* Invariant: each call under way whose answer is used has a reference to its grant, so that the grant exists until the
 * last answer. What may have been granted and is not returned to the caller is given back. */
#include "client/lease/grant.h"

#include <stdlib.h>

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "rpc/transient.h"

const lease_kind grant_lease = {.batch_max = 1, .renew = grant_renew, .free = grant_free_lease};

void grant_free_lease(struct lease *lease)
{
    struct grant *grant = (struct grant *)lease;

    if (grant->kind->fini)
        grant->kind->fini(grant);
    pthread_mutex_destroy(&grant->lock);
    free(grant);
}

lks_code grant_init(struct grant *grant, uint32_t timeout_ms, lks_error *error)
{
    grant->until_ns = timeout_ms > 0 ? clock_in_ms(timeout_ms) : CLOCK_NEVER;
    pthread_mutex_init(&grant->lock, NULL);
    lks_code code = lease_expect(&grant->lease, error);
    if (code != LKS_OK)
        grant_free_lease(&grant->lease);
    return code;
}

void grant_free(struct grant *grant)
{
    if (!grant || lease_check_process(NULL) != LKS_OK)
        return;
    lease_end(&grant->lease);
    if (atomic_load(&grant->state) == GRANT_HELD)
        grant_give_back_later(grant);
    lease_drop(&grant->lease);
}

/* ---- calls -------------------------------------------------------------------- */

static void answered(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                     const lks_error *error)
{
    struct grant *grant = arg;

    pthread_mutex_lock(&grant->lock);
    lks_call_free(grant->call);
    grant->call = NULL;
    pthread_mutex_unlock(&grant->lock);
    ((grant_next *)function)(grant, code, response, error);
    lease_drop(&grant->lease);
}

/* Starts the call under the lock, so that a cancel sees it. */
static lks_code start(struct grant *grant, const struct grant_call *call, const lks_rpc_method *method,
                      const ProtobufCMessage *request, const lks_call_options *options, lks_error *error)
{
    const bool cancels = call->kind == GRANT_CONFIRMS || (call->kind == GRANT_ASKS && !grant->asks_on);
    lks_code code = LKS_OK;

    lease_ref(&grant->lease);
    pthread_mutex_lock(&grant->lock);
    if (cancels && atomic_load(&grant->state) == GRANT_CANCELLED)
        code = lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "cancelled by the caller");
    else
        code = lks_call_start(grant->lease.channel, method, request, options, answered, (lks_call_function *)call->next,
                              grant, cancels ? &grant->call : NULL, error);
    pthread_mutex_unlock(&grant->lock);
    if (code != LKS_OK)
        lease_drop(&grant->lease);
    return code;
}

static void renewed(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                    const lks_error *error)
{
    struct lease_batch *batch = arg;
    const struct grant *grant = (const struct grant *)batch->renewals[0].lease;

    (void)function;
    if (code == LKS_OK)
        batch->renewals[0].left_ms = grant->kind->left_ms(grant, response);
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

lks_code grant_renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    struct grant *grant = (struct grant *)batch->renewals[0].lease;
    const struct grant_call call = {.kind = GRANT_BACKGROUND, .timeout_ms = timeout_ms, .renewal = batch};

    (void)channel;
    return grant->kind->confirm(grant, &call, error);
}

lks_code grant_send(struct grant *grant, const struct grant_call *call, const lks_rpc_method *method,
                    const ProtobufCMessage *request, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = call->timeout_ms, .insist = call->kind != GRANT_ASKS};
    ProtobufCMessage *response = NULL;
    lks_error of_call;

    if (call->renewal)
        return lks_call_start(grant->lease.channel, method, request, &options, renewed, NULL, call->renewal, NULL,
                              error);
    if (!call->next)
        return lks_call_start(grant->lease.channel, method, request, &options, NULL, NULL, NULL, NULL, error);
    if (!grant->waits || call->kind == GRANT_BACKGROUND)
        return start(grant, call, method, request, &options, error);
    lks_code code = lks_call_run(grant->lease.channel, method, request, &options, &response, &of_call);
    call->next(grant, code, response, &of_call);
    lks_message_free(response);
    return LKS_OK;
}

void grant_step(struct grant *grant, grant_request *request, const struct grant_call *call)
{
    lks_error error;
    lks_code code = request(grant, call, &error);

    if (code != LKS_OK)
        call->next(grant, code, NULL, &error);
}

uint32_t grant_timeout_ms(const struct grant *grant, uint64_t most_ms)
{
    uint64_t now_ns = clock_now_ns(), most = most_ms > 0 ? most_ms : grant->lease.channel->options.timeout_ms;
    uint64_t left_ms = grant->until_ns > now_ns ? (grant->until_ns - now_ns) / CLOCK_NS_PER_MS : 0;

    if (grant->until_ns == CLOCK_NEVER || left_ms > most)
        return (uint32_t)most;
    return left_ms > 0 ? (uint32_t)left_ms : 1;
}

/* ---- the chain ------------------------------------------------------------------ */

static bool leave_asking(struct grant *grant, grant_state to)
{
    grant_state asking = GRANT_ASKING;

    return atomic_compare_exchange_strong(&grant->state, &asking, to);
}

void grant_give_back_later(struct grant *grant)
{
    const struct grant_call call = {.kind = GRANT_BACKGROUND, .timeout_ms = grant->kind->give_back_ms};

    grant->kind->give_back(grant, &call, NULL);
}

static void settle(struct grant *grant)
{
    const bool granted = grant->answer == GRANT_GRANTED;

    if (!leave_asking(grant, granted ? GRANT_HELD : GRANT_ENDED)) {
        if (granted)
            grant_give_back_later(grant);
        return;
    }
    if (granted) {
        grant->error = (lks_error){.code = LKS_OK};
        lease_begin(&grant->lease, grant->sent_ns, grant->left_ms);
    }
    grant->kind->settled(grant);
}

static void given_back(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    (void)error;
    if (code == LKS_OK)
        grant->kind->given_back(grant, response);
    else
        grant_give_back_later(grant);
    settle(grant);
}

/* A refusal is reported once a server has answered, anything else at once. */
static void give_back(struct grant *grant)
{
    const struct grant_call call = {
        .kind = GRANT_ENDS, .timeout_ms = grant_timeout_ms(grant, LEASE_REFUSED_MS), .next = given_back};

    if (grant->answer == GRANT_REFUSED) {
        grant_step(grant, grant->kind->give_back, &call);
        return;
    }
    grant_give_back_later(grant);
    settle(grant);
}

static void confirmed(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    grant->error = *error;
    grant->error.applied = LKS_APPLIED_MAYBE; /* the first call was applied */
    if (code == LKS_OK) {
        grant->left_ms = grant->kind->left_ms(grant, response);
        grant->sent_ns = grant->confirm_sent_ns;
    }
    grant->answer =
        code == LKS_OK && grant->left_ms > 0 ? GRANT_GRANTED : grant->kind->unconfirmed(grant, code == LKS_OK);
    if (grant->answer == GRANT_FAILED)
        grant_give_back_later(grant);
    settle(grant);
}

static void confirm(struct grant *grant)
{
    const struct grant_call call = {
        .kind = GRANT_CONFIRMS, .timeout_ms = grant_timeout_ms(grant, 0), .next = confirmed};

    grant->confirm_sent_ns = clock_now_ns();
    grant_step(grant, grant->kind->confirm, &call);
}

static void begun(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    grant->error = *error;
    grant->answer = code == LKS_OK ? grant->kind->begun(grant, response) : GRANT_FAILED;
    const bool doubtful = grant->answer == GRANT_FAILED || grant->answer == GRANT_REFUSED;
    if (doubtful && code == LKS_OK && error_is_doubtful(error))
        grant->error.applied = LKS_APPLIED_MAYBE;
    if (grant->answer == GRANT_UNCONFIRMED)
        confirm(grant);
    else if (doubtful && grant->error.applied != LKS_APPLIED_NO)
        give_back(grant);
    else
        settle(grant);
}

static struct grant_call first_call(struct grant *grant, uint32_t wait_ms)
{
    const uint64_t most_ms = (uint64_t)wait_ms + grant->lease.channel->options.timeout_ms;

    grant->sent_ns = clock_now_ns();
    return (struct grant_call){.kind = GRANT_ASKS,
                               .timeout_ms = grant->until_ns == CLOCK_NEVER ? 0 : grant_timeout_ms(grant, most_ms),
                               .next = begun};
}

void grant_run(struct grant *grant, uint32_t wait_ms)
{
    const struct grant_call call = first_call(grant, wait_ms);

    grant->waits = true;
    grant_step(grant, grant->kind->begin, &call);
}

lks_code grant_start(struct grant *grant, uint32_t wait_ms, lks_error *error)
{
    const struct grant_call call = first_call(grant, wait_ms);
    lks_code code = grant->kind->begin(grant, &call, error);

    if (code != LKS_OK)
        grant_free(grant);
    return code;
}

bool grant_cancel(struct grant *grant, lks_error *error)
{
    if (!leave_asking(grant, GRANT_CANCELLED))
        return false;
    pthread_mutex_lock(&grant->lock);
    if (grant->call)
        lks_call_cancel(grant->call);
    pthread_mutex_unlock(&grant->lock);
    lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_MAYBE, "cancelled by the caller");
    return true;
}

bool grant_is_late(const struct grant *grant)
{
    return lease_is_doubtful(grant->lease.lease_ms, grant->sent_ns, clock_now_ns());
}

/* ---- ending --------------------------------------------------------------------- */

static uint32_t lease_or_ms(const struct grant *grant, uint32_t least_ms)
{
    return grant->lease.lease_ms > least_ms ? grant->lease.lease_ms : least_ms;
}

void grant_end(struct grant *grant, uint32_t timeout_ms, grant_request *request, grant_next *next)
{
    uint32_t channel_ms = grant->lease.channel->options.timeout_ms;
    const struct grant_call call = {.kind = GRANT_ENDS,
                                    .timeout_ms = timeout_ms == 0           ? lease_or_ms(grant, channel_ms)
                                                  : timeout_ms < channel_ms ? timeout_ms
                                                                            : channel_ms,
                                    .next = next};

    grant->until_ns = timeout_ms > 0 ? clock_in_ms(timeout_ms) : CLOCK_NEVER;
    grant_step(grant, request, &call);
}

void grant_end_later(struct grant *grant, grant_request *request)
{
    const struct grant_call call = {.kind = GRANT_BACKGROUND, .timeout_ms = lease_or_ms(grant, LEASE_BACKGROUND_MS)};

    if (grant->until_ns != CLOCK_NEVER)
        request(grant, &call, NULL);
}

void grant_set_held(struct grant *grant, bool held)
{
    atomic_store(&grant->state, held ? GRANT_HELD : GRANT_ENDED);
}

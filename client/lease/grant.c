/* Invariant: each call under way has a reference to its grant, so that the grant exists until the last answer. */
#include "client/lease/grant.h"

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"

lks_code grant_init(struct grant *grant, bool waits, uint32_t timeout_ms, lks_error *error)
{
    grant->waits = waits;
    atomic_store(&grant->state, GRANT_ASKING);
    grant->until_ns = timeout_ms > 0 ? clock_in_ms(timeout_ms) : CLOCK_NEVER;
    grant->call = NULL;
    pthread_mutex_init(&grant->lock, NULL);
    return lease_expect(&grant->lease, error);
}

void grant_fini(struct grant *grant)
{
    pthread_mutex_destroy(&grant->lock);
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
static lks_code start(struct grant *grant, bool cancels, const lks_rpc_method *method, const ProtobufCMessage *request,
                      const lks_call_options *options, grant_next *next, lks_error *error)
{
    lks_code code = LKS_OK;

    lease_ref(&grant->lease);
    pthread_mutex_lock(&grant->lock);
    if (cancels && atomic_load(&grant->state) == GRANT_CANCELLED)
        code = lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "cancelled by the caller");
    else
        code = lks_call_start(grant->lease.channel, method, request, options, answered, (lks_call_function *)next,
                              grant, cancels ? &grant->call : NULL, error);
    pthread_mutex_unlock(&grant->lock);
    if (code != LKS_OK)
        lease_drop(&grant->lease);
    return code;
}

lks_code grant_start(struct grant *grant, grant_call_kind kind, const lks_rpc_method *method,
                     const ProtobufCMessage *request, const lks_call_options *options, grant_next *next,
                     lks_error *error)
{
    ProtobufCMessage *response = NULL;
    lks_error of_call;

    if (!grant->waits || kind == GRANT_GIVES_BACK)
        return start(grant, kind == GRANT_TAKES, method, request, options, next, error);
    lks_code code = lks_call_run(grant->lease.channel, method, request, options, &response, &of_call);
    next(grant, code, response, &of_call);
    lks_message_free(response);
    return LKS_OK;
}

void grant_call(struct grant *grant, grant_call_kind kind, const lks_rpc_method *method,
                const ProtobufCMessage *request, const lks_call_options *options, grant_next *next)
{
    lks_error error;
    lks_code code = grant_start(grant, kind, method, request, options, next, &error);

    if (code != LKS_OK)
        next(grant, code, NULL, &error);
}

uint32_t grant_timeout_ms(const struct grant *grant, uint64_t most_ms)
{
    uint64_t now_ns = clock_now_ns(), most = most_ms > 0 ? most_ms : grant->lease.channel->options.timeout_ms;
    uint64_t left_ms = grant->until_ns > now_ns ? (grant->until_ns - now_ns) / CLOCK_NS_PER_MS : 0;

    if (grant->until_ns == CLOCK_NEVER || left_ms > most)
        return (uint32_t)most;
    return left_ms > 0 ? (uint32_t)left_ms : 1;
}

uint32_t grant_end_timeout_ms(const struct grant *grant, uint32_t least_ms)
{
    uint32_t lease_ms = grant->lease.lease_ms;

    return lease_ms > least_ms ? lease_ms : least_ms;
}

uint32_t grant_begin_end(struct grant *grant, uint32_t timeout_ms)
{
    uint32_t channel_ms = grant->lease.channel->options.timeout_ms;

    grant->until_ns = timeout_ms > 0 ? clock_in_ms(timeout_ms) : CLOCK_NEVER;
    if (timeout_ms == 0)
        return grant_end_timeout_ms(grant, channel_ms);
    return timeout_ms < channel_ms ? timeout_ms : channel_ms;
}

uint32_t grant_first_timeout_ms(const struct grant *grant, uint32_t wait_ms)
{
    if (grant->until_ns == CLOCK_NEVER)
        return 0;
    return grant_timeout_ms(grant, (uint64_t)wait_ms + grant->lease.channel->options.timeout_ms);
}

/* ---- the result ----------------------------------------------------------------- */

static bool leave_asking(struct grant *grant, grant_state to)
{
    grant_state asking = GRANT_ASKING;

    return atomic_compare_exchange_strong(&grant->state, &asking, to);
}

bool grant_settle(struct grant *grant)
{
    return leave_asking(grant, GRANT_SETTLED);
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

bool grant_needs_confirmation(struct grant *grant)
{
    uint64_t now_ns = clock_now_ns();

    if (!lease_is_doubtful(grant->lease.lease_ms, grant->sent_ns, now_ns))
        return false;
    grant->sent_ns = now_ns;
    return true;
}

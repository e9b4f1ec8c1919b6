/* An entry: Enter, Renew after a long wait, then Leave. Invariant: whatever may have been taken without being returned
 * to the caller is given back by a Leave with the entry's token, which also keeps out a late copy of the Enter. */
#include <lockstock/entry.h>

#include <stdlib.h>

#include <lockstock/once.h>
#include <lockstock/v1/guard.lks_client.h>

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/lease/hold.h"
#include "client/lease/lease_time.h"

struct lks_entry {
    struct grant grant;         /* first */
    lks_enter_request *request; /* constant, as sent */
    lks_enter_response *answer; /* set by the chain; NULL: none */
    lks_enter_outcome outcome;
    lks_entered *entered; /* NULL = a thread waits */
    lks_left *left;
    void *arg;
    lks_leave_request *end; /* a copy of the caller's; NULL before lks_leave */
    lks_leave_outcome left_as;
};

static lks_entry *of(struct grant *grant)
{
    return (lks_entry *)grant;
}

/* NULL: out of memory. */
static void *copy_of(const ProtobufCMessage *message)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

    if (!bytes)
        return NULL;
    size_t len = protobuf_c_message_pack(message, bytes);
    void *copy = protobuf_c_message_unpack(message->descriptor, NULL, len, bytes);
    free(bytes);
    return copy;
}

static void free_message(void *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

static bool has_hold(const lks_enter_request *request)
{
    return request->stock && request->stock->hold_ms > 0;
}

static bool has_lease(const lks_enter_request *request)
{
    return request->once || request->locks;
}

static const lease_kind of_locks = {
    .batch_max = 1, .renew = grant_renew, .watch = hold_watch, .free = grant_free_lease};

/* ---- giving back ------------------------------------------------------------------ */

static lks_leave_request leave_request(const lks_entry *entry)
{
    lks_leave_request request = LKS_LEAVE_REQUEST_INIT;

    request.kind = LKS_LEAVE_KIND_RETRYABLE;
    request.group = entry->request->group;
    request.token = entry->request->token;
    request.once = entry->request->once;
    request.stock = entry->request->stock;
    request.locks = entry->request->locks;
    return request;
}

/* Whether a Leave can give something back: limits, and stock that is sold at once, stay as they are. */
static bool can_give_back(const lks_entry *entry)
{
    return has_lease(entry->request) || has_hold(entry->request);
}

static lks_code send_give_back(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_leave_request request = leave_request(of(grant));

    if (!can_give_back(of(grant)))
        return LKS_OK;
    return grant_send(grant, call, &lks_guard_leave_method, &request.base, error);
}

static void given_back(struct grant *grant, const ProtobufCMessage *response)
{
    (void)response;
    if (!of(grant)->request->stock || has_hold(of(grant)->request))
        grant->error.applied = LKS_APPLIED_NO;
}

/* ---- entering ---------------------------------------------------------------------- */

static lks_code send_enter(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    return grant_send(grant, call, &lks_guard_enter_method, &of(grant)->request->base, error);
}

static grant_answer lose(lks_entry *entry)
{
    entry->outcome = LKS_ENTER_OUTCOME_UNSPECIFIED;
    lks_error_set_reason(&entry->grant.error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                         "the lease expired before the answer arrived");
    return GRANT_FAILED;
}

/* If there is nothing to give back, no try in doubt can be undone. */
static grant_answer refuse(lks_entry *entry, lks_code code, lks_reason reason, const char *text)
{
    lks_error_set_reason(&entry->grant.error, code, LKS_APPLIED_NO, reason, "%s", text);
    entry->grant.error.retry_after_ms = lease_retry_ms(entry->answer->retry_after_ms);
    return can_give_back(entry) ? GRANT_REFUSED : GRANT_FAILED;
}

static grant_answer fail_unexpected(lks_entry *entry, const char *text)
{
    entry->outcome = LKS_ENTER_OUTCOME_UNSPECIFIED;
    lks_error_set(&entry->grant.error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s", text);
    return GRANT_FAILED;
}

static grant_answer take_entered(lks_entry *entry)
{
    struct grant *grant = &entry->grant;

    if (entry->request->locks && entry->answer->n_fences != entry->request->locks->n_targets)
        return fail_unexpected(entry, "the answer has no fence");
    grant->left_ms = entry->answer->lease_ms;
    return has_lease(entry->request) && grant_is_late(grant) ? GRANT_UNCONFIRMED : GRANT_GRANTED;
}

static grant_answer take_replay(lks_entry *entry)
{
    if (!entry->answer->result)
        return fail_unexpected(entry, "the answer has no stored result");
    entry->grant.error = (lks_error){.code = LKS_OK};
    return GRANT_NOTHING;
}

static grant_answer answered(struct grant *grant, const ProtobufCMessage *response)
{
    lks_entry *entry = of(grant);

    entry->answer = copy_of(response);
    if (!entry->answer) {
        lks_error_set(&grant->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory for the answer");
        return GRANT_FAILED;
    }
    entry->outcome = entry->answer->outcome;
    switch ((int)entry->outcome) {
    case LKS_ENTER_OUTCOME_ENTERED:
        return take_entered(entry);
    case LKS_ENTER_OUTCOME_REPLAY:
        return take_replay(entry);
    case LKS_ENTER_OUTCOME_IN_PROGRESS:
        return refuse(
            entry, LKS_ABORTED, LKS_REASON_BUSY,
            "another attempt has not ended: it is running, or its process is gone and its lease has not expired");
    case LKS_ENTER_OUTCOME_MISMATCH:
        return refuse(entry, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED, "the key was used for another request");
    case LKS_ENTER_OUTCOME_LIMITED:
        return refuse(entry, LKS_RESOURCE_EXHAUSTED, LKS_REASON_RATE_LIMITED, "over the limit");
    case LKS_ENTER_OUTCOME_OUT_OF_STOCK:
        return refuse(entry, LKS_FAILED_PRECONDITION, LKS_REASON_WRONG_STATE, "the stock cannot be sold");
    case LKS_ENTER_OUTCOME_BUSY:
        return refuse(entry, LKS_ABORTED, LKS_REASON_BUSY, "others hold the lock");
    case LKS_ENTER_OUTCOME_TIMED_OUT:
        return refuse(entry, LKS_DEADLINE_EXCEEDED, LKS_REASON_BUSY, "others held the lock until the timeout");
    case LKS_ENTER_OUTCOME_TOKEN_SPENT:
        return lose(entry);
    default:
        return fail_unexpected(entry, "the answer has an unknown outcome");
    }
}

static lks_code send_renew(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_enter_request *entered = of(grant)->request;
    lks_guard_service_renew_request request = LKS_GUARD_SERVICE_RENEW_REQUEST_INIT;

    request.group = entered->group;
    request.token = entered->token;
    request.lease_ms = entered->lease_ms;
    request.once = entered->once;
    request.stock = entered->stock;
    request.locks = entered->locks;
    return grant_send(grant, call, &lks_guard_renew_method, &request.base, error);
}

static int64_t left_ms(const struct grant *grant, const ProtobufCMessage *message)
{
    const lks_guard_service_renew_response *response = (const lks_guard_service_renew_response *)message;

    return response->outcome == LKS_RENEW_GUARD_OUTCOME_RENEWED ? grant->lease.lease_ms : 0;
}

static grant_answer unconfirmed(struct grant *grant, bool answered)
{
    if (answered)
        return lose(of(grant));
    of(grant)->outcome = LKS_ENTER_OUTCOME_UNSPECIFIED;
    return GRANT_FAILED;
}

static void settled(struct grant *grant)
{
    lks_entry *entry = of(grant);

    if (entry->outcome == LKS_ENTER_OUTCOME_ENTERED)
        entry->answer->lease_ms = grant->left_ms;
    if (entry->entered)
        entry->entered(entry->arg, entry, entry->outcome, &grant->error);
}

static void fini(struct grant *grant)
{
    free_message(of(grant)->request);
    free_message(of(grant)->answer);
    free_message(of(grant)->end);
}

static const grant_kind chain = {.begin = send_enter,
                                 .begun = answered,
                                 .confirm = send_renew,
                                 .left_ms = left_ms,
                                 .unconfirmed = unconfirmed,
                                 .give_back = send_give_back,
                                 .give_back_ms = LEASE_TOMBSTONE_MS,
                                 .given_back = given_back,
                                 .settled = settled,
                                 .fini = fini};

/* ---- making ----------------------------------------------------------------------- */

static lks_enter_request *request_of(const lks_enter_request *from)
{
    char token[LKS_RPC_RANDOM_ID_LEN + 1], owner[HOLD_OWNER_BYTES + 1];
    lks_enter_request request = *from;

    if (*from->token == '\0') {
        lks_rpc_random_id(token);
        request.token = token;
    }
    if (*from->owner == '\0') {
        hold_own_name(owner);
        request.owner = owner;
    }
    if (from->lease_ms == 0)
        request.lease_ms = LEASE_DEFAULT_MS;
    if (from->wait_ms > UINT32_MAX)
        request.wait_ms = UINT32_MAX;
    request.wait_ms = lease_wait_ms((uint32_t)request.wait_ms);
    return copy_of(&request.base);
}

static lks_code new_entry(lks_channel *channel, const lks_enter_request *request, uint32_t timeout_ms, lks_entry **ret,
                          lks_error *error)
{
    const bool fits = request->lease_ms >= 0 && request->lease_ms <= UINT32_MAX;
    lks_code code = lease_check_ms(fits ? (uint32_t)request->lease_ms : UINT32_MAX, error);

    if (code != LKS_OK)
        return code;
    lks_entry *entry = calloc(1, sizeof *entry);
    lks_enter_request *own = request_of(request);
    if (!entry || !own) {
        free(entry);
        free_message(own);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    entry->request = own;
    entry->grant.kind = &chain;
    /* With an attempt: otherwise a server that lets the Enter wait would begin one for a caller that is gone. */
    entry->grant.asks_on = own->once != NULL;
    entry->grant.lease = (struct lease){.kind = own->locks ? &of_locks : &grant_lease,
                                        .channel = channel,
                                        .lease_ms = (uint32_t)own->lease_ms,
                                        .keep_ms = has_lease(own) ? LEASE_ALWAYS : 0};
    code = grant_init(&entry->grant, timeout_ms, error);
    if (code == LKS_OK)
        *ret = entry;
    return code;
}

lks_code lks_enter_start(lks_channel *channel, const lks_enter_request *request, uint32_t timeout_ms, lks_entered *done,
                         void *arg, lks_entry **ret, lks_error *error)
{
    lks_entry *entry = NULL;
    lks_code code = new_entry(channel, request, timeout_ms, &entry, error);

    if (code != LKS_OK)
        return code;
    entry->entered = done;
    entry->arg = arg;
    *ret = entry; /* before the callback can run */
    code = grant_start(&entry->grant, (uint32_t)entry->request->wait_ms, error);
    if (code != LKS_OK)
        *ret = NULL;
    return code;
}

lks_enter_outcome lks_enter(lks_channel *channel, const lks_enter_request *request, lks_entry **ret, lks_error *error)
{
    lks_entry *entry = NULL;
    lks_error unwanted;

    error = error ? error : &unwanted;
    *ret = NULL;
    if (new_entry(channel, request, 0, &entry, error) != LKS_OK)
        return LKS_ENTER_OUTCOME_UNSPECIFIED;
    grant_run(&entry->grant, (uint32_t)entry->request->wait_ms);
    *error = entry->grant.error;
    const lks_enter_outcome outcome = entry->outcome;
    if (outcome == LKS_ENTER_OUTCOME_UNSPECIFIED)
        lks_entry_free(entry);
    else
        *ret = entry;
    return outcome;
}

void lks_enter_cancel(lks_entry *entry)
{
    lks_error error;

    if (grant_cancel(&entry->grant, &error))
        entry->entered(entry->arg, entry, LKS_ENTER_OUTCOME_UNSPECIFIED, &error);
}

const lks_enter_response *lks_entry_answer(const lks_entry *entry)
{
    return entry->answer;
}

bool lks_entry_is_lost(const lks_entry *entry)
{
    return has_lease(entry->request) && lease_is_lost(&entry->grant.lease);
}

uint32_t lks_entry_left_ms(const lks_entry *entry)
{
    if (!has_lease(entry->request))
        return UINT32_MAX;
    return (uint32_t)(lease_left_ns(&entry->grant.lease) / CLOCK_NS_PER_MS);
}

void lks_entry_free(lks_entry *entry)
{
    grant_free((struct grant *)entry);
}

/* ---- leaving ------------------------------------------------------------------------ */

static lks_code send_leave(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    return grant_send(grant, call, &lks_guard_leave_method, &of(grant)->end->base, error);
}

static void left(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    lks_entry *entry = of(grant);

    entry->grant.error = *error;
    entry->left_as = code == LKS_OK ? ((const lks_leave_response *)message)->outcome : LKS_LEAVE_OUTCOME_UNSPECIFIED;
    if (entry->left_as == LKS_LEAVE_OUTCOME_LEFT)
        entry->grant.error = (lks_error){.code = LKS_OK};
    else if (entry->left_as == LKS_LEAVE_OUTCOME_SUPERSEDED)
        lks_error_set_reason(&entry->grant.error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                             "another attempt took over; the result of this one is not stored");
    else if (entry->left_as == LKS_LEAVE_OUTCOME_HOLD_ENDED)
        lks_error_set_reason(&entry->grant.error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                             "the hold has ended; nothing was stored or given back");
    else if (code == LKS_OK)
        lks_error_set(&entry->grant.error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the answer has an unknown outcome");
    else
        grant_end_later(grant, send_leave);
    if (entry->left)
        entry->left(entry->arg, entry->left_as, &entry->grant.error);
    if (!grant->waits && entry->left_as != LKS_LEAVE_OUTCOME_HOLD_ENDED)
        lease_drop(&entry->grant.lease);
}

/* LKS_INVALID_ARGUMENT, LKS_RESOURCE_EXHAUSTED. */
static lks_code keep_end(lks_entry *entry, const lks_leave_request *end, lks_error *error)
{
    const lks_channel *channel = entry->grant.lease.channel;
    lks_leave_request request = leave_request(entry);

    request.kind = end->kind;
    request.code = end->code;
    request.body = end->body;
    request.n_headers = end->n_headers;
    request.headers = end->headers;
    request.detail = end->detail;
    if (end->body.len > LKS_ONCE_BODY_MAX || !channel_has_room(channel, &request.base))
        return lks_error_set_reason(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, LKS_REASON_TOO_LARGE,
                                    "body: must not be longer than %d bytes, or than a message of the channel",
                                    LKS_ONCE_BODY_MAX);
    free_message(entry->end);
    entry->end = copy_of(&request.base);
    return entry->end ? LKS_OK : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static void leave(lks_entry *entry, uint32_t timeout_ms)
{
    const lks_error none = {.code = LKS_OK};
    lks_leave_response response = LKS_LEAVE_RESPONSE_INIT;

    lease_end(&entry->grant.lease);
    if (can_give_back(entry)) {
        grant_end(&entry->grant, timeout_ms, send_leave, left);
        return;
    }
    response.outcome = LKS_LEAVE_OUTCOME_LEFT;
    left(&entry->grant, LKS_OK, &response.base, &none);
}

lks_code lks_leave_start(lks_entry *entry, const lks_leave_request *end, uint32_t timeout_ms, lks_left *done, void *arg,
                         lks_error *error)
{
    const lks_code code = keep_end(entry, end, error);

    if (code != LKS_OK)
        return code;
    entry->grant.waits = false;
    entry->left = done;
    entry->arg = arg;
    leave(entry, timeout_ms);
    return LKS_OK;
}

lks_leave_outcome lks_leave(lks_entry *entry, const lks_leave_request *end, lks_error *error)
{
    lks_error unwanted;

    error = error ? error : &unwanted;
    if (keep_end(entry, end, error) != LKS_OK) {
        lks_entry_free(entry);
        return LKS_LEAVE_OUTCOME_UNSPECIFIED;
    }
    entry->grant.waits = true;
    entry->left = NULL;
    leave(entry, 0);
    *error = entry->grant.error;
    const lks_leave_outcome outcome = entry->left_as;
    if (outcome != LKS_LEAVE_OUTCOME_HOLD_ENDED)
        lease_drop(&entry->grant.lease);
    return outcome;
}

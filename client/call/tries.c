/* Invariant: a call is settled exactly once, on the loop thread, and what it then
 * says of `applied` is true of all its tries together.
 *
 *   STARTED --> QUEUED --room--> SENDING --sent--> AWAITING --reply--> SETTLED
 *                 ^ ^              | |                |
 *                 | +--unsent------+ | cancel, too    | lost, no answer, "unavailable":
 *                 |                v   long           | settled, or sent again after
 *                 +--unsent--- WITHDRAWING            v a pause
 *                 +---------------------------------PAUSED
 *
 * The deadline and a cancel settle from every state, except that a message which
 * may or may not have been given to a connection is asked back first (WITHDRAWING): its
 * return decides between NO and MAYBE. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/scan.h>

#include "client/call/call.h"
#include "base/clock.h"
#include "base/backoff.h"
#include "client/call/undo.h"

enum {
    TRY_MS_MIN = 20,
    TRY_MS_MAX = 1500,     /* a server waits 1 s for its store before it says that there is none */
    WAIT_MARGIN_MS = 1000, /* of the try of a waiting call, over its wait */
    PAUSE_MS_MIN = 10,
    PAUSE_MS_MAX = 640
};

#define TO(state) (1U << CALL_##state)

static const unsigned moves[] = {
    [CALL_STARTED] = TO(QUEUED),
    [CALL_QUEUED] = TO(SENDING) | TO(SETTLED),
    [CALL_SENDING] = TO(AWAITING) | TO(QUEUED) | TO(WITHDRAWING),
    [CALL_WITHDRAWING] = TO(AWAITING) | TO(QUEUED) | TO(SETTLED),
    [CALL_AWAITING] = TO(PAUSED) | TO(SETTLED),
    [CALL_PAUSED] = TO(QUEUED) | TO(SETTLED),
    [CALL_SETTLED] = 0,
};

static endpoint_lane lane_of(const lks_call *call)
{
    const struct request *request = call->request;

    if (request->wait_ms != 0)
        return ENDPOINT_WAITING;
    if (!request->coalesces || call->alone)
        return ENDPOINT_PROMPT;
    return request->method->settles ? ENDPOINT_COALESCED_SETTLING : ENDPOINT_COALESCED;
}

/* The only place where a state changes. A call waits in line exactly while QUEUED. */
static void enter(lks_call *call, call_state state)
{
    lks_channel *channel = call->channel;

    (void)moves; /* a release build asserts nothing */
    assert((moves[call->state] & (1U << state)) != 0);
    if (call->state == CALL_QUEUED) {
        TAILQ_REMOVE(&channel->queue[lane_of(call)], call, in_line);
        channel->n_queued[lane_of(call)]--;
    }
    if (state == CALL_QUEUED) {
        if (channel->n_queued[lane_of(call)]++ == 0 && lane_of(call) != ENDPOINT_WAITING)
            pace_begin(&channel->pace[lane_of(call)], clock_now_ns());
        call->enqueued = channel->enqueued++;
        TAILQ_INSERT_TAIL(&channel->queue[lane_of(call)], call, in_line);
    }
    call->state = state;
}

/* A timer that fires before that is set anew then: most calls are over by that time. */
static void wake_at(lks_call *call, uint64_t at_ns)
{
    uint64_t deadline_ns = call->request->deadline_ns;

    call->due_ns = at_ns < deadline_ns ? at_ns : deadline_ns;
    if (call->timer.place == 0 || call->timer.at_ns > call->due_ns)
        heap_set(&call->channel->loop.timers, &call->timer, call->due_ns);
}

/* ---- settling, on the loop thread ----------------------------------------- */

/* The result stands in call->error and call->response. Nothing of the channel is
 * reached through the call afterwards. */
static void settle(lks_call *call)
{
    lks_channel *channel = call->channel;

    enter(call, CALL_SETTLED);
    heap_clear(&channel->loop.timers, &call->timer);
    TAILQ_REMOVE(&channel->calls, call, in_calls);
    TAILQ_INSERT_TAIL(&channel->settled, call, in_line);
    pthread_mutex_lock(&call->lock);
    call->channel = NULL;
    pthread_mutex_unlock(&call->lock);
    atomic_store(&call->settled, true);
    atomic_fetch_sub(&channel->under_way, 1);
}

/* A try ended without an answer. What a server said before that is not lost with it. */
static void set_unanswered(lks_call *call, lks_code code, lks_reason reason, const char *how)
{
    const char *cause = call->cause;

    lks_error_set_reason(&call->error, code, LKS_APPLIED_MAYBE, reason, "%s: %s%s%s", endpoint_url(call->endpoint), how,
                         cause ? "; before that: " : "", cause ? cause : "");
}

/* The response may be a refusal; that of an earlier try, which is not known, may still take effect. */
static void succeed(lks_call *call, ProtobufCMessage *response)
{
    bool doubtful = call->applied != LKS_APPLIED_NO;

    call->error = (lks_error){.code = LKS_OK, .applied = doubtful ? call->applied : LKS_APPLIED_UNSPECIFIED};
    call->response = response;
    settle(call);
}

static void fail(lks_call *call)
{
    lks_channel *channel = call->channel;

    call->error.applied = call->applied;
    settle(call);
    if (call->error.code == LKS_CANCELLED && call->applied != LKS_APPLIED_NO)
        call_undo(channel, call->request);
}

/* Takes what one try did into what all of them did. */
static void note_applied(lks_call *call, lks_applied applied)
{
    if (applied == LKS_APPLIED_YES || (applied == LKS_APPLIED_MAYBE && call->applied == LKS_APPLIED_NO))
        call->applied = applied;
}

/* Asks for the message back that is being sent. */
static void take_back(lks_call *call, bool ending)
{
    call->ending = ending;
    enter(call, CALL_WITHDRAWING);
    heap_clear(&call->channel->loop.timers, &call->timer);
    frame_withdraw(call->frame);
}

/* Ends the call with call->error, whatever it is doing. */
static void give_up(lks_call *call)
{
    if (call->state == CALL_SENDING) {
        take_back(call, true);
        return;
    }
    if (call->state == CALL_WITHDRAWING) {
        call->ending = true;
        return;
    }
    if (call->state == CALL_AWAITING) {
        note_applied(call, LKS_APPLIED_MAYBE);
        frame_leave(call);
    }
    fail(call);
}

/* How long to stay quiet before the next try: jittered, exponential, and no shorter than
 * the server asked for. */
static uint64_t pause_ns(lks_call *call)
{
    return backoff_ns(PAUSE_MS_MIN, PAUSE_MS_MAX, call->tries, &call->channel->random) +
           call->error.retry_after_ms * CLOCK_NS_PER_MS;
}

/* A try is worth this much time at least: a server that waited for something before it
 * refused the last one may do so again. */
static uint64_t patience_ns(const lks_call *call)
{
    return 2 * call->refusal_ns;
}

/* Whether a try at that time could only spoil what is known: every one so far was refused
 * with NO, and there is no time for another refusal. */
static bool would_spoil(const lks_call *call, uint64_t again_ns)
{
    return call->applied == LKS_APPLIED_NO && again_ns + patience_ns(call) > call->request->deadline_ns;
}

/* The try in hand failed with call->error. `transient`: another might not. */
static void try_failed(lks_call *call, bool transient)
{
    const struct request *request = call->request;
    bool harmless = call->error.applied == LKS_APPLIED_NO || request->repeatable;
    uint64_t again_ns = clock_now_ns() + pause_ns(call);

    note_applied(call, call->error.applied);
    if (transient)
        channel_leave(call->channel, call->endpoint);
    if (!transient || !harmless || request->no_retry || again_ns >= request->deadline_ns ||
        would_spoil(call, again_ns)) {
        fail(call);
        return;
    }
    enter(call, CALL_PAUSED);
    wake_at(call, again_ns);
}

/* ---- a try, on the loop thread -------------------------------------------- */

/* How long one try may take, when there may be another. */
static uint64_t try_ns(const lks_call *call, uint64_t now)
{
    uint64_t deadline_ns = call->request->deadline_ns, ns = deadline_ns > now ? (deadline_ns - now) / 2 : 0;

    if (ns < TRY_MS_MIN * CLOCK_NS_PER_MS)
        ns = TRY_MS_MIN * CLOCK_NS_PER_MS;
    if (ns > TRY_MS_MAX * CLOCK_NS_PER_MS)
        ns = TRY_MS_MAX * CLOCK_NS_PER_MS;
    return ns > patience_ns(call) ? ns : patience_ns(call);
}

void call_sending(lks_call *call, struct frame *frame, uint32_t place, struct endpoint *endpoint, uint64_t now_ns)
{
    call->frame = frame;
    call->place = place;
    call->endpoint = endpoint;
    if (lane_of(call) != ENDPOINT_WAITING)
        pace_note(&call->channel->pace[lane_of(call)], now_ns);
    enter(call, CALL_SENDING);
    wake_at(call, now_ns + try_ns(call, now_ns));
}

void call_cannot_send(lks_call *call)
{
    lks_error_set(&call->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    fail(call);
}

void call_sent(lks_call *call, uint64_t now)
{
    const struct request *request = call->request;

    call->tries++;
    call->sent_ns = now;
    if (call->ending) {
        note_applied(call, LKS_APPLIED_MAYBE);
        frame_leave(call);
        fail(call);
        return;
    }
    enter(call, CALL_AWAITING);
    if (!request->repeatable || request->no_retry)
        wake_at(call, request->deadline_ns);
    else if (request->wait_ms != 0)
        wake_at(call, now + ((uint64_t)request->wait_ms + WAIT_MARGIN_MS) * CLOCK_NS_PER_MS);
    else
        wake_at(call, now + try_ns(call, now));
}

void call_unsent(lks_call *call)
{
    if (call->ending) {
        fail(call);
        return;
    }
    enter(call, CALL_QUEUED);
    wake_at(call, call->request->deadline_ns);
}

void call_lost(lks_call *call)
{
    set_unanswered(call, LKS_UNAVAILABLE, LKS_REASON_CONNECTION_LOST, "connection lost before the answer");
    try_failed(call, true);
}

/* The response in a result that says OK; NULL, and call->error is set, if there is none. */
static ProtobufCMessage *unpack(lks_call *call, const ProtobufCBinaryData *payload)
{
    const ProtobufCMessageDescriptor *type = call->request->method->response;
    lks_rpc_scan_limits limits = lks_rpc_scan_response;
    lks_error error;

    limits.string_bytes = limits.bytes_bytes = call->channel->options.message_bytes_max;
    if (lks_rpc_scan(type, payload->data, payload->len, &limits, &error) != LKS_OK) {
        lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: malformed response: %s",
                      endpoint_url(call->endpoint), error.message);
        return NULL;
    }
    ProtobufCMessage *response = protobuf_c_message_unpack(type, NULL, payload->len, payload->data);
    if (!response)
        lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: the response cannot be unpacked",
                      endpoint_url(call->endpoint));
    return response;
}

/* Whether the same call may be answered otherwise later. One that insists also outlasts
 * what is full, and what is wrong with the server itself. */
static bool may_pass(const lks_call *call)
{
    if (call->error.code == LKS_UNAVAILABLE)
        return true;
    if (!call->request->insist || call->error.applied != LKS_APPLIED_NO)
        return false;
    switch (call->error.code) {
    case LKS_CANCELLED:
    case LKS_UNKNOWN:
    case LKS_DEADLINE_EXCEEDED:
    case LKS_RESOURCE_EXHAUSTED:
    case LKS_INTERNAL:
        return true;
    default:
        return false;
    }
}

/* A server answered with call->error. */
static void refused(lks_call *call)
{
    bool transient = may_pass(call);

    if (transient) {
        free(call->cause);
        call->cause = strdup(call->error.message);
        call->refusal_ns = clock_now_ns() - call->sent_ns;
    }
    try_failed(call, transient);
}

/* It may be that it found no room only because it shared a message: the answers to the others
 * filled the reply. A server that has no room says when to come again. */
static bool again_alone(lks_call *call)
{
    bool harmless = call->error.applied == LKS_APPLIED_NO || call->request->repeatable;

    if (call->error.code != LKS_RESOURCE_EXHAUSTED || call->error.retry_after_ms != 0 || !harmless)
        return false;
    note_applied(call, call->error.applied);
    call->alone = true;
    enter(call, CALL_PAUSED);
    enter(call, CALL_QUEUED);
    wake_at(call, call->request->deadline_ns);
    return true;
}

void call_misread(lks_call *call, const char *why)
{
    lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: malformed reply: %s",
                  endpoint_url(call->endpoint), why);
    try_failed(call, false);
}

void call_answered(lks_call *call, const Lockstock__Rpc__V1__Result *result, bool shared)
{
    if (result->code != LKS_OK) {
        lks_rpc_result_error(result, &call->error);
        if (!shared || !again_alone(call))
            refused(call);
        return;
    }
    ProtobufCMessage *response = unpack(call, &result->payload);
    if (!response)
        try_failed(call, false);
    else
        succeed(call, response);
}

/* ---- timers and cancels, on the loop thread -------------------------------- */

static void unreachable(lks_call *call)
{
    const struct endpoint *endpoint = channel_why(call->channel);

    if (!endpoint)
        lks_error_set_reason(&call->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SERVER_UNREACHABLE,
                             "no server could be reached within the deadline");
    else
        lks_error_set_reason(&call->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SERVER_UNREACHABLE,
                             "no server could be reached within the deadline; %s: %s", endpoint_url(endpoint),
                             endpoint_why(endpoint));
}

/* An earlier try that failed says more than that time is up while none is under way. */
static void overdue(lks_call *call)
{
    bool tried = call->error.code != LKS_OK;

    if (call->state == CALL_AWAITING)
        set_unanswered(call, LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_EXCEEDED, "no answer within the deadline");
    else if (!tried && channel_connected(call->channel))
        lks_error_set_reason(&call->error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "not sent within the deadline");
    else if (!tried)
        unreachable(call);
    give_up(call);
}

static void run_due(struct timer *timer)
{
    lks_call *call = (lks_call *)((char *)timer - offsetof(lks_call, timer));
    uint64_t now = clock_now_ns();

    if (now < call->due_ns) {
        wake_at(call, call->due_ns);
    } else if (now >= call->request->deadline_ns) {
        overdue(call);
    } else if (call->state == CALL_SENDING) {
        channel_leave(call->channel, call->endpoint);
        take_back(call, false);
        endpoint_suspect(call->endpoint);
    } else if (call->state == CALL_AWAITING) {
        set_unanswered(call, LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_EXCEEDED, "no answer");
        frame_leave(call);
        try_failed(call, true);
    } else {
        enter(call, CALL_QUEUED);
        wake_at(call, call->request->deadline_ns);
    }
}

void call_cancel(lks_call *call, const char *why)
{
    if (call->state == CALL_SETTLED)
        return;
    lks_error_set(&call->error, LKS_CANCELLED, LKS_APPLIED_NO, "%s", why);
    give_up(call);
}

void call_begin(lks_call *call)
{
    lks_channel *channel = call->channel;

    call->timer.due = run_due;
    TAILQ_INSERT_TAIL(&channel->calls, call, in_calls);
    enter(call, CALL_QUEUED);
    wake_at(call, call->request->deadline_ns);
    if (atomic_load(&channel->closing))
        call_cancel(call, "the channel was closed");
}

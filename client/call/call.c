/* One call, with its tries.
 *
 *   STARTED, PAUSED --no token of get_token yet--> TOKENLESS --token--> QUEUED, as below
 *
 *   STARTED --> QUEUED --room--> SENDING --sent--> AWAITING --answer--> SETTLED --> COMPLETE
 *                ^ ^                |                  |                    ^
 *                | +-unsent, too long                  | lost, no answer, "unavailable": settled,
 *                |                                     v or sent again after a pause
 *                +-----------------------------------PAUSED
 *
 * The deadline and a cancel settle a call from every state. A message that is still SENDING is taken back first; if
 * that is too late, `applied` is MAYBE instead of NO.
 *
 * Invariants: a call is settled exactly once, on the loop thread, and its `applied` then covers all its tries together.
 * It exists while it has references: the loop thread's until its completion has run, the user's until lks_call_free,
 * and one for each wait and for a posted cancel. */
#include "client/call/call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/options.h>
#include <lockstock/rpc/scan.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/container.h"
#include "client/wire/request.h"
#include "client/loop/forks.h"

enum {
    TRY_MS_MIN = 20,
    TRY_MS_MAX = 1500,     /* a server waits 1 s for its store before it reports it as unavailable */
    WAIT_MARGIN_MS = 1000, /* added to the wait for a try of a waiting call */
    PAUSE_MS_MIN = 10,
    PAUSE_MS_MAX = 640
};

static lks_call *call_of(frame_call *base)
{
    return container_of(base, lks_call, base);
}

static const struct request *request_of(const lks_call *call)
{
    return call->base.request;
}

static const char *url_of(const lks_call *call)
{
    return connection_url(call->base.connection);
}

void call_unref(lks_call *call)
{
    if (atomic_fetch_sub(&call->references, 1) != 1)
        return;
    lks_message_free(call->response);
    request_free(call->base.request);
    free(call->cause);
    free(call->intercepted.own);
    free(call->headers.items);
    free(call->trailers.items);
    free(call->details.items);
    free(call->text);
    pthread_cond_destroy(&call->finished);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* ---- the state -------------------------------------------------------------------------- */

#define TO(state) (1U << CALL_##state)

static const unsigned moves[] = {
    [CALL_STARTED] = TO(QUEUED) | TO(TOKENLESS) | TO(SETTLED),
    [CALL_TOKENLESS] = TO(QUEUED) | TO(SETTLED),
    [CALL_QUEUED] = TO(SENDING) | TO(SETTLED),
    [CALL_SENDING] = TO(AWAITING) | TO(QUEUED),
    [CALL_AWAITING] = TO(PAUSED) | TO(SETTLED),
    [CALL_PAUSED] = TO(QUEUED) | TO(TOKENLESS) | TO(SETTLED),
    [CALL_SETTLED] = TO(COMPLETE),
    [CALL_COMPLETE] = 0,
};

static connection_lane lane_of(const lks_call *call)
{
    const struct request *request = request_of(call);

    if (request->wait_ms != 0)
        return LANE_WAITING;
    if (!request->coalesces || call->alone)
        return LANE_PROMPT;
    return request->method->settles ? LANE_COALESCED_SETTLING : LANE_COALESCED;
}

/* Reports a try that has ended with call->error. */
static void report_try(const lks_call *call)
{
    const lks_channel_options *options = &call->channel->options;
    const struct request *request = request_of(call);
    char sent[TRACE_PARENT_CHARS + 1], given[TRACE_PARENT_CHARS + 1];
    lks_channel_try ended = {.method = request->method,
                             .url = url_of(call),
                             .traceparent = sent,
                             .number = call->base.tries,
                             .begin_ns = call->sent_ns,
                             .end_ns = clock_now_ns(),
                             .error = &call->error};

    if (options->on_try && request->traceparent) {
        ended.parent = request_traceparents(request, sent, given) ? given : NULL;
        options->on_try(options->on_try_arg, &ended);
    }
}

/* The only place where the state changes. A call is in a queue of the channel exactly while QUEUED. */
static void enter(lks_call *call, call_state state)
{
    call_state before = call_state_of(call);

    (void)moves; /* unused in a release build */
    assert((moves[before] & (1U << state)) != 0);
    if (before == CALL_AWAITING)
        report_try(call);
    if (before == CALL_TOKENLESS)
        TAILQ_REMOVE(&call->channel->tokenless, &call->base, in_queue);
    if (state == CALL_TOKENLESS)
        TAILQ_INSERT_TAIL(&call->channel->tokenless, &call->base, in_queue);
    if (before == CALL_QUEUED)
        channel_dequeue(call->channel, lane_of(call), &call->base);
    if (state == CALL_QUEUED)
        channel_enqueue(call->channel, lane_of(call), &call->base);
    if (state == CALL_SETTLED)
        channel_settle(call->channel, &call->base);
    if (state < CALL_SETTLED) {
        atomic_store_explicit(&call->state, state, memory_order_release);
        return;
    }
    pthread_mutex_lock(&call->lock);
    atomic_store(&call->state, state);
    pthread_mutex_unlock(&call->lock);
}

/* Sets when the state ends by itself, the deadline at the latest. An earlier timer stays set, because most calls end
 * before it. */
static void wake_at(lks_call *call, uint64_t at_ns)
{
    uint64_t deadline_ns = request_of(call)->deadline_ns;

    call->due_ns = at_ns < deadline_ns ? at_ns : deadline_ns;
    if (call->timer.place == 0 || call->timer.at_ns > call->due_ns)
        heap_set(&call->channel->loop.timers, &call->timer, call->due_ns);
}

static void enter_queue(lks_call *call)
{
    if (call->channel->options.on_try && request_of(call)->traceparent)
        request_new_span(call->base.request);
    enter(call, CALL_QUEUED);
    wake_at(call, CLOCK_NEVER);
}

static void on_no_memory(frame_call *base);

static void set_token(lks_call *call, const char *authorization)
{
    if (request_authorize(call->base.request, authorization))
        enter_queue(call);
    else
        on_no_memory(&call->base);
}

/* Runs before each try, because a token may have expired. */
static void begin_try(lks_call *call)
{
    const char *authorization = request_of(call)->needs_token ? tokens_get(call->channel->tokens) : NULL;

    if (authorization) {
        set_token(call, authorization);
    } else if (!request_of(call)->needs_token) {
        enter_queue(call);
    } else {
        enter(call, CALL_TOKENLESS);
        wake_at(call, CLOCK_NEVER);
    }
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Settles the call with call->error and call->response. */
static void settle(lks_call *call)
{
    heap_clear(&call->channel->loop.timers, &call->timer);
    enter(call, CALL_SETTLED);
}

static void succeed(lks_call *call, ProtobufCMessage *response)
{
    lks_applied applied = call->base.applied; /* a lost try may still take effect if the response is a refusal */

    call->error = (lks_error){.code = LKS_OK, .applied = applied != LKS_APPLIED_NO ? applied : LKS_APPLIED_UNSPECIFIED};
    call->response = response;
    channel_note_try(call->channel, true);
    settle(call);
}

static void fail(lks_call *call)
{
    call->error.applied = call->base.applied;
    settle(call);
    if (call->error.code == LKS_CANCELLED && call->error.applied != LKS_APPLIED_NO)
        request_undo(request_of(call), call->channel);
}

/* Combines the `applied` of one try with that of the earlier ones. */
static void note_applied(lks_call *call, lks_applied applied)
{
    frame_call *all = &call->base;

    if (applied == LKS_APPLIED_YES || (applied == LKS_APPLIED_MAYBE && all->applied == LKS_APPLIED_NO))
        all->applied = applied;
}

/* A try ended without an answer. The error includes an earlier error of a server. */
static void set_unanswered(lks_call *call, lks_code code, lks_reason reason, const char *how)
{
    const char *cause = call->cause;

    lks_error_set_reason(&call->error, code, LKS_APPLIED_MAYBE, reason, "%s: %s%s%s", url_of(call), how,
                         cause ? "; before that: " : "", cause ? cause : "");
}

/* Ends the call with call->error, in any state. */
static void give_up(lks_call *call)
{
    if (call_state_of(call) == CALL_SENDING)
        connection_withdraw(&call->base); /* from now on it is QUEUED or AWAITING */
    if (call_state_of(call) == CALL_AWAITING) {
        note_applied(call, LKS_APPLIED_MAYBE);
        connection_forget(&call->base);
    }
    fail(call);
}

/* ---- another try ---------------------------------------------------------------------------- */

/* The pause before the next try: exponential with jitter, and no shorter than the server asked for. */
static uint64_t pause_ns(lks_call *call)
{
    return backoff_ns(PAUSE_MS_MIN, PAUSE_MS_MAX, call->base.tries, &call->channel->random) +
           call->error.retry_after_ms * CLOCK_NS_PER_MS;
}

/* The least time of a try: a server that waited for something before its last refusal may do so again. */
static uint64_t min_try_ns(const lks_call *call)
{
    return 2 * call->refusal_ns;
}

/* The time limit of a try that may be repeated. */
static uint64_t try_ns(const lks_call *call, uint64_t now)
{
    uint64_t deadline_ns = request_of(call)->deadline_ns, ns = deadline_ns > now ? (deadline_ns - now) / 2 : 0;

    if (ns < TRY_MS_MIN * CLOCK_NS_PER_MS)
        ns = TRY_MS_MIN * CLOCK_NS_PER_MS;
    if (ns > TRY_MS_MAX * CLOCK_NS_PER_MS)
        ns = TRY_MS_MAX * CLOCK_NS_PER_MS;
    return ns > min_try_ns(call) ? ns : min_try_ns(call);
}

/* Whether the call may be repeated after the last try, which failed. */
static bool may_repeat(const lks_call *call)
{
    return call->error.applied == LKS_APPLIED_NO || request_of(call)->repeatable;
}

/* Whether there is time for another try. When every try so far was refused with NO, there must be time for another
 * refusal, or NO would become MAYBE. */
static bool has_time(const lks_call *call, uint64_t again_ns)
{
    uint64_t deadline_ns = request_of(call)->deadline_ns;
    bool certain = call->base.applied == LKS_APPLIED_NO;

    return again_ns < deadline_ns && (!certain || again_ns + min_try_ns(call) <= deadline_ns);
}

/* The try failed with call->error. `transient`: another try might succeed. */
static void try_failed(lks_call *call, bool transient)
{
    uint64_t again_ns = clock_now_ns() + pause_ns(call);

    note_applied(call, call->error.applied);
    if (transient)
        channel_avoid(call->channel, call->base.connection);
    bool budgeted = channel_note_try(call->channel, !transient) || request_of(call)->insist;
    if (!transient || !may_repeat(call) || request_of(call)->no_retry || !budgeted || !has_time(call, again_ns)) {
        fail(call);
        return;
    }
    enter(call, CALL_PAUSED);
    wake_at(call, again_ns);
}

/* ---- what the connection reports --------------------------------------------------------------- */

static void on_no_memory(frame_call *base)
{
    lks_call *call = call_of(base);

    lks_error_set(&call->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    fail(call);
}

static void on_token(frame_call *base, const char *authorization, const lks_error *why)
{
    lks_call *call = call_of(base);

    if (authorization) {
        set_token(call, authorization);
        return;
    }
    call->error = *why;
    fail(call);
}

static void on_sending(frame_call *base, uint64_t now_ns)
{
    lks_call *call = call_of(base);

    if (lane_of(call) == LANE_PROMPT)
        pace_note(&call->channel->pace, now_ns);
    enter(call, CALL_SENDING);
    wake_at(call, now_ns + try_ns(call, now_ns));
}

static void on_sent(frame_call *base, uint64_t now)
{
    lks_call *call = call_of(base);
    const struct request *request = base->request;

    base->tries++;
    call->sent_ns = now;
    enter(call, CALL_AWAITING);
    if (!request->repeatable || request->no_retry)
        wake_at(call, CLOCK_NEVER);
    else if (request->wait_ms != 0)
        wake_at(call, now + ((uint64_t)request->wait_ms + WAIT_MARGIN_MS) * CLOCK_NS_PER_MS);
    else
        wake_at(call, now + try_ns(call, now));
}

static void on_unsent(frame_call *base)
{
    enter_queue(call_of(base));
}

static void on_lost(frame_call *base)
{
    set_unanswered(call_of(base), LKS_UNAVAILABLE, LKS_REASON_CONNECTION_LOST, "connection lost before the answer");
    try_failed(call_of(base), true);
}

static void on_malformed(frame_call *base, const char *why)
{
    lks_call *call = call_of(base);

    lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: malformed reply: %s", url_of(call), why);
    try_failed(call, false);
}

/* The response of a result with LKS_OK. Returns NULL and sets call->error if it has none. */
static ProtobufCMessage *unpack(lks_call *call, const ProtobufCBinaryData *payload)
{
    const ProtobufCMessageDescriptor *type = request_of(call)->method->response;
    lks_rpc_scan_limits limits = lks_rpc_scan_response;
    lks_error error;

    limits.string_bytes = limits.bytes_bytes = call->channel->options.message_bytes_max;
    if (lks_rpc_scan(type, payload->data, payload->len, &limits, &error) != LKS_OK) {
        lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: malformed response: %s", url_of(call),
                      error.message);
        return NULL;
    }
    ProtobufCMessage *response = protobuf_c_message_unpack(type, NULL, payload->len, payload->data);
    if (!response)
        lks_error_set(&call->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: the response cannot be unpacked",
                      url_of(call));
    return response;
}

/* Whether a later try may succeed. A call that insists also retries every refusal that depends on the state of the
 * server, not on the request. */
static bool is_transient(const lks_call *call)
{
    if (call->error.code == LKS_UNAVAILABLE)
        return true;
    if (!request_of(call)->insist || call->error.applied != LKS_APPLIED_NO ||
        call->error.reason == LKS_REASON_TOO_LARGE)
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
    bool transient = is_transient(call);

    if (transient) {
        free(call->cause);
        call->cause = strdup(call->error.message);
        call->refusal_ns = clock_now_ns() - call->sent_ns;
    }
    try_failed(call, transient);
}

/* Sends the call again in its own message: the answers to other calls of the message may have filled the reply. A
 * server that itself has no room says when to retry. */
static bool retry_alone(lks_call *call)
{
    if (call->error.code != LKS_RESOURCE_EXHAUSTED || call->error.retry_after_ms != 0 || !may_repeat(call))
        return false;
    note_applied(call, call->error.applied);
    call->alone = true;
    enter(call, CALL_PAUSED);
    begin_try(call);
    return true;
}

/* Keeps none when out of memory. */
static void keep_metadata(call_metadata *to, size_t n, Lockstock__Rpc__V1__Metadata *const *from)
{
    size_t bytes = n * sizeof *to->items;

    for (size_t i = 0; i < n; i++)
        bytes += strlen(from[i]->key) + 1 + from[i]->value.len;
    free(to->items);
    to->items = n > 0 ? malloc(bytes) : NULL;
    to->n = to->items ? n : 0;
    char *at = (char *)(to->items + to->n);
    for (size_t i = 0; i < to->n; i++) {
        size_t key = strlen(from[i]->key) + 1, len = from[i]->value.len;
        to->items[i] = (lks_metadata){.key = memcpy(at, from[i]->key, key), .len = len};
        to->items[i].value = len > 0 ? memcpy(at + key, from[i]->value.data, len) : at;
        at += key + len;
    }
}

/* Keeps the metadata and details of an answer. */
static void keep_additions(lks_call *call, const Lockstock__Rpc__V1__Result *from)
{
    keep_metadata(&call->headers, from->n_headers, from->headers);
    keep_metadata(&call->trailers, from->n_metadata, from->metadata);
    keep_metadata(&call->details, from->n_details, from->details);
    free(call->text);
    call->text = strlen(from->message) >= LKS_ERROR_MESSAGE_MAX ? strdup(from->message) : NULL;
}

static void on_answered(frame_call *base, const Lockstock__Rpc__V1__Result *result, bool shared)
{
    lks_call *call = call_of(base);

    keep_additions(call, result);
    if (result->code != LKS_OK) {
        lks_rpc_result_error(result, &call->error);
        if (!shared || !retry_alone(call))
            refused(call);
        return;
    }
    ProtobufCMessage *response = unpack(call, &result->payload);
    if (!response)
        try_failed(call, false);
    else
        succeed(call, response);
}

/* ---- timers, cancels and completions, on the loop thread ------------------------------------------ */

static void set_unreachable(lks_call *call)
{
    const struct connection *connection = channel_why(call->channel);

    lks_error_set_reason(&call->error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SERVER_UNREACHABLE,
                         "no server could be reached within the deadline%s%s%s%s", connection ? "; " : "",
                         connection ? connection_url(connection) : "", connection ? ": " : "",
                         connection ? connection_why(connection) : "");
}

/* If no try is under way, reports the error of the last one, which says more than the deadline does. */
static void settle_overdue(lks_call *call)
{
    bool tried = call->error.code != LKS_OK;

    if (call_state_of(call) == CALL_AWAITING)
        set_unanswered(call, LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_EXCEEDED, "no answer within the deadline");
    else if (!tried && call_state_of(call) == CALL_TOKENLESS)
        lks_error_set_reason(&call->error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "options.get_token: no token within the deadline");
    else if (!tried && channel_connected(call->channel))
        lks_error_set_reason(&call->error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "not sent within the deadline");
    else if (!tried)
        set_unreachable(call);
    give_up(call);
}

static void run_due(struct timer *timer)
{
    lks_call *call = container_of(timer, lks_call, timer);
    struct connection *connection = call->base.connection;
    uint64_t now = clock_now_ns();

    if (now < call->due_ns) {
        wake_at(call, call->due_ns);
    } else if (now >= request_of(call)->deadline_ns) {
        settle_overdue(call);
    } else if (call_state_of(call) == CALL_SENDING) {
        channel_avoid(call->channel, connection);
        connection_withdraw(&call->base);
        connection_suspect(connection);
    } else if (call_state_of(call) == CALL_AWAITING) {
        set_unanswered(call, LKS_DEADLINE_EXCEEDED, LKS_REASON_DEADLINE_EXCEEDED, "no answer");
        connection_forget(&call->base);
        try_failed(call, true);
    } else {
        begin_try(call);
    }
}

static void cancel(lks_call *call, const char *why)
{
    if (call_state_of(call) >= CALL_SETTLED)
        return;
    lks_error_set(&call->error, LKS_CANCELLED, LKS_APPLIED_NO, "%s", why);
    give_up(call);
}

static void run_start(loop_task *task)
{
    lks_call *call = container_of(task, lks_call, start);

    TAILQ_INSERT_TAIL(&call->channel->calls, &call->base, in_calls);
    begin_try(call);
    pthread_mutex_lock(&call->lock);
    bool cancelled = call->cancelled && !call->cancel_posted;
    pthread_mutex_unlock(&call->lock);
    if (cancelled)
        cancel(call, "cancelled by the caller");
    if (atomic_load(&call->channel->closing))
        cancel(call, "the channel was closed");
}

static void on_context_stopped(lks_rpc_follower *follower)
{
    lks_call_cancel(container_of(follower, lks_call, follower));
}

static void run_cancel(loop_task *task)
{
    lks_call *call = container_of(task, lks_call, cancel);

    cancel(call, "cancelled by the caller");
    call_unref(call);
}

static void on_closing(frame_call *base)
{
    cancel(call_of(base), "the channel was closed");
}

void call_complete(frame_call *base)
{
    lks_call *call = call_of(base);

    if (call->follower.stop)
        lks_rpc_unfollow(&call->follower);
    intercept_after(call->channel, &call->intercepted, request_of(call)->method, call->response, &call->error);
    if (call->done)
        call->done(call->function, call->arg, call->error.code, call->response, &call->error);
    enter(call, CALL_COMPLETE);
    pthread_cond_broadcast(&call->finished); /* outside the lock, which the woken thread takes */
    call_unref(call);
}

/* ---- the start ------------------------------------------------------------------------- */

static const frame_call_events events = {
    .no_memory = on_no_memory,
    .sending = on_sending,
    .sent = on_sent,
    .unsent = on_unsent,
    .lost = on_lost,
    .answered = on_answered,
    .malformed = on_malformed,
    .token = on_token,
    .closing = on_closing,
    .complete = call_complete,
};

lks_call *call_new(lks_channel *channel, struct request *request, unsigned references)
{
    lks_call *call = malloc(sizeof *call);
    if (!call)
        return NULL;
    *call = (lks_call){
        .base = {.events = &events, .request = request, .applied = LKS_APPLIED_NO},
        .channel = channel,
        .start = {.run = run_start},
        .forks = channel->forks,
        .driven = channel->options.driven,
        .references = references,
        .state = CALL_STARTED,
        .cancel = {.run = run_cancel},
        .timer = {.due = run_due},
    };
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->finished, NULL);
    return call;
}

bool call_follow(lks_call *call, lks_rpc_context *context)
{
    if (!context)
        return true;
    call->follower.stop = on_context_stopped;
    return lks_rpc_follow(context, &call->follower);
}

/* Invariant: an event is noted before its call is held, delayed or answered. */
#include "helpers_fake.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/v1/idempotency.lks_server.h>
#include <lockstock/v1/ratelimit.lks_server.h>
#include <lockstock/v1/stock.lks_server.h>

#include "fake_host.h"

enum { FENCE = 7 };

struct helpers_fake {
    fake_host host;
    fake_manner manner;
    uint32_t failed, denied;
    size_t calls[FAKE_METHODS];
    fake_event *events;
    size_t n_events, room;
};

#define COPY(to, from) snprintf((to), sizeof(to), "%s", (from))

static void copy_bytes(fake_event *event, ProtobufCBinaryData bytes)
{
    snprintf(event->text, sizeof event->text, "%.*s", (int)bytes.len, bytes.len != 0 ? (const char *)bytes.data : "");
}

/* ---- noting and answering ---------------------------------------------------------- */

/* Notes the event, holds the call, and says how it ends; *outcome is what it is to
 * say, *manner a copy of all that. */
static lks_code take(helpers_fake *fake, fake_event event, int good, int *outcome, fake_manner *manner,
                     lks_error *error)
{
    fake_method method = event.method;
    lks_code code = LKS_OK;

    pthread_mutex_lock(&fake->host.lock);
    if (fake->n_events == fake->room) {
        fake->room = fake->room == 0 ? 64 : 2 * fake->room;
        fake->events = realloc(fake->events, fake->room * sizeof *fake->events);
        assert(fake->events != NULL);
    }
    event.at_ns = fake_host_now_ns();
    fake->events[fake->n_events++] = event;
    fake->calls[method]++;
    pthread_cond_broadcast(&fake->host.changed);
    while (fake->manner.holds[method])
        pthread_cond_wait(&fake->host.changed, &fake->host.lock);
    *manner = fake->manner;
    *outcome = manner->outcome[method] != 0 ? manner->outcome[method] : good;
    if (method == FAKE_CHECK && manner->denied_times != 0 && fake->denied++ >= manner->denied_times)
        *outcome = good;
    if (manner->fails[method] != LKS_OK && (manner->fail_times == 0 || fake->failed++ < manner->fail_times)) {
        code = manner->fails[method];
        lks_error_set(error, code, manner->applied != 0 ? manner->applied : LKS_APPLIED_NO, "as told");
        error->retry_after_ms = manner->fail_retry_ms;
    }
    pthread_mutex_unlock(&fake->host.lock);
    return code;
}

/* ---- IdempotencyService -------------------------------------------------------------- */

static lks_stored_result *stored(const fake_manner *manner, lks_rpc_arena *arena)
{
    lks_stored_result *result = lks_rpc_arena_alloc(arena, sizeof *result);
    lks_result_header *header = lks_rpc_arena_alloc(arena, sizeof *header);
    lks_result_header **headers = lks_rpc_arena_alloc(arena, sizeof *headers);

    if (manner->body == NULL && manner->failure == NULL)
        return NULL;
    *result = (lks_stored_result)LKS_STORED_RESULT_INIT;
    *header = (lks_result_header)LKS_RESULT_HEADER_INIT;
    headers[0] = header;
    result->n_headers = 1;
    result->headers = headers;
    if (manner->failure != NULL) {
        result->code = -1;
        header->key = lks_rpc_arena_printf(arena, "lockstock-failure");
        header->value = lks_rpc_arena_printf(arena, "%s", manner->failure);
        return result;
    }
    result->code = 200;
    result->body.len = strlen(manner->body);
    result->body.data = (uint8_t *)lks_rpc_arena_printf(arena, "%s", manner->body);
    header->key = lks_rpc_arena_printf(arena, "content-type");
    header->value = lks_rpc_arena_printf(arena, "text/plain");
    return result;
}

static lks_code fake_begin(void *self, lks_rpc_context *context, const lks_begin_request *request,
                           lks_begin_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_BEGIN,
                        .lease_ms = request->lease_ms,
                        .wait_ms = request->wait_ms,
                        .retain_ms = request->retain_ms};
    fake_manner manner;
    int outcome;

    COPY(event.scope, request->scope);
    COPY(event.id, request->key);
    COPY(event.token, request->attempt_token);
    copy_bytes(&event, request->fingerprint);
    lks_code code = take(self, event, LKS_BEGIN_OUTCOME_EXECUTE, &outcome, &manner, error);
    const struct timespec delay = {.tv_sec = manner.begin_delay_ms / 1000,
                                   .tv_nsec = manner.begin_delay_ms % 1000 * 1000000};
    nanosleep(&delay, NULL); /* what is tested: an answer that takes its time */
    response->outcome = (lks_begin_outcome)outcome;
    response->attempt = 1;
    response->fence = outcome == LKS_BEGIN_OUTCOME_EXECUTE ? FENCE : 0;
    response->retry_after_ms = manner.retry_after_ms;
    if (outcome == LKS_BEGIN_OUTCOME_REPLAY)
        response->result = stored(&manner, context->arena);
    return code;
}

static lks_code fake_extend(void *self, lks_rpc_context *context, const lks_extend_request *request,
                            lks_extend_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_EXTEND, .fence = request->fence, .lease_ms = request->lease_ms};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->scope);
    COPY(event.id, request->key);
    lks_code code = take(self, event, LKS_EXTEND_OUTCOME_EXTENDED, &outcome, &manner, error);
    response->outcome = (lks_extend_outcome)outcome;
    return code;
}

static lks_code fake_complete(void *self, lks_rpc_context *context, const lks_complete_request *request,
                              lks_complete_response *response, lks_error *error)
{
    fake_event event = {
        .method = FAKE_COMPLETE, .fence = request->fence, .number = request->code, .n = request->n_headers};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->scope);
    COPY(event.id, request->key);
    copy_bytes(&event, request->body);
    if (request->n_headers != 0)
        snprintf(event.keys[0], sizeof event.keys[0], "%s: %s", request->headers[0]->key, request->headers[0]->value);
    lks_code code = take(self, event, LKS_COMPLETE_OUTCOME_STORED, &outcome, &manner, error);
    response->outcome = (lks_complete_outcome)outcome;
    return code;
}

static lks_code fake_fail(void *self, lks_rpc_context *context, const lks_fail_request *request,
                          lks_fail_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_FAIL,
                        .fence = request->fence,
                        .flag = request->kind == LKS_FAIL_KIND_FINAL,
                        .n = strlen(request->detail)};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->scope);
    COPY(event.id, request->key);
    COPY(event.text, request->detail);
    lks_code code = take(self, event, LKS_FAIL_OUTCOME_STORED, &outcome, &manner, error);
    response->outcome = (lks_fail_outcome)outcome;
    return code;
}

static lks_code fake_get(void *self, lks_rpc_context *context, const lks_get_request *request,
                         lks_get_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_GET};
    fake_manner manner;
    int outcome;

    COPY(event.scope, request->scope);
    COPY(event.id, request->key);
    lks_code code = take(self, event, LKS_RECORD_STATE_COMPLETED, &outcome, &manner, error);
    response->record = lks_rpc_arena_alloc(context->arena, sizeof *response->record);
    *response->record = (lks_record)LKS_RECORD_INIT;
    response->record->state = (lks_record_state)outcome;
    response->record->result = stored(&manner, context->arena);
    return code;
}

/* ---- RateLimitService ------------------------------------------------------------------ */

static lks_code fake_check(void *self, lks_rpc_context *context, const lks_check_request *request,
                           lks_check_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_CHECK, .number = request->cost, .n = request->n_rules};
    fake_manner manner;
    int outcome;

    COPY(event.scope, request->group);
    COPY(event.id, request->request_id);
    for (size_t i = 0; i < request->n_rules && i < FAKE_RULES; i++) {
        const lks_rule *rule = request->rules[i];
        if (rule->spec_case == LKS_RULE_SPEC_POLICY)
            snprintf(event.keys[i], sizeof event.keys[i], "policy %s:%s", rule->policy, rule->key);
        else
            snprintf(event.keys[i], sizeof event.keys[i], "limit %lld after %lld:%s", (long long)rule->limit->limit,
                     rule->limit->penalty != NULL ? (long long)rule->limit->penalty->after : 0, rule->key);
    }
    lks_code code = take(self, event, LKS_CHECK_OUTCOME_ALLOWED, &outcome, &manner, error);
    response->outcome = (lks_check_outcome)outcome;
    response->n_rules = request->n_rules;
    response->rules = lks_rpc_arena_alloc(context->arena, request->n_rules * sizeof *response->rules);
    for (size_t i = 0; i < request->n_rules; i++) {
        /* The last denies for longest; where all pass the first has least remaining. */
        lks_rule_result *result = lks_rpc_arena_alloc(context->arena, sizeof *result);
        *result = (lks_rule_result)LKS_RULE_RESULT_INIT;
        result->outcome = i == 0 && request->n_rules > 1 ? LKS_CHECK_OUTCOME_ALLOWED : response->outcome;
        result->limit = 10 * ((int64_t)i + 1);
        result->remaining = outcome == LKS_CHECK_OUTCOME_ALLOWED ? 3 + (int64_t)i : 0;
        result->retry_after_ms = result->outcome == LKS_CHECK_OUTCOME_ALLOWED ? 0 : manner.retry_after_ms + (int64_t)i;
        if (i + 1 == manner.never_rule)
            result->retry_after_ms = -1;
        result->reset_after_ms = 5000;
        result->banned_ms = outcome == LKS_CHECK_OUTCOME_BANNED ? manner.retry_after_ms : 0;
        response->rules[i] = result;
    }
    return code;
}

static lks_code fake_refund(void *self, lks_rpc_context *context, const lks_refund_request *request,
                            lks_refund_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_REFUND};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->group);
    COPY(event.id, request->request_id);
    lks_code code = take(self, event, LKS_REFUND_OUTCOME_REFUNDED, &outcome, &manner, error);
    response->outcome = (lks_refund_outcome)outcome;
    return code;
}

/* ---- StockService ------------------------------------------------------------------------ */

static lks_code fake_reserve(void *self, lks_rpc_context *context, const lks_reserve_request *request,
                             lks_reserve_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_RESERVE,
                        .lease_ms = request->hold_ms,
                        .flag = request->fresh,
                        .n = request->n_lines,
                        .number = request->lines[0]->quantity};
    lks_line_stock *line = lks_rpc_arena_alloc(context->arena, sizeof *line);
    lks_line_stock **lines = lks_rpc_arena_alloc(context->arena, sizeof *lines);
    fake_manner manner;
    int outcome;

    COPY(event.scope, request->group);
    COPY(event.id, request->order_id);
    COPY(event.token, request->buyer_id);
    for (size_t i = 0; i < request->n_lines && i < FAKE_RULES; i++)
        COPY(event.keys[i], request->lines[i]->sku);
    lks_code code = take(self, event, LKS_RESERVE_OUTCOME_RESERVED, &outcome, &manner, error);
    *line = (lks_line_stock)LKS_LINE_STOCK_INIT;
    line->sku = request->lines[0]->sku;
    line->available = 2;
    lines[0] = line;
    response->n_lines = 1;
    response->lines = lines;
    response->outcome = (lks_reserve_outcome)outcome;
    response->hold_ms = manner.hold_ms != 0 ? manner.hold_ms : request->hold_ms;
    response->replayed = manner.replayed;
    return code;
}

static lks_code fake_confirm(void *self, lks_rpc_context *context, const lks_confirm_request *request,
                             lks_confirm_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_CONFIRM, .flag = request->reacquire_if_expired};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->group);
    COPY(event.id, request->order_id);
    lks_code code = take(self, event, LKS_CONFIRM_OUTCOME_CONFIRMED, &outcome, &manner, error);
    response->outcome = (lks_confirm_outcome)outcome;
    return code;
}

static lks_code fake_extend_hold(void *self, lks_rpc_context *context, const lks_extend_hold_request *request,
                                 lks_extend_hold_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_EXTEND_HOLD, .lease_ms = request->hold_ms};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->group);
    COPY(event.id, request->order_id);
    lks_code code = take(self, event, LKS_EXTEND_HOLD_OUTCOME_EXTENDED, &outcome, &manner, error);
    response->outcome = (lks_extend_hold_outcome)outcome;
    response->hold_ms = manner.hold_ms != 0 ? manner.hold_ms : request->hold_ms;
    return code;
}

static lks_code fake_cancel(void *self, lks_rpc_context *context, const lks_cancel_request *request,
                            lks_cancel_response *response, lks_error *error)
{
    fake_event event = {.method = FAKE_CANCEL};
    fake_manner manner;
    int outcome;

    (void)context;
    COPY(event.scope, request->group);
    COPY(event.id, request->order_id);
    COPY(event.text, request->reason);
    lks_code code = take(self, event, LKS_CANCEL_OUTCOME_CANCELLED, &outcome, &manner, error);
    response->outcome = (lks_cancel_outcome)outcome;
    return code;
}

/* What the helpers do not call. */
#define FAKE_OTHER(name)                                                                                   \
    static lks_code fake_##name(void *self, lks_rpc_context *context, const lks_##name##_request *request, \
                                lks_##name##_response *response, lks_error *error)                         \
    {                                                                                                      \
        (void)self, (void)context, (void)request, (void)response;                                          \
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "not faked");                       \
    }
FAKE_OTHER(issue_ticket)
FAKE_OTHER(consume_ticket)
FAKE_OTHER(delete)
FAKE_OTHER(reset)
FAKE_OTHER(put_policy)
FAKE_OTHER(get_policy)
FAKE_OTHER(list_policies)
FAKE_OTHER(delete_policy)
FAKE_OTHER(put_item)
FAKE_OTHER(list_items)
FAKE_OTHER(get_item)
FAKE_OTHER(batch_get_items)
FAKE_OTHER(adjust)
FAKE_OTHER(deduct)
FAKE_OTHER(return )
FAKE_OTHER(get_order)
FAKE_OTHER(read_ledger)
FAKE_OTHER(trim_ledger)
FAKE_OTHER(delete_item)

/* ---- for tests ----------------------------------------------------------------------------- */

helpers_fake *helpers_fake_start(void)
{
    static const lks_idempotency_handlers idempotency = LKS_IDEMPOTENCY_HANDLERS(fake_);
    static const lks_rate_limit_handlers rate_limit = LKS_RATE_LIMIT_HANDLERS(fake_);
    static const lks_stock_handlers stock = LKS_STOCK_HANDLERS(fake_);
    helpers_fake *fake = calloc(1, sizeof *fake);

    if (fake == NULL)
        return NULL;
    const lks_rpc_service services[] = {lks_idempotency_service(&idempotency, fake),
                                        lks_rate_limit_service(&rate_limit, fake), lks_stock_service(&stock, fake)};
    if (!fake_host_open(&fake->host, services, sizeof services / sizeof services[0])) {
        helpers_fake_stop(fake);
        return NULL;
    }
    return fake;
}

void helpers_fake_stop(helpers_fake *fake)
{
    if (fake == NULL)
        return;
    helpers_fake_behave(fake, (fake_manner){.body = NULL});
    fake_host_close(&fake->host);
    free(fake->events);
    free(fake);
}

const char *helpers_fake_url(const helpers_fake *fake)
{
    return fake->host.url;
}

void helpers_fake_behave(helpers_fake *fake, fake_manner manner)
{
    pthread_mutex_lock(&fake->host.lock);
    fake->manner = manner;
    fake->failed = fake->denied = 0;
    pthread_cond_broadcast(&fake->host.changed);
    pthread_mutex_unlock(&fake->host.lock);
}

size_t helpers_fake_seen(helpers_fake *fake, fake_method method)
{
    pthread_mutex_lock(&fake->host.lock);
    size_t n = fake->calls[method];
    pthread_mutex_unlock(&fake->host.lock);
    return n;
}

bool helpers_fake_await(helpers_fake *fake, fake_method method, size_t n)
{
    const struct timespec until = fake_host_deadline();
    int failed = 0;

    pthread_mutex_lock(&fake->host.lock);
    while (fake->calls[method] < n && failed == 0)
        failed = pthread_cond_timedwait(&fake->host.changed, &fake->host.lock, &until);
    bool seen = fake->calls[method] >= n;
    pthread_mutex_unlock(&fake->host.lock);
    return seen;
}

fake_event helpers_fake_event(helpers_fake *fake, fake_method method, size_t i)
{
    fake_event event = {.method = FAKE_METHODS};

    pthread_mutex_lock(&fake->host.lock);
    for (size_t k = 0, n = 0; k < fake->n_events; k++)
        if (fake->events[k].method == method && n++ == i)
            event = fake->events[k];
    pthread_mutex_unlock(&fake->host.lock);
    return event;
}

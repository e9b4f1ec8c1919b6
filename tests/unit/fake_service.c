/* Invariant: an event is noted before its call is held, delayed or answered. The fields to note and the usual
 * answers of methods are in two tables; only answers with more fields than an outcome have a function. */
#include "fake_service.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/host.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "base/clock.h"

enum { FENCE = 7, AWAIT_S = 60 };

struct fake_service {
    lks_host *host;
    char url[64];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits by CLOCK_MONOTONIC */
    fake_manner manner;
    uint32_t failed, denied;
    uint64_t fence;
    size_t calls[FAKE_METHODS];
    fake_event *events;
    size_t n_events, room;
};

/* ---- noted fields of a request ------------------------------------------------------ */

/* A member of the event for each field, whatever the message. */
static const struct noted {
    const char *field;
    size_t at, size; /* size 0: a number */
} noted[] = {
#define TEXT(field, member)                                                  \
    {                                                                        \
        field, offsetof(fake_event, member), sizeof((fake_event *)0)->member \
    }
#define NUMBER(field, member)                  \
    {                                          \
        field, offsetof(fake_event, member), 0 \
    }
    TEXT("group", group),
    TEXT("scope", group),
    TEXT("key", id),
    TEXT("order_id", id),
    TEXT("request_id", id),
    TEXT("token", token),
    TEXT("attempt_token", token),
    TEXT("buyer_id", token),
    TEXT("name", name),
    TEXT("owner", owner),
    TEXT("body", text),
    TEXT("detail", text),
    TEXT("reason", text),
    TEXT("fingerprint", text),
    NUMBER("fence", fence),
    NUMBER("mode", mode),
    NUMBER("permits", permits),
    NUMBER("capacity", capacity),
    NUMBER("lease_ms", lease_ms),
    NUMBER("hold_ms", lease_ms),
    NUMBER("wait_ms", wait_ms),
    NUMBER("retain_ms", retain_ms),
    NUMBER("code", number),
    NUMBER("cost", number),
    NUMBER("quantity", number),
    NUMBER("fresh", flag),
    NUMBER("kind", flag),
    NUMBER("reacquire_if_expired", flag),
#undef TEXT
#undef NUMBER
};

static void note_field(fake_event *event, const struct noted *to, const ProtobufCFieldDescriptor *field,
                       const void *value)
{
    char *at = (char *)event + to->at;
    int64_t number = 0;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        if (**(char *const *)value != '\0') /* another field may have the same member */
            snprintf(at, to->size, "%s", *(char *const *)value);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        snprintf(at, to->size, "%.*s", (int)((const ProtobufCBinaryData *)value)->len,
                 (const char *)((const ProtobufCBinaryData *)value)->data);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        number = *(const int64_t *)value;
        break;
    default: /* int32, bool and enums are as large */
        number = *(const int32_t *)value;
    }
    memcpy(at, &number, sizeof number);
}

/* Of a GuardService request also the fields of its parts. */
static void note_fields(fake_event *event, const ProtobufCMessage *message)
{
    static const char *const parts[] = {"once", "limits", "stock", "locks"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, parts[i]);
        const ProtobufCMessage *part =
            field ? *(ProtobufCMessage *const *)(const void *)((const char *)message + field->offset) : NULL;
        if (!part)
            continue;
        size_t length = strlen(event->parts);
        snprintf(event->parts + length, sizeof event->parts - length, "%s%s", length > 0 ? " " : "", parts[i]);
        note_fields(event, part);
    }
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, noted[i].field);
        if (field && field->label != PROTOBUF_C_LABEL_REPEATED)
            note_field(event, &noted[i], field, (const char *)message + field->offset);
    }
}

static void note_rule(char key[40], const lks_rule *rule)
{
    if (rule->spec_case == LKS_RULE_SPEC_POLICY)
        snprintf(key, 40, "policy %s:%s", rule->policy, rule->key);
    else
        snprintf(key, 40, "limit %lld after %lld:%s", (long long)rule->limit->limit,
                 rule->limit->penalty ? (long long)rule->limit->penalty->after : 0, rule->key);
}

/* Under the lock. */
static void note(fake_service *fake, fake_method method, const void *request)
{
    const lks_renew_request *renew = request;
    const lks_acquire_request *acquire = request;
    const lks_check_request *check = request;
    const lks_reserve_request *reserve = request;

    for (size_t i = 0; i < (method == FAKE_RENEW ? renew->n_leases : 1); i++) {
        if (fake->n_events == fake->room) {
            fake->room = fake->room == 0 ? 64 : 2 * fake->room;
            fake->events = realloc(fake->events, fake->room * sizeof *fake->events);
            assert(fake->events);
        }
        fake_event *event = &fake->events[fake->n_events++];
        *event = (fake_event){.method = method, .call = fake->calls[method], .at_ns = clock_now_ns()};
        note_fields(event, method == FAKE_RENEW ? &renew->leases[i]->base : request);
        if (method == FAKE_ACQUIRE)
            note_fields(event, &acquire->targets[0]->base);
        if (method == FAKE_COMPLETE)
            event->n = ((const lks_complete_request *)request)->n_headers;
        if (method == FAKE_COMPLETE && event->n > 0)
            snprintf(event->keys[0], sizeof event->keys[0], "%s: %s",
                     ((const lks_complete_request *)request)->headers[0]->key,
                     ((const lks_complete_request *)request)->headers[0]->value);
        if (method == FAKE_FAIL) {
            event->flag = event->flag == LKS_FAIL_KIND_FINAL;
            event->n = strlen(((const lks_fail_request *)request)->detail);
        }
        for (size_t k = 0; method == FAKE_CHECK && k < check->n_rules && k < FAKE_RULES; k++)
            note_rule(event->keys[k], check->rules[k]);
        for (size_t k = 0; method == FAKE_RESERVE && k < reserve->n_lines && k < FAKE_RULES; k++)
            snprintf(event->keys[k], sizeof event->keys[k], "%s", reserve->lines[k]->sku);
        if (method == FAKE_RESERVE)
            note_fields(event, &reserve->lines[0]->base);
        if (method == FAKE_CHECK)
            event->n = check->n_rules;
        if (method == FAKE_RESERVE)
            event->n = reserve->n_lines;
    }
    fake->calls[method]++;
    pthread_cond_broadcast(&fake->changed);
}

/* ---- answers with more in them than an outcome ---------------------------------------- */

/* One call: its request, and how it is answered. */
typedef struct answer {
    fake_service *fake;
    const fake_manner *manner; /* a copy */
    int outcome;
    lks_rpc_arena *arena;
    const void *request;
    void *response;
    lks_error *error;
} answer;

static void *alloc(const answer *a, size_t n, size_t size)
{
    return lks_rpc_arena_alloc(a->arena, n * size);
}

static lks_code answer_acquire(const answer *a)
{
    const lks_acquire_request *request = a->request;
    lks_acquire_response *response = a->response;
    lks_fence *fence = alloc(a, 1, sizeof *fence);

    *fence = (lks_fence)LKS_FENCE_INIT;
    fence->fence = ++a->fake->fence;
    fence->name = request->targets[0]->name;
    response->fences = alloc(a, 1, sizeof *response->fences);
    response->fences[0] = fence;
    response->n_fences = a->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
    response->lease_ms = request->lease_ms;
    response->token = request->token;
    response->group = request->group;
    return LKS_OK;
}

static bool has(const lks_renew_request *request, const char *group)
{
    for (size_t i = 0; group && i < request->n_leases; i++)
        if (strcmp(request->leases[i]->group, group) == 0)
            return true;
    return false;
}

static lks_code answer_renew(const answer *a)
{
    const lks_renew_request *request = a->request;
    lks_renew_response *response = a->response;
    const size_t n = request->n_leases;
    lks_lease_result *results = alloc(a, n, sizeof *results);

    response->n_results = n;
    response->results = alloc(a, n, sizeof *response->results);
    for (size_t i = 0; i < n; i++) {
        const lks_lease *lease = request->leases[i];
        const bool lost = a->manner->lost && strcmp(a->manner->lost, lease->group) == 0;
        results[i] = (lks_lease_result)LKS_LEASE_RESULT_INIT;
        results[i].outcome = lost ? LKS_RENEW_OUTCOME_LOST : LKS_RENEW_OUTCOME_RENEWED;
        results[i].lease_ms = lost ? 0 : lease->lease_ms;
        results[i].group = lease->group;
        response->results[i] = &results[i];
    }
    if (has(request, a->manner->poison) || n > (a->manner->leases_max ? a->manner->leases_max : 256))
        return lks_error_set(a->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "leases: not so");
    return LKS_OK;
}

static lks_stored_result *stored(const answer *a)
{
    lks_stored_result *result = alloc(a, 1, sizeof *result);
    lks_result_header *header = alloc(a, 1, sizeof *header);
    const bool failed = a->manner->failure;

    if (!a->manner->body && !failed)
        return NULL;
    *result = (lks_stored_result)LKS_STORED_RESULT_INIT;
    *header = (lks_result_header)LKS_RESULT_HEADER_INIT;
    result->n_headers = 1;
    result->headers = alloc(a, 1, sizeof *result->headers);
    result->headers[0] = header;
    result->code = failed ? -1 : 200;
    header->key = lks_rpc_arena_printf(a->arena, "%s", failed ? "lockstock-failure" : "content-type");
    header->value = lks_rpc_arena_printf(a->arena, "%s", failed ? a->manner->failure : "text/plain");
    if (!failed) {
        result->body.len = strlen(a->manner->body);
        result->body.data = (uint8_t *)lks_rpc_arena_printf(a->arena, "%s", a->manner->body);
    }
    return result;
}

static lks_code answer_begin(const answer *a)
{
    lks_begin_response *response = a->response;

    response->attempt = 1;
    response->fence = a->outcome == LKS_BEGIN_OUTCOME_EXECUTE ? FENCE : 0;
    response->retry_after_ms = a->manner->retry_after_ms;
    if (a->outcome == LKS_BEGIN_OUTCOME_REPLAY)
        response->result = stored(a);
    return LKS_OK;
}

static lks_code answer_enter(const answer *a)
{
    const lks_enter_request *request = a->request;
    lks_enter_response *response = a->response;
    lks_fence *fence = alloc(a, 1, sizeof *fence);

    response->token = request->token;
    response->retry_after_ms = a->manner->retry_after_ms;
    if (a->outcome == LKS_ENTER_OUTCOME_REPLAY)
        response->result = stored(a);
    if (a->outcome != LKS_ENTER_OUTCOME_ENTERED)
        return LKS_OK;
    response->attempt = request->once ? 1 : 0;
    response->attempt_fence = request->once ? FENCE : 0;
    response->lease_ms = request->lease_ms;
    response->hold_ms = request->stock ? request->stock->hold_ms : 0;
    *fence = (lks_fence)LKS_FENCE_INIT;
    fence->fence = ++a->fake->fence;
    fence->name = request->locks ? request->locks->targets[0]->name : "";
    response->fences = alloc(a, 1, sizeof *response->fences);
    response->fences[0] = fence;
    response->n_fences = request->locks != NULL;
    return LKS_OK;
}

static lks_code answer_get(const answer *a)
{
    lks_get_response *response = a->response;

    response->record = alloc(a, 1, sizeof *response->record);
    *response->record = (lks_record)LKS_RECORD_INIT;
    response->record->state = (lks_record_state)a->outcome;
    response->record->result = stored(a);
    return LKS_OK;
}

/* The last rule denies for longest; where all pass the first has least remaining. */
static lks_code answer_check(const answer *a)
{
    const size_t n = ((const lks_check_request *)a->request)->n_rules;
    const bool allowed = a->outcome == LKS_CHECK_OUTCOME_ALLOWED;
    lks_check_response *response = a->response;
    lks_rule_result *results = alloc(a, n, sizeof *results);

    response->n_rules = n;
    response->rules = alloc(a, n, sizeof *response->rules);
    for (size_t i = 0; i < n; i++) {
        lks_rule_result *result = response->rules[i] = &results[i];
        *result = (lks_rule_result)LKS_RULE_RESULT_INIT;
        result->outcome = i == 0 && n > 1 ? LKS_CHECK_OUTCOME_ALLOWED : (lks_check_outcome)a->outcome;
        result->limit = 10 * ((int64_t)i + 1);
        result->remaining = allowed ? 3 + (int64_t)i : 0;
        if (result->outcome != LKS_CHECK_OUTCOME_ALLOWED)
            result->retry_after_ms = a->manner->retry_after_ms + (int64_t)i;
        if (i + 1 == a->manner->never_rule)
            result->retry_after_ms = -1;
        result->reset_after_ms = 5000;
        result->banned_ms = a->outcome == LKS_CHECK_OUTCOME_BANNED ? a->manner->retry_after_ms : 0;
    }
    return LKS_OK;
}

static lks_code answer_reserve(const answer *a)
{
    const lks_reserve_request *request = a->request;
    lks_reserve_response *response = a->response;
    lks_line_stock *line = alloc(a, 1, sizeof *line);

    *line = (lks_line_stock)LKS_LINE_STOCK_INIT;
    line->sku = request->lines[0]->sku;
    line->available = 2;
    response->n_lines = 1;
    response->lines = alloc(a, 1, sizeof *response->lines);
    response->lines[0] = line;
    response->hold_ms = a->manner->hold_ms ? a->manner->hold_ms : request->hold_ms;
    response->replayed = a->manner->replayed;
    return LKS_OK;
}

static lks_code answer_extend_hold(const answer *a)
{
    const lks_extend_hold_request *request = a->request;
    lks_extend_hold_response *response = a->response;

    response->hold_ms = a->manner->hold_ms ? a->manner->hold_ms : request->hold_ms;
    return LKS_OK;
}

static const struct {
    const lks_rpc_method *method;
    int good;                               /* outcome */
    lks_code (*more)(const answer *answer); /* sets further fields of its response; under the lock */
} methods[FAKE_METHODS] = {
    [FAKE_ACQUIRE] = {&lks_lock_acquire_method, LKS_ACQUIRE_OUTCOME_ACQUIRED, answer_acquire},
    [FAKE_RENEW] = {&lks_lock_renew_method, 0, answer_renew},
    [FAKE_RELEASE] = {&lks_lock_release_method, LKS_RELEASE_OUTCOME_RELEASED, NULL},
    [FAKE_BEGIN] = {&lks_idempotency_begin_method, LKS_BEGIN_OUTCOME_EXECUTE, answer_begin},
    [FAKE_EXTEND] = {&lks_idempotency_extend_method, LKS_EXTEND_OUTCOME_EXTENDED, NULL},
    [FAKE_COMPLETE] = {&lks_idempotency_complete_method, LKS_COMPLETE_OUTCOME_STORED, NULL},
    [FAKE_FAIL] = {&lks_idempotency_fail_method, LKS_FAIL_OUTCOME_STORED, NULL},
    [FAKE_GET] = {&lks_idempotency_get_method, LKS_RECORD_STATE_COMPLETED, answer_get},
    [FAKE_CHECK] = {&lks_rate_limit_check_method, LKS_CHECK_OUTCOME_ALLOWED, answer_check},
    [FAKE_REFUND] = {&lks_rate_limit_refund_method, LKS_REFUND_OUTCOME_REFUNDED, NULL},
    [FAKE_RESERVE] = {&lks_stock_reserve_method, LKS_RESERVE_OUTCOME_RESERVED, answer_reserve},
    [FAKE_CONFIRM] = {&lks_stock_confirm_method, LKS_CONFIRM_OUTCOME_CONFIRMED, NULL},
    [FAKE_EXTEND_HOLD] = {&lks_stock_extend_hold_method, LKS_EXTEND_HOLD_OUTCOME_EXTENDED, answer_extend_hold},
    [FAKE_CANCEL] = {&lks_stock_cancel_method, LKS_CANCEL_OUTCOME_CANCELLED, NULL},
    [FAKE_ENTER] = {&lks_guard_enter_method, LKS_ENTER_OUTCOME_ENTERED, answer_enter},
    [FAKE_RENEW_ENTRY] = {&lks_guard_renew_method, LKS_RENEW_GUARD_OUTCOME_RENEWED, NULL},
    [FAKE_LEAVE] = {&lks_guard_leave_method, LKS_LEAVE_OUTCOME_LEFT, NULL},
};

/* ---- one call -------------------------------------------------------------------------- */

/* Under the lock. */
static lks_code fail(fake_service *fake, fake_method method, lks_error *error)
{
    const fake_manner *manner = &fake->manner;

    if (manner->fails[method] == LKS_OK || (manner->fail_times != 0 && fake->failed++ >= manner->fail_times))
        return LKS_OK;
    lks_error_set(error, manner->fails[method], manner->applied ? manner->applied : LKS_APPLIED_NO, "as told");
    error->retry_after_ms = manner->fail_retry_ms;
    return manner->fails[method];
}

static lks_code handle(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error)
{
    fake_service *fake = service->self;
    const ProtobufCFieldDescriptor *outcome =
        protobuf_c_message_descriptor_get_field_by_name(response->descriptor, "outcome");
    size_t method = 0;

    while (methods[method].method->request != request->descriptor)
        method++;
    pthread_mutex_lock(&fake->lock);
    note(fake, (fake_method)method, request);
    while (fake->manner.holds[method])
        pthread_cond_wait(&fake->changed, &fake->lock);
    const fake_manner manner = fake->manner;
    answer a = {.fake = fake,
                .manner = &manner,
                .outcome = manner.outcome[method] ? manner.outcome[method] : methods[method].good,
                .arena = context->arena,
                .request = request,
                .response = response,
                .error = error};
    if (method == FAKE_CHECK && manner.denied_times != 0 && fake->denied++ >= manner.denied_times)
        a.outcome = methods[method].good;
    if (outcome)
        *(int *)(void *)((char *)response + outcome->offset) = a.outcome;
    lks_code code = fail(fake, (fake_method)method, error);
    if (methods[method].more) {
        const lks_code refused = methods[method].more(&a);
        code = refused ? refused : code;
    }
    pthread_mutex_unlock(&fake->lock);
    const uint32_t ms = manner.delay_ms[method];
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL); /* the delay under test */
    return code;
}

/* ---- for tests ------------------------------------------------------------------------- */

fake_service *fake_start(void)
{
    static lks_rpc_binding bindings[FAKE_METHODS];
    fake_service *fake = calloc(1, sizeof *fake);
    const lks_host_options options = {.threads = 8};
    pthread_condattr_t monotonic;
    lks_error error;
    const char *said = getenv("LOCKSTOCK_TEST_SCHEME"), *scheme = said ? said : "nng+tcp";
    char listen[64];
    uint16_t port = 0;

    if (!fake)
        return NULL;
    snprintf(listen, sizeof listen, "%s://127.0.0.1:0", scheme);
    for (size_t i = 0; i < FAKE_METHODS; i++)
        bindings[i] = (lks_rpc_binding){.method = methods[i].method, .handle = handle};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&fake->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&fake->lock, NULL);
    const lks_rpc_service service = {
        .name = "fake", .n_bindings = FAKE_METHODS, .bindings = bindings, .handlers = NULL, .self = fake};
    if (lks_host_open(&options, &fake->host, &error) != LKS_OK ||
        lks_host_add(fake->host, &service, &error) != LKS_OK ||
        lks_host_listen(fake->host, listen, &port, &error) != LKS_OK) {
        fprintf(stderr, "fake_service: %s\n", error.message);
        fake_stop(fake);
        return NULL;
    }
    snprintf(fake->url, sizeof fake->url, "%s://127.0.0.1:%u", scheme, port);
    return fake;
}

void fake_stop(fake_service *fake)
{
    if (!fake)
        return;
    fake_behave(fake, (fake_manner){.lost = NULL});
    lks_host_close(fake->host, 1000);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake->events);
    free(fake);
}

const char *fake_url(const fake_service *fake)
{
    return fake->url;
}

void fake_behave(fake_service *fake, fake_manner manner)
{
    pthread_mutex_lock(&fake->lock);
    fake->manner = manner;
    fake->failed = fake->denied = 0;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

size_t fake_calls(fake_service *fake, fake_method method)
{
    pthread_mutex_lock(&fake->lock);
    const size_t n = fake->calls[method];
    pthread_mutex_unlock(&fake->lock);
    return n;
}

/* Under the lock. Its i-th event, NULL when there are fewer; *n = how many there are. */
static const fake_event *find(const fake_service *fake, fake_method method, const char *group, size_t i, size_t *n)
{
    const fake_event *found = NULL;

    *n = 0;
    for (size_t k = 0; k < fake->n_events; k++) {
        const fake_event *event = &fake->events[k];
        if (event->method != method || (group && strcmp(event->group, group) != 0))
            continue;
        if ((*n)++ == i)
            found = event;
    }
    return found;
}

size_t fake_seen(fake_service *fake, fake_method method, const char *group)
{
    size_t n;

    pthread_mutex_lock(&fake->lock);
    find(fake, method, group, 0, &n);
    pthread_mutex_unlock(&fake->lock);
    return n;
}

bool fake_await(fake_service *fake, fake_method method, const char *group, size_t n)
{
    struct timespec until;
    size_t seen;
    int failed = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AWAIT_S;
    pthread_mutex_lock(&fake->lock);
    while (find(fake, method, group, 0, &seen), seen < n && failed == 0)
        failed = pthread_cond_timedwait(&fake->changed, &fake->lock, &until);
    pthread_mutex_unlock(&fake->lock);
    return seen >= n;
}

fake_event fake_event_at(fake_service *fake, fake_method method, const char *group, size_t i)
{
    size_t n;

    pthread_mutex_lock(&fake->lock);
    const fake_event *found = find(fake, method, group, i, &n);
    fake_event event = found ? *found : (fake_event){.method = FAKE_METHODS};
    pthread_mutex_unlock(&fake->lock);
    return event;
}

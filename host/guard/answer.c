/* The answers to callers. Invariant: a call whose handler did not run has applied NO, unless it gets the result of
 * another attempt, or an earlier try of it was not answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/fields.h>
#include <lockstock/rpc/frame.h>

#include "rpc/transient.h"
#include "host/guard/guarded.h"

void guard_paths(const char *const *paths, char *text, size_t size)
{
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; paths[i] && used < size; i++) {
        const char *between = i == 0 ? "" : paths[i + 1] ? ", " : " and ";
        int len = snprintf(text + used, size - used, "%s%s", between, paths[i]);
        used += len > 0 ? (size_t)len : 0;
    }
}

const char *guard_group(const lks_rpc_guard *guard)
{
    return guard->group ? guard->group : "";
}

static const char *name_of(const lks_rpc_guard *guard)
{
    const int n = !!guard->rate_limit + !!guard->idempotency + !!guard->lock;

    return n > 1 ? "guards" : guard->rate_limit ? "rate limit guard" : guard->lock ? "lock guard" : "idempotency guard";
}

void guard_failed(const lks_rpc_guard *guard, const lks_error *why, lks_error *error)
{
    bool transient = error_is_transient(why);

    lks_error_set_reason(error, transient ? LKS_UNAVAILABLE : LKS_INTERNAL, LKS_APPLIED_NO,
                         transient ? why->reason : LKS_REASON_INTERNAL, "the %s cannot %s: %s", name_of(guard),
                         transient ? "ask a server" : "be used", why->message);
    error->retry_after_ms = transient ? why->retry_after_ms : 0;
}

/* ---- stored results --------------------------------------------------------------------- */

bool guard_is_final(lks_code code, lks_applied applied)
{
    switch ((int)code) {
    case LKS_OK:
    case LKS_INVALID_ARGUMENT:
    case LKS_NOT_FOUND:
    case LKS_ALREADY_EXISTS:
    case LKS_PERMISSION_DENIED:
    case LKS_UNAUTHENTICATED:
    case LKS_FAILED_PRECONDITION:
    case LKS_OUT_OF_RANGE:
    case LKS_UNIMPLEMENTED:
    case LKS_DATA_LOSS:
        return true;
    default:
        return applied == LKS_APPLIED_YES;
    }
}

bool guard_store(lks_code code, const ProtobufCMessage *response, const lks_error *error, uint8_t **body, size_t *len)
{
    Lockstock__Rpc__V1__Result result;

    if (code != LKS_OK) {
        lks_rpc_result_of(error, &result);
        response = &result.base;
    }
    *len = protobuf_c_message_get_packed_size(response);
    *body = malloc(*len > 0 ? *len : 1);
    if (*body)
        protobuf_c_message_pack(response, *body);
    return *body;
}

static void replay_error(const lks_stored_result *stored, guard_answer *answer)
{
    bool is_code = stored->code > LKS_OK && stored->code <= LKS_UNAUTHENTICATED;
    Lockstock__Rpc__V1__Result *result =
        is_code ? lockstock__rpc__v1__result__unpack(NULL, stored->body.len, stored->body.data) : NULL;

    if (!result) {
        lks_error_set(&answer->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the stored error cannot be read");
        return;
    }
    result->code = (uint32_t)stored->code;
    lks_rpc_result_error(result, &answer->error);
    answer->error.origin = LKS_ORIGIN_LOCAL;
    lockstock__rpc__v1__result__free_unpacked(result, NULL);
}

void guard_replay(const lks_stored_result *stored, guard_answer *answer)
{
    if (stored->code != LKS_OK) {
        replay_error(stored, answer);
        return;
    }
    answer->body = malloc(stored->body.len > 0 ? stored->body.len : 1);
    if (!answer->body) {
        lks_error_set(&answer->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, "out of memory for the response");
        return;
    }
    if (stored->body.len > 0)
        memcpy(answer->body, stored->body.data, stored->body.len);
    answer->body_len = stored->body.len;
    answer->replays = true;
}

/* ---- for the caller --------------------------------------------------------------------- */

static void set_field(ProtobufCMessage *response, const char *name, int64_t value)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(response->descriptor, name, strlen(name));
    char *at = field ? (char *)response + field->offset : NULL;

    if (!field)
        return;
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        *(int32_t *)(void *)at = (int32_t)value;
    else
        *(int64_t *)(void *)at = value;
    void *presence = (char *)response + field->quantifier_offset;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)presence = field->id;
    else if (field->label == PROTOBUF_C_LABEL_OPTIONAL)
        *(protobuf_c_boolean *)presence = true;
}

static ProtobufCMessage *refusal(const lks_guarded *guarded, lks_rpc_arena *arena)
{
    ProtobufCMessage *response = lks_rpc_response_new(guarded->method, arena);

    if (!response)
        return NULL;
    set_field(response, guarded->guard->outcome, guarded->answer.outcome);
    if (*guarded->guard->retry_after != '\0')
        set_field(response, guarded->guard->retry_after, guarded->answer.error.retry_after_ms);
    return response;
}

void lks_guard_answer(const lks_guarded *guarded, lks_rpc_arena *arena, ProtobufCMessage **response, lks_error *error)
{
    const guard_answer *answer = &guarded->answer;

    if (!answer->replays && answer->outcome == 0) {
        if (answer->error.code != LKS_OK)
            *error = answer->error;
        return;
    }
    *response = answer->replays ? protobuf_c_message_unpack(guarded->method->response, lks_rpc_arena_allocator(arena),
                                                            answer->body_len, answer->body)
                                : refusal(guarded, arena);
    *error = (lks_error){.code = LKS_OK};
    if (!*response)
        lks_error_set(error, LKS_INTERNAL, answer->replays ? LKS_APPLIED_YES : LKS_APPLIED_NO,
                      answer->replays ? "the stored response cannot be read, or there is no memory for it"
                                      : "out of memory");
}

#include "conformance/sp_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

static void add_metadata(Lockstock__Rpc__V1__Call *call, const char *key, const char *value)
{
    Lockstock__Rpc__V1__Metadata *item = value ? call->metadata[call->n_metadata++] : NULL;

    if (item) {
        lockstock__rpc__v1__metadata__init(item);
        item->key = (char *)(uintptr_t)key;
        item->value = (ProtobufCBinaryData){.len = strlen(value), .data = (uint8_t *)(uintptr_t)value};
    }
}

uint8_t *sp_frame_of(const call_spec *call, size_t *len)
{
    Lockstock__Rpc__V1__Frame frame = LOCKSTOCK__RPC__V1__FRAME__INIT;
    Lockstock__Rpc__V1__Call one = LOCKSTOCK__RPC__V1__CALL__INIT;
    Lockstock__Rpc__V1__Metadata metadata[2];
    Lockstock__Rpc__V1__Call *calls[] = {&one};
    Lockstock__Rpc__V1__Metadata *list[] = {&metadata[0], &metadata[1]};
    char method[256];

    snprintf(method, sizeof method, "%s", call->method);
    one.method = method;
    one.payload.data = (uint8_t *)(uintptr_t)call->payload;
    one.payload.len = call->len;
    one.timeout_ms = call->timeout_ms;
    one.metadata = list;
    add_metadata(&one, "lockstock-namespace", call->ns);
    add_metadata(&one, "authorization", call->authorization);
    frame.n_calls = 1;
    frame.calls = calls;
    *len = lockstock__rpc__v1__frame__get_packed_size(&frame);
    uint8_t *bytes = malloc(*len);
    if (!bytes)
        abort();
    lockstock__rpc__v1__frame__pack(&frame, bytes);
    return bytes;
}

bool sp_outcome_of(const uint8_t *reply, size_t len, outcome *ret)
{
    Lockstock__Rpc__V1__Reply *read = lockstock__rpc__v1__reply__unpack(NULL, len, reply);
    bool is_one = read && read->n_results == 1;

    *ret = (outcome){0};
    if (is_one) {
        const Lockstock__Rpc__V1__Result *result = read->results[0];
        ret->code = (lks_code)result->code;
        ret->applied = (lks_applied)result->applied;
        ret->says_when = result->retry_after_ms > 0;
        ret->bare = result->payload.len == 0 && result->n_metadata == 0;
        snprintf(ret->message, sizeof ret->message, "%s", result->message);
        if (ret->code == LKS_OK) {
            ret->len = result->payload.len;
            ret->payload = malloc(ret->len + 1);
            if (!ret->payload)
                abort();
            if (ret->len > 0)
                memcpy(ret->payload, result->payload.data, ret->len);
        }
    }
    if (read)
        lockstock__rpc__v1__reply__free_unpacked(read, NULL);
    return is_one;
}

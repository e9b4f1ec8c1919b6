/* Results of IdempotencyService. Invariant: a result is stored as one serialized StoredResult, which the store does not
 * read, so a replay is identical to the stored result, with its headers in order. A failure has a header that no
 * Complete can set. */
#include <string.h>
#include <strings.h>

#include "memory.h"
#include "services/idempotency.h"

enum {
    BODY_BYTES_MAX = 256 * 1024,
    HEADERS_MAX = 32,
    HEADER_KEY_BYTES_MAX = 128,
    HEADER_VALUE_BYTES_MAX = 4096,
    FAILURE_CODE = -1,
};

static const char reserved[] = "lockstock-";
static char failure_header[] = "lockstock-failure";

static void check_header(plan *p, size_t i, const lks_result_header *header)
{
    size_t key_len = strlen(header->key);

    if (key_len < 1 || key_len > HEADER_KEY_BYTES_MAX)
        plan_invalid(p, "headers[%zu].key: must be 1 to %d bytes long", i, HEADER_KEY_BYTES_MAX);
    if (strncasecmp(header->key, reserved, sizeof reserved - 1) == 0)
        plan_invalid(p, "headers[%zu].key: names that begin with %s are reserved", i, reserved);
    if (strlen(header->value) > HEADER_VALUE_BYTES_MAX)
        plan_invalid(p, "headers[%zu].value: must be 0 to %d bytes long", i, HEADER_VALUE_BYTES_MAX);
}

static lks_rpc_slice packed(plan *p, int32_t code, ProtobufCBinaryData body, size_t n_headers,
                            lks_result_header **headers)
{
    lks_stored_result result = LKS_STORED_RESULT_INIT;

    result.code = code;
    result.body = body;
    result.n_headers = n_headers;
    result.headers = headers;
    uint8_t *bytes = memory_in(p->arena, protobuf_c_message_get_packed_size(&result.base));
    return (lks_rpc_slice){(const char *)bytes, protobuf_c_message_pack(&result.base, bytes)};
}

lks_rpc_slice idempotency_success(plan *p, int32_t code, ProtobufCBinaryData body, size_t n_headers,
                                  lks_result_header **headers)
{
    if (body.len > BODY_BYTES_MAX)
        plan_invalid(p, "body: must be 0 to %d bytes long", BODY_BYTES_MAX);
    if (n_headers > HEADERS_MAX)
        plan_invalid(p, "headers: at most %d", HEADERS_MAX);
    for (size_t i = 0; i < n_headers && !plan_failed(p); i++)
        check_header(p, i, headers[i]);
    return packed(p, code, body, n_headers, headers);
}

lks_rpc_slice idempotency_failure(plan *p, const char *detail)
{
    lks_result_header header = LKS_RESULT_HEADER_INIT;
    lks_result_header *headers[] = {&header};

    header.key = failure_header;
    header.value = detail;
    return packed(p, FAILURE_CODE, (ProtobufCBinaryData){0}, 1, headers);
}

lks_stored_result *idempotency_result(answer *a, const store_value *reply, size_t i)
{
    const store_value *bytes = answer_at(a, reply, i);
    ProtobufCMessage *result =
        bytes->type == STORE_STRING
            ? protobuf_c_message_unpack(&lockstock__v1__stored_result__descriptor, lks_rpc_arena_allocator(a->arena),
                                        bytes->string.len, (const uint8_t *)bytes->string.data)
            : NULL;

    if (!result && a->error.code == LKS_OK)
        lks_error_set_reason(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, LKS_REASON_FOREIGN_DATA,
                             "the store holds foreign data under this name");
    return (lks_stored_result *)(void *)result;
}

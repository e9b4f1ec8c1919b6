/* Serving a call, independent of transport and service. Every call ends with a result, also when out of memory. */
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>
#include <lockstock/rpc/scan.h>

typedef Lockstock__Rpc__V1__Result wire_result;
typedef Lockstock__Rpc__V1__Metadata wire_metadata;
typedef Lockstock__Rpc__V1__Reply wire_reply;

/* ---- the method table -------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    const lks_rpc_route *left = a, *right = b;
    return strcmp(left->method->path, right->method->path);
}

lks_code lks_rpc_routes_sort(lks_rpc_route *routes, size_t n, lks_error *error)
{
    if (n > 0)
        qsort(routes, n, sizeof *routes, by_path);
    for (size_t i = 1; i < n; i++)
        if (by_path(&routes[i - 1], &routes[i]) == 0)
            return lks_error_set(error, LKS_ALREADY_EXISTS, LKS_APPLIED_NO, "%s: served twice", routes[i].method->path);
    return LKS_OK;
}

const lks_rpc_route *lks_rpc_route_find(const lks_rpc_route *routes, size_t n, const char *path)
{
    lks_rpc_method sought = {.path = path};
    lks_rpc_route key = {.method = &sought};
    return n > 0 ? bsearch(&key, routes, n, sizeof *routes, by_path) : NULL;
}

/* ---- messages ---------------------------------------------------------------- */

lks_code lks_rpc_request_unpack(const lks_rpc_method *method, const void *payload, size_t len, lks_rpc_arena *arena,
                                ProtobufCMessage **ret, lks_error *error)
{
    return lks_rpc_request_unpack_within(method, payload, len, &lks_rpc_scan_defaults, arena, ret, error);
}

lks_code lks_rpc_request_unpack_within(const lks_rpc_method *method, const void *payload, size_t len,
                                       const lks_rpc_scan_limits *limits, lks_rpc_arena *arena, ProtobufCMessage **ret,
                                       lks_error *error)
{
    lks_code code = lks_rpc_scan(method->request, payload, len, limits, error);
    if (code != LKS_OK)
        return code;
    ProtobufCMessage *request =
        protobuf_c_message_unpack(method->request, lks_rpc_arena_allocator(arena), len, payload);
    if (!request)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *ret = request;
    return LKS_OK;
}

ProtobufCMessage *lks_rpc_response_new(const lks_rpc_method *method, lks_rpc_arena *arena)
{
    ProtobufCMessage *response = lks_rpc_arena_alloc(arena, method->response->sizeof_message);
    if (response)
        protobuf_c_message_init(method->response, response);
    return response;
}

/* ---- results ----------------------------------------------------------------- */

lks_applied lks_rpc_applied_of(const lks_rpc_method *method)
{
    return method && method->effect == LKS_RPC_EFFECT_READ ? LKS_APPLIED_NO : LKS_APPLIED_YES;
}

/* A result of static text, for use when out of memory. */
static void set_exhausted(wire_result *result, lks_applied applied, lks_reason reason, const char *message)
{
    lockstock__rpc__v1__result__init(result);
    result->code = LKS_RESOURCE_EXHAUSTED;
    result->applied = (Lockstock__Rpc__V1__Applied)applied;
    result->message = (char *)message;
    result->reason = (char *)lks_reason_name(reason);
}

lks_rpc_slice lks_rpc_pack(const ProtobufCMessage *message, lks_rpc_arena *arena)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = lks_rpc_arena_alloc(arena, len + 1);

    if (packed)
        protobuf_c_message_pack(message, packed);
    return (lks_rpc_slice){.data = (const char *)packed, .len = len};
}

void lks_rpc_result_ok(const lks_rpc_method *method, const ProtobufCMessage *response, lks_rpc_arena *arena,
                       wire_result *ret)
{
    lks_rpc_slice payload = lks_rpc_pack(response, arena);

    if (!payload.data) {
        set_exhausted(ret, lks_rpc_applied_of(method), LKS_REASON_NO_ROOM, "out of memory for the response");
        return;
    }
    lockstock__rpc__v1__result__init(ret);
    ret->payload = (ProtobufCBinaryData){.len = payload.len, .data = (uint8_t *)(uintptr_t)payload.data};
}

static char *copy_or_empty(lks_rpc_arena *arena, const char *text)
{
    char *copy = *text ? lks_rpc_arena_copy(arena, text, strlen(text)) : NULL;

    return copy ? copy : (char *)protobuf_c_empty_string;
}

void lks_rpc_result_fail(const lks_error *error, lks_rpc_arena *arena, wire_result *ret)
{
    lks_rpc_result_of(error, ret);
    ret->message = copy_or_empty(arena, error->message);
    ret->field = copy_or_empty(arena, error->field);
}

size_t lks_rpc_put_metadata(const lks_rpc_list *from, lks_rpc_arena *arena, wire_metadata ***ret)
{
    if (from->n == 0)
        return 0;
    wire_metadata *items = lks_rpc_arena_alloc(arena, from->n * sizeof *items);
    wire_metadata **list = lks_rpc_arena_alloc(arena, from->n * sizeof *list);
    if (!items || !list)
        return 0;
    for (size_t i = 0; i < from->n; i++) {
        const lks_rpc_metadata *item = &from->items[i];
        lockstock__rpc__v1__metadata__init(&items[i]);
        items[i].key = (char *)(uintptr_t)item->key;
        items[i].value = (ProtobufCBinaryData){.len = item->value.len, .data = (uint8_t *)(uintptr_t)item->value.data};
        list[i] = &items[i];
    }
    *ret = list;
    return from->n;
}

/* ---- replies ----------------------------------------------------------------- */

wire_reply *lks_rpc_reply_new(size_t n, lks_rpc_arena *arena)
{
    wire_reply *reply = lks_rpc_arena_alloc(arena, sizeof *reply);
    wire_result **list = lks_rpc_arena_alloc(arena, n * sizeof *list);
    wire_result *results = lks_rpc_arena_alloc(arena, n * sizeof *results);
    if (!reply || !list || !results)
        return NULL;
    lockstock__rpc__v1__reply__init(reply);
    reply->n_results = n;
    reply->results = list;
    for (size_t i = 0; i < n; i++) {
        lockstock__rpc__v1__result__init(&results[i]);
        list[i] = &results[i];
    }
    return reply;
}

/* Returns the packed bytes of a result in Reply.results, with its tag and length. */
static size_t element_bytes(const wire_result *result)
{
    size_t len = lockstock__rpc__v1__result__get_packed_size(result);
    size_t prefix = 1;
    for (size_t rest = len; rest > 0x7F; rest >>= 7)
        prefix++;
    return 1 + prefix + len;
}

size_t lks_rpc_reply_fit(wire_reply *reply, const lks_rpc_method *const *methods, size_t bytes_max)
{
    enum { REFUSAL_BYTES = 64 }; /* more than a result of exhausted() needs */
    size_t used = 0;
    for (size_t i = 0; i < reply->n_results; i++) {
        wire_result *result = reply->results[i];
        /* Leaves room for the results after this one to report RESOURCE_EXHAUSTED. */
        size_t reserved = (reply->n_results - i - 1) * REFUSAL_BYTES;
        size_t room = bytes_max > used + reserved ? bytes_max - used - reserved : 0;
        size_t bytes = element_bytes(result);
        if (bytes > room) {
            if (result->code == LKS_OK)
                set_exhausted(result, lks_rpc_applied_of(methods[i]), LKS_REASON_TOO_LARGE,
                              "the response is longer than allowed");
            else
                result->message = result->field = (char *)protobuf_c_empty_string;
            result->n_metadata = result->n_headers = result->n_details = 0;
            bytes = element_bytes(result);
        }
        used += bytes;
    }
    return used;
}

/* Functions for the context of a handler's call. */
#include <stdio.h>
#include <string.h>

#include <lockstock/host.h>
#include <lockstock/rpc/utf8.h>

#include "base/clock.h"
#include "base/container.h"
#include "host/running.h"

lks_rpc_slice lks_host_metadata(const lks_rpc_context *context, const char *key)
{
    for (size_t i = 0; i < context->n_metadata; i++)
        if (strcmp(context->metadata[i].key, key) == 0)
            return context->metadata[i].value;
    return (lks_rpc_slice){.data = NULL};
}

uint32_t lks_host_left_ms(const lks_rpc_context *context)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t left_ms = context->deadline_ns > now_ns ? (context->deadline_ns - now_ns) / CLOCK_NS_PER_MS : 0;

    return left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX;
}

void lks_host_skip(lks_rpc_context *context)
{
    container_of(context, struct running, context)->skips = true;
}

/* ---- additions to the answer ---------------------------------------------------------------------- */

static bool is_binary(const char *key)
{
    size_t len = strlen(key);

    return len > 4 && strcmp(key + len - 4, "-bin") == 0;
}

static bool is_key(const char *key)
{
    static const char *const taken[] = {"te",      "connection", "keep-alive",        "transfer-encoding",
                                        "upgrade", "trailer",    "lockstock-applied", "lockstock-replayed",
                                        "date",    "vary",       "retry-after",       "retry-after-ms"};
    static const char *const prefixes[] = {"grpc-", "content-", "access-control-"};

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(key, taken[i]) == 0)
            return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
            return false;
    return *key != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

static bool is_text(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return true;
}

static lks_code no_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

/* Adds an item with room for len bytes to a list. `what`: the name of the list in errors. */
static lks_code add(lks_rpc_context *context, lks_rpc_list *to, const char *what, const char *key, size_t len,
                    char **value, lks_error *error)
{
    if (to->n == LKS_HOST_ADDED_MAX || len > LKS_HOST_ADDED_BYTES_MAX)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
                             "an answer may have at most %d %s of %d bytes each", LKS_HOST_ADDED_MAX, what,
                             LKS_HOST_ADDED_BYTES_MAX);
    if (!to->items)
        to->items = lks_rpc_arena_alloc(context->arena, LKS_HOST_ADDED_MAX * sizeof *to->items);
    char *key_copy = lks_rpc_arena_copy(context->arena, key, strlen(key));
    *value = lks_rpc_arena_alloc(context->arena, len + 1);
    if (!to->items || !key_copy || !*value)
        return no_memory(error);
    to->items[to->n++] = (lks_rpc_metadata){.key = key_copy, .value = {.data = *value, .len = len}};
    return LKS_OK;
}

static lks_code add_metadata(lks_rpc_context *context, lks_rpc_list *to, const char *what, const char *key,
                             const void *value, size_t len, lks_error *error)
{
    char *copy;

    lks_error_clear(error);
    if (!key || !is_key(key))
        return lks_error_set(
            error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
            "key: must consist of a-z, 0-9, '-', '_' and '.', and must not be reserved by gRPC or HTTP");
    if (!is_binary(key) && !is_text(value, len))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "value: must be visible ASCII, unless the key ends in -bin");
    lks_code code = add(context, to, what, key, len, &copy, error);
    if (code == LKS_OK && len > 0)
        memcpy(copy, value, len);
    return code;
}

lks_code lks_host_add_header(lks_rpc_context *context, const char *key, const void *value, size_t len, lks_error *error)
{
    return add_metadata(context, &context->added.headers, "headers", key, value, len, error);
}

lks_code lks_host_add_trailer(lks_rpc_context *context, const char *key, const void *value, size_t len,
                              lks_error *error)
{
    return add_metadata(context, &context->added.trailers, "trailers", key, value, len, error);
}

lks_code lks_host_add_detail(lks_rpc_context *context, const ProtobufCMessage *detail, lks_error *error)
{
    char url[LKS_ERROR_MESSAGE_MAX], *packed;

    lks_error_clear(error);
    if (!detail)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "detail: must not be NULL");
    snprintf(url, sizeof url, "type.googleapis.com/%s", detail->descriptor->name);
    lks_code code = add(context, &context->added.details, "details", url, protobuf_c_message_get_packed_size(detail),
                        &packed, error);
    if (code == LKS_OK)
        protobuf_c_message_pack(detail, (uint8_t *)packed);
    return code;
}

lks_code lks_host_set_text(lks_rpc_context *context, const char *text, lks_error *error)
{
    lks_error_clear(error);
    if (!text || !lks_rpc_utf8_valid(text, strlen(text)))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "text: must be UTF-8");
    if (strlen(text) > LKS_HOST_TEXT_BYTES_MAX)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "text: must have at most %d bytes",
                             LKS_HOST_TEXT_BYTES_MAX);
    char *copy = lks_rpc_arena_copy(context->arena, text, strlen(text));
    if (!copy)
        return no_memory(error);
    context->added.text = copy;
    return LKS_OK;
}

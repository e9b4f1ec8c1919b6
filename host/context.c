/* What a handler knows of its call. */
#include <string.h>

#include <lockstock/host.h>

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

/* ---- trailers --------------------------------------------------------------------------------- */

static bool is_binary(const char *key)
{
    size_t len = strlen(key);

    return len > 4 && strcmp(key + len - 4, "-bin") == 0;
}

static bool is_key(const char *key)
{
    static const char *const taken[] = {"content-type", "te", "connection", "lockstock-applied"};

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(key, taken[i]) == 0)
            return false;
    return *key != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0' &&
           strncmp(key, "grpc-", 5) != 0;
}

static bool is_text(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return true;
}

static lks_rpc_metadata *new_trailer(lks_rpc_context *context)
{
    if (!context->trailers)
        context->trailers = lks_rpc_arena_alloc(context->arena, LKS_HOST_TRAILERS_MAX * sizeof *context->trailers);
    return context->trailers ? &context->trailers[context->n_trailers] : NULL;
}

lks_code lks_host_add_trailer(lks_rpc_context *context, const char *key, const void *value, size_t len,
                              lks_error *error)
{
    lks_error_clear(error);
    if (!key || !is_key(key))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "key: must be of a-z, 0-9, '-', '_' and '.', and none of gRPC's own");
    if (!is_binary(key) && !is_text(value, len))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "value: must be visible ASCII; a key that ends in -bin has any bytes");
    if (context->n_trailers == LKS_HOST_TRAILERS_MAX || len > LKS_HOST_TRAILER_BYTES_MAX)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO,
                             "an answer has %d trailers of %d bytes at most", LKS_HOST_TRAILERS_MAX,
                             LKS_HOST_TRAILER_BYTES_MAX);
    lks_rpc_metadata *trailer = new_trailer(context);
    char *key_copy = lks_rpc_arena_copy(context->arena, key, strlen(key));
    char *copy = lks_rpc_arena_copy(context->arena, len > 0 ? value : "", len);
    if (!trailer || !key_copy || !copy)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *trailer = (lks_rpc_metadata){.key = key_copy, .value = {.data = copy, .len = len}};
    context->n_trailers++;
    return LKS_OK;
}

/* What a handler knows of its call. */
#include <string.h>

#include <lockstock/host.h>

#include "base/clock.h"

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

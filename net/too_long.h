/* The error of a request that is longer than its receiver accepts. */
#ifndef LOCKSTOCK_NET_TOO_LONG_H
#define LOCKSTOCK_NET_TOO_LONG_H

#include <stddef.h>

#include <lockstock/status.h>

static inline lks_code too_long(lks_error *error, size_t bytes_max)
{
    return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_LARGE,
                                "the message is longer than the limit, %zu bytes", bytes_max);
}

#endif

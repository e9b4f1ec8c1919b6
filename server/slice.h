#ifndef LOCKSTOCK_SERVER_SLICE_H
#define LOCKSTOCK_SERVER_SLICE_H

#include <stdbool.h>
#include <string.h>

#include <lockstock/rpc/arena.h>

/* Returns whether the slice has the bytes of the text. */
static inline bool slice_is(lks_rpc_slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.data, text, slice.len) == 0;
}

#endif

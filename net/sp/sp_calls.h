/* Counts the calls of a request whose bytes are not kept. Each call gets its own result, also when all calls are
 * refused. */
#ifndef LOCKSTOCK_NET_SP_CALLS_H
#define LOCKSTOCK_NET_SP_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* Must be zero at first. */
typedef struct sp_calls {
    enum { SP_CALLS_IDS, SP_CALLS_TAG, SP_CALLS_VARINT, SP_CALLS_LENGTH, SP_CALLS_SKIP, SP_CALLS_LOST } state;
    uint64_t number, left; /* a varint so far; bytes to skip */
    unsigned n;            /* bytes of the varint, or of the id */
    uint32_t calls;
} sp_calls;

/* Further bytes of the request, from its ids on. */
void sp_calls_pass(sp_calls *c, const uint8_t *data, size_t len);

/* At the end of the request: the number of results that answer it. 1 when it is not a frame or has too many calls. */
size_t sp_calls_results(const sp_calls *c);

#endif

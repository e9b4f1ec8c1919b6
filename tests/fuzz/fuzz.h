/* What fuzz targets share: the entry point, and reading an input piece by piece. After
 * the end of the input zeros follow. */
#ifndef LOCKSTOCK_TESTS_FUZZ_H
#define LOCKSTOCK_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct fuzz_input {
    const uint8_t *data;
    size_t len;
} fuzz_input;

static inline void fuzz_expect_at(int truth, const char *what, const char *file, int line)
{
    if (!truth) {
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
        abort();
    }
}

#define fuzz_expect(truth) fuzz_expect_at(!!(truth), #truth, __FILE__, __LINE__)

static inline uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->len == 0)
        return 0;
    in->len--;
    return *in->data++;
}

/* Up to `len` bytes, in memory of exactly their size, to be freed. */
static inline uint8_t *fuzz_bytes(fuzz_input *in, size_t len, size_t *ret_len)
{
    size_t n = len < in->len ? len : in->len;
    uint8_t *copy = calloc(n, 1);

    fuzz_expect(copy || n == 0);
    if (n > 0)
        memcpy(copy, in->data, n);
    in->data += n;
    in->len -= n;
    *ret_len = n;
    return copy;
}

#endif

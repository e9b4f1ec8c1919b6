/* How much a test does: reduced counts in the fast suite, the full ones when
 * ctest's label soak sets LOCKSTOCK_SOAK. */
#ifndef LOCKSTOCK_TESTS_COUNTS_H
#define LOCKSTOCK_TESTS_COUNTS_H

#include <stddef.h>
#include <stdlib.h>

static inline size_t counts_of(size_t fast, size_t soak)
{
    return getenv("LOCKSTOCK_SOAK") ? soak : fast;
}

#endif

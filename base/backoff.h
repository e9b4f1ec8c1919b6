/* Pauses before something is tried again: they grow with the failures and are partly random, so that callers that
 * failed together do not retry together. */
#ifndef LOCKSTOCK_BASE_BACKOFF_H
#define LOCKSTOCK_BASE_BACKOFF_H

#include <stdint.h>

/* Nanoseconds to wait after a failure: least_ms, doubled for each of the `failures` before it, up to most_ms; half of
 * it is random. *random comes from backoff_random(), and is changed. Not for secrets. */
uint64_t backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random);

/* A seed that differs in each process. Never 0. */
uint64_t backoff_random(void);

#endif

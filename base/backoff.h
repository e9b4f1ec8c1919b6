/* Pauses before something is tried again: they grow with the failures, and are partly
 * random, so that those who failed together do not come back together. */
#ifndef LOCKSTOCK_BASE_BACKOFF_H
#define LOCKSTOCK_BASE_BACKOFF_H

#include <stdint.h>

/* Nanoseconds to wait after so many failures before this one: least_ms, doubled for each,
 * up to most_ms; the second half of it random. *random is of backoff_random(), and is
 * changed. Not for secrets. */
uint64_t backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random);

/* Where to begin, different in each process. Never 0. */
uint64_t backoff_random(void);

#endif

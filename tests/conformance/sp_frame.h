/* Frame and Reply of one call, for both drivers that carry them. */
#ifndef LOCKSTOCK_TESTS_SP_FRAME_H
#define LOCKSTOCK_TESTS_SP_FRAME_H

#include "conformance/caller.h"

/* A Frame with the call in it, to be freed. */
uint8_t *sp_frame_of(const call_spec *call, size_t *len);

/* Reads a Reply of one result; returns false when the bytes are none. Leaves ret->call alone. */
bool sp_outcome_of(const uint8_t *reply, size_t len, outcome *ret);

#endif

/* What a gRPC server writes, read as a client would: frames, their order on each stream,
 * headers. Anything that no client could take aborts. */
#ifndef LOCKSTOCK_TESTS_FUZZ_H2_OUTPUT_H
#define LOCKSTOCK_TESTS_FUZZ_H2_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

void h2_output_begin(void);
void h2_output_bytes(const uint8_t *data, size_t len);
void h2_output_end(void);

#endif

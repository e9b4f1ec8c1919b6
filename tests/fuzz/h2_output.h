/* Reads the output of a gRPC server as a client would: frames, their order on each stream,
 * headers. Aborts on anything that no client could accept. */
#ifndef LOCKSTOCK_TESTS_FUZZ_H2_OUTPUT_H
#define LOCKSTOCK_TESTS_FUZZ_H2_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

void h2_output_begin(void);
void h2_output_bytes(const uint8_t *data, size_t len);
void h2_output_end(void);

#endif

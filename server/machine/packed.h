/* Numbers and texts as bytes. A number is LEB128 in its shortest form, at most 2^63 - 1. The length of a text precedes
 * it. A value has one packed form; the reader refuses any other. */
#ifndef LOCKSTOCK_SERVER_MACHINE_PACKED_H
#define LOCKSTOCK_SERVER_MACHINE_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

enum { PACKED_NUMBER_MAX = 9, PACKED_FIXED_BYTES = 8 };

/* Each writes at `at` and returns the end of what it wrote. varint_put (base/varint.h) writes a number. */
char *packed_put_bytes(char *at, lks_rpc_slice bytes);
char *packed_put_text(char *at, lks_rpc_slice text);
char *packed_put_fixed(char *at, uint64_t bits); /* PACKED_FIXED_BYTES, little-endian */
char *packed_put_double(char *at, double number);

/* After a failure every read fails, and returns 0 or an empty text. */
typedef struct packed_reader {
    const unsigned char *at, *end;
    bool failed;
} packed_reader;

packed_reader packed_reader_of(const void *data, size_t len);

size_t packed_left(const packed_reader *r);
void packed_refuse_unless(packed_reader *r, bool is_right);

unsigned packed_byte(packed_reader *r);
uint64_t packed_number(packed_reader *r);
lks_rpc_slice packed_text(packed_reader *r); /* a slice of the data */
uint64_t packed_fixed(packed_reader *r);
double packed_double(packed_reader *r);

#endif

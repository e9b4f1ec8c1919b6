#include "machine/packed.h"

#include <string.h>

#include "base/varint.h"

enum { BITS = 7, MORE = 0x80, NUMBER_BITS = 64 };

char *packed_put_bytes(char *at, lks_rpc_slice bytes)
{
    if (bytes.len > 0)
        memcpy(at, bytes.data, bytes.len);
    return at + bytes.len;
}

char *packed_put_text(char *at, lks_rpc_slice text)
{
    return packed_put_bytes(varint_put(at, text.len), text);
}

char *packed_put_fixed(char *at, uint64_t bits)
{
    for (unsigned shift = 0; shift < NUMBER_BITS; shift += 8)
        *at++ = (char)(bits >> shift);
    return at;
}

char *packed_put_double(char *at, double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    return packed_put_fixed(at, bits);
}

packed_reader packed_reader_of(const void *data, size_t len)
{
    const unsigned char *begin = data ? data : (const void *)"";

    return (packed_reader){.at = begin, .end = begin + len};
}

size_t packed_left(const packed_reader *r)
{
    return r->failed ? 0 : (size_t)(r->end - r->at);
}

void packed_refuse_unless(packed_reader *r, bool is_right)
{
    r->failed = r->failed || !is_right;
}

unsigned packed_byte(packed_reader *r)
{
    packed_refuse_unless(r, packed_left(r) > 0);
    return r->failed ? 0 : *r->at++;
}

uint64_t packed_number(packed_reader *r)
{
    uint64_t number = 0;
    unsigned byte = MORE;

    for (unsigned shift = 0; byte & MORE; shift += BITS) {
        byte = packed_byte(r);
        packed_refuse_unless(r, shift < NUMBER_BITS - BITS && (byte != 0 || shift == 0));
        if (r->failed)
            return 0;
        number |= (uint64_t)(byte & (MORE - 1)) << shift;
    }
    return number;
}

lks_rpc_slice packed_text(packed_reader *r)
{
    uint64_t len = packed_number(r);

    packed_refuse_unless(r, len <= packed_left(r));
    if (r->failed)
        return (lks_rpc_slice){"", 0};
    lks_rpc_slice text = {(const char *)r->at, (size_t)len};
    r->at += len;
    return text;
}

uint64_t packed_fixed(packed_reader *r)
{
    uint64_t bits = 0;

    for (unsigned shift = 0; shift < NUMBER_BITS; shift += 8)
        bits |= (uint64_t)packed_byte(r) << shift;
    return bits;
}

double packed_double(packed_reader *r)
{
    uint64_t bits = packed_fixed(r);
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

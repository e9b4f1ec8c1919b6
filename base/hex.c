#include "base/hex.h"

#include <stdint.h>

int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

void hex_encode(const void *bytes, size_t len, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < len; i++) {
        *text++ = digits[byte[i] >> 4];
        *text++ = digits[byte[i] & 15];
    }
}

size_t percent_decode(const char *text, size_t len, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '%') {
            out[n++] = text[i];
            continue;
        }
        int high = len - i > 2 ? hex_value(text[i + 1]) : -1;
        int low = len - i > 2 ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return SIZE_MAX;
        out[n++] = (char)(high * 16 + low);
        i += 2;
    }
    return n;
}

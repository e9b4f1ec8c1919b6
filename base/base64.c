/* Bits are shifted through one word, six at a time for the text. */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *bytes, size_t len, char *text)
{
    for (size_t i = 0; i < len; i += 3, text += 4) {
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (i + 1 < len)
            bits |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < len)
            bits |= bytes[i + 2];
        text[0] = alphabet[bits >> 18];
        text[1] = alphabet[bits >> 12 & 63];
        text[2] = '=';
        text[3] = '=';
        if (i + 1 < len)
            text[2] = alphabet[bits >> 6 & 63];
        if (i + 2 < len)
            text[3] = alphabet[bits & 63];
    }
}

/* The value of a character; -1: it is in neither alphabet. */
static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(const char *text, size_t len, uint8_t *bytes, size_t *ret_len)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t n = 0;

    if (len % 4 == 0)
        for (unsigned padding = 0; padding < 2 && len > 0 && text[len - 1] == '='; padding++)
            len--;
    if (len % 4 == 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        int value = digit(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[n++] = (uint8_t)(bits >> n_bits);
        }
    }
    *ret_len = n;
    return true;
}

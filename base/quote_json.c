#include "base/quote_json.h"

size_t quote_json(const char *text, char *out)
{
    static const char hex[] = "0123456789abcdef";
    char *at = out;

    *at++ = '"';
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ') {
            const char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            for (size_t i = 0; i < sizeof escape; i++)
                *at++ = escape[i];
            continue;
        }
        if (c == '"' || c == '\\')
            *at++ = '\\';
        *at++ = (char)c;
    }
    *at++ = '"';
    return (size_t)(at - out);
}

#include "base/number.h"

int64_t number_parse(const char *text, size_t len, int64_t max)
{
    int64_t number = 0;

    for (size_t i = 0; i < len; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || number > (INT64_MAX - digit) / 10)
            return -1;
        number = number * 10 + digit;
    }
    return len > 0 && number <= max ? number : -1;
}

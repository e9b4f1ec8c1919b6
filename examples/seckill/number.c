#include "number.h"

#include <errno.h>
#include <stdlib.h>

long number_parse(const char *text, long max)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value >= 1 && value <= max ? value : 0;
}

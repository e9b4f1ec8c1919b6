#include "base/duration.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS };

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", DAY_MS}, {"h", HOUR_MS}, {"m", MINUTE_MS}, {"s", SECOND_MS}, {"ms", 1}};
enum { N_UNITS = sizeof units / sizeof *units };

void duration_write(int64_t ms, char text[DURATION_BYTES])
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t left = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    size_t i = 0;

    if (left == 0) {
        strcpy(text, "0s");
    } else if (left < SECOND_MS) {
        snprintf(text, DURATION_BYTES, "%s%dms", sign, (int)left);
    } else if (left < MINUTE_MS) {
        uint64_t hundredths = left / 10;
        snprintf(text, DURATION_BYTES, "%s%.3gs", sign, (double)hundredths / 100);
    } else {
        while (left < (uint64_t)units[i].ms)
            i++;
        uint64_t whole = left / (uint64_t)units[i].ms, rest = left % (uint64_t)units[i].ms / (uint64_t)units[i + 1].ms;
        int n = snprintf(text, DURATION_BYTES, "%s%llu%s", sign, (unsigned long long)whole, units[i].name);
        if (rest > 0)
            snprintf(text + n, DURATION_BYTES - (size_t)n, "%llu%s", (unsigned long long)rest, units[i + 1].name);
    }
}

/* Reads one number and its unit, and moves *at behind them. */
static bool read_part(const char **at, double *sum)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    double number = strtod(*at, &end);
    size_t len = strspn(end, "dhms");
    for (size_t i = 0; i < N_UNITS; i++)
        if (strlen(units[i].name) == len && strncmp(end, units[i].name, len) == 0) {
            *sum += number * (double)units[i].ms;
            *at = end + len;
            return true;
        }
    return false;
}

bool duration_read(const char *text, int64_t *ms)
{
    double sum = 0;

    if (strcmp(text, "0") != 0)
        do {
            if (!read_part(&text, &sum) || sum > 9007199254740992.0)
                return false;
        } while (*text);
    *ms = (int64_t)(sum + 0.5);
    return true;
}

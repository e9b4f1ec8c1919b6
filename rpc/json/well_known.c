#include "well_known.h"

#include <stdio.h>
#include <string.h>

static const char package[] = "google.protobuf.";

enum { NANOS = 1000000000, NANOS_DIGITS = 9, DAY_S = 86400 };

#define SECONDS_MIN INT64_C(-62135596800) /* 0001-01-01 */
#define SECONDS_MAX INT64_C(253402300799) /* the end of 9999 */
#define DURATION_MAX INT64_C(315576000000)

well_known well_known_of(const ProtobufCMessageDescriptor *type)
{
    static const struct {
        const char *name;
        well_known kind;
    } types[] = {
        {"DoubleValue", WELL_KNOWN_WRAPPER}, {"FloatValue", WELL_KNOWN_WRAPPER},  {"Int64Value", WELL_KNOWN_WRAPPER},
        {"UInt64Value", WELL_KNOWN_WRAPPER}, {"Int32Value", WELL_KNOWN_WRAPPER},  {"UInt32Value", WELL_KNOWN_WRAPPER},
        {"BoolValue", WELL_KNOWN_WRAPPER},   {"StringValue", WELL_KNOWN_WRAPPER}, {"BytesValue", WELL_KNOWN_WRAPPER},
        {"Timestamp", WELL_KNOWN_TIMESTAMP}, {"Duration", WELL_KNOWN_DURATION},   {"FieldMask", WELL_KNOWN_FIELD_MASK},
        {"Struct", WELL_KNOWN_STRUCT},       {"Value", WELL_KNOWN_VALUE},         {"ListValue", WELL_KNOWN_LIST},
    };

    if (strncmp(type->name, package, sizeof package - 1) != 0)
        return WELL_KNOWN_NONE;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type->name + sizeof package - 1, types[i].name) == 0)
            return types[i].kind;
    return WELL_KNOWN_NONE;
}

bool well_known_is_null(const ProtobufCEnumDescriptor *type)
{
    return strcmp(type->name, "google.protobuf.NullValue") == 0;
}

/* ---- texts ------------------------------------------------------------------------------------- */

/* Reads exactly n digits. */
static bool take_digits(const char **at, unsigned n, int *ret)
{
    *ret = 0;
    for (; n > 0; n--, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *ret = *ret * 10 + (**at - '0');
    }
    return true;
}

static bool take(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* Reads ".5" with up to nine digits; no fraction is 0. */
static bool take_fraction(const char **at, int32_t *nanos)
{
    int digit, n = 0;

    *nanos = 0;
    if (!take(at, '.'))
        return true;
    for (; n < NANOS_DIGITS && take_digits(at, 1, &digit); n++)
        *nanos = *nanos * 10 + digit;
    if (n == 0)
        return false;
    for (; n < NANOS_DIGITS; n++)
        *nanos *= 10;
    return true;
}

/* Writes no digits, or 3, 6 or 9. */
static int write_fraction(int32_t nanos, char *text)
{
    static const char zeros[] = "000";

    if (nanos == 0) {
        *text = '\0';
        return 0;
    }
    int len = snprintf(text, NANOS_DIGITS + 2, ".%09d", nanos);
    while (len > 4 && strcmp(text + len - 3, zeros) == 0)
        text[len -= 3] = '\0';
    return len;
}

/* Days since 1970 of a date of the Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date
 * Algorithms"). */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leaps = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leaps);
}

/* "Z" or "+01:30"; in seconds. */
static bool take_zone(const char **at, int *offset)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes;

    *offset = 0;
    if (take(at, 'Z'))
        return true;
    if ((!take(at, '+') && !take(at, '-')) || !take_digits(at, 2, &hours) || !take(at, ':') ||
        !take_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *offset = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool well_known_read_timestamp(const char *text, int64_t *seconds, int32_t *nanos)
{
    int year, month, day, hour, minute, second, offset;

    if (!take_digits(&text, 4, &year) || !take(&text, '-') || !take_digits(&text, 2, &month) || !take(&text, '-') ||
        !take_digits(&text, 2, &day) || !take(&text, 'T') || !take_digits(&text, 2, &hour) || !take(&text, ':') ||
        !take_digits(&text, 2, &minute) || !take(&text, ':') || !take_digits(&text, 2, &second) ||
        !take_fraction(&text, nanos) || !take_zone(&text, &offset) || *text != '\0')
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || second > 59)
        return false;
    *seconds = days_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset;
    return *seconds >= SECONDS_MIN && *seconds <= SECONDS_MAX;
}

bool well_known_write_timestamp(int64_t seconds, int32_t nanos, char text[WELL_KNOWN_TEXT_BYTES])
{
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX || nanos < 0 || nanos >= NANOS)
        return false;
    int64_t from = seconds - SECONDS_MIN; /* of year 1 */
    int64_t days = from / DAY_S, left = from % DAY_S;
    int year = (int)(1 + days / 366), month = 1; /* not later than the wanted year */
    int64_t day = days + days_of(1, 1, 1);

    while (year < 9999 && days_of(year + 1, 1, 1) <= day)
        year++;
    while (month < 12 && days_of(year, month + 1, 1) <= day)
        month++;
    int len =
        snprintf(text, WELL_KNOWN_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d", year, month,
                 (int)(day - days_of(year, month, 1)) + 1, (int)(left / 3600), (int)(left / 60 % 60), (int)(left % 60));
    len += write_fraction(nanos, text + len);
    memcpy(text + len, "Z", 2);
    return true;
}

bool well_known_read_duration(const char *text, int64_t *seconds, int32_t *nanos)
{
    bool negative = take(&text, '-');
    int digit, n = 0;

    for (*seconds = 0; n < 12 && take_digits(&text, 1, &digit); n++)
        *seconds = *seconds * 10 + digit;
    if (n == 0 || !take_fraction(&text, nanos) || !take(&text, 's') || *text != '\0' || *seconds > DURATION_MAX)
        return false;
    *seconds = negative ? -*seconds : *seconds;
    *nanos = negative ? -*nanos : *nanos;
    return true;
}

bool well_known_write_duration(int64_t seconds, int32_t nanos, char text[WELL_KNOWN_TEXT_BYTES])
{
    bool negative = seconds < 0 || nanos < 0;

    if (seconds < -DURATION_MAX || seconds > DURATION_MAX || nanos <= -NANOS || nanos >= NANOS ||
        (negative && (seconds > 0 || nanos > 0)))
        return false;
    int len = snprintf(text, WELL_KNOWN_TEXT_BYTES, "%s%lld", negative ? "-" : "",
                       (long long)(negative ? -seconds : seconds));
    len += write_fraction(negative ? -nanos : nanos, text + len);
    memcpy(text + len, "s", 2);
    return true;
}

/* ---- paths ------------------------------------------------------------------------------------- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

size_t well_known_write_path(const char *path, char *out)
{
    char *to = out;

    for (; *path; path++) {
        if (is_upper(*path) || (*path == '_' && !is_lower(path[1])))
            return SIZE_MAX;
        *to++ = *path == '_' ? (char)(*++path - 'a' + 'A') : *path;
    }
    return (size_t)(to - out);
}

size_t well_known_read_path(const char *text, size_t len, char *out)
{
    char *to = out;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '_')
            return SIZE_MAX;
        if (is_upper(text[i]))
            *to++ = '_';
        *to++ = is_upper(text[i]) ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    return (size_t)(to - out);
}

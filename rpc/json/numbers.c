#include "numbers.h"

#include <string.h>

enum { MARK = 0x7F, DIGITS_MAX = 20 /* of UINT64_MAX */, EXPONENT_MAX = 100000 };

static const char digits[] = "0123456789";

/* The length of the number at the beginning of a text; 0: there is none. */
static size_t number_len(const char *text, const char *end)
{
    const char *at = text + (text < end && *text == '-'), *from = at;

#define SKIP_DIGITS                                \
    while (at < end && *at && strchr(digits, *at)) \
        at++;
    SKIP_DIGITS
    if (at == from || (*from == '0' && at - from > 1))
        return 0;
    if (at < end && *at == '.') {
        from = ++at;
        SKIP_DIGITS
        if (at == from)
            return 0;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        from = at;
        SKIP_DIGITS
        if (at == from)
            return 0;
    }
#undef SKIP_DIGITS
    return (size_t)(at - text);
}

/* Whether a value, and so a number, may end here. */
static bool may_end(const char *at, const char *end)
{
    while (at < end && *at && strchr(" \t\r\n", *at))
        at++;
    return at == end || *at == ',' || *at == ']' || *at == '}';
}

static bool is_mark(const char *at, const char *end)
{
    return at < end &&
           (*at == MARK || (end - at >= 6 && (memcmp(at, "\\u007f", 6) == 0 || memcmp(at, "\\u007F", 6) == 0)));
}

/* Copies a string from its first quote. Returns where it ends. */
static const char *copy_string(const char *at, const char *end, char **out)
{
    *(*out)++ = *at++;
    if (is_mark(at, end))
        *(*out)++ = MARK;
    for (bool escaped = false; at < end; at++) {
        *(*out)++ = *at;
        if (!escaped && *at == '"')
            return at + 1;
        escaped = !escaped && *at == '\\';
    }
    return at;
}

size_t numbers_mark(const char *text, size_t len, char *out)
{
    const char *at = text, *end = len > 0 ? text + len : text; /* an empty text may be NULL */
    char *to = out;

    while (at < end) {
        size_t n = *at == '-' || (*at >= '0' && *at <= '9') ? number_len(at, end) : 0;
        bool begins = at == text || strchr(" \t\r\n:,[", at[-1]);
        if (*at == '"') {
            at = copy_string(at, end, &to);
        } else if (n > 0 && begins && may_end(at + n, end)) {
            *to++ = '"';
            *to++ = MARK;
            memcpy(to, at, n);
            to += n;
            *to++ = '"';
            at += n;
        } else {
            *to++ = *at++;
        }
    }
    return (size_t)(to - out);
}

int numbers_inserted(const char *marked, size_t position)
{
    size_t from = position;
    int n = 0;

    while (from > 0 && marked[from - 1] != '\n')
        from--;
    for (size_t i = from; i + 1 < position; i++) {
        if (marked[i] != '"' || marked[i + 1] != MARK)
            continue;
        bool is_number = i + 2 < position && marked[i + 2] != MARK && marked[i + 2] != '\\';
        const char *quote = is_number ? memchr(marked + i + 2, '"', position - i - 2) : NULL;
        n += is_number ? 2 + (quote != NULL) : 1;
        if (quote)
            i = (size_t)(quote - marked);
    }
    return n;
}

const char *numbers_name(const char *name)
{
    return name[0] == MARK ? name + 1 : name;
}

const char *numbers_string(const json_t *json, size_t *len)
{
    const char *text = json_string_value(json); /* NULL: not a string */

    if (!text || (text[0] == MARK && text[1] != MARK))
        return NULL;
    *len = json_string_length(json) - (text[0] == MARK);
    return text + (text[0] == MARK);
}

const char *numbers_text(const json_t *json, bool *is_string)
{
    const char *text = json_string_value(json);
    size_t len = text ? strlen(text) : 0;

    if (!text || len != json_string_length(json))
        return NULL;
    if (is_string)
        *is_string = text[0] != MARK || text[1] == MARK;
    return text[0] == MARK ? text + 1 : text;
}

static bool is_number(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && number_len(text, text + len) == len;
}

/* The exponent after "e", within +-EXPONENT_MAX. */
static int exponent_of(const char *text)
{
    const char *e = strpbrk(text, "eE");
    bool negative = e && e[1] == '-';
    int value = 0;

    for (const char *at = e ? e + 1 + strspn(e + 1, "+-") : ""; *at; at++)
        if (value < EXPONENT_MAX)
            value = value * 10 + (*at - '0');
    return negative ? -value : value;
}

numbers_result numbers_whole(const char *text, bool *negative, uint64_t *magnitude)
{
    char significant[DIGITS_MAX];
    int n = 0, zeros = 0, exponent = 0;
    bool in_fraction = false, too_long = false;

    if (!is_number(text))
        return NUMBERS_NOT_WHOLE;
    *negative = text[0] == '-';
    *magnitude = 0;
    /* Counts zeros only when another digit follows. */
    for (const char *at = text + *negative; *at && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            in_fraction = true;
            continue;
        }
        exponent -= in_fraction;
        if (*at == '0') {
            zeros += n > 0;
            continue;
        }
        for (; zeros > 0 && n < DIGITS_MAX; zeros--)
            significant[n++] = '0';
        too_long = too_long || n == DIGITS_MAX;
        if (!too_long)
            significant[n++] = *at;
    }
    if (n == 0) {
        *negative = false;
        return NUMBERS_GOOD; /* 0, however it is written */
    }
    exponent += exponent_of(text) + zeros;
    if (exponent < 0)
        return NUMBERS_NOT_WHOLE;
    if (too_long || exponent > DIGITS_MAX - n)
        return NUMBERS_TOO_LARGE;
    for (int i = 0; i < n + exponent; i++) {
        unsigned digit = i < n ? (unsigned)(significant[i] - '0') : 0;
        if (*magnitude > (UINT64_MAX - digit) / 10)
            return NUMBERS_TOO_LARGE;
        *magnitude = *magnitude * 10 + digit;
    }
    return NUMBERS_GOOD;
}

bool numbers_real(const char *text, double *ret, bool *number)
{
    json_t *json;

    *number = is_number(text);
    json = *number ? json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL) : NULL; /* in any locale */
    if (json)
        *ret = json_real_value(json);
    json_decref(json);
    return json;
}

bool numbers_is_canonical(const char *text)
{
    size_t len = strlen(text), sign = text[0] == '-';

    return len > sign && strspn(text + sign, digits) == len - sign && (text[sign] != '0' || (len == 1));
}

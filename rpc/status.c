/* The numbers are those of google.rpc.Code. Programs and logs depend on the names: they never change. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <lockstock/status.h>

static const char *const code_names[] = {
    [LKS_OK] = "OK",
    [LKS_CANCELLED] = "CANCELLED",
    [LKS_UNKNOWN] = "UNKNOWN",
    [LKS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [LKS_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
    [LKS_NOT_FOUND] = "NOT_FOUND",
    [LKS_ALREADY_EXISTS] = "ALREADY_EXISTS",
    [LKS_PERMISSION_DENIED] = "PERMISSION_DENIED",
    [LKS_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
    [LKS_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
    [LKS_ABORTED] = "ABORTED",
    [LKS_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [LKS_UNIMPLEMENTED] = "UNIMPLEMENTED",
    [LKS_INTERNAL] = "INTERNAL",
    [LKS_UNAVAILABLE] = "UNAVAILABLE",
    [LKS_DATA_LOSS] = "DATA_LOSS",
    [LKS_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *lks_code_name(lks_code code)
{
    size_t i = (size_t)code;
    return i < sizeof code_names / sizeof *code_names ? code_names[i] : "UNKNOWN";
}

const char *lks_applied_name(lks_applied applied)
{
    switch (applied) {
    case LKS_APPLIED_YES:
        return "YES";
    case LKS_APPLIED_NO:
        return "NO";
    case LKS_APPLIED_UNSPECIFIED:
    case LKS_APPLIED_MAYBE:
        break;
    }
    return "MAYBE";
}

/* Returns the length of a cut text without an incomplete UTF-8 character at its end. */
static size_t whole_characters(const char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && len - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return len;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return len - (start - 1) < want ? start - 1 : len;
}

/* ---- reasons -------------------------------------------------------------------- */

#define REASON_WORD(name, number, word, help) [LKS_REASON_##name] = (word),
static const char *const reason_names[] = {[LKS_REASON_NONE] = "", LKS_REASONS(REASON_WORD)};

enum { REASONS = sizeof reason_names / sizeof *reason_names };

const char *lks_reason_name(lks_reason reason)
{
    size_t i = (size_t)reason;
    return i < REASONS ? reason_names[i] : "";
}

lks_reason lks_reason_of(const char *word)
{
    for (size_t i = 1; i < REASONS; i++)
        if (strcmp(word, reason_names[i]) == 0)
            return (lks_reason)i;
    return LKS_REASON_NONE;
}

static lks_reason implied_by(lks_code code)
{
    static const lks_reason implied[] = {
        [LKS_CANCELLED] = LKS_REASON_CANCELLED,
        [LKS_INVALID_ARGUMENT] = LKS_REASON_INVALID_FIELD,
        [LKS_DEADLINE_EXCEEDED] = LKS_REASON_DEADLINE_EXCEEDED,
        [LKS_NOT_FOUND] = LKS_REASON_NOT_FOUND,
        [LKS_ALREADY_EXISTS] = LKS_REASON_ALREADY_EXISTS,
        [LKS_PERMISSION_DENIED] = LKS_REASON_PERMISSION_DENIED,
        [LKS_RESOURCE_EXHAUSTED] = LKS_REASON_NO_ROOM,
        [LKS_FAILED_PRECONDITION] = LKS_REASON_WRONG_STATE,
        [LKS_UNIMPLEMENTED] = LKS_REASON_NOT_SUPPORTED,
        [LKS_INTERNAL] = LKS_REASON_INTERNAL,
        [LKS_UNAUTHENTICATED] = LKS_REASON_NOT_AUTHENTICATED,
    };
    size_t i = (size_t)code;
    return i < sizeof implied / sizeof *implied ? implied[i] : LKS_REASON_NONE;
}

/* ---- fields --------------------------------------------------------------------- */

static bool may_be_a_fields_fault(lks_code code)
{
    return code == LKS_INVALID_ARGUMENT || code == LKS_NOT_FOUND || code == LKS_ALREADY_EXISTS ||
           code == LKS_RESOURCE_EXHAUSTED || code == LKS_FAILED_PRECONDITION || code == LKS_ABORTED ||
           code == LKS_OUT_OF_RANGE;
}

/* Returns the length of the path at the beginning of a message, as in "lines[0].sku: must be...", or 0. A message
 * that was cut inside the path has none. */
static size_t path_len(const char *message)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", digits[] = "0123456789";
    const char *at = message;

    for (;;) {
        size_t name = strspn(at, letters);
        if (name == 0)
            return 0;
        at += name;
        while (strspn(at, letters) || strspn(at, digits))
            at++;
        if (*at == '[') {
            size_t index = strspn(at + 1, digits);
            if (index == 0 || at[1 + index] != ']')
                return 0;
            at += index + 2;
        }
        if (*at != '.')
            break;
        at++;
    }
    return at[0] == ':' && at[1] == ' ' ? (size_t)(at - message) : 0;
}

static void find_field(lks_error *error)
{
    size_t len = may_be_a_fields_fault(error->code) ? path_len(error->message) : 0;

    if (len < sizeof error->field)
        memcpy(error->field, error->message, len);
}

/* ---- errors --------------------------------------------------------------------- */

__attribute__((format(printf, 5, 0))) static void set(lks_error *error, lks_code code, lks_applied applied,
                                                      lks_reason reason, const char *format, va_list args)
{
    /* The arguments may point into *error, so *error is written last. */
    char text[LKS_ERROR_MESSAGE_MAX];
    int len = vsnprintf(text, sizeof text, format, args);

    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof text)
        text[whole_characters(text, sizeof text - 1)] = '\0';
    *error = (lks_error){.code = code,
                         .origin = LKS_ORIGIN_LOCAL,
                         .applied = applied,
                         .reason = reason != LKS_REASON_NONE ? reason : implied_by(code)};
    memcpy(error->message, text, strlen(text) + 1);
    find_field(error);
}

lks_code lks_error_set(lks_error *error, lks_code code, lks_applied applied, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (error)
        set(error, code, applied, LKS_REASON_NONE, format, args);
    va_end(args);
    return code;
}

lks_code lks_error_set_reason(lks_error *error, lks_code code, lks_applied applied, lks_reason reason,
                              const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (error)
        set(error, code, applied, reason, format, args);
    va_end(args);
    return code;
}

void lks_error_clear(lks_error *error)
{
    if (error)
        *error = (lks_error){0};
}

/* Codes and errors. The numbers are google.rpc.Code's and the names are printed,
 * logged and matched on: they never change. */
#include <stdarg.h>
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

/* The length of `text` (of `len` bytes, cut off somewhere) without the broken
 * UTF-8 character that a cut leaves at the end. */
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

lks_code lks_error_set(lks_error *error, lks_code code, lks_applied applied, const char *format, ...)
{
    if (!error)
        return code;
    /* The arguments may point into *error, so it is written last. */
    char text[LKS_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof text)
        text[whole_characters(text, sizeof text - 1)] = '\0';
    *error = (lks_error){.code = code, .origin = LKS_ORIGIN_LOCAL, .applied = applied};
    memcpy(error->message, text, strlen(text) + 1);
    return code;
}

void lks_error_clear(lks_error *error)
{
    if (error)
        *error = (lks_error){0};
}

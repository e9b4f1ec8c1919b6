/*  0  3                                36               53
 *  00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *  version, id of the trace, id of the span, flags: bit 0 = sampled. A later version may have more after a '-'. */
#include "base/trace_context.h"

#include <string.h>

#include "base/hex.h"

enum { TRACE_AT = 3, FLAGS_AT = 53, SAMPLED = 1 };

/* Digits in lower case only. */
static bool read_hex(const char *text, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++) {
        int value = text[i] >= 'A' && text[i] <= 'F' ? -1 : hex_value(text[i]);
        if (value < 0)
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | value);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    uint8_t any = 0;

    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    return any == 0;
}

bool trace_context_exists(const trace_context *c)
{
    return !is_zero(c->span, sizeof c->span);
}

bool trace_context_read(const char *text, size_t len, trace_context *ret)
{
    trace_context c = {0};
    uint8_t version = 0, flags = 0;

    if (len < TRACE_PARENT_CHARS || !read_hex(text, &version, 1) || version == 0xff ||
        (len > TRACE_PARENT_CHARS && (version == 0 || text[TRACE_PARENT_CHARS] != '-')))
        return false;
    if (text[TRACE_AT - 1] != '-' || text[TRACE_SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-' ||
        !read_hex(text + TRACE_AT, c.trace, sizeof c.trace) || !read_hex(text + TRACE_SPAN_AT, c.span, sizeof c.span) ||
        !read_hex(text + FLAGS_AT, &flags, 1) || is_zero(c.trace, sizeof c.trace) || is_zero(c.span, sizeof c.span))
        return false;
    c.sampled = flags & SAMPLED;
    *ret = c;
    return true;
}

void trace_context_write(const trace_context *c, char text[TRACE_PARENT_CHARS + 1])
{
    memcpy(text, "00-", TRACE_AT);
    hex_encode(c->trace, sizeof c->trace, text + TRACE_AT);
    text[TRACE_SPAN_AT - 1] = '-';
    hex_encode(c->span, sizeof c->span, text + TRACE_SPAN_AT);
    memcpy(text + FLAGS_AT - 1, c->sampled ? "-01" : "-00", sizeof "-01");
}

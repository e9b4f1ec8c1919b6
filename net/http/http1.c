/* Invariant: nothing is skipped. Each byte of a head and of a chunk's frame is compared with the grammar. */
#include "net/http/http1.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "base/number.h"

enum { LENGTH_DIGITS_MAX = 15, CHUNK_DIGITS_MAX = 8 };

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ALPHA UPPER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static const http1_verdict fine = {0};
static const char no_cr[] = "a line does not end with CR LF";

static http1_verdict refused(unsigned status, const char *why)
{
    return (http1_verdict){.status = status, .why = why};
}

static bool is_of(lks_rpc_slice text, const char *characters)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\0' || !strchr(characters, text.data[i]))
            return false;
    return text.len > 0;
}

static bool is(lks_rpc_slice text, const char *wanted)
{
    return text.len == strlen(wanted) && strncasecmp(text.data, wanted, text.len) == 0;
}

/* Cuts off the part before `end`, and `end` itself. False: there is no `end`. */
static bool take_until(lks_rpc_slice *from, char end, lks_rpc_slice *part)
{
    const char *found = memchr(from->data, end, from->len);

    if (!found)
        return false;
    *part = (lks_rpc_slice){.data = from->data, .len = (size_t)(found - from->data)};
    from->len -= part->len + 1;
    from->data = found + 1;
    return true;
}

/* Does not trim tabs, although the grammar allows them there: nginx keeps them too, and a value with a tab matches
 * nothing. */
static lks_rpc_slice trim(lks_rpc_slice t)
{
    while (t.len > 0 && t.data[0] == ' ') {
        t.data++;
        t.len--;
    }
    while (t.len > 0 && t.data[t.len - 1] == ' ')
        t.len--;
    return t;
}

/* ---- the end of the head ---------------------------------------------------------------- */

http1_verdict http1_find_head(const char *bytes, size_t len, size_t seen, size_t *head_len)
{
    const char *at = bytes + seen, *end = bytes + len, *lf;

    *head_len = 0;
    if (len > 0 && !strchr(UPPER, bytes[0]))
        return refused(400, "this is not an HTTP request");
    while ((lf = memchr(at, '\n', (size_t)(end - at)))) {
        if (lf == bytes || lf[-1] != '\r')
            return refused(400, no_cr);
        at = lf + 1;
        if (lf - bytes < 3 || memcmp(lf - 3, "\r\n\r\n", 4) != 0)
            continue;
        *head_len = (size_t)(at - bytes);
        break;
    }
    if (*head_len > HTTP1_HEAD_BYTES_MAX || (*head_len == 0 && len > HTTP1_HEAD_BYTES_MAX))
        return refused(431, "the request line and the fields are longer than 16 KiB");
    return fine;
}

/* ---- the request line ------------------------------------------------------------------- */

static http1_verdict read_version(http1_head *head, lks_rpc_slice version)
{
    if (version.len != 8 || memcmp(version.data, "HTTP/", 5) != 0 || version.data[6] != '.')
        return refused(400, "this is not an HTTP request");
    head->is_10 = memcmp(version.data + 5, "1.0", 3) == 0;
    if (!head->is_10 && memcmp(version.data + 5, "1.1", 3) != 0)
        return refused(505, "HTTP: must be 1.0, 1.1 or 2");
    head->has_version = true;
    return fine;
}

static http1_verdict read_request_line(http1_head *head, lks_rpc_slice line, lks_rpc_arena *arena)
{
    lks_rpc_slice method, target;

    if (!take_until(&line, ' ', &method) || !take_until(&line, ' ', &target) || !is_of(method, UPPER))
        return refused(400, "this is not an HTTP request");
    for (size_t i = 0; i < target.len; i++) {
        if ((unsigned char)target.data[i] <= ' ' || (unsigned char)target.data[i] >= 0x7F || target.data[i] == '#')
            return refused(400, "the target has a character that must be percent-encoded");
        if (target.data[i] == '%' && (hex_value(target.data[i + 1]) < 0 || hex_value(target.data[i + 2]) < 0))
            return refused(400, "the target has a % without two hexadecimal digits");
    }
    if (target.len == 0 || (target.data[0] != '/' && !(is(target, "*") && is(method, "OPTIONS"))))
        return refused(400, "the target must begin with /");
    head->method = lks_rpc_arena_copy(arena, method.data, method.len);
    head->target = lks_rpc_arena_copy(arena, target.data, target.len);
    return head->method && head->target ? read_version(head, line) : refused(503, "out of memory");
}

/* ---- fields ------------------------------------------------------------------------------ */

static bool is_value(lks_rpc_slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.data[i];
        if (c == 0x7F || (c < ' ' && c != '\t'))
            return false;
    }
    return true;
}

static http1_verdict read_field(lks_rpc_slice line, lks_rpc_arena *arena, http_fields *fields)
{
    lks_rpc_slice name;

    if (line.data[0] == ' ' || line.data[0] == '\t')
        return refused(400, "a header field is folded over several lines");
    if (!take_until(&line, ':', &name) || !is_of(name, "!#$%&'*+-.^_`|~" DIGITS ALPHA))
        return refused(400, "a header field has an invalid name");
    lks_rpc_slice value = trim(line);
    if (!is_value(value))
        return refused(400, "a header field's value has a control character");
    if (!http_fields_add(fields, arena, name.data, name.len, value.data, value.len))
        return refused(503, "out of memory");
    char *copy = (char *)(uintptr_t)TAILQ_LAST(fields, http_fields)->name;
    for (; *copy; copy++)
        if (*copy >= 'A' && *copy <= 'Z')
            *copy = (char)(*copy - 'A' + 'a');
    return fine;
}

/* ---- fields about the connection ---------------------------------------------------------- */

static bool is_host(lks_rpc_slice host)
{
    return is_of(host, ALPHA DIGITS ".-_~%!$&'()*+,;=:[]");
}

static http1_verdict read_length(http1_head *head, const http_fields *fields)
{
    lks_rpc_slice length = http_fields_value(fields, "content-length");
    lks_rpc_slice encoding = http_fields_value(fields, "transfer-encoding");
    size_t lengths = http_fields_count(fields, "content-length");
    size_t encodings = http_fields_count(fields, "transfer-encoding");

    if (lengths + encodings > 1)
        return refused(400, "Content-Length, Transfer-Encoding: only one of them may be given, and only once");
    if (encodings > 0) {
        head->chunked = is(encoding, "chunked");
        if (head->is_10)
            return refused(400, "Transfer-Encoding: not allowed in HTTP/1.0");
        return head->chunked ? fine : refused(501, "Transfer-Encoding: must be chunked");
    }
    if (lengths == 0)
        return fine;
    if (!is_of(length, DIGITS))
        return refused(400, "Content-Length: must be a number");
    if (length.len > LENGTH_DIGITS_MAX)
        return refused(413, "Content-Length: too large");
    head->length = (uint64_t)number_parse(length.data, length.len, INT64_MAX);
    return fine;
}

static http1_verdict read_connection(http1_head *head, const http_fields *fields)
{
    lks_rpc_slice expect = http_fields_value(fields, "expect");
    size_t hosts = http_fields_count(fields, "host");
    const http_field *field;

    if (hosts > 1 || (hosts == 0 && !head->is_10))
        return refused(400, "Host: must be given exactly once");
    if (hosts == 1 && !is_host(http_fields_value(fields, "host")))
        return refused(400, "Host: must be a name or an address");
    head->closes = head->is_10;
    TAILQ_FOREACH(field, fields, next)
        if (strcmp(field->name, "connection") == 0 &&
            http_list_has((lks_rpc_slice){.data = field->value, .len = field->value_len}, "close"))
            head->closes = true;
    if (expect.len > 0 && !is(expect, "100-continue"))
        return refused(417, "Expect: only 100-continue is supported");
    head->expects = expect.len > 0 && !head->is_10;
    return fine;
}

http1_verdict http1_read_head(const char *bytes, size_t len, lks_rpc_arena *arena, http1_head *head,
                              http_fields *fields)
{
    lks_rpc_slice rest = {.data = bytes, .len = len}, line;
    http1_verdict verdict = fine;
    size_t n = 0;

    *head = (http1_head){0};
    while (verdict.status == 0 && take_until(&rest, '\n', &line)) {
        if (line.len == 0 || line.data[--line.len] != '\r')
            return refused(400, no_cr);
        if (line.len == 0)
            break;
        if (n == 0)
            verdict = read_request_line(head, line, arena);
        else if (n > HTTP1_FIELDS_MAX)
            verdict = refused(431, "more than 100 fields");
        else
            verdict = read_field(line, arena, fields);
        n++;
    }
    if (verdict.status == 0 && n == 0)
        return refused(400, "this is not an HTTP request");
    if (verdict.status == 0)
        verdict = read_length(head, fields);
    return verdict.status == 0 ? read_connection(head, fields) : verdict;
}

/* ---- the body ----------------------------------------------------------------------------- */

http1_body http1_body_of(const http1_head *head)
{
    http1_body b = {.state = HTTP1_BODY_BYTES, .chunked = head->chunked, .left = head->length};

    if (head->chunked)
        b.state = HTTP1_CHUNK_SIZE;
    else if (head->length == 0)
        b.state = HTTP1_BODY_WHOLE;
    return b;
}

/* One character of "SIZE CR LF", or of "CR LF". */
static http1_verdict read_frame(http1_body *b, char c)
{
    int digit = b->state == HTTP1_CHUNK_SIZE ? hex_value(c) : -1;
    bool after_cr = b->line == UINT32_MAX;

    if (after_cr && c != '\n')
        return refused(400, "a chunk's line does not end with CR LF");
    if (after_cr) {
        b->line = 0;
        if (b->state == HTTP1_CHUNK_END)
            b->state = HTTP1_CHUNK_SIZE;
        else if (b->state == HTTP1_LAST_END)
            b->state = HTTP1_BODY_WHOLE;
        else
            b->state = b->left > 0 ? HTTP1_BODY_BYTES : HTTP1_LAST_END;
    } else if (c == '\r' && (b->line > 0 || b->state != HTTP1_CHUNK_SIZE)) {
        b->line = UINT32_MAX;
    } else if (digit >= 0 && b->line < CHUNK_DIGITS_MAX) {
        b->left = (b->line++ == 0 ? 0 : b->left * 16) + (uint64_t)digit;
    } else {
        return refused(400, "a chunk's size must be up to 8 hexadecimal digits, and trailer fields are not read");
    }
    return fine;
}

http1_verdict http1_read_body(http1_body *b, const char *data, size_t len, size_t *used, const char **piece,
                              size_t *piece_len)
{
    *used = *piece_len = 0;
    *piece = data;
    while (*used < len && b->state != HTTP1_BODY_WHOLE && b->state != HTTP1_BODY_BYTES) {
        http1_verdict verdict = read_frame(b, data[*used]);
        if (verdict.status != 0)
            return verdict;
        ++*used;
    }
    if (b->state == HTTP1_BODY_BYTES) {
        *piece = data + *used;
        *piece_len = len - *used < b->left ? len - *used : (size_t)b->left;
        *used += *piece_len;
        b->left -= *piece_len;
        if (b->left == 0)
            b->state = b->chunked ? HTTP1_CHUNK_END : HTTP1_BODY_WHOLE;
    }
    return fine;
}

/* ---- the answer --------------------------------------------------------------------------- */

static const struct {
    unsigned status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http1_reason(unsigned status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

enum { FIXED_BYTES = 192 };

size_t http1_head_bytes_max(const http_fields *fields)
{
    const http_field *field;
    size_t len = FIXED_BYTES;

    TAILQ_FOREACH(field, fields, next)
        len += field->name_len + field->value_len + 4;
    return len;
}

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

size_t http1_write_head(char *out, unsigned status, const http_fields *fields, size_t body_len, const char *date,
                        bool closes)
{
    const http_field *field;
    char *at = out;

    at += snprintf(at, FIXED_BYTES, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, http1_reason(status), date);
    if (closes)
        at = put(at, "Connection: close\r\n", 19);
    if (status != 204) /* RFC 9110, 8.6 */
        at += snprintf(at, FIXED_BYTES, "Content-Length: %zu\r\n", body_len);
    TAILQ_FOREACH(field, fields, next) {
        at = put(at, field->name, field->name_len);
        at = put(at, ": ", 2);
        at = put(at, field->value, field->value_len);
        at = put(at, "\r\n", 2);
    }
    at = put(at, "\r\n", 2);
    return (size_t)(at - out);
}

/* Invariant: a field that may be given once is refused when it is given more than once, so that no two readers of a
 * request can disagree. Called by websocket.c. */
#include "net/sp/websocket_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

enum { KEY_BYTES = 24, KEY_DIGITS = 22, SHA1_BYTES = 20 };

typedef struct text {
    const char *at;
    size_t len;
} text;

typedef enum field { HOST, ORIGIN, KEY, VERSION, LENGTH, ENCODING, UPGRADE, CONNECTION, PROTOCOL, N_FIELDS } field;

static const struct {
    const char *name, *token; /* token: what the list must contain */
} fields[N_FIELDS] = {
    [HOST] = {"Host", NULL},
    [ORIGIN] = {"Origin", NULL},
    [KEY] = {"Sec-WebSocket-Key", NULL},
    [VERSION] = {"Sec-WebSocket-Version", NULL},
    [LENGTH] = {"Content-Length", NULL},
    [ENCODING] = {"Transfer-Encoding", NULL},
    [UPGRADE] = {"Upgrade", "websocket"},
    [CONNECTION] = {"Connection", "upgrade"},
    [PROTOCOL] = {"Sec-WebSocket-Protocol", NULL}, /* the site's */
};

typedef struct request {
    text target;
    bool is_http11;
    text value[N_FIELDS]; /* of the first */
    unsigned n[N_FIELDS];
    bool has_token[N_FIELDS]; /* in any of them */
} request;

static bool equals(text t, const char *wanted)
{
    return t.len == strlen(wanted) && strncasecmp(t.at, wanted, t.len) == 0;
}

static text trim(text t)
{
    while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '\t')) {
        t.at++;
        t.len--;
    }
    while (t.len > 0 && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
        t.len--;
    return t;
}

/* Cuts off the part before `end`, and `end`; everything without an `end`. */
static text take_until(text *from, char end)
{
    const char *found = memchr(from->at, end, from->len);
    text part = {from->at, found ? (size_t)(found - from->at) : from->len};
    size_t taken = part.len + !!found;

    from->at += taken;
    from->len -= taken;
    return part;
}

static bool list_has(text list, const char *wanted)
{
    while (list.len > 0)
        if (equals(trim(take_until(&list, ',')), wanted))
            return true;
    return false;
}

/* ---- reading ---------------------------------------------------------------------- */

/* A tab counts as a space in values. */
static bool has_control(text t, bool tab_is_one)
{
    for (size_t i = 0; i < t.len; i++) {
        unsigned char c = (unsigned char)t.at[i];
        if (c == 0x7F || (c < ' ' && (c != '\t' || tab_is_one)))
            return true;
    }
    return false;
}

static bool is_name(text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (!memchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", t.at[i], 77))
            return false;
    return t.len > 0;
}

/* "GET /path HTTP/1.1"; the caller has checked the method. */
static bool read_first_line(request *r, text line)
{
    if (has_control(line, true))
        return false;
    take_until(&line, ' ');
    r->target = take_until(&line, ' ');
    r->is_http11 = line.len == 8 && memcmp(line.at, "HTTP/1.1", 8) == 0;
    return r->target.len > 0 && line.len > 0;
}

static bool read_field(request *r, text line, const char *subprotocol)
{
    text name = take_until(&line, ':');
    text value = trim(line);

    /* The name ends at a colon before the line ends. */
    if (name.at + name.len == line.at || !is_name(name) || has_control(value, false))
        return false;
    for (size_t f = 0; f < N_FIELDS; f++) {
        if (!equals(name, fields[f].name))
            continue;
        const char *token = f == PROTOCOL ? subprotocol : fields[f].token;
        if (r->n[f]++ == 0)
            r->value[f] = value;
        r->has_token[f] = r->has_token[f] || (token && list_has(value, token));
    }
    return true;
}

/* Lines end with CR LF and are not folded. */
static bool take_line(text *from, text *line)
{
    *line = take_until(from, '\n');
    if (line->len == 0 || line->at[line->len - 1] != '\r')
        return false;
    line->len--;
    return true;
}

static bool read_request(request *r, text bytes, const char *subprotocol)
{
    text line;

    *r = (request){0};
    if (!take_line(&bytes, &line) || !read_first_line(r, line))
        return false;
    while (take_line(&bytes, &line)) {
        if (line.len == 0)
            return bytes.len == 0;
        if (!read_field(r, line, subprotocol))
            return false;
    }
    return false;
}

/* ---- judging ---------------------------------------------------------------------- */

static bool origin_is_named(const websocket_site *site, text origin)
{
    for (size_t i = 0; i < site->n_origins; i++)
        if (equals(origin, site->origins[i]))
            return true;
    return false;
}

static bool is_path(text target, const char *path)
{
    text without_query = take_until(&target, '?');

    return without_query.len == strlen(path) && memcmp(without_query.at, path, without_query.len) == 0;
}

/* 16 bytes in base64. */
static bool is_key(text key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    if (key.len != KEY_BYTES || memcmp(key.at + KEY_DIGITS, "==", KEY_BYTES - KEY_DIGITS) != 0)
        return false;
    for (size_t i = 0; i < KEY_DIGITS; i++)
        if (!memchr(digits, key.at[i], sizeof digits - 1))
            return false;
    return true;
}

static bool accept_key(text key, char accept[WEBSOCKET_ACCEPT_BYTES + 1])
{
    static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char both[KEY_BYTES + sizeof suffix - 1], digest[SHA1_BYTES];

    memcpy(both, key.at, KEY_BYTES);
    memcpy(both + KEY_BYTES, suffix, sizeof suffix - 1);
    if (EVP_Digest(both, sizeof both, digest, NULL, EVP_sha1(), NULL) != 1)
        return false;
    EVP_EncodeBlock((unsigned char *)accept, digest, SHA1_BYTES);
    return true;
}

static websocket_verdict refused(unsigned status, const char *why)
{
    return (websocket_verdict){.status = status, .why = why};
}

websocket_verdict websocket_request_check(const websocket_site *site, const char *bytes, size_t len)
{
    websocket_verdict accepted = {.status = 101};
    request r;

    if (!read_request(&r, (text){bytes, len}, site->subprotocol))
        return refused(400, "this is no HTTP request");
    if (!r.is_http11)
        return refused(505, "HTTP: must be 1.1");
    if (r.n[HOST] != 1)
        return refused(400, "Host: must be there once");
    if (r.n[LENGTH] > 0 || r.n[ENCODING] > 0)
        return refused(400, "the request must have no body");
    if (r.n[ORIGIN] > 1)
        return refused(400, "Origin: more than one");
    if (r.n[ORIGIN] == 1 && !origin_is_named(site, r.value[ORIGIN]))
        return refused(403, "Origin: not one that --allow-origin names");
    if (!is_path(r.target, site->path))
        return refused(404, "nothing is served at this path");
    if (!r.has_token[UPGRADE] || !r.has_token[CONNECTION])
        return refused(426, "Upgrade: must be websocket");
    if (r.n[VERSION] != 1 || !equals(r.value[VERSION], "13"))
        return refused(426, "Sec-WebSocket-Version: must be 13");
    if (!r.has_token[PROTOCOL])
        return refused(400, "Sec-WebSocket-Protocol: the one that is spoken here is not among them");
    if (r.n[KEY] != 1 || !is_key(r.value[KEY]))
        return refused(400, "Sec-WebSocket-Key: must be 16 bytes in base64, once");
    if (!accept_key(r.value[KEY], accepted.accept))
        return refused(500, "SHA-1 is not available");
    return accepted;
}

/* ---- the answer ------------------------------------------------------------------- */

static const char *reason(unsigned status)
{
    switch (status) {
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 426:
        return "Upgrade Required";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

/* Further fields of a status, which RFC 9110 requires. */
static const char *also(unsigned status)
{
    switch (status) {
    case 405:
        return "Allow: GET\r\n";
    case 426:
        return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    default:
        return "";
    }
}

size_t websocket_answer(const websocket_site *site, const websocket_verdict *verdict,
                        char out[WEBSOCKET_ANSWER_BYTES_MAX])
{
    int len;

    if (verdict->status == 101)
        len = snprintf(out, WEBSOCKET_ANSWER_BYTES_MAX,
                       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                       verdict->accept, site->subprotocol);
    else
        len = snprintf(
            out, WEBSOCKET_ANSWER_BYTES_MAX,
            "HTTP/1.1 %u %s\r\nConnection: %s\r\n%sContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s\n",
            verdict->status, reason(verdict->status), verdict->status == 426 ? "Upgrade, close" : "close",
            also(verdict->status), strlen(verdict->why) + 1, verdict->why);
    return (size_t)len;
}

/* Invariant: a field that may be given once is refused when it is given more than once, so that no two readers of a
 * request can disagree. Called by websocket.c. */
#include "net/sp/websocket_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "net/http/http1.h"

enum { KEY_BYTES = 24, KEY_DIGITS = 22, SHA1_BYTES = 20 };

/* ---- checks ----------------------------------------------------------------------- */

static bool is_path(const char *target, const char *path)
{
    size_t len = strcspn(target, "?");

    return len == strlen(path) && memcmp(target, path, len) == 0;
}

/* Whether any field with that name has the token in its list. */
static bool has_token(const http_fields *fields, const char *name, const char *token)
{
    const http_field *field;

    TAILQ_FOREACH(field, fields, next)
        if (strcmp(field->name, name) == 0 &&
            http_list_has((lks_rpc_slice){.data = field->value, .len = field->value_len}, token))
            return true;
    return false;
}

/* 16 bytes in base64. */
static bool is_key(lks_rpc_slice key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    if (key.len != KEY_BYTES || memcmp(key.data + KEY_DIGITS, "==", KEY_BYTES - KEY_DIGITS) != 0)
        return false;
    for (size_t i = 0; i < KEY_DIGITS; i++)
        if (!memchr(digits, key.data[i], sizeof digits - 1))
            return false;
    return true;
}

static bool accept_key(lks_rpc_slice key, char accept[WEBSOCKET_ACCEPT_BYTES + 1])
{
    static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char both[KEY_BYTES + sizeof suffix - 1], digest[SHA1_BYTES];

    memcpy(both, key.data, KEY_BYTES);
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

static websocket_verdict check_request(const websocket_site *site, const http1_head *head, const http_fields *fields)
{
    websocket_verdict accepted = {.status = 101};
    lks_rpc_slice key = http_fields_value(fields, "sec-websocket-key");
    size_t origins = http_fields_count(fields, "origin");

    if (head->is_10)
        return refused(505, "HTTP: must be 1.1");
    if (http_fields_count(fields, "content-length") + http_fields_count(fields, "transfer-encoding") > 0)
        return refused(400, "the request must have no body");
    if (origins > 1)
        return refused(400, "Origin: given more than once");
    if (origins == 1 && !http_find_origin(site->origins, site->n_origins, http_fields_value(fields, "origin").data))
        return refused(403, "Origin: not allowed by --allow-origin");
    if (!is_path(head->target, site->path))
        return refused(404, "nothing is served at this path");
    if (!has_token(fields, "upgrade", "websocket") || !has_token(fields, "connection", "upgrade"))
        return refused(426, "Upgrade: must be websocket");
    if (http_fields_count(fields, "sec-websocket-version") != 1 ||
        strcmp(http_fields_value(fields, "sec-websocket-version").data, "13") != 0)
        return refused(426, "Sec-WebSocket-Version: must be 13");
    if (!has_token(fields, "sec-websocket-protocol", site->subprotocol))
        return refused(400, "Sec-WebSocket-Protocol: must include the protocol of this address");
    if (http_fields_count(fields, "sec-websocket-key") != 1 || !is_key(key))
        return refused(400, "Sec-WebSocket-Key: must be given once, as 16 bytes in base64");
    if (!accept_key(key, accepted.accept))
        return refused(500, "SHA-1 is not available");
    return accepted;
}

websocket_verdict websocket_request_check(const websocket_site *site, const char *bytes, size_t len)
{
    http_fields fields = TAILQ_HEAD_INITIALIZER(fields);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    http1_verdict read = {.status = 503, .why = "out of memory"};
    websocket_verdict verdict;
    http1_head head = {0};

    if (arena)
        read = http1_read_head(bytes, len, arena, &head, &fields);
    if (read.status == 0)
        verdict = check_request(site, &head, &fields);
    else if (head.target && !head.has_version)
        verdict = refused(505, "HTTP: must be 1.1");
    else
        verdict = refused(read.status == 503 ? 503 : 400, read.why);
    lks_rpc_arena_free(arena);
    return verdict;
}

/* ---- the answer ------------------------------------------------------------------- */

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
            verdict->status, http1_reason(verdict->status), verdict->status == 426 ? "Upgrade, close" : "close",
            also(verdict->status), strlen(verdict->why) + 1, verdict->why);
    return (size_t)len;
}

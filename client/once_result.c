/* The result of an attempt: the setters for its function, and copies for callers. Invariant: a setter copies its
 * argument whole or not at all. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <lockstock/rpc/utf8.h>

#include "client/call/channel.h"
#include "client/once_attempt.h"

enum { HEADER_KEY_MAX = 128, HEADER_VALUE_MAX = 4096 };

static const char reserved[] = "lockstock-";
static char failure_key[] = "lockstock-failure"; /* the header by which a server marks the result of a Fail FINAL */

/* Frees the texts of a header, which belong to the attempt. */
static void header_free(lks_result_header *header)
{
    free((char *)header->key);
    free((char *)header->value);
}

void once_forget_result(lks_once_attempt *attempt)
{
    for (size_t i = 0; i < attempt->result.n_headers; i++)
        header_free(&attempt->headers[i]);
    free(attempt->result.body.data);
    free(attempt->detail);
}

lks_complete_request once_complete_request(const lks_once_attempt *attempt)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.code = attempt->result.code;
    request.body = attempt->result.body;
    request.n_headers = attempt->result.n_headers;
    request.headers = attempt->result.headers;
    return request;
}

/* Whether the result can be sent. A result that cannot be stored must be refused before the function returns; otherwise
 * the function would be run again. */
static bool can_be_sent(const lks_once_attempt *attempt)
{
    const lks_complete_request request = once_complete_request(attempt);

    return channel_has_room(attempt->grant.lease.channel, &request.base);
}

static bool is_text(const char *text, size_t len_max)
{
    size_t len = strlen(text);

    return len <= len_max && lks_rpc_utf8_valid(text, len);
}

lks_code lks_once_return(lks_once_attempt *attempt, int32_t code, const void *body, size_t len)
{
    ProtobufCBinaryData before = attempt->result.body;
    uint8_t *copy = NULL;

    if (len > LKS_ONCE_BODY_MAX)
        return LKS_INVALID_ARGUMENT;
    if (len != 0 && !(copy = malloc(len)))
        return LKS_RESOURCE_EXHAUSTED;
    if (len != 0)
        memcpy(copy, body, len);
    attempt->result.body = (ProtobufCBinaryData){.len = len, .data = copy};
    if (!can_be_sent(attempt)) {
        attempt->result.body = before;
        free(copy);
        return LKS_INVALID_ARGUMENT;
    }
    attempt->result.code = code;
    free(before.data);
    return LKS_OK;
}

lks_code lks_once_add_header(lks_once_attempt *attempt, const char *key, const char *value)
{
    size_t at = attempt->result.n_headers;

    if (at == LKS_ONCE_HEADERS_MAX || *key == '\0' || !is_text(key, HEADER_KEY_MAX) ||
        !is_text(value, HEADER_VALUE_MAX) || strncasecmp(key, reserved, sizeof reserved - 1) == 0)
        return LKS_INVALID_ARGUMENT;
    lks_result_header header = LKS_RESULT_HEADER_INIT;
    header.key = strdup(key);
    header.value = strdup(value);
    if (!header.key || !header.value) {
        header_free(&header);
        return LKS_RESOURCE_EXHAUSTED;
    }
    attempt->headers[at] = header;
    attempt->header_list[at] = &attempt->headers[at];
    attempt->result.n_headers++;
    if (can_be_sent(attempt))
        return LKS_OK;
    attempt->result.n_headers--;
    header_free(&header);
    return LKS_INVALID_ARGUMENT;
}

lks_code lks_once_set_detail(lks_once_attempt *attempt, const char *detail)
{
    size_t len = strlen(detail);

    if (!lks_rpc_utf8_valid(detail, len))
        return LKS_INVALID_ARGUMENT;
    if (len > LKS_ONCE_DETAIL_MAX) {
        len = LKS_ONCE_DETAIL_MAX;
        while (len > 0 && ((unsigned char)detail[len] & 0xC0) == 0x80)
            len--;
    }
    char *copy = strndup(detail, len);
    if (!copy)
        return LKS_RESOURCE_EXHAUSTED;
    free(attempt->detail);
    attempt->detail = copy;
    return LKS_OK;
}

/* ---- results ---------------------------------------------------------------------- */

static char *put_text(char **at, const char *text)
{
    char *put = *at;

    *at = stpcpy(put, text) + 1;
    return put;
}

/* One allocation: the result, its headers, the body and a NUL, the headers' texts. */
lks_once_result *once_result_new(const lks_stored_result *stored, bool replayed)
{
    if (!stored)
        return NULL;
    bool failed = stored->n_headers == 1 && strcmp(stored->headers[0]->key, failure_key) == 0;
    size_t n = stored->n_headers;
    size_t bytes = sizeof(lks_once_result) + n * sizeof(lks_once_header) + stored->body.len + 1;

    for (size_t i = 0; i < n; i++)
        bytes += strlen(stored->headers[i]->key) + strlen(stored->headers[i]->value) + 2;
    lks_once_result *result = malloc(bytes);
    if (!result)
        return NULL;
    lks_once_header *headers = (lks_once_header *)(void *)(result + 1);
    char *body = (char *)(headers + n), *at = body + stored->body.len + 1;
    if (stored->body.len != 0)
        memcpy(body, stored->body.data, stored->body.len);
    body[stored->body.len] = '\0';
    for (size_t i = 0; i < n; i++) {
        headers[i].key = put_text(&at, stored->headers[i]->key);
        headers[i].value = put_text(&at, stored->headers[i]->value);
    }
    *result = (lks_once_result){
        .code = stored->code,
        .body = body,
        .body_len = stored->body.len,
        .n_headers = failed ? 0 : n,
        .headers = headers,
        .failure = failed ? headers[0].value : NULL,
        .replayed = replayed,
    };
    return result;
}

lks_once_result *once_failure_new(char *detail)
{
    static char none[] = "";
    lks_stored_result stored = LKS_STORED_RESULT_INIT;
    lks_result_header header = LKS_RESULT_HEADER_INIT, *headers[] = {&header};

    header.key = failure_key;
    header.value = detail ? detail : none;
    stored.code = -1;
    stored.n_headers = 1;
    stored.headers = headers;
    return once_result_new(&stored, false);
}

void lks_once_result_free(lks_once_result *result)
{
    free(result);
}

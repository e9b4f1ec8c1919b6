/* Invariant: a reply that no function of the library returns is INTERNAL, MAYBE. Used by the pipeline and the tests of
 * the services. */
#include "store/fcall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "store/value.h"

enum { NAME_BYTES = 128, NUMBER_BYTES = 20, HEAD_WORDS = 3, ERR_FIELDS = 6 };

bool fcall_same_base(const store_call *a, const store_call *b)
{
    return a->base.len == b->base.len && memcmp(a->base.data, b->base.data, a->base.len) == 0;
}

/* Returns the number of bases in the FCALL: one for all calls, or one for each call. None for a call of a whole part,
 * and for several bases in a cluster, where all keys of a command must be in one slot. */
static size_t bases_of(const store_call *const calls[], size_t n, bool cluster)
{
    if (calls[0]->whole_shard)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (!fcall_same_base(calls[i], calls[0]))
            return cluster ? 0 : n;
    return 1;
}

/* Returns the size of a word with "$<len>\r\n" before and "\r\n" after it. */
static size_t word_bytes(size_t len)
{
    return 1 + NUMBER_BYTES + 2 + len + 2;
}

static char *put_number(char *at, uint64_t number)
{
    char digits[NUMBER_BYTES];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static char *put_head(char *at, char kind, uint64_t number)
{
    *at++ = kind;
    at = put_number(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static char *put_word(char *at, const char *word, size_t len)
{
    at = put_head(at, '$', len);
    if (len > 0)
        memcpy(at, word, len);
    at += len;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static char *put_count(char *at, uint64_t number)
{
    char digits[NUMBER_BYTES];

    return put_word(at, digits, (size_t)(put_number(digits, number) - digits));
}

/* Returns the number of words; *bytes: an upper bound of their size. */
static size_t words_of(const store_call *const calls[], size_t n, size_t n_bases, size_t *bytes)
{
    size_t words = HEAD_WORDS + n_bases;

    *bytes = word_bytes(0) + HEAD_WORDS * word_bytes(NAME_BYTES);
    for (size_t i = 0; i < n_bases; i++)
        *bytes += word_bytes(calls[i]->base.len);
    for (size_t i = 0; i < n; i++) {
        words += (n_bases ? 1U : 2U) + calls[i]->n_args;
        *bytes += n_bases ? 0 : word_bytes(calls[i]->base.len);
        *bytes += word_bytes(NUMBER_BYTES);
        for (size_t k = 0; k < calls[i]->n_args; k++)
            *bytes += word_bytes(calls[i]->args[k].len);
    }
    return words;
}

fcall *fcall_new(const store_call *const calls[], size_t n, const char *digest, bool cluster)
{
    size_t n_bases = bases_of(calls, n, cluster), bytes;
    size_t words = words_of(calls, n, n_bases, &bytes);
    char name[NAME_BYTES];
    size_t name_len = (size_t)snprintf(name, sizeof name, "%s_%s", calls[0]->function, digest);
    fcall *f = memory_alloc(sizeof *f + bytes);

    char *at = put_head(f->bytes, '*', words);
    at = put_word(at, "FCALL", 5);
    at = put_word(at, name, name_len);
    at = put_count(at, n_bases);
    for (size_t i = 0; i < n_bases; i++)
        at = put_word(at, calls[i]->base.data, calls[i]->base.len);
    for (size_t i = 0; i < n; i++) {
        at = put_count(at, calls[i]->n_args + (n_bases ? 0U : 1U));
        if (n_bases == 0)
            at = put_word(at, calls[i]->base.data, calls[i]->base.len);
        for (size_t k = 0; k < calls[i]->n_args; k++)
            at = put_word(at, calls[i]->args[k].data, calls[i]->args[k].len);
    }
    f->len = (size_t)(at - f->bytes);
    return f;
}

bool fcall_is_elsewhere(const store_value *reply)
{
    return reply->type == STORE_ARRAY && reply->n == 1 && value_is(&reply->element[0], "ELSEWHERE");
}

store_result fcall_result(const store_value *reply, const char *function)
{
    const store_value *e = reply->element;

    if (reply->type == STORE_ERROR) {
        log_error("store-function-failed", "function=%s detail=\"%.*s\"", function, (int)reply->string.len,
                  reply->string.data);
        return (store_result){.code = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE, .message = "the store failed"};
    }
    if (reply->type != STORE_ARRAY || reply->n == 0 || !value_is(&e[0], "ERR"))
        return (store_result){.code = LKS_OK, .applied = LKS_APPLIED_YES, .message = "", .value = reply};
    if (reply->n != ERR_FIELDS || e[1].type != STORE_INTEGER || e[1].integer < LKS_CANCELLED ||
        e[1].integer > LKS_UNAUTHENTICATED || e[3].type != STORE_STRING || e[4].type != STORE_STRING ||
        e[5].type != STORE_STRING) {
        log_error("store-protocol", "function=%s reason=\"a malformed ERR\"", function);
        return (store_result){.code = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE, .message = "the store failed"};
    }
    if (e[4].string.len > 0)
        log_error("store-function-failed", "function=%s detail=\"%.*s\"", function, (int)e[4].string.len,
                  e[4].string.data);
    return (store_result){.code = (lks_code)e[1].integer,
                          .applied = value_is(&e[2], "NO") ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE,
                          .reason = lks_reason_of(e[5].string.data),
                          .message = e[3].string.data}; /* hiredis puts a NUL after each string */
}

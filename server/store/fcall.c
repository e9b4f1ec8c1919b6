/* Invariant: a reply that no function of ours gives is INTERNAL, MAYBE, and never an answer. Used by the
 * pipeline and by the tests of the services. */
#include "store/fcall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "store/value.h"

enum { NAME_BYTES = 128, NUMBER_BYTES = 24, HEAD_WORDS = 3, ERR_FIELDS = 5 };

bool fcall_same_base(const store_call *a, const store_call *b)
{
    return a->base.len == b->base.len && memcmp(a->base.data, b->base.data, a->base.len) == 0;
}

/* One for all, or one for each call. */
static size_t bases_of(const store_call *const calls[], size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (!fcall_same_base(calls[i], calls[0]))
            return n;
    return 1;
}

static size_t words_of(const store_call *const calls[], size_t n, size_t n_bases)
{
    size_t words = HEAD_WORDS + n_bases;

    for (size_t i = 0; i < n; i++)
        words += 1 + calls[i]->n_args;
    return words;
}

static void add(fcall *f, const char *word, size_t len)
{
    f->argv[f->argc] = len > 0 ? word : "";
    f->lengths[f->argc++] = len;
}

fcall *fcall_new(const store_call *const calls[], size_t n, const char *digest)
{
    size_t n_bases = bases_of(calls, n);
    size_t words = words_of(calls, n, n_bases);
    size_t each = sizeof(char *) + sizeof(size_t);
    fcall *f = memory_alloc(sizeof *f + words * each + NAME_BYTES + (n + 1) * NUMBER_BYTES);
    char *text = (char *)(f + 1) + words * each;

    f->argv = (const char **)(void *)(f + 1);
    f->lengths = (size_t *)(void *)(f->argv + words);
    add(f, "FCALL", 5);
    add(f, text, (size_t)snprintf(text, NAME_BYTES, "%s_%s", calls[0]->function, digest));
    text += NAME_BYTES;
    add(f, text, (size_t)snprintf(text, NUMBER_BYTES, "%zu", n_bases));
    for (size_t i = 0; i < n_bases; i++)
        add(f, calls[i]->base.data, calls[i]->base.len);
    text += NUMBER_BYTES;
    for (size_t i = 0; i < n; i++, text += NUMBER_BYTES) {
        add(f, text, (size_t)snprintf(text, NUMBER_BYTES, "%zu", calls[i]->n_args));
        for (size_t k = 0; k < calls[i]->n_args; k++)
            add(f, calls[i]->args[k].data, calls[i]->args[k].len);
    }
    return f;
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
        e[1].integer > LKS_UNAUTHENTICATED || e[3].type != STORE_STRING || e[4].type != STORE_STRING) {
        log_error("store-protocol", "function=%s reason=\"a malformed ERR\"", function);
        return (store_result){.code = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE, .message = "the store failed"};
    }
    if (e[4].string.len > 0)
        log_error("store-function-failed", "function=%s detail=\"%.*s\"", function, (int)e[4].string.len,
                  e[4].string.data);
    return (store_result){.code = (lks_code)e[1].integer,
                          .applied = value_is(&e[2], "NO") ? LKS_APPLIED_NO : LKS_APPLIED_MAYBE,
                          .message = e[3].string.data}; /* hiredis puts a NUL after each string */
}

/* Combining and the sub-call protocol of server/functions/common.lua:
 *
 *   FCALL <function>_<digest> 1 <base> { argc arg... }...
 *   reply: one element a sub-call, {OUTCOME, ...} or {'ERR', code, applied, message, detail}
 *
 * Invariant: only calls that both allow it, of one function and one base, share
 * a batch; so a batch is placed and refused as each of them alone would be. Its calls
 * weigh STORE_WEIGHT_MAX at most together. Calls of one function and one base go out in
 * the order in which they came. */
#include "store/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store/memory.h"
#include "store/value.h"

enum { NAME_BYTES = 128, NUMBER_BYTES = 24, ERR_FIELDS = 5 };

static bool same_target(const store_call *a, const store_call *b)
{
    return a->base.len == b->base.len && memcmp(a->base.data, b->base.data, a->base.len) == 0 &&
           strcmp(a->function, b->function) == 0;
}

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
static size_t bucket_of(const store_call *call)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < call->base.len; i++)
        hash = (hash ^ (unsigned char)call->base.data[i]) * 16777619u;
    for (const char *c = call->function; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash % BATCH_BUCKETS;
}

static batch *new_batch(gathering *g, struct pipeline *pipeline)
{
    batch *b = memory_alloc(sizeof *b);

    b->pipeline = pipeline;
    if (g->last)
        g->last->next = b;
    else
        g->first = b;
    g->last = b;
    return b;
}

static bool has_room(const batch *b, const pending *p)
{
    return b->weight + p->call.weight <= STORE_WEIGHT_MAX && b->bytes + p->bytes <= BATCH_BYTES_MAX;
}

void batch_gather(gathering *g, struct pipeline *pipeline, pending *p)
{
    batch *b = NULL;

    if (p->call.weight > 0) {
        batch **bucket = &g->bucket[bucket_of(&p->call)];
        /* The newest of the target alone: in an older one it would overtake. */
        for (b = *bucket; b && !same_target(&b->calls.first->call, &p->call); b = b->same_bucket)
            ;
        if (!b || !has_room(b, p)) {
            b = new_batch(g, pipeline);
            b->same_bucket = *bucket;
            *bucket = b;
        }
    } else {
        b = new_batch(g, pipeline);
    }
    pending_push(&b->calls, p);
    b->bytes += p->bytes;
    b->weight += p->call.weight;
}

void batch_send(batch *b, connection *link, const char *digest, connection_reply *on_reply)
{
    const store_call *any = &b->calls.first->call;
    char name[NAME_BYTES], argc_text[BATCH_CALLS_MAX][NUMBER_BYTES];
    size_t argc = 4, n = 0, i = 0;

    for (const pending *p = b->calls.first; p; p = p->next)
        argc += 1 + p->call.n_args;
    const char **argv = memory_alloc(argc * sizeof *argv);
    size_t *lengths = memory_alloc(argc * sizeof *lengths);

    snprintf(name, sizeof name, "%s_%s", any->function, digest);
    const char *words[] = {"FCALL", name, "1"};
    for (; n < 3; n++) {
        argv[n] = words[n];
        lengths[n] = strlen(words[n]);
    }
    argv[n] = any->base.data;
    lengths[n++] = any->base.len;
    for (const pending *p = b->calls.first; p; p = p->next, i++) {
        argv[n] = argc_text[i];
        lengths[n++] = (size_t)snprintf(argc_text[i], NUMBER_BYTES, "%zu", p->call.n_args);
        for (size_t k = 0; k < p->call.n_args; k++, n++) {
            argv[n] = p->call.args[k].len > 0 ? p->call.args[k].data : "";
            lengths[n] = p->call.args[k].len;
        }
    }
    connection_command(link, on_reply, b, argc, argv, lengths);
    free(argv);
    free(lengths);
}

store_result batch_result(const store_value *reply, const char *function)
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

/* Invariant: the reply covers all writes that this Redis had done when it ran the command, of all connections, because
 * an answer may depend on another connection's write. WAIT covers only the last command (Redis 7.0) or the last write
 * (7.2) of its own connection, and answers at once on a connection that has written nothing. So a write precedes it:
 * PUBLISH, which replicas receive; in a cluster, where they do not, EXPIRE of a key of the node, which needs no memory.
 * Redis refuses that if another node has the key's slot, and then nothing is confirmed. Used by pipeline.c. */
#include "store/confirm.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* The channel has no subscribers; the Redis user of lockstockd may publish on it. */
static const char published[] = "*3\r\n$7\r\nPUBLISH\r\n$15\r\nls:wake:confirm\r\n$0\r\n\r\n";

/* The key expires after the node has lost its slot. */
#define KEY_SECONDS "86400"

enum { NUMBER_BYTES = 16, KEY_BYTES = 64 };

/* The state of a confirm command in a cluster. */
typedef struct written {
    bool done; /* EXPIRE was a write */
    connection_reply *on_reply;
    void *arg;
} written;

confirm *confirm_new(struct pipeline *pipeline)
{
    confirm *c = memory_alloc(sizeof *c);

    *c = (confirm){.pipeline = pipeline, .arena = memory_arena()};
    STAILQ_INIT(&c->messages);
    return c;
}

void confirm_free(confirm *c)
{
    lks_rpc_arena_free(c->arena);
    free(c);
}

void message_add(message_list *list, const char *data, size_t len)
{
    message *m = memory_alloc(sizeof *m + len);

    m->len = len;
    memcpy(m->data, data, len);
    STAILQ_INSERT_TAIL(list, m, next);
}

void confirm_hold(confirm *c, pending *call, const store_result *result)
{
    call->held = *result;
    call->held.message = memory_text_in(c->arena, result->message);
    if (result->value)
        call->held.value = store_value_copy(c->arena, result->value);
    pending_push(&c->calls, call);
}

static void ignore(void *arg, const redisReply *reply)
{
    (void)arg;
    (void)reply;
}

static void on_written(void *arg, const redisReply *reply)
{
    ((written *)arg)->done = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
}

/* WAIT counts only after a write. */
static void on_waited(void *arg, const redisReply *reply)
{
    static const redisReply no_replica = {.type = REDIS_REPLY_INTEGER, .integer = 0};
    written w = *(written *)arg;

    free(arg);
    w.on_reply(w.arg, reply && reply->type == REDIS_REPLY_INTEGER && !w.done ? &no_replica : reply);
}

/* SET creates a missing key, unless memory is full. */
static void write_key(connection *link, const char *base, written *w)
{
    char key[KEY_BYTES];
    const char *make[] = {"SET", key, "", "NX", "EX", KEY_SECONDS}, *expire[] = {"EXPIRE", key, KEY_SECONDS};

    snprintf(key, sizeof key, "%swait", base);
    connection_append(link, ignore, NULL, sizeof make / sizeof *make, make);
    connection_append(link, on_written, w, sizeof expire / sizeof *expire, expire);
}

void confirm_ask(connection *link, unsigned replicas, uint32_t wait_ms, const char *base, connection_reply *on_reply,
                 void *arg)
{
    char n[NUMBER_BYTES], ms[NUMBER_BYTES];
    const char *wait[] = {"WAIT", n, ms};

    snprintf(n, sizeof n, "%u", replicas);
    snprintf(ms, sizeof ms, "%u", (unsigned)wait_ms);
    if (base) {
        written *w = memory_alloc(sizeof *w);
        *w = (written){.on_reply = on_reply, .arg = arg};
        write_key(link, base, w);
        on_reply = on_waited;
        arg = w;
    } else {
        connection_command(link, ignore, NULL, published, strlen(published));
    }
    connection_append(link, on_reply, arg, sizeof wait / sizeof *wait, wait);
    connection_flush(link);
}

bool confirm_enough(const redisReply *reply, unsigned replicas)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= (long long)replicas;
}

/* Invariant: what is confirmed is all that this Redis had done when it ran the question, whoever asked for it: an
 * answer may tell of another connection's write. WAIT alone would speak of its own connection's last command (7.0) or
 * write (7.2); the PUBLISH before it, which replicas are sent, is that. In a cluster they are not sent one, and PING
 * does for 7.0. Used by pipeline.c. */
#include "store/confirm.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Nobody hears the channel; its name is one that a user of Redis for lockstockd may publish on. */
static const char published[] = "*3\r\n$7\r\nPUBLISH\r\n$15\r\nls:wake:confirm\r\n$0\r\n\r\n";
static const char pinged[] = "*1\r\n$4\r\nPING\r\n";

enum { QUESTION_BYTES = 96, NUMBER_BYTES = 16 };

confirm *confirm_new(struct pipeline *pipeline)
{
    confirm *c = memory_alloc(sizeof *c);

    *c = (confirm){.pipeline = pipeline, .arena = memory_arena()};
    return c;
}

void confirm_free(confirm *c)
{
    lks_rpc_arena_free(c->arena);
    free(c);
}

void confirm_hold(confirm *c, pending *call, const store_result *result)
{
    call->held = *result;
    call->held.message = memory_copy_in(c->arena, result->message, strlen(result->message));
    if (result->value)
        call->held.value = store_value_copy(c->arena, result->value);
    pending_push(&c->calls, call);
}

/* Of either. */
static void on_published(void *arg, const redisReply *reply, bool sent)
{
    (void)arg;
    (void)reply;
    (void)sent;
}

void confirm_ask(connection *link, unsigned replicas, uint32_t wait_ms, bool cluster, connection_reply *on_reply,
                 void *arg)
{
    char n[NUMBER_BYTES], ms[NUMBER_BYTES], question[QUESTION_BYTES];
    const char *before = cluster ? pinged : published;

    int n_len = snprintf(n, sizeof n, "%u", replicas), ms_len = snprintf(ms, sizeof ms, "%u", (unsigned)wait_ms);
    int len =
        snprintf(question, sizeof question, "*3\r\n$4\r\nWAIT\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", n_len, n, ms_len, ms);
    connection_command(link, on_published, NULL, before, strlen(before));
    connection_command(link, on_reply, arg, question, (size_t)len);
    connection_flush(link);
}

bool confirm_enough(const redisReply *reply, unsigned replicas)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= (long long)replicas;
}

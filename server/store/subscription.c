/* Invariant: after SUBSCRIBE was confirmed only PING is sent, so every reply is a message, {"pong", ""}, or an error
 * instead of a pong. Used by shard.c and sentinels.c.
 *
 *   connection up --> greeting --passed--> SUBSCRIBE --confirmed--> listening
 *        ^----------------------- lost, refused -------------------------/
 */
#include "store/subscription.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "net/close_barrier.h"
#include "store/errors.h"
#include "store/greeting.h"

struct subscription {
    subscription_options options;
    connection *connection;
    greeting greeting;
    bool listening;
    kept_fault fault; /* the cause of the last loss */
    close_barrier barrier;
};

/* Whether `reply` is {kind, ...} with this number of elements. */
static bool is_of_kind(const redisReply *reply, const char *kind, size_t elements)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == elements &&
           reply->element[0]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, kind) == 0;
}

static void on_subscribed(void *arg, const redisReply *reply)
{
    subscription *s = arg;

    if (!reply)
        return;
    if (!is_of_kind(reply, "subscribe", 3)) {
        connection_drop(s->connection, errors_of_reply(reply, "the store's answer to SUBSCRIBE is not understood"));
        return;
    }
    connection_ready(s->connection);
    s->listening = true;
    s->options.on_listening(s->options.arg);
}

/* Redis refuses PING while it cannot write to its disk or is busy, or if the user may not run it. Such an error is an
 * answer. */
static bool refuses_ping(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    const errors_row *row = errors_find(reply->str, reply->len);
    return row->code == LKS_UNAVAILABLE || row->action == ERRORS_FORBIDDEN;
}

static void on_push(void *arg, const redisReply *reply)
{
    subscription *s = arg;

    if (is_of_kind(reply, "message", 3) && reply->element[2]->type == REDIS_REPLY_STRING)
        s->options.on_message(s->options.arg, reply->element[2]->str, reply->element[2]->len);
    else if (!is_of_kind(reply, "pong", 2) && !is_of_kind(reply, "subscribe", 3) && !refuses_ping(reply))
        connection_drop(s->connection, STORE_FAULT(INTERNAL, "the store sent a reply that is not a message"));
}

static void on_greeted(void *arg)
{
    subscription *s = arg;
    const char *words[] = {"SUBSCRIBE", s->options.channel, s->options.second};

    if (s->greeting.cluster && !s->options.id)
        connection_drop(s->connection, STORE_FAULT(STORE_MISFIT, GREETING_OF_CLUSTER));
    else
        connection_words(s->connection, on_subscribed, s, s->options.second ? 3 : 2, words);
}

static void on_down(void *arg, store_fault fault)
{
    subscription *s = arg;
    bool was_heard = s->listening;

    s->listening = false;
    fault_keep(&s->fault, fault);
    if (s->options.on_lost)
        s->options.on_lost(s->options.arg, was_heard, fault);
}

bool subscription_is_listening(const subscription *s)
{
    return s->listening;
}

store_fault subscription_fault(const subscription *s)
{
    return fault_of(&s->fault);
}

subscription *subscription_open(const subscription_options *options, const connection_options *to)
{
    subscription *s = memory_alloc(sizeof *s);
    connection_options full = *to;

    *s = (subscription){
        .options = *options,
        .greeting =
            {.as = options->as, .sentinel = options->sentinel, .id = options->id, .on_passed = on_greeted, .arg = s},
    };
    full.on_up = greeting_start;
    full.greeting = &s->greeting;
    full.on_down = on_down;
    full.on_push = on_push;
    full.arg = s;
    s->connection = connection_open(&full);
    return s;
}

connection *subscription_connection(subscription *s)
{
    return s->connection;
}

void subscription_close(subscription *s, close_barrier *within)
{
    close_barrier_add(within);
    connection_close(s->connection, &s->barrier);
    close_barrier_begin(&s->barrier, s, free, close_barrier_done, within);
}

/* A shop without lockstock: it reads the stock, lets the buyer pay and writes one less, under a lock on Redis that
 * expires. Nothing here is delayed to make it fail. At both shops a few buyers pay for longer than the lease. */
#include "client.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { CONNECT_MS = 200, COMMAND_S = 5, RETRY_MS = 1 };

static const char *redis_socket;
static _Thread_local redisContext *redis;
static _Thread_local bool broken; /* a command failed: whether Redis ran it is not known */

void naive_open(const char *socket)
{
    redis_socket = socket;
}

static bool connect_redis(void)
{
    if (redis && !broken)
        return true;
    naive_leave();
    redis = redisConnectUnixWithTimeout(redis_socket, (struct timeval){.tv_usec = CONNECT_MS * 1000});
    broken = !redis || redis->err != 0;
    if (!broken)
        redisSetTimeout(redis, (struct timeval){.tv_sec = COMMAND_S});
    return !broken;
}

/* Returns an integer, or a text as a number; 0 for nil. */
static long long ask(const char *format, ...)
{
    long long value = 0;
    va_list args;

    va_start(args, format);
    redisReply *reply = broken ? NULL : redisvCommand(redis, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        broken = true;
    else
        value = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : reply->integer;
    freeReplyObject(reply);
    return value;
}

/* Two commands instead of one: a client that dies between them holds the lock for ever. */
static bool lock(void)
{
    if (ask("SETNX naive:lock %d", (int)getpid()) != 1)
        return false;
    ask("PEXPIRE naive:lock %d", NAIVE_LEASE_MS);
    return true;
}

/* Returns NULL if there is no answer: the lock is taken, or the connection broke. */
static const char *try_once(const buyer *b)
{
    if (!connect_redis() || !lock())
        return NULL;
    long long left = ask("GET naive:shelf");
    if (!broken && left > 0) {
        say("hold");
        pay(b);
        say("done");
        ask("SET naive:shelf %lld", left - 1);
        if (broken)
            say("lost %zu", b->index); /* it starts again: it cannot know whether it has bought */
        else
            say("left %lld", left - 1);
    }
    if (broken)
        return NULL;
    ask("DEL naive:lock"); /* without checking the holder */
    return left > 0 ? "bought" : "sold-out";
}

void naive_serve(const buyer *b)
{
    const char *answer;

    while (!(answer = try_once(b)))
        sale_rest(RETRY_MS);
    say("told %zu %s 0", b->index, answer);
}

void naive_leave(void)
{
    if (redis)
        redisFree(redis);
    redis = NULL;
}

/* A shop without lockstock: it reads the stock, lets the buyer pay and writes one less, under a lock on Redis that
 * expires, or without a lock. Nothing here is delayed to make it fail. At both shops a few buyers pay for longer than
 * the lease. */
#include "client.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONNECT_MS = 200, COMMAND_S = 5, RETRY_MS = 1 };

static const char *form, *redis_socket;
static char name[32];
static _Thread_local redisContext *redis;
static _Thread_local bool broken; /* a command failed: whether Redis ran it is not known */

bool naive_open(client *c, const char *which, const char *socket)
{
    form = which;
    redis_socket = socket;
    snprintf(name, sizeof name, "client-%u", c->number);
    return true;
}

static bool connect_redis(void)
{
    if (redis && !broken)
        return true;
    if (redis)
        redisFree(redis);
    redis = redisConnectUnixWithTimeout(redis_socket, (struct timeval){.tv_usec = CONNECT_MS * 1000});
    broken = !redis || redis->err != 0;
    if (!broken)
        redisSetTimeout(redis, (struct timeval){.tv_sec = COMMAND_S});
    return !broken;
}

/* Returns an integer, or a text as a number; 1 for OK; 0 for nil. */
static long long ask(const char *format, ...)
{
    long long value = 0;
    va_list args;

    va_start(args, format);
    redisReply *reply = broken ? NULL : redisvCommand(redis, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        broken = true;
    else if (reply->type == REDIS_REPLY_STRING)
        value = strtoll(reply->str, NULL, 10);
    else
        value = reply->type == REDIS_REPLY_STATUS ? 1 : reply->integer;
    freeReplyObject(reply);
    return value;
}

static long long wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Two commands instead of one: a client that dies between them holds the lock for ever. */
static bool lock_by_setnx(void)
{
    if (ask("SETNX naive:lock %s", name) != 1)
        return false;
    ask("PEXPIRE naive:lock %d", NAIVE_LEASE_MS);
    return true;
}

/* The value is the end of the lease. GETSET writes before it looks: a late client replaces the holder's end. */
static bool lock_by_getset(void)
{
    long long end = wall_ms() + NAIVE_LEASE_MS;

    if (ask("SETNX naive:lock %lld", end) == 1)
        return true;
    return !broken && ask("GET naive:lock") <= wall_ms() && ask("GETSET naive:lock %lld", end) <= wall_ms();
}

/* Returns "" for no answer: the lock is taken, or the connection broke. */
static const char *try_once(const buyer *b)
{
    bool locks = strcmp(form, "decr") != 0;

    if (!connect_redis() || (locks && !(strcmp(form, "setnx") == 0 ? lock_by_setnx : lock_by_getset)()))
        return "";
    long long left = ask("GET naive:shelf");
    if (broken)
        return "";
    bool there = left > 0;
    if (there) {
        if (locks)
            say("hold");
        pay(b);
        if (locks)
            say("done");
        left = locks ? left - 1 : ask("DECR naive:shelf");
        if (locks)
            ask("SET naive:shelf %lld", left);
        if (broken) {
            say("lost %zu", b->index); /* it starts again: it cannot know whether it has bought */
            return "";
        }
        say("left %lld", left);
    }
    if (locks)
        ask("DEL naive:lock"); /* without checking the holder */
    return there ? "bought" : "sold-out";
}

void naive_serve(client *c, const buyer *b)
{
    const char *answer = "";

    say("asks %zu", b->index);
    while (*answer == '\0' && !atomic_load(&c->gives_up)) {
        answer = try_once(b);
        if (*answer == '\0')
            sale_rest(RETRY_MS);
    }
    say_told(b, *answer == '\0' ? "none" : answer, false);
}

void naive_leave(void)
{
    if (redis)
        redisFree(redis);
    redis = NULL;
}

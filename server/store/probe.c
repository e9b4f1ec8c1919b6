/* Invariant: one question is out at most. Called by health.c.
 *
 * SETRANGE of nothing into a key that does not exist makes no key and is in no append-only file; but Redis checks before it
 * runs it what it checks before each write: memory, the disk, replicas, the cluster. */
#include "store/probe.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/errors.h"

enum { KEY_BYTES = 64, NS_PER_US = 1000, US_PER_MS = 1000, US_PER_S = 1000000 };

static const long long seconds_max = 1LL << 40;

/* {"seconds", "microseconds"} -> milliseconds since 1970; 0: it is something else. */
static int64_t read_time(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return 0;
    long long s = strtoll(reply->element[0]->str, NULL, 10), us = strtoll(reply->element[1]->str, NULL, 10);
    return s < 0 || s > seconds_max || us < 0 || us >= US_PER_S ? 0 : s * 1000 + us / US_PER_MS;
}

static void on_clock(void *arg, const redisReply *reply, bool sent)
{
    probe *p = arg;

    (void)sent;
    p->clock_ns = clock_now_ns();
    p->clock_ms = reply ? read_time(reply) : 0;
}

/* Of errors that say nothing about writes in general (a slot that moves, a permission) nothing is known. */
static void judge(probe *p, const redisReply *reply)
{
    const errors_row *row = reply->type == REDIS_REPLY_ERROR ? errors_find(reply->str, reply->len) : NULL;
    bool refuses = row && (row->action == ERRORS_FAIL || row->action == ERRORS_DOWN) &&
                   (row->code == LKS_UNAVAILABLE || row->code == LKS_RESOURCE_EXHAUSTED);

    p->refusal = refuses ? row : NULL;
    p->refuses_all = refuses && row->code == LKS_UNAVAILABLE;
}

static void on_write(void *arg, const redisReply *reply, bool sent)
{
    probe *p = arg;

    (void)sent;
    p->asks = false;
    if (!reply)
        return;
    judge(p, reply);
    p->round_trip_us = (int64_t)((clock_now_ns() - p->asked_ns) / NS_PER_US) + 1;
    p->answered = true;
    p->silent = false;
    p->on_change(p->arg);
}

static void ask(probe *p, connection *c, const char *base)
{
    char key[KEY_BYTES];
    const char *clock[] = {"TIME"}, *write[] = {"SETRANGE", key, "0", ""};

    snprintf(key, sizeof key, "%sprobe", base);
    p->asks = p->skips = true;
    p->asked_ns = clock_now_ns();
    connection_words(c, on_clock, p, sizeof clock / sizeof *clock, clock);
    connection_words(c, on_write, p, sizeof write / sizeof *write, write);
}

void probe_start(probe *p, connection *c, const char *base)
{
    p->answered = p->silent = p->refuses_all = false;
    p->refusal = NULL;
    p->round_trip_us = p->clock_ms = 0;
    p->looks = 0;
    p->replies = connection_replies(c);
    ask(p, c, base);
}

/* Counts looks, not time: after this process itself was stopped there is one look, and then the replies that were
 * waiting. Any reply counts: a WAIT before the question may hold it up. */
void probe_look(probe *p, connection *c, const char *base)
{
    uint64_t replies = connection_replies(c);

    p->looks = p->asks && replies == p->replies ? p->looks + 1 : 0;
    p->replies = replies;
    if (p->looks >= p->patience && !p->silent) {
        p->silent = true;
        p->on_change(p->arg);
    } else if (!p->asks && !p->skips) {
        ask(p, c, base);
    } else {
        p->skips = false;
    }
}

int64_t probe_clock_ms(const probe *p)
{
    return p->clock_ms == 0 ? 0 : p->clock_ms + (int64_t)((clock_now_ns() - p->clock_ns) / (NS_PER_US * US_PER_MS));
}

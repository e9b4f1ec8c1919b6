/* Locks as they are written on Redis without a server. Two are safe when a holder dies: a lease and a
 * compare-and-delete; neither is fair: who releases takes it again before the others hear of it, and only
 * another holder is a hand-off. The third is a bare list: fair and fast, and lost when its holder dies. None
 * has a fence. */
#include "rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLEEP_MIN_US = 3000, SLEEP_MAX_US = 33000, LIST_NAME_BYTES = 64 };

/* KEYS: the lock, its list; token. One sign in the list at most: who takes it tries again. */
static const char release_and_tell[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                       "redis.call('DEL', KEYS[1], KEYS[2])\n"
                                       "redis.call('LPUSH', KEYS[2], '1')\n"
                                       "redis.call('PEXPIRE', KEYS[2], 60000)\n"
                                       "return 1\n";

typedef struct names {
    char lock[64], list[64], token[DRIVE_ID_BYTES], sha[48];
} names;

static bool prepare(hand *h, names *n, const char *release)
{
    const world *w = hand_rival(h)->work.world;
    redisReply *reply = redisCommand(h->redis, "SCRIPT LOAD %s", release);

    snprintf(n->lock, sizeof n->lock, "{bench}h:%s", w->things[0]);
    snprintf(n->list, sizeof n->list, "{bench}s:%s", w->things[0]);
    h->failed = !work_answered(reply);
    if (!h->failed)
        snprintf(n->sha, sizeof n->sha, "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return !h->failed;
}

/* Whether the command was answered by something. */
static bool got(hand *h, redisReply *reply)
{
    bool is = reply && reply->type != REDIS_REPLY_NIL;

    h->failed = !work_done(reply) || h->failed;
    return is && !h->failed;
}

static bool try_to_take(hand *h, const names *n)
{
    return got(h, redisCommand(h->redis, "SET %s %s NX PX 60000", n->lock, n->token));
}

static void new_token(hand *h, names *n)
{
    drive_make_id(n->token, hand_rival(h)->work.world->tag, drive_next_serial());
}

/* Of a lock with a lease: `wait` until it may be free, the script that releases. */
static void take_in_turns(hand *h, const char *release, void (*wait)(hand *h, const names *n, unsigned *seed))
{
    unsigned seed = h->slot + 1;
    names n;

    if (!prepare(h, &n, release))
        return;
    while (hand_goes_on(h)) {
        uint64_t began_ns = measure_now_ns();
        new_token(h, &n);
        bool held = try_to_take(h, &n);
        while (!held && !h->failed) {
            wait(h, &n, &seed);
            held = !h->failed && try_to_take(h, &n);
        }
        hand_holds(h);
        hand_record(h, began_ns);
        began_ns = measure_now_ns();
        got(h, redisCommand(h->redis, "EVALSHA %s 2 %s %s %s", n.sha, n.lock, n.list, n.token));
        hand_record(h, began_ns);
    }
}

static void wait_for_sign(hand *h, const names *n, unsigned *seed)
{
    (void)seed;
    got(h, redisCommand(h->redis, "BLPOP %s 1", n->list));
}

static void sleep_a_while(hand *h, const names *n, unsigned *seed)
{
    long us = SLEEP_MIN_US + rand_r(seed) % (SLEEP_MAX_US - SLEEP_MIN_US + 1);

    (void)h;
    (void)n;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

void rival_blpop(hand *h)
{
    take_in_turns(h, release_and_tell, wait_for_sign);
}

void rival_polling(hand *h)
{
    take_in_turns(h, work_release_script, sleep_a_while);
}

static void list_name(const world *w, char name[static LIST_NAME_BYTES])
{
    snprintf(name, LIST_NAME_BYTES, "{bench}t:%s", w->things[0]);
}

bool rival_list_prepare(const rival *r, redisContext *redis)
{
    char list[LIST_NAME_BYTES];

    list_name(r->work.world, list);
    return work_done(redisCommand(redis, "DEL %s", list)) && work_done(redisCommand(redis, "RPUSH %s 1", list));
}

void rival_list(hand *h)
{
    char list[LIST_NAME_BYTES];

    list_name(hand_rival(h)->work.world, list);
    while (hand_goes_on(h)) {
        uint64_t began_ns = measure_now_ns();
        got(h, redisCommand(h->redis, "BLPOP %s 0", list));
        hand_holds(h);
        hand_record(h, began_ns);
        began_ns = measure_now_ns();
        got(h, redisCommand(h->redis, "RPUSH %s 1", list));
        hand_record(h, began_ns);
    }
}

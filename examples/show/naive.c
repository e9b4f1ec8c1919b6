/* A shop as it is written by hand: look, pay, write one less, under a lock on Redis that ends by itself after a while
 * (examples/seckill/naive.c has the recipes), or without any lock. Nothing here is slowed down or stopped so that
 * it fails; a few buyers pay more slowly than the lease lasts, at both shops. */
#include "shops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock_way.h"
#include "patience.h"

enum { CONNECT_MS = 200, COMMAND_MS = 5000, RETRY_MS = 1, STUCK_MS = 5000, GIVE_UP_MS = 30000 };

/* The Redis is the show's own. */
#define LOCK_KEY "naive:lock"
#define SHELF_KEY "naive:shelf"

const char *const naive_names[NAIVE_FORMS] = {"setnx", "getset", "decr"};
const char *const naive_titles[NAIVE_FORMS] = {"SETNX + EXPIRE, GET, SET", "GETSET, GET, SET", "GET, then DECR"};
static const lock_way *const ways[NAIVE_FORMS] = {&naive_setnx_expire, &naive_getset, NULL};

struct naive_worker {
    crowd *crowd;
    unsigned client;
    char name[32];
    lock_worker lock; /* its connection, too */
};

typedef enum naive_try {
    TRY_BOUGHT,
    TRY_SOLD_OUT,
    TRY_BUSY,   /* another one has the lock */
    TRY_BROKEN, /* the connection is; nothing was written on the shelf */
    TRY_DOUBT,  /* it broke while that was written */
} naive_try;

naive_worker *naive_open(crowd *c, unsigned client)
{
    naive_worker *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    *w = (naive_worker){.crowd = c, .client = client};
    snprintf(w->name, sizeof w->name, "client-%u", client);
    w->lock = (lock_worker){.name = w->name, .way = ways[c->form], .key = LOCK_KEY, .lease_ms = NAIVE_LEASE_MS};
    barrier_init(&w->lock.stop, POINT_NOWHERE);
    return w;
}

void naive_close(naive_worker *w)
{
    if (!w)
        return;
    if (w->lock.redis)
        redisFree(w->lock.redis);
    barrier_destroy(&w->lock.stop);
    free(w);
}

/* True when there is a connection. */
static bool connect_redis(naive_worker *w)
{
    if (w->lock.redis && w->lock.error.code == LKS_OK)
        return true;
    if (w->lock.redis)
        redisFree(w->lock.redis);
    w->lock.redis = redisConnectUnixWithTimeout(w->crowd->redis, (struct timeval){.tv_usec = CONNECT_MS * 1000});
    lks_error_clear(&w->lock.error);
    if (!w->lock.redis || w->lock.redis->err != 0)
        return false;
    redisSetTimeout(w->lock.redis, (struct timeval){.tv_sec = COMMAND_MS / 1000});
    return true;
}

static bool is_broken(const naive_worker *w)
{
    return w->lock.error.code != LKS_OK;
}

/* Look, pay, write. */
static naive_try sell(naive_worker *w, size_t index)
{
    crowd *c = w->crowd;
    int64_t left = worker_ask(&w->lock, "GET %s", SHELF_KEY);
    unsigned self = w->client + 1;

    if (is_broken(w))
        return TRY_BROKEN;
    if (left <= 0)
        return TRY_SOLD_OUT;
    if (w->lock.way)
        atomic_store(&c->holder[NAIVE], self);
    crowd_pay(index);
    atomic_compare_exchange_strong(&c->holder[NAIVE], &self, 0);
    if (w->lock.way) {
        left--;
        worker_ask(&w->lock, "SET %s %" PRId64, SHELF_KEY, left);
    } else {
        left = worker_ask(&w->lock, "DECR %s", SHELF_KEY);
    }
    if (is_broken(w))
        return TRY_DOUBT;
    atomic_store(&c->naive_left, left);
    return TRY_BOUGHT;
}

static naive_try try_once(naive_worker *w, size_t index)
{
    if (!connect_redis(w))
        return TRY_BUSY; /* nothing was sent */
    if (w->lock.way && !w->lock.way->lock(&w->lock))
        return is_broken(w) ? TRY_BROKEN : TRY_BUSY;
    naive_try ended = sell(w, index);
    if (w->lock.way && ended != TRY_BROKEN && ended != TRY_DOUBT)
        w->lock.way->unlock(&w->lock); /* the buyer has its answer, whatever becomes of this */
    return ended;
}

/* Nobody was told anything for long: the lock of someone who died has no end, or Redis is gone for good. */
static bool gives_up(naive_worker *w, size_t index)
{
    crowd *c = w->crowd;
    int64_t last = atomic_load(&c->naive_answer_ms), arrival = crowd_arrival_ms(c, index);
    int64_t silent_ms = clock_ms() - (last > arrival ? last : arrival);

    if (silent_ms > GIVE_UP_MS ||
        (silent_ms > STUCK_MS && w->lock.way && connect_redis(w) && w->lock.way->end(&w->lock).latest == LOCK_ENDLESS))
        atomic_store(&c->naive_stuck, true);
    return atomic_load(&c->naive_stuck);
}

void naive_buy(naive_worker *w, size_t index)
{
    crowd *c = w->crowd;
    buyer *b = crowd_buyer(c, NAIVE, index);
    buyer_state told = BUYER_NO_ANSWER;

    if (atomic_load(&b->state) == BUYER_ASKS)
        atomic_store(&b->lost, true); /* its client was killed */
    atomic_store(&b->state, BUYER_ASKS);
    while (told == BUYER_NO_ANSWER && !gives_up(w, index)) {
        switch (try_once(w, index)) {
        case TRY_BOUGHT:
            told = BUYER_BOUGHT;
            break;
        case TRY_SOLD_OUT:
            told = BUYER_SOLD_OUT;
            break;
        case TRY_DOUBT:
            atomic_store(&b->lost, true);
            clock_rest(RETRY_MS);
            break;
        case TRY_BROKEN:
        case TRY_BUSY:
            clock_rest(RETRY_MS);
            break;
        }
    }
    if (told != BUYER_NO_ANSWER)
        atomic_store(&c->naive_answer_ms, clock_ms());
    atomic_store(&b->waited_ms, (uint32_t)(clock_ms() - crowd_arrival_ms(c, index)));
    atomic_store(&b->state, (uint8_t)told);
}

lks_code naive_put(crowd *c, lks_error *error)
{
    redisContext *redis = redisConnectUnixWithTimeout(c->redis, (struct timeval){.tv_sec = COMMAND_MS / 1000});
    redisReply *reply = NULL;

    if (redis && redis->err == 0)
        reply = redisCommand(redis, "SET %s %lld", SHELF_KEY, (long long)c->stock);
    bool good = reply && reply->type == REDIS_REPLY_STATUS;
    if (!good) {
        lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "redis, for the naive shelf: %s",
                      reply   ? reply->str
                      : redis ? redis->errstr
                              : "out of memory");
    }
    freeReplyObject(reply);
    if (redis)
        redisFree(redis);
    atomic_store(&c->naive_left, c->stock);
    return good ? LKS_OK : LKS_UNAVAILABLE;
}

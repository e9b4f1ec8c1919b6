/* Ways to keep a lock, so that one schedule can be played with each of them: five
 * that are found in the wild, on Redis directly (naive.c), and lockstock's. */
#ifndef SECKILL_LOCK_WAY_H
#define SECKILL_LOCK_WAY_H

#include <hiredis/hiredis.h>
#include <stdint.h>

#include <lockstock/channel.h>

#include "barrier.h"
#include "lease.h"

typedef struct lock_worker {
    const char *name;
    const struct lock_way *way;
    const char *key; /* of the lock */
    int64_t lease_ms;
    barrier stop;
    redisContext *redis;     /* its own connection */
    lks_channel *channel;    /* used by lockstock's ways only */
    lease lease;             /* lockstock's: of the last grant */
    struct lks_mutex *mutex; /* of lockstock_mutex_way */
    bool holds;              /* as far as it knows */
    lks_error error;         /* the first that a command or call ended with */
} lock_worker;

/* When a lock ends by itself, by the wall clock in ms: not before and not after. */
typedef struct lock_end {
    int64_t earliest, latest;
} lock_end;
#define LOCK_FREE 0
#define LOCK_ENDLESS INT64_MAX

typedef struct lock_way {
    const char *name;
    /* One try. False: others hold it, or the worker is dead, or w->error. */
    bool (*lock)(lock_worker *w);
    void (*unlock)(lock_worker *w);
    /* When the lock ends that is held now, whoever holds it. */
    lock_end (*end)(lock_worker *w);
    /* Asked before each write to what the lock protects; NULL = nobody is asked. */
    bool (*may_write)(lock_worker *w);
} lock_way;

extern const lock_way naive_setnx_expire, naive_getset, naive_blind_del, naive_refreshing, naive_by_thread;
extern const lock_way lockstock_way;
extern const lock_way lockstock_mutex_way; /* reentrant; held and left by one thread */

/* Sends one command on the worker's connection, as redisCommand takes it. Returns an
 * integer, or what a text begins with as a number, or 1 for OK; 0 for nil and for an
 * error, which is kept in w->error. */
int64_t worker_ask(lock_worker *w, const char *format, ...);

/* The wall clock, which naive locks believe in. */
int64_t wall_ms(void);

#endif

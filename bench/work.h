/* What a rival asks Redis for: the same library function as lockstockd calls (FCALL), or the minimal
 * script that gives the same answer without ledger, limits, versions, queues and replays. */
#ifndef LOCKSTOCK_BENCH_WORK_H
#define LOCKSTOCK_BENCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis.h>

#include "command.h"
#include "scenario.h"

typedef struct work {
    const world *world; /* whose things it uses; they must be there */
    bool locks;         /* Acquire and Release, in turns; else Deduct */
    bool script;        /* the minimal script */
    unsigned subs;      /* sub-calls of one item that share an FCALL; 0 = 1 */
    char sha[2][48];    /* of the scripts */
    uint64_t slice;     /* how often it was prepared: no token is used twice */
} work;

/* KEYS[1] the lock; token: compare and delete. */
extern const char work_release_script[];

/* Loads library and scripts, and makes the items of the scripts. False: the error is printed. */
bool work_prepare(work *w, redisContext *redis);

/* The n-th command, from 0, of a user of slot `slot`. */
void work_command(const work *w, unsigned slot, uint64_t n, command *ret);

/* The one command that redis-benchmark repeats: where ids differ it has __rand_int__. Deduct only. */
void work_repeated(const work *w, command *ret);

/* Calls of one command. */
unsigned work_calls(const work *w);

/* False: the reply is an error, which is printed. */
bool work_answered(const redisReply *reply);

/* The same, and frees the reply. */
bool work_done(redisReply *reply);

/* The same for a command of the work: also false when the answer is not an expected one. */
bool work_succeeded(const redisReply *reply);

#endif

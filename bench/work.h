/* The Redis commands of rivals: the library function that lockstockd calls (FCALL), or a minimal script with the
 * same answer, without ledger, limits, versions, queues and replays. */
#ifndef LOCKSTOCK_BENCH_WORK_H
#define LOCKSTOCK_BENCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis.h>

#include "command.h"
#include "scenario.h"

typedef struct work {
    const world *world; /* the things that it uses, which must exist */
    bool locks;         /* Acquire and Release, in turns; else Deduct */
    bool script;        /* use the minimal script */
    unsigned subs;      /* sub-calls of one item in an FCALL; 0 means 1 */
    char sha[2][48];    /* of the scripts */
    uint64_t slice;     /* times it was prepared, so that no token is used twice */
} work;

/* Compares and deletes. KEYS[1]: the lock; ARGV[1]: the token. */
extern const char work_release_script[];

/* Loads the library and the scripts, and makes the items of the scripts. Returns false after printing an error. */
bool work_prepare(work *w, redisContext *redis);

/* Writes the n-th command, from 0, of a slot. */
void work_command(const work *w, unsigned slot, uint64_t n, command *ret);

/* Writes the command that redis-benchmark repeats, with __rand_int__ for the id. Deduct only. */
void work_repeated(const work *w, command *ret);

/* Returns the number of calls in a command. */
unsigned work_calls(const work *w);

/* Returns false after printing an error reply. */
bool work_answered(const redisReply *reply);

/* The same, and frees the reply. */
bool work_done(redisReply *reply);

/* The same for a command of the work; also false if the answer is not expected. */
bool work_succeeded(const redisReply *reply);

#endif

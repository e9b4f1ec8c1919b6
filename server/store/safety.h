/* Whether a store's settings keep its data safe. */
#ifndef LOCKSTOCK_SERVER_STORE_SAFETY_H
#define LOCKSTOCK_SERVER_STORE_SAFETY_H

#include <stdbool.h>
#include <stddef.h>

struct redisReply;

typedef struct safety {
    bool known;   /* false: CONFIG GET is not permitted */
    bool appends; /* it appends each write to a file */
    bool snapshots;
    bool snapshots_only; /* a crash loses writes after the last snapshot */
    bool evicts;         /* it evicts keys when its memory is full */
    char fsync[16];      /* appendfsync: always, everysec or no; "" without a file */
    long min_replicas;   /* min-replicas-to-write; 0: off */
    long max_lag_s;      /* min-replicas-max-lag; 0: off */
    const char *danger;  /* why it loses data by design; NULL: it does not; static */
} safety;

/* Writes the command, at most SAFETY_WORDS words, and returns their number. */
enum { SAFETY_WORDS = 9 };
size_t safety_words(const char **words);

safety safety_of(const struct redisReply *reply);

/* Logs problems; if `before` is not NULL, only those that it did not have. */
void safety_log(const safety *now, const safety *before, bool allow_unsafe);

#endif

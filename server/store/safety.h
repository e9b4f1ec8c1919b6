/* Whether a store keeps what it is given, as far as its settings tell. */
#ifndef LOCKSTOCK_SERVER_STORE_SAFETY_H
#define LOCKSTOCK_SERVER_STORE_SAFETY_H

#include <stdbool.h>
#include <stddef.h>

struct redisReply;

typedef struct safety {
    bool known;          /* false: CONFIG GET is not permitted */
    bool appends;        /* to a file, each write */
    bool snapshots;      /* now and then */
    bool snapshots_only; /* a crash loses what came after the last one */
    bool evicts;         /* keys, when its memory is full */
    char fsync[16];      /* of the file: always, everysec or no; "" without one */
    long min_replicas;   /* without so many connected replicas, ... */
    long max_lag_s;      /* ... of which none is silent for longer, it takes no write; of both 0: it does */
    const char *danger;  /* why it would lose data by design; NULL = it would not; static */
} safety;

/* The question, SAFETY_WORDS words or fewer; gives how many. */
enum { SAFETY_WORDS = 9 };
size_t safety_words(const char **words);

/* What the reply says. */
safety safety_of(const struct redisReply *reply);

/* Logs what there is to say; where `before` is not NULL, only what it did not say yet. */
void safety_log(const safety *now, const safety *before, bool allow_unsafe);

#endif

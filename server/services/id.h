/* The state of IdService in a server, one module for each kind of id. Only id.c uses the store. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_ID_H
#define LOCKSTOCK_SERVER_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>

enum {
    ID_COUNT_MAX = 10000,
    ID_UUID_LEN = 36,
};

/* ---- id_snowflake.c ---- */

/* Makes ids within ranges of time that the store grants. */
typedef struct snowflake {
    char owner[LKS_RPC_RANDOM_ID_LEN + 1]; /* this run of this server */
    int64_t worker;                        /* -1: none yet */
    uint64_t next, end;                    /* ms since the epoch * 4096 + sequence */
    uint64_t granted_ns;                   /* CLOCK_MONOTONIC, before the grant was made */
    int64_t clock_ms;                      /* Redis' clock at the grant */
} snowflake;

/* A range for a worker, as id_grant returns it; ms since 1970. */
typedef struct snowflake_range {
    int64_t worker, first_ms, end_ms;
    int64_t clock_ms;
    uint64_t asked_ns; /* CLOCK_MONOTONIC, when it was requested */
} snowflake_range;

typedef struct snowflake_parts {
    int64_t at_ms; /* since 1970 */
    int32_t worker, sequence;
} snowflake_parts;

void snowflake_init(snowflake *s);

/* Whether `count` more ids can be made without asking the store. */
bool snowflake_has(snowflake *s, uint64_t now_ns, size_t count);

/* The same, even if the grant is old. */
bool snowflake_left(snowflake *s, uint64_t now_ns, size_t count);

/* Returns the first ms (since 1970) in which no id was made: the next range should begin there. */
int64_t snowflake_unused_ms(const snowflake *s);

/* Takes a range and continues in it, but never goes back. */
void snowflake_grant(snowflake *s, const snowflake_range *range);

/* Makes `count` ids, in order. Returns false, with none made, if the range has too few left. */
bool snowflake_take(snowflake *s, uint64_t now_ns, size_t count, int64_t *ids);

/* Returns the parts of a positive id. */
snowflake_parts snowflake_parts_of(int64_t id);

/* ---- id_uuid.c ---- */

/* Returns the tick, in 1/4096 ms since 1970, of the next UUID after one of tick `last`: the time since 1970, but
 * later than `last`. */
uint64_t uuid_tick(uint64_t last, uint64_t now_ns);

/* Writes a UUID of version 7 (RFC 9562, section 5.7; rand_a as in section 6.2, method 3: more digits of the time) as
 * text. Uses 62 bits of `random`. */
void uuid_format(uint64_t tick, uint64_t random, char text[ID_UUID_LEN + 1]);

/* Makes `count` UUIDs, each greater than the one before. *last: the tick of this server's last UUID. */
void uuid_make(uint64_t *last, lks_rpc_arena *arena, size_t count, const char **uuids);

/* ---- id_sequence.c ---- */

/* Numbers of sequences that this server has taken from the store in advance. */
typedef struct sequences sequences;

sequences *sequences_new(void);
void sequences_free(sequences *all);

typedef struct sequence_name {
    lks_rpc_slice ns, name;
} sequence_name;

/* Returns how many numbers of the sequence are left. */
int64_t sequences_left(sequences *all, sequence_name of);

/* Takes `count` consecutive numbers; at least as many must be left. Returns the first. */
int64_t sequences_take(sequences *all, sequence_name of, int64_t count);

/* Adds numbers from the store: they follow those that are left, or replace them. */
void sequences_add(sequences *all, sequence_name of, int64_t first, int64_t last);

#endif

/* What tests of scenes share: a table that is compared with docs/scenes.md, and calls to Redis and to LockService. */
#ifndef LOCKSTOCK_TESTS_SCENE_H
#define LOCKSTOCK_TESTS_SCENE_H

#include <hiredis/hiredis.h>

#include <lockstock/lockstock.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { SCENE_SERVERS = 2, SCENE_LONG_MS = 60000, SCENE_LIMIT_MS = 120000 };

/* One Redis, two servers on it, a channel and a connection. scene_start and scene_stop fit TEST_MAIN. */
extern struct scene_state {
    redis_fixture *redis;
    server_fixture *servers[SCENE_SERVERS];
    lks_channel *channels[SCENE_SERVERS]; /* channel i asks server i */
    redisContext *connection;
    FILE *table;
    char *text;
    size_t size;
} s;

int scene_start(void **state);
int scene_stop(void **state);

/* Rows are written to s.table between the two. scene_end prints the table and fails unless docs/scenes.md has it. */
void scene_begin(void);
void scene_end(void);

/* Fails the test unless the page has the text. */
void scene_assert_on_page(const char *text);

/* One Redis command, as redisCommand takes it: an integer, a text as a number, 1 for OK, 0 for nil. */
long long scene_redis(const char *format, ...);

/* CLOCK_REALTIME in ms, which locks by hand use. */
long long scene_wall_ms(void);

/* One EXCLUSIVE lock of its own group. */
typedef struct grant {
    char token[65];
    uint64_t fence; /* 0: it was not granted */
} grant;

grant scene_acquire(const char *name, const char *owner, int64_t lease_ms, int64_t wait_ms);

/* Whether it was held until now. */
bool scene_release(const char *name, const grant *held);

/* Waiters of a lock; what is left of its lease, 0: nobody holds it. */
typedef struct lock_state {
    int64_t waiters, left_ms;
} lock_state;
lock_state scene_inspect(const char *name);

/* CheckFence says OK. */
bool scene_fence_is_good(const char *name, uint64_t fence);

void scene_put_item(const char *group, const char *sku, int64_t on_hand, int64_t per_buyer_limit);

/* Fails the test with the error's text. */
void scene_ok(lks_code code, const lks_error *error);

#endif

/* All rivals do the same work: one line of quantity 1, an order id of 36 bytes, a record kept for 30 days; a lease
 * of one minute. */
#include "rival.h"

#include <stdio.h>
#include <string.h>

#include "functions/library.h"

#define LEASE_MS "60000"
#define PLENTY "1000000000000"

/* KEYS[1] the item; order id, sku, quantity. */
static const char deduct_script[] =
    "local key = 'o:' .. ARGV[1]\n"
    "local record = redis.call('GET', key)\n"
    "if record then return record end\n"
    "local available = tonumber(redis.call('HGET', KEYS[1], 'available'))\n"
    "local quantity = tonumber(ARGV[3])\n"
    "if not available or available < quantity then return {'SOLD_OUT', available} end\n"
    "redis.call('HINCRBY', KEYS[1], 'available', -quantity)\n"
    "redis.call('HINCRBY', KEYS[1], 'sold', quantity)\n"
    "redis.call('SET', key, ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. (available - quantity), 'PX', 2592000000)\n"
    "return {'DEDUCTED', available - quantity}\n";

/* KEYS: the lock, its fence; token, lease. */
static const char acquire_script[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end\n"
    "return 0\n";
/* KEYS[1]: the lock; the token. */
static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\n"
    "return 0\n";
/* KEYS: the lock and its list, which has at most one element; the token. The client that pops it tries again. */
static const char release_and_tell[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                       "redis.call('DEL', KEYS[1], KEYS[2])\n"
                                       "redis.call('LPUSH', KEYS[2], '1')\n"
                                       "redis.call('PEXPIRE', KEYS[2], 60000)\n"
                                       "return 1\n";

/* ---- commands ------------------------------------------------------------------ */

/* The text is kept in the command. */
static const char *new_id(const work *w, uint64_t serial, command *c)
{
    char id[ID_BYTES];

    drive_make_id(id, w->world->tag, serial);
    return command_text(c, "%s", id);
}

/* order_id NULL: a new one for each sub-call. */
static void deduct(const work *w, const char *thing, const char *order_id, command *c)
{
    if (w->rival->script) {
        command_clear(c);
        command_words(c, "EVALSHA", w->sha[0], "1", command_text(c, "{bench}i:%s", thing),
                      order_id ? order_id : new_id(w, drive_next_serial(), c), thing, "1", NULL);
        return;
    }
    command_fcall(c, "stock_deduct", thing);
    for (unsigned i = 0; i < work_calls(w); i++)
        command_deduct(c, thing, order_id ? order_id : new_id(w, drive_next_serial(), c));
}

static void acquire(const work *w, const char *thing, uint64_t serial, command *c)
{
    if (w->rival->script) {
        command_clear(c);
        command_words(c, "EVALSHA", w->sha[0], "2", command_text(c, "{bench}l:%s", thing),
                      command_text(c, "{bench}f:%s", thing), new_id(w, serial, c), LEASE_MS, NULL);
    } else {
        command_fcall(c, "lock_acquire", thing);
        command_words(c, "6", new_id(w, serial, c), "" /* owner */, LEASE_MS, "0" /* wait_ms */, "." /* copy */, thing,
                      NULL);
    }
}

static void release(const work *w, const char *thing, uint64_t serial, command *c)
{
    if (w->rival->script) {
        command_clear(c);
        command_words(c, "EVALSHA", w->sha[1], "1", command_text(c, "{bench}l:%s", thing), new_id(w, serial, c), NULL);
    } else {
        command_fcall(c, "lock_release", thing);
        command_words(c, "3", new_id(w, serial, c), "" /* server */, thing, NULL);
    }
}

void work_command(const work *w, unsigned slot, uint64_t n, command *ret)
{
    const char *thing = w->world->things[slot % w->world->n_things];

    if (w->rival->locks)
        (n % 2 == 0 ? acquire : release)(w, thing, w->slice << 48 | (n / 2) << 16 | slot, ret);
    else
        deduct(w, thing, NULL, ret);
}

void work_repeated(const work *w, command *ret)
{
    deduct(w, w->world->things[0], "0192f3a4-7b1c-7c3e-8d2f-__rand_int__", ret);
}

unsigned work_calls(const work *w)
{
    return w->rival->subs > 0 ? w->rival->subs : 1;
}

bool work_succeeded(const redisReply *reply)
{
    static const char *const expected[] = {"DEDUCTED", "SOLD_OUT", "BUSY", "RELEASED"};
    const redisReply *word = reply, *list = NULL;

    if (!redis_answered(reply))
        return false;
    while (word->type == REDIS_REPLY_ARRAY && word->elements > 0) {
        list = word;
        word = word->element[0];
    }
    if (word->type == REDIS_REPLY_INTEGER) /* the fence of an Acquire, or the rest after a Deduct */
        return true;
    bool is_text = word->type == REDIS_REPLY_STRING;
    for (size_t i = 0; is_text && i < sizeof expected / sizeof *expected; i++)
        if (strcmp(word->str, expected[i]) == 0)
            return true;
    if (is_text && strcmp(word->str, "ERR") == 0 && list && list->elements > 3)
        word = list->element[3];
    fprintf(stderr, "lockstock-bench: the function says %s, which was not expected\n",
            word->type == REDIS_REPLY_STRING ? word->str : "something else");
    return false;
}

/* ---- preparing ----------------------------------------------------------------- */

static bool load_library(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "FUNCTION LOAD %b", functions_text, functions_len);
    bool is_there = reply && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "already exists");
    bool loaded = is_there || redis_answered(reply);

    freeReplyObject(reply);
    return loaded;
}

static bool load_script(work *w, int at, const char *text, redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", text);
    bool loaded = redis_answered(reply) && reply->type == REDIS_REPLY_STRING;

    if (loaded)
        snprintf(w->sha[at], sizeof w->sha[at], "%s", reply->str);
    freeReplyObject(reply);
    return loaded;
}

/* For each thing: the item of the script, or a lock that is free, because the last slice may have ended between an
 * Acquire and its Release. The list of a lock without a lease has one element. */
static bool make_things(const work *w, redisContext *redis)
{
    const char *available = w->world->scenario->sold_out ? "0" : PLENTY;
    bool made = true;
    command c;

    for (unsigned i = 0; i < w->world->n_things && made; i++) {
        const char *thing = w->world->things[i];
        if (w->rival->kind == RIVAL_LIST) {
            made = redis_done(redisCommand(redis, "DEL {bench}s:%s", thing)) &&
                   redis_done(redisCommand(redis, "RPUSH {bench}s:%s 1", thing));
        } else if (w->rival->script && w->rival->locks) {
            made = redis_done(redisCommand(redis, "DEL {bench}l:%s", thing));
        } else if (w->rival->script) {
            made = redis_done(redisCommand(redis, "HSET {bench}i:%s available %s sold 0", thing, available));
        } else if (w->rival->locks) {
            command_fcall(&c, "lock_force_release", thing);
            command_words(&c, "1", thing, NULL);
            made = redis_done(redisCommandArgv(redis, c.argc, c.argv, NULL));
        }
    }
    return made;
}

bool work_prepare(work *w, redisContext *redis)
{
    static uint64_t slices;
    const rival *r = w->rival;

    w->slice = ++slices;
    if (!r->script)
        return load_library(redis) && make_things(w, redis);
    const char *second = r->kind == RIVAL_BLPOP ? release_and_tell : release_script;
    return load_script(w, 0, r->locks ? acquire_script : deduct_script, redis) && load_script(w, 1, second, redis) &&
           make_things(w, redis);
}

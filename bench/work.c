/* All rivals do the same work: one line of quantity 1, an order id of 36 bytes, a record kept for 30 days; a lease
 * of one minute. */
#include "work.h"

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
const char work_release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\n"
    "return 0\n";

/* ---- commands ------------------------------------------------------------------ */

/* EVALSHA with one key. */
static void begin_script(command *c, const char *sha, const char *prefix, const char *thing)
{
    command_clear(c);
    command_add(c, "EVALSHA");
    command_add(c, sha);
    command_add(c, "1");
    command_add_text(c, "{bench}%s:%s", prefix, thing);
}

/* The text is kept in the command. */
static const char *new_id(const work *w, uint64_t serial, command *c)
{
    char *id = c->text + c->used;

    drive_make_id(id, w->world->tag, serial);
    c->used += DRIVE_ID_BYTES;
    return id;
}

/* order_id NULL: a new one for each sub-call. */
static void deduct(const work *w, const char *thing, const char *order_id, command *c)
{
    if (w->script) {
        begin_script(c, w->sha[0], "i", thing);
        command_add(c, order_id ? order_id : new_id(w, drive_next_serial(), c));
        command_add(c, thing);
        command_add(c, "1");
        return;
    }
    command_fcall(c, "stock_deduct", thing);
    for (unsigned i = 0; i < work_calls(w); i++)
        command_deduct(c, thing, order_id ? order_id : new_id(w, drive_next_serial(), c));
}

/* Acquire; the next command of the slot is its Release. */
static void lock(const work *w, const char *thing, unsigned slot, uint64_t n, command *c)
{
    bool acquires = n % 2 == 0;
    uint64_t serial = w->slice << 48 | (n / 2) << 16 | slot;

    if (!w->script) {
        command_fcall(c, acquires ? "lock_acquire" : "lock_release", thing);
        (acquires ? command_acquire : command_release)(c, thing, new_id(w, serial, c));
        return;
    }
    begin_script(c, w->sha[acquires ? 0 : 1], "l", thing);
    if (acquires) {
        c->argv[2] = "2";
        command_add_text(c, "{bench}f:%s", thing);
    }
    command_add(c, new_id(w, serial, c));
    if (acquires)
        command_add(c, LEASE_MS);
}

void work_command(const work *w, unsigned slot, uint64_t n, command *ret)
{
    const char *thing = w->world->things[slot % w->world->n_things];

    if (w->locks)
        lock(w, thing, slot, n, ret);
    else
        deduct(w, thing, NULL, ret);
}

void work_repeated(const work *w, command *ret)
{
    deduct(w, w->world->things[0], "0192f3a4-7b1c-7c3e-8d2f-__rand_int__", ret);
}

unsigned work_calls(const work *w)
{
    return w->subs > 0 ? w->subs : 1;
}

/* ---- Redis --------------------------------------------------------------------- */

bool work_answered(const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        fprintf(stderr, "lockstock-bench: Redis says %s\n", reply->str);
    return reply && reply->type != REDIS_REPLY_ERROR;
}

bool work_done(redisReply *reply)
{
    bool answered = work_answered(reply);

    if (reply)
        freeReplyObject(reply);
    return answered;
}

/* The expected answers. Another answer means that something else is measured. */
static bool is_an_outcome(const redisReply *word)
{
    static const char *const outcomes[] = {"DEDUCTED", "SOLD_OUT", "BUSY", "RELEASED"};

    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        if (word->type == REDIS_REPLY_STRING && strcmp(word->str, outcomes[i]) == 0)
            return true;
    return word->type == REDIS_REPLY_INTEGER; /* the fence of an Acquire, or the rest after a Deduct */
}

bool work_succeeded(const redisReply *reply)
{
    const redisReply *word = reply, *list = NULL;

    if (!work_answered(reply))
        return false;
    while (word->type == REDIS_REPLY_ARRAY && word->elements > 0) {
        list = word;
        word = word->element[0];
    }
    if (is_an_outcome(word))
        return true;
    if (word->type == REDIS_REPLY_STRING && strcmp(word->str, "ERR") == 0 && list && list->elements > 3)
        word = list->element[3];
    fprintf(stderr, "lockstock-bench: the function says %s, which was not expected\n",
            word->type == REDIS_REPLY_STRING ? word->str : "something else");
    return false;
}

static bool load_library(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "FUNCTION LOAD %b", functions_text, functions_len);
    bool loaded = reply && (reply->type != REDIS_REPLY_ERROR || strstr(reply->str, "already exists"));

    if (!loaded)
        fprintf(stderr, "lockstock-bench: FUNCTION LOAD: %s\n", reply ? reply->str : redis->errstr);
    if (reply)
        freeReplyObject(reply);
    return loaded;
}

static bool load_script(work *w, int at, const char *text, redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", text);
    bool loaded = work_answered(reply) && reply->type == REDIS_REPLY_STRING;

    if (loaded)
        snprintf(w->sha[at], sizeof w->sha[at], "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return loaded;
}

static bool make_items(const work *w, redisContext *redis)
{
    const char *available = w->world->scenario->sold_out ? "0" : PLENTY;
    bool made = true;

    for (unsigned i = 0; i < w->world->n_things && made; i++)
        made = work_done(redisCommand(redis, "HSET {bench}i:%s available %s sold 0", w->world->things[i], available));
    return made;
}

/* The last slice may have ended between an Acquire and its Release. */
static bool free_locks(const work *w, redisContext *redis)
{
    command c = {0};
    bool freed = true;

    for (unsigned i = 0; i < w->world->n_things && freed; i++) {
        const char *thing = w->world->things[i];
        if (w->script) {
            command_clear(&c);
            command_add(&c, "DEL");
            command_add_text(&c, "{bench}l:%s", thing);
        } else {
            command_fcall(&c, "lock_force_release", thing);
            command_force_release(&c, thing);
        }
        redisReply *reply = redisCommandArgv(redis, c.argc, c.argv, c.lengths);
        freed = reply && reply->type != REDIS_REPLY_ERROR;
        if (reply)
            freeReplyObject(reply);
    }
    return freed;
}

bool work_prepare(work *w, redisContext *redis)
{
    static uint64_t slices;

    w->slice = ++slices;
    if (!w->script)
        return load_library(redis) && (!w->locks || free_locks(w, redis));
    if (w->locks)
        return load_script(w, 0, acquire_script, redis) && load_script(w, 1, work_release_script, redis) &&
               free_locks(w, redis);
    return load_script(w, 0, deduct_script, redis) && make_items(w, redis);
}

/* Commands, struct and the conversion of values are those of Redis: random commands go to a real redis-server and to
 * the engine, and must give equal replies and keys. LOCKSTOCK_SEED, which is printed, repeats a run. Then what only the
 * engine has: limits, and a full store. */
#include <malloc.h>
#include <time.h>

#include "memory.h"
#include "machine/functions.h"
#include "support/counts.h"
#include "test.h"
#include "unit/two_machines.h"

#define DIGEST "0123456789abcdef"

static const char library[] =
    "#!lua name=lockstock_commands\n"
    "local function define(name, callback, flags)\n"
    "  redis.register_function{function_name = name .. '_" DIGEST "', callback = callback, flags = flags}\n"
    "end\n"
    "local function call(bases, words) return redis.pcall(unpack(words, 2)) end\n"
    "define('try', call, {})\n"
    "define('read', call, {'no-writes'})\n"
    "define('free', call, {'allow-oom'})\n"
    "define('raise', function(bases, words)\n"
    "  local ok, e = pcall(redis.call, unpack(words, 2))\n"
    "  return {tostring(ok), type(e), type(e) == 'table' and e.err or e}\n"
    "end, {})\n"
    "define('number', function(bases, words)\n"
    "  redis.call('SET', 'number', tonumber(words[2]))\n"
    "  return redis.call('GET', 'number')\n"
    "end, {})\n"
    "local function text(value) return type(value) == 'number' and string.format('%.17g', value) or value end\n"
    "define('pack', function(bases, words)\n"
    "  local values = {}\n"
    "  for i = 3, #words do values[#values + 1] = tonumber(words[i]) or words[i] end\n"
    "  local ok, packed = pcall(struct.pack, words[2], unpack(values))\n"
    "  if not ok then return {'pack', packed} end\n"
    "  local all = {pcall(struct.unpack, words[2], packed)}\n"
    "  for i = 2, #all do all[i] = text(all[i]) end\n"
    "  local cut = {pcall(struct.unpack, words[2], string.sub(packed, 2))}\n"
    "  return {packed, tostring(all[1]), unpack(all, 2), tostring(cut[1]), text(cut[2])}\n"
    "end, {})\n"
    "local function values() return {1, 2.7, -2.7, true, false, 'text', {}, {1, 'a', false, 3}, {1, nil, 3},\n"
    "  {{{'deep'}}}, {ok = 'FINE'}, {err = 'CODE text'}, redis.sha1hex('abc'), redis.sha1hex(''), string.rep, 1e15,\n"
    "  -0.0, {[2] = 'behind'}, {1, {2, {3, {4, {5}}}}}} end\n"
    "define('value', function(bases, words) return values()[tonumber(words[2])] end, {})\n"
    "define('fail', function(bases, words)\n"
    "  if words[2] == 'table' then error({err = 'CODE text'}) end\n"
    "  redis.call('SET', 'written', '1')\n"
    "  local way = words[2]\n"
    "  if way == 'loop' then while true do end end\n"
    "  if way == 'stubborn' then while true do pcall(function() while true do end end) end end\n"
    "  if way == 'memory' then local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end end\n"
    "  if way == 'stack' then local function f() return 1 + f() end return f() end\n"
    "  error('on purpose')\n"
    "end, {})\n";

static two_machines *m;
static uint64_t seed, chance;
static int64_t now_us = INT64_C(1700000000000123);

enum { WORDS_MAX = 48, VALUES = 19 };

typedef struct words {
    lks_rpc_slice word[WORDS_MAX];
    size_t n;
} words;

static unsigned below(unsigned n)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)((chance >> 11) % n);
}

static store_call call_of(const char *function, words *w)
{
    return (store_call){.base = lks_rpc_slice_of("ls:{t/g}:"), .function = function, .args = w->word, .n_args = w->n};
}

static const char *text_of_words(const words *w)
{
    static char text[1024];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < w->n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " '%.*s'", (int)w->word[i].len, w->word[i].data);
    return text;
}

static void compare(const char *function, words *w)
{
    const store_value *redis, *engine;
    const char *redis_sent;
    const store_call call = call_of(function, w);
    const char *sent = two_machines_call(m, &call, &redis, &engine, &redis_sent);
    const char *one = two_machines_text(m, redis), *two = two_machines_text(m, engine);

    if (redis->type != engine->type || strcmp(one, two) != 0 || strcmp(redis_sent, sent) != 0)
        fail_msg("%s%s\nRedis:  %s\n%sengine: %s\n%s", function, text_of_words(w), one, redis_sent, two, sent);
}

/* ---- random commands -------------------------------------------------------------------- */

/* k a key; g, h, z mostly a key that is a string, a hash, a sorted set; f a field or member, v a value, i an integer, s a
 * score, c a channel; other words as they are. */
#define ALL_FIELDS " f f f f f f f f f f f f"
static const char *const templates[] = {
    "GET g",
    "SET g v",
    "SET g v PX i",
    "SET g v NX",
    "SET g v NX GET PX i",
    "SET g v KEEPTTL",
    "SET g v GET KEEPTTL",
    "SET g v KEEPTTL PX i",
    "SET g v PX",
    "set g v px i",
    "SETRANGE g i ab",
    "DEL k",
    "UNLINK k k",
    "HGET h f",
    "HSET h f v",
    "HSET h f v f v",
    "HSET h f v f",
    "HDEL h f",
    "HDEL h f f f",
    "HLEN h",
    "HGETALL h",
    "HMGET h f f f",
    "HMGET h" ALL_FIELDS ALL_FIELDS ALL_FIELDS,
    "HINCRBY h f i",
    "HRANDFIELD h 100 WITHVALUES",
    "HRANDFIELD h 0 WITHVALUES",
    "ZADD z s f",
    "ZADD z s f",
    "ZREM z f",
    "ZCARD z",
    "ZSCORE z f",
    "ZRANGE z i i",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE z i i WITHSCORES",
    "ZRANGE z i i withscore",
    "PEXPIRE k i",
    "PEXPIRE k v",
    "TIME",
    "PUBLISH c v",
    "PUBSUB NUMSUB c c",
    "CLUSTER MYID",
    "GET",
    "GET g k",
    "NOSUCH k",
    "TIME k",
};

static lks_rpc_slice any_word(char kind)
{
    static const char *const values[] = {"", "1", "-3", "9223372036854775807", "abc", "a b", "x\xff"};
    static const char *const integers[] = {"0", "1", "-1", "2", "-2", "5", "100", "1500", "1.5", "x"};
    static const char *const scores[] = {"0", "1", "2", "-5", "x", "1700000000000123"};
    static const char *const channels[] = {"ls:wake:s0", "ls:wake:s1", "ls:wake:none"};
    static const char *const keys_[] = {"g0", "g1", "h0", "h1", "z0", "z1"};
    static const char *const fields[] = {"f0", "f1", "f", "", "m"};

#define ANY(list) lks_rpc_slice_of((list)[below(sizeof(list) / sizeof *(list))])
    switch (kind) {
    case 'g':
    case 'h':
    case 'z':
        return below(10) > 0 ? lks_rpc_slice_of(keys_[(kind == 'g' ? 0 : kind == 'h' ? 2 : 4) + below(2)]) : ANY(keys_);
    case 'k':
        return ANY(keys_);
    case 'f':
        return ANY(fields);
    case 'v':
        return ANY(values);
    case 'i':
        return ANY(integers);
    case 's':
        return ANY(scores);
    default:
        return ANY(channels);
    }
}

static words words_of(const char *template)
{
    words w = {0};

    while (*template) {
        size_t len = strcspn(template, " ");
        lks_rpc_slice word = {template, len};
        if (len == 1 && strchr("kghzfvisc", *template))
            word = any_word(*template);
        w.word[w.n++] = word;
        template += len + (template[len] == ' ');
    }
    return w;
}

TEST(random_commands_do_the_same)
{
    static const char *const functions_[] = {"try", "try", "try", "raise"};

    for (size_t i = 0; i < counts_of(20000, 500000); i++) {
        now_us += below(4) == 0 ? (int64_t)below(800) * 1000 : 0;
        two_machines_at(m, now_us);
        if (i % 1000 == 0)
            two_machines_reset(m, now_us);
        words w = words_of(templates[below(sizeof templates / sizeof *templates)]);
        compare(functions_[below(4)], &w);
        if (below(50) == 0) {
            const char *redis = two_machines_redis_keys(m), *engine = two_machines_engine_keys(m);
            if (strcmp(redis, engine) != 0)
                fail_msg("after%s\nkeys of Redis:\n%s\nof the engine:\n%s", text_of_words(&w), redis, engine);
        }
    }
}

TEST(values_are_converted_as_redis_does)
{
    char number[16];

    for (unsigned i = 1; i <= VALUES; i++) {
        words w = {.n = 1};
        snprintf(number, sizeof number, "%u", i);
        w.word[0] = lks_rpc_slice_of(number);
        compare("value", &w);
    }
}

TEST(numbers_become_words_as_redis_does)
{
    static const char *const numbers[] = {
        "0",    "1",    "-1",   "1.5",   "1e15", "1700000000000123", "9007199254740993", "0.1",
        "1e16", "1e17", "1e18", "1e300", "-1e-7"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        words w = {.word = {lks_rpc_slice_of(numbers[i])}, .n = 1};
        compare("number", &w);
    }
}

TEST(struct_is_that_of_redis)
{
    static const char *const formats[] = {"<BBBdd", "<BBdd", "<BBd", "<ddd", "B", "d", "q", ""};
    static const char *const values[] = {"0", "1", "-1", "255", "65536", "1700000000000123", "-1.5", "abc", "3", "5"};

    for (size_t i = 0; i < counts_of(5000, 100000); i++) {
        words w = {.word = {lks_rpc_slice_of(formats[below(sizeof formats / sizeof *formats)])}, .n = 1};
        for (unsigned n = below(10); n > 0; n--)
            w.word[w.n++] = lks_rpc_slice_of(values[below(sizeof values / sizeof *values)]);
        two_machines_at(m, now_us);
        compare("pack", &w);
    }
}

/* ---- the engine alone --------------------------------------------------------------------- */

typedef struct alone {
    functions *functions;
    keys *keys;
    lks_rpc_arena *arena;
} alone;

static alone open_alone(void)
{
    alone a = {.keys = keys_new(), .arena = memory_arena()};
    lks_error error;

    if (functions_open(library, sizeof library - 1, DIGEST, &a.functions, &error) != LKS_OK)
        fail_msg("%s", error.message);
    return a;
}

static void close_alone(alone *a)
{
    functions_close(a->functions);
    keys_free(a->keys);
    lks_rpc_arena_free(a->arena);
}

static const store_value *run_alone(alone *a, const char *function, const char *template, bool is_full)
{
    words w = words_of(template);
    const store_call call = call_of(function, &w);

    return functions_run(a->functions, a->keys, NULL, now_us, &call, is_full, a->arena);
}

static void fails_with(alone *a, const char *function, const char *template, bool is_full, const char *text)
{
    const store_value *reply = run_alone(a, function, template, is_full);

    if (reply->type != STORE_ERROR || !strstr(reply->string.data, text))
        fail_msg("%s %s: %s", function, template, reply->string.data);
    /* the state is whole afterwards */
    reply = run_alone(a, "try", "ZCARD none", false);
    assert_int_equal(reply->type, STORE_INTEGER);
}

/* What the engine holds of the process' memory, in bytes, counted apart from the engine: its Lua allocates by realloc. */
enum { GIVE_UP = 256 << 20 };
static _Thread_local int64_t held, held_max; /* support/process.c has a thread of its own */

/* Visible, because shared libraries refer to them too. */
__attribute__((visibility("default"))) void *__wrap_realloc(void *block, size_t size);
__attribute__((visibility("default"))) void __wrap_free(void *block);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);

void *__wrap_realloc(void *block, size_t size)
{
    size_t before = malloc_usable_size(block);
    void *moved = held > GIVE_UP ? NULL : __real_realloc(block, size);

    held += moved ? (int64_t)malloc_usable_size(moved) - (int64_t)before : 0;
    held_max = held > held_max ? held : held_max;
    return moved;
}

void __wrap_free(void *block)
{
    held -= (int64_t)malloc_usable_size(block);
    __real_free(block);
}

TEST(a_function_without_memory_has_taken_at_most_64_mib_and_gives_them_back)
{
    alone a = open_alone();
    int64_t before = held;

    held_max = held;
    fails_with(&a, "fail", "memory", false, "not enough memory");
    assert_in_range(held_max - before, 32 << 20, 66 << 20);
    assert_true(held - before < 1 << 20);
    close_alone(&a);
}

TEST(no_function_takes_the_process)
{
    alone a = open_alone();

    fails_with(&a, "fail", "loop", false, "ran for too long");
    fails_with(&a, "fail", "stubborn", false, "ran for too long");
    fails_with(&a, "fail", "stack", false, "stack overflow");
    fails_with(&a, "fail", "other", false, "on purpose");
    fails_with(&a, "fail", "table", false, "CODE text");
    fails_with(&a, "none", "GET x", false, "ERR Function not found");
    close_alone(&a);
}

TEST(full_store_refuses_calls_that_may_need_memory)
{
    alone a = open_alone();

    fails_with(&a, "try", "SET x 1", true, "OOM ");
    assert_int_equal(keys_count(a.keys), 0);
    assert_int_equal(run_alone(&a, "read", "ZCARD x", true)->type, STORE_INTEGER);
    assert_int_equal(run_alone(&a, "free", "SET x 1", true)->type, STORE_STRING);
    assert_int_equal(keys_count(a.keys), 1);
    close_alone(&a);
}

TEST(library_that_does_not_load_is_reported)
{
    static const char *const texts[] = {"#!lua name=x\nlocal",
                                        "#!lua name=x\nerror('why')",
                                        "#!lua name=x\nos.exit(1)",
                                        "#!lua name=x\nredis.register_function('x')",
                                        "#!lua name=x\nwhile true do end",
                                        "#!lua name=x\nredis.call('GET', 'x')",
                                        "#!lua name=x\nredis.register_function{}",
                                        "#!lua name=x\nerror({})"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        functions *f;
        lks_error error;
        assert_int_equal(functions_open(texts[i], strlen(texts[i]), DIGEST, &f, &error), LKS_INTERNAL);
        assert_non_null(strstr(error.message, "does not load"));
    }
}

TEST(scan_walks_in_steps)
{
    alone a = open_alone();
    char name[32], template[64] = "SCAN 0 MATCH k*1 COUNT 10";
    unsigned found = 0, steps = 0;

    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "k%u", i);
        keys_set(a.keys, lks_rpc_slice_of(name), lks_rpc_slice_of("1"), 0);
    }
    for (bool is_over = false; !is_over; steps++) {
        const store_value *reply = run_alone(&a, "read", template, false);
        assert_int_equal(reply->type, STORE_ARRAY);
        found += (unsigned)reply->element[1].n;
        is_over = strcmp(reply->element[0].string.data, "0") == 0;
        snprintf(template, sizeof template, "SCAN %s MATCH k*1 COUNT 10", reply->element[0].string.data);
    }
    assert_int_equal(found, 10);
    assert_int_equal(steps, 11);
    close_alone(&a);
}

static int open_both(void **state)
{
    const char *text = getenv("LOCKSTOCK_SEED");

    seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
    fprintf(stderr, "LOCKSTOCK_SEED=%llu\n", (unsigned long long)seed);
    chance = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    m = two_machines_new(library, sizeof library - 1, DIGEST);
    return m ? 0 : -1;
}

static int close_both(void **state)
{
    two_machines_free(m);
    return 0;
}

static int reset_both(void **state)
{
    two_machines_reset(m, now_us);
    return 0;
}

TEST_MAIN(.setup_all = open_both, .teardown_all = close_both, .setup = reset_both)

#include "unit/two_machines.h"

#include <hiredis/hiredis.h>

#include "memory.h"
#include "machine/functions.h"
#include "store/fcall.h"
#include "store/value.h"
#include "support/moved_clock.h"
#include "support/redis_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { ANSWER_S = 60 };

/* Redis' subscriber and the engine's listen to these. */
static const char *const channels[] = {"ls:wake:s0", "ls:wake:s1"};

struct two_machines {
    const char *digest;
    char *dir;
    moved_clock clock;
    const char *env[4];
    redis_fixture *fixture;
    redisContext *redis, *subscriber;
    lks_rpc_arena *arena;
    functions *engine;
    keys *keys;
    int64_t now_us;
    const char *engine_messages;
};

static redisReply *checked(const redisContext *c, void *reply)
{
    if (!reply || ((redisReply *)reply)->type == REDIS_REPLY_ERROR)
        fail_msg("Redis: %s", reply ? ((redisReply *)reply)->str : c->errstr);
    return reply;
}

static void ask(redisContext *c, const char *command, const char *word)
{
    freeReplyObject(checked(c, redisCommand(c, command, word)));
}

/* ---- messages ---------------------------------------------------------------------- */

static bool is_subscribed(void *arg, lks_rpc_slice channel)
{
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        if (channel.len == strlen(channels[i]) && memcmp(channel.data, channels[i], channel.len) == 0)
            return true;
    return false;
}

static int64_t publish(void *arg, lks_rpc_slice channel, lks_rpc_slice message)
{
    two_machines *m = arg;

    if (!is_subscribed(m, channel))
        return 0;
    m->engine_messages = memory_printf_in(m->arena, "%s%.*s: %.*s\n", m->engine_messages, (int)channel.len,
                                          channel.data, (int)message.len, message.data);
    return 1;
}

/* Reads what has come until now: all before the answer to PING. */
static const char *read_messages(two_machines *m)
{
    const char *text = "";
    bool is_over = false;

    redisAppendCommand(m->subscriber, "PING");
    while (!is_over) {
        void *it = NULL;
        redisGetReply(m->subscriber, &it);
        redisReply *reply = checked(m->subscriber, it);
        is_over = reply->elements == 2;
        if (reply->elements == 3 && strcmp(reply->element[0]->str, "message") == 0)
            text = memory_printf_in(m->arena, "%s%s: %s\n", text, reply->element[1]->str, reply->element[2]->str);
        freeReplyObject(reply);
    }
    return text;
}

/* ---- calls ------------------------------------------------------------------------- */

static const store_value *redis_call(two_machines *m, const store_call *call)
{
    fcall *f = fcall_new(&call, 1, m->digest, false);
    void *it = NULL;

    redisAppendFormattedCommand(m->redis, f->bytes, f->len);
    free(f);
    redisGetReply(m->redis, &it);
    if (!it)
        fail_msg("Redis: %s", m->redis->errstr);
    const store_value *value = store_value_copy(m->arena, value_of(m->arena, it));
    freeReplyObject(it);
    return value;
}

const char *two_machines_call(two_machines *m, const store_call *call, const store_value **redis,
                              const store_value **engine, const char **redis_messages)
{
    const functions_hooks hooks = {.publish = publish, .is_subscribed = is_subscribed, .arg = m};

    m->engine_messages = "";
    *redis = redis_call(m, call);
    *engine = functions_run(m->engine, m->keys, &hooks, m->now_us, call, false, m->arena);
    *redis_messages = read_messages(m);
    return m->engine_messages;
}

const char *two_machines_text(two_machines *m, const store_value *value)
{
    switch (value->type) {
    case STORE_NIL:
        return "nil";
    case STORE_INTEGER:
        return memory_printf_in(m->arena, "%lld", (long long)value->integer);
    case STORE_ARRAY:
        break;
    default:
        return memory_printf_in(m->arena, "%s%.*s", value->type == STORE_ERROR ? "-" : "'", (int)value->string.len,
                                value->string.data);
    }
    const char *text = "{";
    for (size_t i = 0; i < value->n; i++)
        text = memory_printf_in(m->arena, "%s%s%s", text, i ? " " : "", two_machines_text(m, &value->element[i]));
    return memory_printf_in(m->arena, "%s}", text);
}

void two_machines_at(two_machines *m, int64_t now_us)
{
    m->now_us = now_us;
    atomic_store(m->clock.shift_us, now_us);
    lks_rpc_arena_reset(m->arena);
}

/* ---- keys -------------------------------------------------------------------------- */

static const char key_lines[] = "local function hex(text) return (string.gsub(text, '.', function(c) return "
                                "string.format('%02x', string.byte(c)) end)) "
                                "end\n"
                                "local keys, lines = redis.call('KEYS', '*'), {}\n"
                                "table.sort(keys)\n"
                                "for _, key in ipairs(keys) do\n"
                                "  local kind, content = redis.call('TYPE', key).ok, nil\n"
                                "  if kind == 'string' then content = {redis.call('GET', key)}\n"
                                "  elseif kind == 'hash' then content = redis.call('HGETALL', key)\n"
                                "  else content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end\n"
                                "  for i = 1, #content do content[i] = hex(content[i]) end\n"
                                "  lines[#lines + 1] = key .. ' ' .. kind .. ' ' .. string.format('%.0f', "
                                "redis.call('PEXPIRETIME', key)) .. ' ' ..\n"
                                "    table.concat(content, ' ')\n"
                                "end\n"
                                "return table.concat(lines, '\\n')";

const char *two_machines_redis_keys(two_machines *m)
{
    redisReply *reply = checked(m->redis, redisCommand(m->redis, "EVAL %s 0", key_lines));
    const char *text = memory_copy_in(m->arena, reply->str, reply->len);

    freeReplyObject(reply);
    return text;
}

static void put_hex(FILE *out, lks_rpc_slice bytes)
{
    fputc(' ', out);
    for (size_t i = 0; i < bytes.len; i++)
        fprintf(out, "%02x", (unsigned char)bytes.data[i]);
}

static void put_content(FILE *out, const keys *k, const keys_entry *key)
{
    lks_rpc_slice value;
    const keys_item *field;
    const keys_item *const *members;
    char score[64];
    size_t n;

    if (key->type == KEYS_STRING) {
        assert_int_equal(keys_get(k, key->name, &value), KEYS_FOUND);
        put_hex(out, value);
    } else if (key->type == KEYS_HASH) {
        assert_int_equal(keys_fields(k, key->name, &field, &n), KEYS_FOUND);
        for (; field; field = keys_next_field(field)) {
            put_hex(out, field->name);
            put_hex(out, field->value);
        }
    } else {
        assert_int_equal(keys_members(k, key->name, &members, &n), KEYS_FOUND);
        for (size_t i = 0; i < n; i++) {
            put_hex(out, members[i]->name);
            snprintf(score, sizeof score, "%.17g", members[i]->score);
            put_hex(out, lks_rpc_slice_of(score));
        }
    }
}

const char *two_machines_engine_keys(two_machines *m)
{
    static const char *const types[] = {[KEYS_STRING] = "string", [KEYS_HASH] = "hash", [KEYS_ZSET] = "zset"};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    keys_expire(m->keys, m->now_us);
    for (size_t i = 0; i < keys_count(m->keys); i++) {
        const keys_entry *key = keys_at(m->keys, i);
        fprintf(out, "%s%.*s %s %lld", i ? "\n" : "", (int)key->name.len, key->name.data, types[key->type],
                key->end_us ? (long long)(key->end_us / 1000) : -1);
        put_content(out, m->keys, key);
    }
    fclose(out);
    const char *copy = memory_copy_in(m->arena, text, len);
    free(text);
    return copy;
}

/* ---- both -------------------------------------------------------------------------- */

void two_machines_reset(two_machines *m, int64_t now_us)
{
    two_machines_at(m, now_us);
    ask(m->redis, "FLUSHALL%s", "");
    keys_free(m->keys);
    m->keys = keys_new();
}

static bool open_redis(two_machines *m)
{
    m->dir = tempdir_make();
    if (!m->dir || !moved_clock_open(&m->clock, SHIFTED_CLOCK_PATH, m->dir))
        return false;
    atomic_store(m->clock.shift_us, INT64_C(1000000000000000));
    m->env[0] = m->clock.env[0];
    m->env[1] = m->clock.env[1];
    m->env[2] = "STILL_CLOCK=1";
    m->fixture = redis_fixture_start(&(redis_fixture_options){.env = m->env});
    if (!m->fixture)
        return false;
    m->redis = redisConnectUnix(redis_fixture_socket(m->fixture));
    m->subscriber = redisConnectUnix(redis_fixture_socket(m->fixture));
    if (!m->redis || m->redis->err || !m->subscriber || m->subscriber->err)
        return false;
    redisSetTimeout(m->redis, (struct timeval){.tv_sec = ANSWER_S}); /* a function may never end there */
    return true;
}

two_machines *two_machines_new(const char *library, size_t len, const char *digest)
{
    two_machines *m = memory_alloc(sizeof *m);
    lks_error error;

    m->digest = digest;
    m->arena = memory_arena();
    if (functions_open(library, len, digest, &m->engine, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        two_machines_free(m);
        return NULL;
    }
    if (!open_redis(m)) {
        two_machines_free(m);
        return NULL;
    }
    freeReplyObject(checked(m->redis, redisCommand(m->redis, "FUNCTION LOAD %b", library, len)));
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        ask(m->subscriber, "SUBSCRIBE %s", channels[i]);
    return m;
}

void two_machines_free(two_machines *m)
{
    if (!m)
        return;
    if (m->redis)
        redisFree(m->redis);
    if (m->subscriber)
        redisFree(m->subscriber);
    redis_fixture_free(m->fixture);
    moved_clock_close(&m->clock);
    tempdir_remove(m->dir);
    keys_free(m->keys);
    functions_close(m->engine);
    lks_rpc_arena_free(m->arena);
    free(m);
}

#include "support/machine_engine.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "functions/arguments.h"
#include "machine/functions.h"
#include "memory.h"
#include "store/value.h"
#include "test.h"

/* Behind the head of the library: commands are counted, and one function runs a command. MGET is of support/clock.lua:
 * here its numbers are in what TIME gives. */
static const char additions[] =
    "local counts, more = {}, {}\n"
    "for _, how in ipairs{'call', 'pcall'} do\n"
    "  local run = redis[how]\n"
    "  redis[how] = function(name, ...)\n"
    "    local small = string.lower(name)\n"
    "    counts[small] = (counts[small] or 0) + 1\n"
    "    return name == 'MGET' and {false, false} or run(name, ...)\n"
    "  end\n"
    "end\n"
    "function more.INCRBY(key, by)\n"
    "  redis.call('SET', key, string.format('%.0f', (redis.call('GET', key) or 0) + by), 'KEEPTTL')\n"
    "end\n"
    "function more.INCR(key) return more.INCRBY(key, 1) end\n"
    "redis.register_function{function_name = 'harness_command' .. suffix, callback = function(_, words)\n"
    "  table.remove(words, 1)\n"
    "  if more[words[1]] then return more[words[1]](unpack(words, 2)) end\n"
    "  return redis.call(unpack(words))\n"
    "end}\n"
    "redis.register_function{function_name = 'harness_counts' .. suffix, flags = {'no-writes'}, callback = function()\n"
    "  local lines = {}\n"
    "  for name, n in pairs(counts) do lines[#lines + 1] = 'cmdstat_' .. name .. ':calls=' .. n end\n"
    "  return table.concat(lines, '\\n')\n"
    "end}\n";

enum { GROUPS_MAX = 256, LIST_HEAD = 4 };

typedef struct group {
    char *base; /* "": of keys that belong to none */
    keys *keys;
} group;

struct machine_engine {
    functions *functions;
    char *digest;
    group groups[GROUPS_MAX];
    size_t n;
    keys *channels;
    bool is_full;
    unsigned long calls, messages;
};

/* ---- keys and time --------------------------------------------------------------------- */

/* The beginning of the key up to "}:", which is a whole base. */
static lks_rpc_slice base_of(lks_rpc_slice key)
{
    const char *end = key.len > 4 && memcmp(key.data, "ls:{", 4) == 0 ? memmem(key.data, key.len, "}:", 2) : NULL;

    return (lks_rpc_slice){key.data, end ? (size_t)(end + 2 - key.data) : 0};
}

static group *group_of(machine_engine *m, lks_rpc_slice key)
{
    const lks_rpc_slice base = base_of(key);
    size_t i = 0;

    while (i < m->n && (strlen(m->groups[i].base) != base.len || memcmp(m->groups[i].base, base.data, base.len) != 0))
        i++;
    if (i == GROUPS_MAX)
        fail_msg("more than %d groups", GROUPS_MAX);
    if (i == m->n)
        m->groups[m->n++] = (group){.base = memory_copy(base.data, base.len), .keys = keys_new()};
    return &m->groups[i];
}

static int64_t number_at(machine_engine *m, const char *key, int64_t otherwise)
{
    const lks_rpc_slice name = lks_rpc_slice_of(key);
    char digits[32];
    lks_rpc_slice value;

    if (keys_get(group_of(m, name)->keys, name, &value) != KEYS_FOUND)
        return otherwise;
    snprintf(digits, sizeof digits, "%.*s", (int)value.len, value.data);
    return strtoll(digits, NULL, 10);
}

static int64_t clock_us(void)
{
    return (int64_t)(clock_unix_ns() / 1000);
}

static int64_t now_us(machine_engine *m)
{
    return number_at(m, "ls:test:clock_still_us", clock_us()) + number_at(m, "ls:test:clock_offset_us", 0);
}

static void flush(machine_engine *m)
{
    for (size_t i = 0; i < m->n; i++) {
        keys_free(m->groups[i].keys);
        free(m->groups[i].base);
    }
    m->n = 0;
}

/* ---- messages -------------------------------------------------------------------------- */

/* A subscribed channel is a hash: the field "" always exists, the others are its messages. */

static bool is_subscribed(void *arg, lks_rpc_slice channel)
{
    const machine_engine *m = arg;

    return keys_find(m->channels, channel);
}

static int64_t publish(void *arg, lks_rpc_slice channel, lks_rpc_slice text)
{
    machine_engine *m = arg;
    char number[24];

    if (!is_subscribed(m, channel))
        return 0;
    snprintf(number, sizeof number, "%lu", ++m->messages);
    keys_set_field(m->channels, channel, lks_rpc_slice_of(number), text);
    return 1;
}

lks_rpc_slice machine_engine_message(machine_engine *m, const char *channel, lks_rpc_arena *arena)
{
    const lks_rpc_slice name = lks_rpc_slice_of(channel);
    const keys_item *first, *it = NULL;
    size_t n;

    if (keys_fields(m->channels, name, &first, &n) == KEYS_FOUND)
        it = keys_next_field(first);
    if (!it)
        return (lks_rpc_slice){NULL, 0};
    const lks_rpc_slice text = {memory_copy_in(arena, it->value.data, it->value.len), it->value.len};
    const lks_rpc_slice number = {memory_copy_in(arena, it->name.data, it->name.len), it->name.len};
    keys_delete_field(m->channels, name, number);
    return text;
}

void machine_engine_listen(machine_engine *m, const char *channel, bool listens)
{
    const lks_rpc_slice name = lks_rpc_slice_of(channel), nothing = {"", 0};

    keys_delete(m->channels, name);
    if (listens)
        keys_set_field(m->channels, name, nothing, nothing);
}

/* ---- functions ------------------------------------------------------------------------- */

static const store_value *run_in(machine_engine *m, functions *f, group *g, const store_call *call,
                                 lks_rpc_arena *arena)
{
    const functions_hooks hooks = {.publish = publish, .is_subscribed = is_subscribed, .arg = m};
    const size_t len = strlen(g->base);
    const store_value *reply = functions_run(f, g->keys, &hooks, now_us(m), call, m->is_full, arena);
    const size_t n = keys_count(g->keys);

    /* The keys are in the order of their names, so that those of another group are first or last. */
    for (size_t i = 0; i < 2 && n > 0; i++) {
        const lks_rpc_slice name = keys_at(g->keys, i * (n - 1))->name;
        if (len > 0 && (name.len < len || memcmp(name.data, g->base, len) != 0))
            fail_msg("%s of %s wrote %.*s", call->function, g->base, (int)name.len, name.data);
    }
    return reply;
}

/* One group after the other, as server/quorum/list.c does it. A page begins at "<place of a group>[.<12 hex digits of
 * the function's cursor>[.<digest>...]]". */
static const store_value *list(machine_engine *m, const store_call *call, lks_rpc_arena *arena)
{
    char *rest;
    size_t at = strtoull(call->args[ARG_LOCK_LIST_PAGE_CURSOR].data, &rest, 10);
    const uint64_t scan = *rest == '.' ? strtoull(rest + 1, &rest, 16) : 0;
    const char *inner = memory_printf_in(arena, "%" PRIu64 "%s", scan, rest), *next = "";
    const size_t page = strtoul(call->args[ARG_LOCK_LIST_PAGE_SIZE].data, NULL, 10);
    store_value *items = memory_in(arena, (LIST_HEAD + page) * sizeof *items);
    size_t n = LIST_HEAD;
    store_call part = *call;

    part.args = memory_in(arena, call->n_args * sizeof *part.args);
    memcpy(part.args, call->args, call->n_args * sizeof *part.args);
    for (; at < m->n && *next == '\0'; at++, inner = "0") {
        part.args[ARG_LOCK_LIST_PAGE_SIZE] = lks_rpc_slice_of(memory_printf_in(arena, "%zu", page + LIST_HEAD - n));
        part.args[ARG_LOCK_LIST_PAGE_CURSOR] = lks_rpc_slice_of(inner);
        const store_value *reply = run_in(m, m->functions, &m->groups[at], &part, arena);
        if (reply->type != STORE_ARRAY || reply->n < LIST_HEAD || !value_is(&reply->element[0], "OK"))
            return reply;
        for (size_t i = LIST_HEAD; i < reply->n; i++)
            items[n++] = reply->element[i];
        inner = reply->element[1].string.data;
        if (*inner != '\0') {
            const uint64_t cursor = strtoull(inner, &rest, 10);
            next = memory_printf_in(arena, "%zu.%012" PRIx64 "%s", at, cursor, rest);
        } else if (n == LIST_HEAD + page && at + 1 < m->n) {
            next = memory_printf_in(arena, "%zu", at + 1);
        }
    }
    const char *const head[LIST_HEAD] = {"OK", next, "", ""};
    for (size_t i = 0; i < LIST_HEAD; i++)
        items[i] = (store_value){.type = STORE_STRING, .string = lks_rpc_slice_of(head[i])};
    store_value *reply = memory_in(arena, sizeof *reply);
    *reply = (store_value){.type = STORE_ARRAY, .n = n, .element = items};
    return reply;
}

/* ---- commands -------------------------------------------------------------------------- */

static const store_value *text_reply(lks_rpc_arena *arena, const char *text)
{
    store_value *reply = memory_in(arena, sizeof *reply);

    *reply = (store_value){.type = STORE_STRING, .string = lks_rpc_slice_of(text)};
    return reply;
}

static const store_value *number_reply(lks_rpc_arena *arena, int64_t number)
{
    return text_reply(arena, memory_printf_in(arena, "%" PRId64, number));
}

static uint64_t digest_of_text(uint64_t digest, lks_rpc_slice text)
{
    return hash_more(hash_more(digest, &text.len, sizeof text.len), text.data, text.len);
}

static uint64_t digest_of_key(const keys *k, const keys_entry *key)
{
    uint64_t digest = hash_more(HASH_START, &key->type, sizeof key->type);
    const keys_item *const *members;
    const keys_item *field;
    lks_rpc_slice value;
    size_t n = 0;

    if (keys_get(k, key->name, &value) == KEYS_FOUND)
        return digest_of_text(digest, value);
    if (keys_fields(k, key->name, &field, &n) == KEYS_FOUND)
        for (; field; field = keys_next_field(field))
            digest = digest_of_text(digest_of_text(digest, field->name), field->value);
    else if (keys_members(k, key->name, &members, &n) == KEYS_FOUND)
        for (size_t i = 0; i < n; i++)
            digest = digest_of_text(hash_more(digest, &members[i]->score, sizeof(double)), members[i]->name);
    return digest;
}

/* A line for each key that the pattern matches, with its contents if requested. */
static const char *key_lines(machine_engine *m, lks_rpc_slice pattern, bool with_content, lks_rpc_arena *arena)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    for (size_t i = 0; i < m->n; i++) {
        const keys *k = m->groups[i].keys;
        keys_expire(m->groups[i].keys, now_us(m));
        for (size_t at = 0; at < keys_count(k); at++) {
            const keys_entry *key = keys_at(k, at);
            if (fnmatch(pattern.data, key->name.data, 0) != 0)
                continue;
            fprintf(out, "%.*s", (int)key->name.len, key->name.data);
            if (with_content)
                fprintf(out, " %d %" PRId64 " %016" PRIx64, (int)key->type, key->end_us, digest_of_key(k, key));
            fputc('\n', out);
        }
    }
    fclose(out);
    const char *copy = memory_copy_in(arena, text, len);
    free(text);
    return copy;
}

const char *machine_engine_snapshot(machine_engine *m, lks_rpc_arena *arena)
{
    return key_lines(m, lks_rpc_slice_of("ls:{*"), true, arena);
}

/* PTTL, PEXPIRETIME: of the key's end, less `from` */
static const store_value *end_reply(machine_engine *m, lks_rpc_slice name, int64_t from_us, lks_rpc_arena *arena)
{
    keys *k = group_of(m, name)->keys;

    keys_expire(k, now_us(m));
    const keys_entry *key = keys_find(k, name);
    return number_reply(arena, !key ? -2 : !key->end_us ? -1 : (key->end_us - from_us) / 1000);
}

static const store_value *count_keys(machine_engine *m, lks_rpc_arena *arena)
{
    int64_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        keys_expire(m->groups[i].keys, now_us(m));
        n += (int64_t)keys_count(m->groups[i].keys);
    }
    return number_reply(arena, n);
}

/* FCALL <name>_<digest> <n> <base>... {<n> <argument>...}..., as store/fcall.c writes it; without bases the first
 * argument of each call is its base. The calls run one after the other. */
static const store_value *fcall(machine_engine *m, size_t n, const lks_rpc_slice *words, lks_rpc_arena *arena)
{
    const size_t bases = strtoul(words[2].data, NULL, 10);
    store_value *replies = memory_in(arena, n * sizeof *replies), *all = memory_in(arena, sizeof *all);
    size_t done = 0;

    m->calls++;
    for (size_t at = 3 + bases, n_args; at < n; at += 1 + n_args, done++) {
        n_args = strtoul(words[at].data, NULL, 10);
        const size_t own = bases == 0;
        store_call call = {.function = memory_copy_in(arena, words[1].data, words[1].len - strlen(m->digest) - 1),
                           .base = own ? words[at + 1] : words[3 + (bases > 1 ? done : 0)],
                           .n_args = n_args - own,
                           .args = (lks_rpc_slice *)(uintptr_t)&words[at + 1 + own],
                           .whole_shard = own};
        bool is_list = strcmp(call.function, fn_lock_list.name) == 0;
        replies[done] =
            *(is_list ? list(m, &call, arena) : run_in(m, m->functions, group_of(m, call.base), &call, arena));
    }
    *all = (store_value){.type = STORE_ARRAY, .n = done, .element = replies};
    return done == 1 ? replies : all;
}

/* EVAL <script> <n> <key>... <argument>...: the script is a library for once. */
static const store_value *eval(machine_engine *m, size_t n, const lks_rpc_slice *words, lks_rpc_arena *arena)
{
    const size_t n_keys = strtoul(words[2].data, NULL, 10);
    const char *text =
        memory_printf_in(arena,
                         "redis.register_function{function_name = 'script_', callback = function(_, ARGV)\n"
                         "local KEYS = {}\n"
                         "table.remove(ARGV, 1)\n"
                         "for i = 1, %zu do KEYS[i] = table.remove(ARGV, 1) end\n%.*s\nend}",
                         n_keys, (int)words[1].len, words[1].data);
    const store_call call = {
        .function = "script", .base = words[3], .n_args = n - 3, .args = (lks_rpc_slice *)(uintptr_t)&words[3]};
    functions *f;
    lks_error error;

    if (n_keys == 0)
        fail_msg("an EVAL without a key");
    if (functions_open(text, strlen(text), "", &f, &error) != LKS_OK)
        fail_msg("EVAL: %s", error.message);
    const store_value *reply = run_in(m, f, group_of(m, words[3]), &call, arena);
    functions_close(f);
    return reply;
}

/* A command of the machine, of one key. */
static const store_value *run_command(machine_engine *m, size_t n, const lks_rpc_slice *words, lks_rpc_arena *arena)
{
    const store_call call = {.function = "harness_command",
                             .base = n > 1 ? words[1] : (lks_rpc_slice){"", 0},
                             .n_args = n,
                             .args = (lks_rpc_slice *)(uintptr_t)words};
    const store_value *reply = run_in(m, m->functions, group_of(m, call.base), &call, arena);

    if (reply->type == STORE_ERROR && strstr(reply->string.data, "Unknown Redis command"))
        fail_msg("the machine has no command %s", words[0].data);
    return reply;
}

const store_value *machine_engine_command(machine_engine *m, size_t n, const lks_rpc_slice *words, lks_rpc_arena *arena)
{
    const char *name = words[0].data;
    const int64_t us = clock_us();

    if (strcasecmp(name, "FCALL") == 0 && n > 3)
        return fcall(m, n, words, arena);
    if (strcasecmp(name, "EVAL") == 0 && n > 3)
        return eval(m, n, words, arena);
    if (strcasecmp(name, "KEYS") == 0 && n == 2)
        return text_reply(arena, key_lines(m, words[1], false, arena));
    if (strcasecmp(name, "DBSIZE") == 0)
        return count_keys(m, arena);
    if (strcasecmp(name, "PTTL") == 0 && n == 2)
        return end_reply(m, words[1], now_us(m), arena);
    if (strcasecmp(name, "PEXPIRETIME") == 0 && n == 2)
        return end_reply(m, words[1], 0, arena);
    if (strcasecmp(name, "TIME") == 0)
        return text_reply(arena, memory_printf_in(arena, "%" PRId64 "\n%" PRId64 "\n", us / 1000000, us % 1000000));
    if (strcasecmp(name, "INFO") == 0) {
        const store_call call = {.function = "harness_counts", .base = {"", 0}};
        const store_value *counts = run_in(m, m->functions, group_of(m, call.base), &call, arena);
        return text_reply(arena,
                          memory_printf_in(arena, "%s\ncmdstat_fcall:calls=%lu\n", counts->string.data, m->calls));
    }
    if (strcasecmp(name, "CONFIG") == 0 && n == 4 && strcmp(words[2].data, "maxmemory") == 0)
        m->is_full = strcmp(words[3].data, "0") != 0;
    else if (strcasecmp(name, "FLUSHALL") == 0)
        flush(m);
    else
        return run_command(m, n, words, arena);
    return text_reply(arena, "OK");
}

/* ---- beginning and end ----------------------------------------------------------------- */

machine_engine *machine_engine_new(const char *library, size_t len, const char *digest)
{
    machine_engine *m = memory_alloc(sizeof *m);
    const size_t head = strcspn(library, "\n") + 1;
    lks_rpc_arena *arena = memory_arena();
    const char *text = memory_printf_in(arena, "%.*sdo local suffix = '_%s'\n%send\n%.*s", (int)head, library, digest,
                                        additions, (int)(len - head), library + head);
    lks_error error;

    m->channels = keys_new();
    m->digest = memory_copy(digest, strlen(digest));
    if (functions_open(text, strlen(text), digest, &m->functions, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        machine_engine_free(m);
        m = NULL;
    }
    lks_rpc_arena_free(arena);
    return m;
}

void machine_engine_free(machine_engine *m)
{
    if (!m)
        return;
    flush(m);
    keys_free(m->channels);
    functions_close(m->functions);
    free(m->digest);
    free(m);
}

/* Redis' memory is flat where everything that is created also ends: cycles of a load that
 * uses all services, then days pass, by a clock that the test puts forward, until all is
 * gone that is to go. What may stay is written in the docs, and nothing else does; the
 * memory of Redis and of lockstockd stays where it was after the second cycle. */
/* promise E7: each key has a TTL or an end that the docs name; when that is over, it is gone, and Redis' memory is
 * what it was */

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/memory_load.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "support/two_servers.h"
#include "test.h"

enum {
    LIMIT_MS = 120000,
    KIND_MAX = 64,
    KINDS_MAX = 64,
    KEYS_SLACK_BYTES = 256, /* numbers get longer */
    REDIS_SLACK_BYTES = 65536,
    LUA_SLACK_BYTES = 262144,
    SERVER_SLACK_KIB = 4096, /* a cache of policies fills up, with 4,096 of them at most */
};
#define DAY_US (INT64_C(86400) * 1000000)

/* ---- what is kept, as the docs have it ---------------------------------------------- */

typedef enum life {
    ENDS,     /* has a TTL from its first moment on */
    IS_ENDED, /* by a call, or gets a TTL by one */
    OF_ITEMS, /* stays as long as there are items: in the shop that stays */
    STAYS,    /* by contract: the load uses a fixed set of them */
    OTHERS,   /* of Sentinel, or of groups in buckets, which stay: the load has neither */
} life;

static const struct kind {
    const char *name; /* of the key, behind its base, up to <x> */
    life life;
    const char *page; /* whose table of keys has it */
} kinds[] = {
    {"schema", STAYS, "store"},
    {"libraries", STAYS, "store"},
    {"mark", STAYS, "store"},
    {"generation", OTHERS, "store"},
    {"servers", ENDS, "store"},
    {"lock:n", ENDS, "locks"},
    {"lock:h", ENDS, "locks"},
    {"lock:t", ENDS, "locks"},
    {"lock:w", ENDS, "locks"},
    {"lock:s", ENDS, "locks"},
    {"lock:r", STAYS, "locks"},
    {"stock:i", OF_ITEMS, "stock"},
    {"stock:b", IS_ENDED, "stock"},
    {"stock:o", IS_ENDED, "stock"}, /* by the end of its hold, then it has an end itself */
    {"stock:x", IS_ENDED, "stock"},
    {"stock:a", ENDS, "stock"},
    {"stock:t", ENDS, "stock"},
    {"stock:n", OTHERS, "stock"},
    {"stock:m", OTHERS, "stock"},
    {"stock:skus", OF_ITEMS, "stock"},
    {"stock:ledger", OF_ITEMS, "ledger"},
    {"stock:r", ENDS, "ledger"},
    {"stock:v", ENDS, "stock"},
    {"idem:r", ENDS, "idempotency"},
    {"idem:w", ENDS, "idempotency"},
    {"idem:t", ENDS, "idempotency"},
    {"rate:k", ENDS, "ratelimit"},
    {"rate:l", ENDS, "ratelimit"},
    {"rate:q", ENDS, "ratelimit"},
    {"rate:p", IS_ENDED, "ratelimit"},
    {"rate:n", IS_ENDED, "ratelimit"},
    {"rate:v", ENDS, "ratelimit"},
    {"rate:c", ENDS, "ratelimit"},
    {"id:workers", STAYS, "id"},
    {"id:s", STAYS, "id"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* "ls:{default/a}:lock:n:door" -> "lock:n". */
static void kind_of(const char *key, char *kind)
{
    const char *at = strstr(key, "}:");
    const char *colon;

    assert_non_null(at);
    at += 2;
    colon = strchr(at, ':');
    if (colon)
        colon = strchr(colon + 1, ':');
    snprintf(kind, KIND_MAX, "%.*s", colon ? (int)(colon - at) : (int)strlen(at), at);
}

/* Each row of a page's tables of keys, "| `lock:n:<name>` | hash | ..." or "| `ls:{x/y}:id:s` |
 * ...", has a kind here; which they are. */
static void read_rows(const char *page, bool found[N_KINDS])
{
    char path[512], line[4096], text[KIND_MAX];
    bool among_keys = false;

    snprintf(path, sizeof path, "%s/docs/%s.md", SOURCE_DIR, page);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("no %s", path);
    while (fgets(line, sizeof line, file)) {
        among_keys = strncmp(line, "| key |", 7) == 0 || (among_keys && line[0] == '|');
        if (!among_keys || sscanf(line, "| `%63[^`<]", text) != 1)
            continue;
        char *name = strstr(text, "}:") ? strstr(text, "}:") + 2 : text;
        if (name[strlen(name) - 1] == ':')
            name[strlen(name) - 1] = '\0';
        const struct kind *kind = find_kind(name);
        if (!kind)
            fail_msg("docs/%s.md has the key %s, which this test does not know", page, name);
        found[kind - kinds] = true;
    }
    fclose(file);
}

TEST(the_docs_list_every_kind_of_key)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        bool found[N_KINDS] = {false};
        read_rows(kinds[i].page, found);
        if (!found[i])
            fail_msg("docs/%s.md does not have the key %s", kinds[i].page, kinds[i].name);
    }
}

/* ---- Redis and its clock ------------------------------------------------------------ */

typedef struct fixture {
    char *dir;
    _Atomic int64_t *shift; /* microseconds that Redis' clock is ahead */
    char env[2][512];
    const char *envs[3];
    two_servers two;
    redisContext *direct; /* to their Redis */
    size_t most_keys;
    bool seen[N_KINDS];
    bool looked[N_KINDS]; /* in this cycle */
} fixture;

static fixture *running; /* for the load */

static bool make_clock(fixture *f)
{
    char path[256];

    f->dir = tempdir_make();
    if (!f->dir)
        return false;
    snprintf(path, sizeof path, "%s/shift", f->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *f->shift) != 0)
        return false;
    void *mapped = mmap(NULL, sizeof *f->shift, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    f->shift = mapped != MAP_FAILED ? mapped : NULL;
    snprintf(f->env[1], sizeof f->env[1], "SHIFTED_CLOCK=%s", path);
    /* LD_PRELOAD takes no path with a space in it. */
    snprintf(f->env[0], sizeof f->env[0], "LD_PRELOAD=%s/clock.so", f->dir);
    if (symlink(SHIFTED_CLOCK_PATH, f->env[0] + strlen("LD_PRELOAD=")) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        f->envs[i] = f->env[i];
    return f->shift;
}

static int setup(void **state)
{
    static const char *const args[] = {"--allow-unsafe-store", NULL};
    /* What ends is gone soon; and no log of slow commands, which fills up first. */
    static const char *const often[] = {"--hz", "500", "--slowlog-log-slower-than", "-1", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    if (!make_clock(f))
        return -1;
    if (!two_servers_start(&f->two, &(redis_fixture_options){.args = often, .env = f->envs},
                           (server_fixture_options){.args = args}))
        return -1;
    f->direct = redisConnectUnix(redis_fixture_socket(f->two.redis));
    return f->direct && !f->direct->err ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;

    if (f->direct)
        redisFree(f->direct);
    two_servers_end(&f->two);
    if (f->shift)
        munmap((void *)f->shift, sizeof *f->shift);
    tempdir_remove(f->dir);
    free(f);
    return 0;
}

/* To be freed. */
static redisReply *ask(fixture *f, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = redisvCommand(f->direct, format, arguments);
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply ? reply->str : f->direct->errstr);
    return reply;
}

/* A number of INFO memory. */
static long long memory_of(fixture *f, const char *name)
{
    redisReply *reply = ask(f, "INFO memory");
    char wanted[64];

    snprintf(wanted, sizeof wanted, "\n%s:", name);
    const char *at = strstr(reply->str, wanted);
    assert_non_null(at);
    long long n = strtoll(at + strlen(wanted), NULL, 10);
    freeReplyObject(reply);
    return n;
}

/* ---- keys ---------------------------------------------------------------------------- */

typedef struct keys {
    size_t n;
    char **names;    /* sorted */
    long long bytes; /* of what stays */
} keys;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_keys(keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        free(k->names[i]);
    free(k->names);
    *k = (keys){0};
}

/* All there are. */
static keys all_keys(fixture *f)
{
    redisReply *reply = ask(f, "KEYS *");
    keys k = {.n = reply->elements, .names = calloc(reply->elements + 1, sizeof *k.names)};

    assert_non_null(k.names);
    for (size_t i = 0; i < k.n; i++)
        k.names[i] = strdup(reply->element[i]->str);
    freeReplyObject(reply);
    qsort(k.names, k.n, sizeof *k.names, by_name);
    return k;
}

/* Each key is of a kind that the docs know, and ends if that ends. */
static void look_at_keys(fixture *f)
{
    keys k = all_keys(f);
    char name[KIND_MAX];

    for (size_t i = 0; i < k.n; i++) {
        kind_of(k.names[i], name);
        const struct kind *kind = find_kind(name);
        if (!kind)
            fail_msg("a key of no kind in the docs: %s", k.names[i]);
        redisReply *reply = ask(f, "PTTL %s", k.names[i]);
        if (kind->life == ENDS && reply->integer == -1)
            fail_msg("%s has no end", k.names[i]);
        freeReplyObject(reply);
        f->seen[kind - kinds] = true;
    }
    if (k.n > f->most_keys)
        f->most_keys = k.n;
    free_keys(&k);
}

void load_look(const char *name)
{
    long long end = process_now_ms() + LIMIT_MS;
    size_t i = (size_t)(find_kind(name) - kinds);

    if (running->looked[i])
        return;
    running->looked[i] = true;
    running->seen[i] = false;
    do {
        look_at_keys(running);
    } while (!running->seen[i] && process_now_ms() < end);
    if (!running->seen[i])
        fail_msg("the load made no %s", name);
}

/* Whether no key is left that has an end. */
static bool all_ends_are_over(fixture *f)
{
    redisReply *reply = ask(f, "INFO keyspace");
    const char *at = strstr(reply->str, "expires=");
    bool over = !at || strtoll(at + strlen("expires="), NULL, 10) == 0;

    freeReplyObject(reply);
    return over;
}

/* What is left when all ends are over: nobody looks at it until it is gone. A server that
 * was late may have written after the clock was put forward: that ends the next time. */
static keys keys_that_stay(fixture *f)
{
    bool over = false;

    for (int times = 0; times < 3 && !over; times++) {
        long long end = process_now_ms() + LIMIT_MS / 3;
        atomic_fetch_add(f->shift, LOAD_DAYS * DAY_US);
        while (!(over = all_ends_are_over(f)) && process_now_ms() < end)
            process_pause();
    }
    keys k = all_keys(f);
    for (size_t i = 0; i < k.n; i++) {
        redisReply *reply = ask(f, "MEMORY USAGE %s SAMPLES 0", k.names[i]);
        k.bytes += reply->integer;
        freeReplyObject(reply);
    }
    return k;
}

static void expect_only_what_stays(const keys *k)
{
    char name[KIND_MAX];

    for (size_t i = 0; i < k->n; i++) {
        kind_of(k->names[i], name);
        const struct kind *kind = find_kind(name);
        bool of_the_shop = strstr(k->names[i], "{default/shop}");
        if (!kind || (kind->life != STAYS && !(kind->life == OF_ITEMS && of_the_shop)))
            fail_msg("%s is still there", k->names[i]);
    }
}

static void expect_same(const keys *a, const keys *b)
{
    for (size_t i = 0; i < a->n || i < b->n; i++)
        if (i >= a->n || i >= b->n || strcmp(a->names[i], b->names[i]) != 0)
            fail_msg("%zu keys stay, then %zu; the first that differs: %s, %s", a->n, b->n,
                     i < a->n ? a->names[i] : "none", i < b->n ? b->names[i] : "none");
    if (b->bytes > a->bytes + KEYS_SLACK_BYTES)
        fail_msg("what stays had %lld bytes, and has %lld", a->bytes, b->bytes);
}

/* ---- cycles -------------------------------------------------------------------------- */

static load_round *const loads[] = {load_locks, load_stock, load_idempotency, load_rates, load_ids};

void load_ok(lks_code code, const lks_error *error, const char *what)
{
    if (code != LKS_OK)
        fail_msg("%s: %s: %s", what, lks_code_name(code), error->message);
}

static keys cycle(fixture *f, size_t first, size_t rounds)
{
    memset(f->looked, 0, sizeof f->looked);
    f->most_keys = 0;
    for (size_t i = 0; i < rounds; i++)
        for (size_t k = 0; k < sizeof loads / sizeof *loads; k++)
            loads[k](f->two.channels, first + i);
    look_at_keys(f);
    return keys_that_stay(f);
}

typedef struct figures {
    long long redis, lua, servers_kib;
    size_t descriptors, threads;
} figures;

/* Without what connections have in flight. */
static figures measure(fixture *f)
{
    figures m = {.redis = memory_of(f, "used_memory") - memory_of(f, "mem_clients_normal"),
                 .lua = memory_of(f, "used_memory_vm_functions")};

    for (int i = 0; i < LOAD_SERVERS; i++) {
        pid_t pid = server_fixture_pid(f->two.servers[i]);
        m.servers_kib += (long long)process_rss_kib(pid);
        m.descriptors += process_fd_count(pid);
        m.threads += process_thread_count(pid);
    }
    return m;
}

static void print_figures(size_t n, const figures *m, size_t most, const keys *left)
{
    print_message(
        "    cycle %zu: %zu keys, %zu of %lld bytes stay; Redis %lld bytes, its Lua %lld, lockstockd %lld KiB\n", n,
        most, left->n, left->bytes, m->redis, m->lua, m->servers_kib);
}

/* Redis gives memory back in its own time: waits until it is as it was. */
static figures settled(fixture *f, const figures *settled_before)
{
    long long end = process_now_ms() + 10000;
    figures m = measure(f);

    while (settled_before && process_now_ms() < end &&
           (m.redis > settled_before->redis + REDIS_SLACK_BYTES || m.lua > settled_before->lua + LUA_SLACK_BYTES)) {
        process_pause();
        m = measure(f);
    }
    return m;
}

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static void expect_flat(const figures *early, const figures *late)
{
    if (late->redis > early->redis + REDIS_SLACK_BYTES)
        fail_msg("Redis had %lld bytes, and has %lld", early->redis, late->redis);
    if (late->lua > early->lua + LUA_SLACK_BYTES)
        fail_msg("Redis' Lua had %lld bytes, and has %lld", early->lua, late->lua);
    if (!is_sanitized() && late->servers_kib > early->servers_kib + SERVER_SLACK_KIB)
        fail_msg("lockstockd had %lld KiB, and has %lld", early->servers_kib, late->servers_kib);
    assert_int_equal(late->descriptors, early->descriptors);
    assert_int_equal(late->threads, early->threads);
}

/* promise E8: lockstockd's memory, descriptors and threads stay where they were */
TEST_WITH(memory_is_flat, setup, teardown)
{
    fixture *f = running = *state;
    size_t cycles = counts_of(4, 8), rounds = counts_of(15, 300);
    figures early = {0};
    keys stay = {0};

    for (size_t n = 0; n < cycles; n++) {
        keys left = cycle(f, n * rounds, rounds);
        expect_only_what_stays(&left);
        figures now = settled(f, n > 1 ? &early : NULL);
        print_figures(n + 1, &now, f->most_keys, &left);
        if (n == 1) {
            early = now;
            stay = left;
            continue;
        }
        if (n > 1) {
            expect_same(&stay, &left);
            expect_flat(&early, &now);
        }
        free_keys(&left);
    }
    free_keys(&stay);
    for (size_t i = 0; i < N_KINDS; i++)
        if (!f->seen[i] && kinds[i].life != OTHERS)
            fail_msg("the load made no key of the kind %s", kinds[i].name);
    for (int i = 0; i < LOAD_SERVERS; i++)
        assert_true(server_fixture_stop(f->two.servers[i], LIMIT_MS));
}

TEST_MAIN()

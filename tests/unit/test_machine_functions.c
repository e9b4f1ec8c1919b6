/* The function library in lockstockd's own process does what it does in Redis: the same random calls go to both, at the
 * same times, and must give equal replies, messages and keys. LOCKSTOCK_SEED, which is printed, repeats a run. */
#include <time.h>

#include "functions/library.h"
#include "support/counts.h"
#include "test.h"
#include "unit/two_machines.h"

enum {
    TOKENS = 8,
    NAMES = 4,
    OWNERS = 4,
    ARGS_MAX = 16,
    TEXT_BYTES = 128,
    WORD_BYTES = 16,
    TARGETS_MAX = 3,
    EPISODE_CALLS = 200,
    COPIES = 4,
};

#define BASE "ls:{t/g}:"

/* An Acquire that waits or holds, or may do so. */
typedef struct ticket {
    unsigned generation;
    bool is_known;
    char owner[WORD_BYTES], lease_ms[WORD_BYTES], wait_ms[WORD_BYTES], copy[COPIES][TEXT_BYTES];
    unsigned n_copies, n_targets;
    char target[TARGETS_MAX][TEXT_BYTES], name[TARGETS_MAX][TEXT_BYTES];
} ticket;

typedef struct scene {
    two_machines *m;
    uint64_t seed, random;
    size_t calls;
    int64_t now_us;
    ticket tickets[TOKENS];
    /* the call that is made */
    char text[ARGS_MAX][TEXT_BYTES];
    lks_rpc_slice args[ARGS_MAX];
    store_call call;
    unsigned n_names;
    char names[NAMES][TEXT_BYTES]; /* which it is about, at most */
} scene;

static scene *s;

/* ---- chance -------------------------------------------------------------------------- */

static unsigned below(unsigned n)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (unsigned)((s->random >> 11) % n);
}

static bool one_in(unsigned n)
{
    return below(n) == 0;
}

static const char *text_of(const char *prefix, unsigned number)
{
    static char texts[8][TEXT_BYTES];
    static unsigned next;
    char *text = texts[next++ % 8];

    snprintf(text, TEXT_BYTES, "%s%u", prefix, number);
    return text;
}

/* ---- calls --------------------------------------------------------------------------- */

static void begin(const char *function)
{
    s->call = (store_call){
        .base = lks_rpc_slice_of(BASE), .function = function, .args = s->args, .max_args = ARGS_MAX, .weight = 1};
}

static void add(const char *arg)
{
    size_t n = s->call.n_args++;

    snprintf(s->text[n], TEXT_BYTES, "%s", arg);
    s->args[n] = lks_rpc_slice_of(s->text[n]);
}

static const char *token_of(unsigned i)
{
    static char text[TEXT_BYTES];

    snprintf(text, sizeof text, "T%u.%u", i, s->tickets[i].generation);
    return text;
}

static void choose_target(ticket *t, const char *name)
{
    unsigned i = t->n_targets++, capacity = one_in(12) ? 5 : 3;

    snprintf(t->name[i], TEXT_BYTES, "%s", name);
    switch (below(8)) {
    case 0:
    case 1:
        snprintf(t->target[i], TEXT_BYTES, "%s S 1 0", name);
        break;
    case 2:
    case 3:
        snprintf(t->target[i], TEXT_BYTES, "%s P %u %u", name, 1 + below(capacity), capacity);
        break;
    default:
        snprintf(t->target[i], TEXT_BYTES, "%s", name);
    }
}

static void add_copy(ticket *t)
{
    unsigned i = t->n_copies < COPIES ? t->n_copies++ : below(COPIES);

    snprintf(t->copy[i], TEXT_BYTES, "s%u.c%u.%s", below(TWO_MACHINES_SERVERS), below(1000), t->lease_ms);
}

static void choose_ticket(ticket *t)
{
    unsigned first = below(NAMES), n = one_in(3) ? 2 + below(2) : 1;

    *t = (ticket){.generation = t->generation + 1, .is_known = true};
    snprintf(t->owner, WORD_BYTES, "%s", one_in(20) ? "" : text_of("o", below(OWNERS)));
    snprintf(t->lease_ms, WORD_BYTES, "%u", 200 + below(one_in(2) ? 2000 : 29800));
    snprintf(t->wait_ms, WORD_BYTES, "%u", one_in(3) ? 0 : 1 + below(20000));
    for (unsigned i = 0; i < n; i++)
        choose_target(t, text_of("n", (first + i) % NAMES));
    add_copy(t);
}

static ticket *any_ticket(unsigned *i)
{
    *i = below(TOKENS);
    ticket *t = &s->tickets[*i];
    if (!t->is_known || one_in(12))
        choose_ticket(t);
    return t;
}

/* Acquire, claim and withdraw: a new call, the same again, or another copy of it. */
static void ask_for(const char *function)
{
    unsigned i;
    ticket *t = any_ticket(&i);
    bool waits = strcmp(t->wait_ms, "0") != 0;

    if (one_in(6))
        add_copy(t);
    begin(function);
    add(token_of(i));
    add(t->owner);
    add(t->lease_ms);
    add(t->wait_ms);
    add(waits ? t->copy[one_in(4) ? below(t->n_copies) : t->n_copies - 1] : ".");
    for (unsigned k = 0; k < t->n_targets; k++)
        add(one_in(80) ? "n0 S 1 0" : t->target[k]);
}

static void acquire(void)
{
    unsigned i = below(TOKENS);

    if (one_in(3))
        choose_ticket(&s->tickets[i]);
    ask_for("lock_acquire");
}

static void claim(void)
{
    ask_for("lock_claim");
}

static void withdraw(void)
{
    ask_for("lock_withdraw");
}

static void abandon(void)
{
    unsigned i;
    const ticket *t = any_ticket(&i);
    char text[2 * TEXT_BYTES];

    snprintf(text, sizeof text, "%s %s", token_of(i), t->copy[below(t->n_copies)]);
    begin("lock_abandon");
    add(text);
}

/* All names of the token, some of them, or others. */
static void add_names(const ticket *t)
{
    switch (below(4)) {
    case 0:
        for (unsigned k = 0; k < t->n_targets; k++)
            if (one_in(2))
                add(t->name[k]);
        break;
    case 1:
        add(one_in(8) ? text_of("n", below(NAMES)) : t->name[0]);
        break;
    default:
        break;
    }
}

static void renew(void)
{
    unsigned i;
    const ticket *t = any_ticket(&i);

    begin("lock_renew");
    add(token_of(i));
    add(one_in(2) ? t->lease_ms : text_of("", 200 + below(30000)));
    add_names(t);
}

static void release_with(const char *function)
{
    unsigned i;
    const ticket *t = any_ticket(&i);

    begin(function);
    add(token_of(i));
    add(text_of("s", below(TWO_MACHINES_SERVERS)));
    add(one_in(4) ? "trace" : "");
    add_names(t);
}

static void release(void)
{
    release_with("lock_release");
}

static void release_unseen(void)
{
    release_with("lock_release_unseen");
}

static void of_name(const char *function)
{
    begin(function);
    add(text_of("n", below(NAMES)));
}

static void promote(void)
{
    of_name("lock_promote");
}

static void look(void)
{
    of_name(one_in(2) ? "lock_inspect" : "lock_waiting");
}

static void force(void)
{
    of_name("lock_force_release");
}

static void fence(void)
{
    char text[TEXT_BYTES];
    int64_t about = s->now_us + (int64_t)below(2000000) - 1000000;

    snprintf(text, sizeof text, "%lld", (long long)(one_in(20) ? s->now_us + INT64_C(90000000000) : about));
    begin(one_in(4) ? "lock_reset_fence" : "lock_check_fence");
    add(one_in(30) ? "0" : text);
}

static void list(void)
{
    begin("lock_list");
    s->call.base = lks_rpc_slice_of("ls:{t/list}:");
    s->call.whole_shard = true;
    add(one_in(3) ? "n1" : "n");
    add("100");
    add("0");
    add("");
    add("");
}

/* ---- comparing ----------------------------------------------------------------------- */

static const char *call_text(void)
{
    static char text[2 * ARGS_MAX * TEXT_BYTES];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", s->call.function);

    for (size_t i = 0; i < s->call.n_args; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " '%.*s'", (int)s->args[i].len, s->args[i].data);
    return text;
}

static void __attribute__((format(printf, 1, 2))) differs(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "call %zu at %lld: %s\n", s->calls, (long long)s->now_us, call_text());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fail();
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The elements from `from` on may have any order. */
static bool is_same_set(const store_value *a, const store_value *b, size_t from)
{
    const char *texts[2][NAMES + 8];

    if (a->type != STORE_ARRAY || b->type != STORE_ARRAY || a->n != b->n || a->n > NAMES + 8)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        texts[0][i] = two_machines_text(s->m, &a->element[i]);
        texts[1][i] = two_machines_text(s->m, &b->element[i]);
    }
    for (unsigned side = 0; side < 2; side++)
        if (a->n > from)
            qsort(texts[side] + from, a->n - from, sizeof texts[side][0], compare_texts);
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(texts[0][i], texts[1][i]) != 0)
            return false;
    return true;
}

static bool says(const store_value *v, const char *outcome)
{
    return v->type == STORE_ARRAY && v->n > 0 && v->element[0].type == STORE_STRING &&
           strcmp(v->element[0].string.data, outcome) == 0;
}

/* Whether a name has several holders, of which HRANDFIELD tells any. */
static bool has_several(void)
{
    for (unsigned i = 0; i < NAMES; i++) {
        char key[TEXT_BYTES];
        snprintf(key, sizeof key, BASE "lock:h:n%u", i);
        if (keys_find(two_machines_keys(s->m), lks_rpc_slice_of(key)))
            return true;
    }
    return false;
}

/* A refusal that differs only in which of several holders it tells. */
static bool tells_another_holder(const store_value *a, const store_value *b, bool had_several)
{
    if (!(says(a, "BUSY") && says(b, "BUSY")) && !(says(a, "TIMED_OUT") && says(b, "TIMED_OUT")))
        return false;
    return (had_several || has_several()) && a->n == 4 && b->n == 4 && a->element[1].integer == b->element[1].integer;
}

static void compare_keys(void)
{
    const char *redis = two_machines_redis_keys(s->m), *engine = two_machines_engine_keys(s->m);

    if (strcmp(redis, engine) != 0)
        differs("keys of Redis:\n%s\nof the engine:\n%s\n", redis, engine);
}

/* What calls answer and messages begin with: a run that never sees one of them proves nothing about it. */
static const char *const outcomes[] = {"ACQUIRED", "QUEUED",   "BUSY",   "TOKEN_SPENT", "TIMED_OUT", "RENEWED", "LOST",
                                       "RELEASED", "NOT_HELD", "UNSEEN", "OK",          "STALE",     "ERR"};
static const char *const messages[] = {": W ", ": R ", ": A ", ": T ", "ls:wake:all: W "};
enum { OUTCOMES = sizeof outcomes / sizeof outcomes[0], MESSAGES = sizeof messages / sizeof messages[0] };
static size_t seen_outcome[OUTCOMES], seen_message[MESSAGES];

static void note_what_is_seen(const store_value *reply, const char *sent)
{
    for (unsigned i = 0; i < OUTCOMES; i++)
        seen_outcome[i] += says(reply, outcomes[i]);
    for (unsigned i = 0; i < MESSAGES; i++)
        seen_message[i] += strstr(sent, messages[i]) != NULL;
}

static const store_value *run_in_both(bool had_several)
{
    const store_value *redis, *engine;
    const char *redis_sent, *sent = two_machines_call(s->m, &s->call, &redis, &engine, &redis_sent);
    bool is_same = strcmp(s->call.function, "lock_list") == 0
                       ? is_same_set(redis, engine, 4)
                       : strcmp(two_machines_text(s->m, redis), two_machines_text(s->m, engine)) == 0;

    if (!is_same && !tells_another_holder(redis, engine, had_several))
        differs("Redis:  %s\nengine: %s\n", two_machines_text(s->m, redis), two_machines_text(s->m, engine));
    if (strcmp(redis_sent, sent) != 0)
        differs("messages of Redis:\n%sof the engine:\n%s", redis_sent, sent);
    note_what_is_seen(engine, sent);
    return engine;
}

/* What lock_inspect told. */
static void describe(const store_value *inspected)
{
    begin("lock_describe");
    for (size_t i = 5; i < inspected->n && s->call.n_args < ARGS_MAX; i++)
        s->args[s->call.n_args++] = inspected->element[i].string;
    if (s->call.n_args > 0)
        run_in_both(false);
}

static void make(void (*choose)(void))
{
    bool had_several = has_several();

    choose();
    s->calls++;
    const store_value *reply = run_in_both(had_several);
    if (strcmp(s->call.function, "lock_inspect") == 0)
        describe(reply);
}

/* ---- episodes ------------------------------------------------------------------------ */

static void (*const choices[])(void) = {acquire, acquire, acquire,  acquire,        acquire, acquire, claim,
                                        claim,   claim,   withdraw, abandon,        renew,   release, release,
                                        release, promote, promote,  release_unseen, look,    look,    fence};

/* Mostly seconds; now and then until leases, records and fences have ended. */
static int64_t step_ms(void)
{
    if (one_in(200))
        return (int64_t)below(2) * 90000000 + below(1000000);
    if (one_in(40))
        return below(700000);
    return one_in(3) ? 0 : below(one_in(2) ? 600 : 5000);
}

/* A key is lost, or somebody else writes it. */
static void spoil(void)
{
    static const char kinds[] = "nhwst";
    char kind = kinds[below(5)], key[TEXT_BYTES];
    unsigned i = below(TOKENS);

    if (kind == 't')
        snprintf(key, sizeof key, BASE "lock:t:T%u.%u", i, s->tickets[i].generation);
    else
        snprintf(key, sizeof key, BASE "lock:%c:n%u", kind, i % NAMES);
    two_machines_foreign foreign = one_in(3) ? FOREIGN_NONE : (two_machines_foreign)below(FOREIGN_ZSET + 1);
    if (kind == 'h' && foreign == FOREIGN_HASH)
        foreign = FOREIGN_STRING; /* whether HRANDFIELD gives a foreign holder is chance */
    two_machines_put(s->m, key, foreign);
}

static void step(void)
{
    s->now_us += step_ms() * 1000;
    two_machines_at(s->m, s->now_us);
    if (one_in(15))
        two_machines_listen(s->m, below(TWO_MACHINES_SERVERS), !one_in(3));
    if (one_in(20))
        two_machines_repack(s->m);
    if (one_in(150))
        spoil();
    if (one_in(60))
        make(force);
    else if (one_in(30))
        make(list);
    else
        make(choices[below(sizeof choices / sizeof choices[0])]);
    if (one_in(50))
        compare_keys();
}

TEST(random_calls_do_the_same_in_redis_and_in_the_engine)
{
    size_t calls = counts_of(20000, 1000000);

    while (s->calls < calls) {
        s->now_us += 1000000 + below(1000);
        memset(s->tickets, 0, sizeof s->tickets);
        two_machines_reset(s->m, s->now_us);
        for (unsigned i = 0; i < EPISODE_CALLS; i++)
            step();
        compare_keys();
    }
    for (unsigned i = 0; i < OUTCOMES; i++)
        if (seen_outcome[i] == 0)
            fail_msg("no call has answered %s", outcomes[i]);
    for (unsigned i = 0; i < MESSAGES; i++)
        if (seen_message[i] == 0)
            fail_msg("no call has sent '%s'", messages[i]);
}

static int open_scene(void **state)
{
    const char *seed = getenv("LOCKSTOCK_SEED");

    (void)state;
    s = calloc(1, sizeof *s);
    s->seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    fprintf(stderr, "LOCKSTOCK_SEED=%llu\n", (unsigned long long)s->seed);
    s->random = s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    s->now_us = INT64_C(1700000000000000);
    s->m = two_machines_new(functions_text, functions_len, functions_digest);
    return s->m ? 0 : -1;
}

static int close_scene(void **state)
{
    (void)state;
    two_machines_free(s->m);
    free(s);
    return 0;
}

TEST_MAIN(.setup_all = open_scene, .teardown_all = close_scene)

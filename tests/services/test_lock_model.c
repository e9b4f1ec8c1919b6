/* Random calls against a small model: what each answers, and who holds what after
 * it, must be what the model says. The model forgets nothing and knows only the
 * contract: no summary, no lazy purge, no record. A failure prints the seed;
 * LOCKSTOCK_SEED=<seed> runs it again. */
#include "services/lock_script.h"
#include "support/counts.h"

#include <stdio.h>
#include <time.h>

enum { NAMES = 4, TOKENS = 40, HELD_MAX = TOKENS, TARGETS_MAX = 3, TICK_S = 1000 };

typedef struct target {
    int name;
    char mode; /* E, S, P */
    int64_t permits, capacity;
    bool released;
} target;

typedef struct token {
    bool seen;
    bool tombstone;
    int n;
    target targets[TARGETS_MAX];
} token;

typedef struct holding {
    int token;
    int64_t end_s, permits;
    uint64_t fence;
    char mode;
    int64_t capacity;
} holding;

typedef struct name {
    int n;
    holding held[HELD_MAX]; /* in the order of their fences */
    uint64_t last_fence;
} name;

static name names[NAMES];
static token tokens[TOKENS];
static int64_t now_s;
static unsigned seed;

static int pick(int n)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 16) % (unsigned)n);
}

static const char *alias(int t)
{
    static char text[4][8];
    static int next;
    char *line = text[next++ % 4];

    snprintf(line, sizeof text[0], "T%d", t);
    return line;
}

static holding *find(int n, int t)
{
    for (int i = 0; i < names[n].n; i++)
        if (names[n].held[i].token == t)
            return &names[n].held[i];
    return NULL;
}

static void drop(int n, int t)
{
    holding *held = find(n, t);

    if (held) {
        memmove(held, held + 1, (size_t)(names[n].held + names[n].n - held - 1) * sizeof *held);
        names[n].n--;
    }
}

static void end_leases(void)
{
    for (int n = 0; n < NAMES; n++)
        for (int i = names[n].n - 1; i >= 0; i--)
            if (names[n].held[i].end_s <= now_s)
                drop(n, names[n].held[i].token);
}

static bool bars(const name *l, const target *wanted, bool *other_capacity)
{
    int64_t used = 0;

    *other_capacity = false;
    if (l->n == 0)
        return false;
    if (wanted->mode == 'E' || l->held[0].mode != wanted->mode)
        return true;
    *other_capacity = wanted->mode == 'P' && l->held[0].capacity != wanted->capacity;
    for (int i = 0; i < l->n; i++)
        used += l->held[i].permits;
    return wanted->mode == 'P' && (*other_capacity || used + wanted->permits > wanted->capacity);
}

static void target_words(const target *targets, int n, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t len = strlen(text);
        const target *t = &targets[i];
        if (t->mode == 'P')
            snprintf(text + len, size - len, "n%d:P%ld/%ld ", t->name, t->permits, t->capacity);
        else
            snprintf(text + len, size - len, t->mode == 'S' ? "n%d:S " : "n%d ", t->name);
    }
}

static int random_targets(target *targets)
{
    int n = 1 + (pick(3) == 0 ? pick(TARGETS_MAX) : 0);
    int first = pick(NAMES);

    for (int i = 0; i < n; i++) {
        targets[i] = (target){.name = (first + i) % NAMES, .mode = "ESSPPP"[pick(6)]};
        if (targets[i].mode == 'P') {
            targets[i].capacity = pick(8) == 0 ? 4 : 3;
            targets[i].permits = 1 + pick(2);
        }
    }
    return n;
}

static bool holds_all(int t)
{
    for (int i = 0; i < tokens[t].n; i++)
        if (tokens[t].targets[i].released || !find(tokens[t].targets[i].name, t))
            return false;
    return tokens[t].n > 0;
}

static bool same_targets(const token *t, const target *targets, int n)
{
    if (t->n != n)
        return false;
    for (int i = 0; i < n; i++) {
        const target *a = &t->targets[i], *b = &targets[i];
        if (a->name != b->name || a->mode != b->mode || a->permits != b->permits || a->capacity != b->capacity)
            return false;
    }
    return true;
}

static void take(int t, const target *targets, int n, int64_t lease_s)
{
    tokens[t] = (token){.seen = true, .n = n};
    for (int i = 0; i < n; i++) {
        name *l = &names[targets[i].name];
        uint64_t given = acquired->fences[i]->fence;
        assert_true(given > l->last_fence);
        l->last_fence = given;
        tokens[t].targets[i] = targets[i];
        l->held[l->n++] = (holding){.token = t,
                                    .end_s = now_s + lease_s,
                                    .permits = targets[i].mode == 'P' ? targets[i].permits : 1,
                                    .fence = given,
                                    .mode = targets[i].mode,
                                    .capacity = targets[i].capacity};
    }
}

static void acquire_new(int t, const target *targets, int n, int64_t lease_s, const char *said)
{
    int busy = -1, refused = -1;
    char expected[64];

    for (int i = 0; i < n; i++) {
        bool other;
        bool barred = bars(&names[targets[i].name], &targets[i], &other);
        if (other && refused < 0)
            refused = i;
        if (barred && busy < 0)
            busy = i;
    }
    if (refused >= 0) {
        snprintf(expected, sizeof expected, "FAILED_PRECONDITION NO targets[%d].capacity:", refused);
        says_begin(said, expected);
    } else if (busy >= 0) {
        int n_busy = targets[busy].name;
        snprintf(expected, sizeof expected, "BUSY n%d held by T", n_busy);
        says_begin(said, expected);
        holding *theirs = find(n_busy, atoi(acquired->holder->owner + 1));
        assert_non_null(theirs);
        about(acquired->holder->lease_ms, (theirs->end_s - now_s) * 1000);
    } else {
        says(said, "ACQUIRED");
        take(t, targets, n, lease_s);
    }
}

static void do_acquire(int t)
{
    target targets[TARGETS_MAX];
    char text[128];
    int64_t lease_s = TICK_S / 2 + TICK_S * pick(4);
    int n;

    if (tokens[t].n > 0 && pick(2) == 0) {
        n = tokens[t].n;
        memcpy(targets, tokens[t].targets, sizeof targets);
    } else {
        n = random_targets(targets);
    }
    target_words(targets, n, text, sizeof text);
    const char *said = acquire_for(alias(t), text, lease_s * 1000);
    if (!tokens[t].seen) {
        acquire_new(t, targets, n, lease_s, said);
    } else if (!holds_all(t)) {
        says(said, "TOKEN_SPENT");
    } else if (!same_targets(&tokens[t], targets, n)) {
        says(said, "ALREADY_EXISTS NO token: used for other targets");
    } else {
        says(said, "ACQUIRED again");
        for (int i = 0; i < n; i++)
            assert_int_equal(acquired->fences[i]->fence, find(targets[i].name, t)->fence);
    }
}

/* Some names or none; those chosen in `chosen`. */
static int random_names(int t, int *chosen, char *text, size_t size)
{
    int n = pick(3) == 0 ? 0 : 1 + pick(2);
    int first = tokens[t].n > 0 && pick(4) > 0 ? tokens[t].targets[0].name : pick(NAMES);

    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t len = strlen(text);
        chosen[i] = (first + i) % NAMES;
        snprintf(text + len, size - len, "n%d ", chosen[i]);
    }
    return n;
}

static void do_renew(int t)
{
    int chosen[NAMES];
    char text[32];
    int n = random_names(t, chosen, text, sizeof text);
    int64_t lease_s = TICK_S / 2 + TICK_S * pick(4);
    int64_t soonest = INT64_MAX;
    bool lost = false;

    const char *said = renew_for(alias(t), text, lease_s * 1000);
    if (n == 0)
        for (int i = 0; i < tokens[t].n; i++)
            if (!tokens[t].targets[i].released)
                chosen[n++] = tokens[t].targets[i].name;
    for (int i = 0; i < n; i++)
        lost = lost || !find(chosen[i], t);
    if (lost || n == 0) {
        says(said, "LOST");
        return;
    }
    says(said, "RENEWED");
    for (int i = 0; i < n; i++) {
        holding *held = find(chosen[i], t);
        if (now_s + lease_s > held->end_s)
            held->end_s = now_s + lease_s;
        if (held->end_s < soonest)
            soonest = held->end_s;
    }
    about(renewed->results[0]->lease_ms, (soonest - now_s) * 1000);
}

static void do_release(int t)
{
    int chosen[NAMES];
    char text[32];
    int n = random_names(t, chosen, text, sizeof text);
    int released = 0;
    bool now = false;

    const char *said = release(alias(t), text);
    if (n == 0)
        for (int i = 0; i < tokens[t].n; i++)
            chosen[n++] = tokens[t].targets[i].name;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < tokens[t].n; k++) {
            target *one = &tokens[t].targets[k];
            if (one->name != chosen[i])
                continue;
            if (!one->released && find(one->name, t)) {
                drop(one->name, t);
                one->released = now = true;
            }
            released += one->released;
        }
    }
    says_begin(said, n > 0 && released == n ? "RELEASED" : "NOT_HELD");
    assert_int_equal(!!strstr(said, "again"), released > 0 && !now);
    assert_int_equal(!!strchr(said, '='), released > 0 && released < n);
    if (!tokens[t].seen)
        tokens[t] = (token){.seen = true, .tombstone = true};
}

static void do_force_release(int n)
{
    char expected[512] = "";

    for (int i = 0; i < names[n].n; i++) {
        size_t len = strlen(expected);
        snprintf(expected + len, sizeof expected - len, "%s%s", i ? " " : "", alias(names[n].held[i].token));
    }
    char text[] = {'n', (char)('0' + n), '\0'};
    says(force_release(text), expected);
    names[n].n = 0;
}

static void compare(int n)
{
    char text[] = {'n', (char)('0' + n), '\0'};
    const name *l = &names[n];

    inspect(text);
    assert_non_null(inspected);
    assert_int_equal(inspected->n_holders, l->n);
    assert_int_equal(inspected->last_fence, l->last_fence);
    for (int i = 0; i < l->n; i++) {
        const lks_lock_holder *holder = inspected->holders[i];
        assert_string_equal(holder->owner, alias(l->held[i].token));
        assert_int_equal(holder->fence, l->held[i].fence);
        assert_int_equal(holder->permits, l->held[i].permits);
        about(holder->lease_ms, (l->held[i].end_s - now_s) * 1000);
    }
}

static void one_call(void)
{
    int t = pick(TOKENS);
    int what = pick(100);

    if (what < 40)
        do_acquire(t);
    else if (what < 60)
        do_renew(t);
    else if (what < 80)
        do_release(t);
    else if (what < 83)
        do_force_release(pick(NAMES));
    else if (what < 92)
        now_s += TICK_S, pass_seconds(TICK_S);
    else
        compare(pick(NAMES));
    end_leases();
}

TEST(locks_are_what_the_model_says)
{
    size_t rounds = counts_of(200, 5000);
    const char *given = getenv("LOCKSTOCK_SEED");
    unsigned start = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    for (size_t round = 0; round < rounds; round++) {
        seed = start + (unsigned)round;
        print_message("LOCKSTOCK_SEED=%u\n", seed);
        script_reset(state);
        memset(names, 0, sizeof names);
        memset(tokens, 0, sizeof tokens);
        now_s = 0;
        for (int i = 0; i < 300; i++) {
            one_call();
            if (i % 50 == 49)
                harness_forget(h);
        }
        for (int n = 0; n < NAMES; n++)
            compare(n);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)

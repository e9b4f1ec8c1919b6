/* The queue against its rule. Random calls; after each, whoever may be granted is,
 * and nobody else: the first that is compatible with the holders and with all that
 * stand before it, as if they held. The model is that sentence; it has one list, no
 * queue a name, no offers. A failure prints the seed; LOCKSTOCK_SEED=<seed> runs it
 * again. */
#include "services/lock_queue_script.h"
#include "support/counts.h"

#include <stdio.h>
#include <time.h>

enum { NAMES = 4, TOKENS = 60, TARGETS_MAX = 3, TICK_S = 1000, CAPACITY = 3, CALLS = 150 };

typedef enum life { UNSEEN, STANDING, ABSENT, HELD, SPENT } life;

typedef struct target {
    int name;
    char mode; /* E, S, P */
    int permits;
    bool held;
} target;

static struct token {
    char alias[8];
    const char *server; /* of the last copy */
    int copies[2];      /* calls parked at S1, S2 */
    char text[64];
    life life;
    int number, n;
    target targets[TARGETS_MAX];
    int64_t lease_s, end_s;
} tokens[TOKENS];

static int64_t now_s;
static int last_number;
static unsigned seed;

static int pick(int n)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 16) % (unsigned)n);
}

static char *name_of(int n)
{
    static char text[8][16];
    static int next;
    char *line = text[next++ % 8];

    snprintf(line, sizeof text[0], "n%d", n % 100);
    return line;
}

/* Those who hold or stand before `t` and want what `w` wants. */
static bool may_have(const struct token *t, const target *w)
{
    int permits = 0;

    for (const struct token *o = tokens; o < tokens + TOKENS; o++) {
        bool stands_before = o->life == STANDING && o->number < t->number;
        if (o == t || (!stands_before && o->life != HELD))
            continue;
        for (int i = 0; i < o->n; i++) {
            const target *x = &o->targets[i];
            if (x->name != w->name || (o->life == HELD && !x->held))
                continue;
            if (x->mode != w->mode || w->mode == 'E')
                return false;
            permits += x->permits;
        }
    }
    return w->mode != 'P' || permits + w->permits <= CAPACITY;
}

static bool is_free_for(const struct token *t)
{
    for (int i = 0; i < t->n; i++)
        if (!may_have(t, &t->targets[i]))
            return false;
    return true;
}

static void take(struct token *t)
{
    t->life = HELD;
    t->copies[0] = t->copies[1] = 0;
    t->end_s = now_s + t->lease_s;
    for (int i = 0; i < t->n; i++)
        t->targets[i].held = true;
}

static bool holds_all(const struct token *t)
{
    for (int i = 0; i < t->n; i++)
        if (!t->targets[i].held)
            return false;
    return true;
}

static void settle(void)
{
    for (struct token *t = tokens; t < tokens + TOKENS; t++)
        if (t->life == HELD && t->end_s <= now_s)
            t->life = SPENT;
    for (bool again = true; again;) {
        again = false;
        for (struct token *t = tokens; t < tokens + TOKENS; t++) {
            if (t->life == STANDING && is_free_for(t)) {
                take(t);
                again = true;
            }
        }
    }
}

static int by_number(const void *a, const void *b)
{
    const struct token *const *x = a, *const *y = b;

    return (*x)->number - (*y)->number;
}

static const target *target_of(const struct token *t, int name)
{
    for (int i = 0; i < t->n; i++)
        if (t->targets[i].name == name)
            return &t->targets[i];
    return NULL;
}

/* The tokens of a life that are about the name, as queue_of tells them. */
static const char *model_queue(int name)
{
    static char line[1024];
    const struct token *standing[TOKENS];
    size_t n = 0;

    for (const struct token *t = tokens; t < tokens + TOKENS; t++)
        if (t->life == STANDING && target_of(t, name))
            standing[n++] = t;
    qsort(standing, n, sizeof(struct token *), by_number);
    line[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "", standing[i]->alias);
    return line;
}

static void compare(void)
{
    for (int name = 0; name < NAMES; name++) {
        size_t holders = 0;
        says(queue_of(name_of(name)), model_queue(name));
        inspect(name_of(name));
        assert_non_null(inspected);
        for (const struct token *t = tokens; t < tokens + TOKENS; t++) {
            const target *x = t->life == HELD ? target_of(t, name) : NULL;
            bool found = false;
            for (size_t i = 0; i < inspected->n_holders; i++)
                found = found || strcmp(inspected->holders[i]->owner, t->alias) == 0;
            if (found != (x && x->held))
                fail_msg("%s %s %s", t->alias, found ? "holds" : "does not hold", name_of(name));
            holders += found;
        }
        assert_int_equal(inspected->n_holders, holders);
    }
}

static void choose_targets(struct token *t)
{
    int first = pick(NAMES);

    t->n = pick(2) ? 1 : 1 + pick(TARGETS_MAX);
    t->text[0] = '\0';
    for (int i = 0; i < t->n; i++) {
        target *w = &t->targets[i];
        size_t len = strlen(t->text);
        *w = (target){.name = (first + i) % NAMES, .mode = "EESSP"[pick(5)], .permits = 1};
        snprintf(t->text + len, sizeof t->text - len,
                 w->mode == 'E'   ? "n%d "
                 : w->mode == 'S' ? "n%d:S "
                                  : "n%d:P",
                 w->name);
        if (w->mode == 'P') {
            w->permits = 1 + pick(CAPACITY);
            len = strlen(t->text);
            snprintf(t->text + len, sizeof t->text - len, "%d/%d ", w->permits, CAPACITY);
        }
    }
    t->lease_s = TICK_S / 2 + TICK_S * pick(4);
}

static void do_acquire(struct token *t)
{
    bool waits = pick(4) > 0;

    if (t->life == UNSEEN) {
        choose_targets(t);
        t->number = ++last_number;
    }
    bool first = t->life == UNSEEN;
    bool free = is_free_for(t);
    const char *server = pick(2) ? "S1" : "S2";
    if (t->life == ABSENT && !waits)
        return;
    const char *said = waits ? wait_for_ms(server, t->alias, t->text, t->lease_s * 1000, WAIT_MS)
                             : acquire_for(t->alias, t->text, t->lease_s * 1000);
    if (t->life == SPENT) {
        says(said, "TOKEN_SPENT");
    } else if (t->life == HELD) {
        says(said, holds_all(t) ? "ACQUIRED again" : "TOKEN_SPENT");
    } else if (free) {
        says(said, "ACQUIRED");
        take(t);
    } else if (waits) {
        says(said, "QUEUED");
        t->life = STANDING;
        t->copies[server[1] - '1']++;
    } else {
        says_begin(said, "BUSY n");
        t->life = first ? UNSEEN : t->life;
    }
}

/* One that parks calls, or not. */
static const char *any_server(void)
{
    return (const char *[]){"S1", "S2", "S3"}[pick(3)];
}

static void do_release(struct token *t)
{
    if (t->life == UNSEEN)
        return;
    int one = t->life == HELD && t->n > 1 && pick(3) == 0 ? pick(t->n) : -1;
    bool held = t->life == HELD && (one < 0 ? holds_all(t) : t->targets[one].held);

    const char *said = release_at(any_server(), t->alias, one < 0 ? "" : name_of(t->targets[one].name));
    if (held)
        says_begin(said, "RELEASED");
    else if (t->life != HELD && t->life != SPENT)
        says(said, "NOT_HELD");
    if (one >= 0)
        t->targets[one].held = false;
    else
        t->life = SPENT;
}

/* One that parks a copy of a token that stands. */
static const char *server_of(const struct token *t)
{
    return t->copies[0] == 0 || (t->copies[1] > 0 && pick(2)) ? "S2" : "S1";
}

static void do_time_out(struct token *t)
{
    if (t->life != STANDING)
        return;
    says_begin(timed_out(server_of(t), t->alias), "TIMED_OUT n");
    t->life = SPENT;
}

/* It stands as long as any copy is parked. */
static void do_abandon(struct token *t)
{
    if (t->life != STANDING)
        return;
    const char *server = server_of(t);
    says_begin(abandoned(server, t->alias), "CANCELLED");
    t->copies[server[1] - '1']--;
    if (t->copies[0] + t->copies[1] == 0)
        t->life = ABSENT;
}

/* A server's subscription is away for a moment: it looks at all that it parks. */
static void do_interrupt(void)
{
    const char *server = pick(2) ? "S1" : "S2";

    server_down(server);
    server_up(server);
    for (struct token *t = tokens; t < tokens + TOKENS; t++)
        if (t->life == STANDING && t->copies[server[1] - '1'] > 0)
            says(woken(server, t->alias), "QUEUED");
}

/* Who has lost one name of several still holds the rest. */
static void do_force_release(int name)
{
    force_release(name_of(name));
    for (struct token *t = tokens; t < tokens + TOKENS; t++)
        for (int i = 0; t->life == HELD && i < t->n; i++)
            t->targets[i].held = t->targets[i].held && t->targets[i].name != name;
}

static void do_tick(void)
{
    now_s += TICK_S;
    pass_seconds(TICK_S);
    ring_alarms();
}

static void one_call(void)
{
    struct token *t = &tokens[pick(TOKENS)];
    int what = pick(100);

    if (what < 55)
        do_acquire(t);
    else if (what < 75)
        do_release(t);
    else if (what < 81)
        do_time_out(t);
    else if (what < 87)
        do_abandon(t);
    else if (what < 90)
        do_interrupt();
    else if (what < 93)
        do_force_release(pick(NAMES));
    else
        do_tick();
}

static void end_round(void)
{
    for (struct token *t = tokens; t < tokens + TOKENS; t++) {
        release(t->alias, "");
        t->life = SPENT;
    }
    deliver();
    compare();
    assert_int_equal(queue_keys(), 0);
}

TEST(whose_turn_it_is_and_nobody_else_is_granted)
{
    size_t rounds = counts_of(40, 3000);
    const char *given = getenv("LOCKSTOCK_SEED");
    unsigned start = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    for (size_t round = 0; round < rounds; round++) {
        seed = start + (unsigned)round;
        print_message("LOCKSTOCK_SEED=%u\n", seed);
        queue_reset(state);
        memset(tokens, 0, sizeof tokens);
        for (int i = 0; i < TOKENS; i++)
            snprintf(tokens[i].alias, sizeof tokens[i].alias, "T%d", i);
        now_s = last_number = 0;
        for (int i = 0; i < CALLS; i++) {
            one_call();
            deliver();
            settle();
            compare();
        }
        end_round();
    }
}

/* ---- when servers fail -------------------------------------------------------------- */

/* Who holds and who stands, as it is and not as it should be; no two holders that
 * exclude each other. */
static void look_at_holders(void)
{
    for (struct token *t = tokens; t < tokens + TOKENS; t++) {
        t->life = UNSEEN;
        for (int i = 0; i < t->n; i++)
            t->targets[i].held = false;
    }
    for (int name = 0; name < NAMES; name++) {
        int permits = 0;
        const target *first = NULL;
        inspect(name_of(name));
        for (size_t i = 0; i < inspected->n_holders; i++) {
            struct token *t = &tokens[atoi(inspected->holders[i]->owner + 1)];
            for (int k = 0; k < t->n; k++) {
                target *w = &t->targets[k];
                if (w->name != name)
                    continue;
                t->life = HELD;
                w->held = true;
                permits += w->permits;
                if (first && (first->mode != w->mode || w->mode == 'E'))
                    fail_msg("%s is held by %s against another", name_of(name), t->alias);
                first = w;
            }
        }
        assert_true(!first || first->mode != 'P' || permits <= CAPACITY);
    }
}

/* One that was told nothing, or too late, or whose server was away. */
static void chaos_call(void)
{
    struct token *t = &tokens[pick(TOKENS)];
    const char *server = pick(2) ? "S1" : "S2";
    int what = pick(100);

    if (t->n == 0) {
        choose_targets(t);
        t->number = ++last_number;
        t->server = server;
        wait_for_ms(server, t->alias, t->text, t->lease_s * 1000, WAIT_MS);
    } else if (what < 20) {
        t->server = server;
        wait_for_ms(server, t->alias, t->text, t->lease_s * 1000, WAIT_MS);
    } else if (what < 45) {
        release_at(any_server(), t->alias, "");
    } else if (what < 50) {
        timed_out(t->server, t->alias);
    } else if (what < 55) {
        abandoned(t->server, t->alias);
    } else if (what < 60) {
        server_down(server);
    } else if (what < 70) {
        server_up(server);
    } else if (what < 80) {
        deliver();
    } else if (what < 85) {
        messages(); /* and nobody acts on them */
    } else if (what < 95) {
        pass_seconds(3);
        promote(name_of(pick(NAMES)));
    } else {
        pass_seconds(TICK_S);
    }
}

/* Wakes all of a token's calls; whether one of them waits on. */
static bool look_at_calls(const struct token *t)
{
    static const char *const servers[] = {"S1", "S2"};
    bool waits = false;

    for (size_t i = 0; i < 2; i++)
        waits = (parks(servers[i], t->alias) && strcmp(woken(servers[i], t->alias), "QUEUED") == 0) || waits;
    return waits;
}

/* What servers do once they live and are heard: look at all they park, and at the
 * ends they were told of. */
static void heal(void)
{
    server_up("S1");
    server_up("S2");
    pass_seconds(3);
    for (struct token *t = tokens; t < tokens + TOKENS; t++)
        look_at_calls(t);
    for (int name = 0; name < NAMES; name++)
        while (promote(name_of(name)) == 0)
            ;
    deliver();
}

static void nobody_is_stuck(void)
{
    look_at_holders();
    for (struct token *t = tokens; t < tokens + TOKENS; t++)
        if (look_at_calls(t))
            t->life = STANDING;
    for (const struct token *t = tokens; t < tokens + TOKENS; t++)
        if (t->life == STANDING && is_free_for(t))
            fail_msg("%s waits for %s, which is free", t->alias, t->text);
}

TEST(whatever_fails_nobody_is_stuck_and_none_excluded_holds)
{
    size_t rounds = counts_of(60, 3000);
    const char *given = getenv("LOCKSTOCK_SEED");
    unsigned start = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    for (size_t round = 0; round < rounds; round++) {
        seed = start + (unsigned)round;
        print_message("LOCKSTOCK_SEED=%u\n", seed);
        queue_reset(state);
        memset(tokens, 0, sizeof tokens);
        for (int i = 0; i < TOKENS; i++)
            snprintf(tokens[i].alias, sizeof tokens[i].alias, "T%d", i);
        last_number = 0;
        for (int i = 0; i < CALLS; i++) {
            chaos_call();
            if (i % 10 == 0)
                look_at_holders();
        }
        heal();
        nobody_is_stuck();
        for (int i = 0; i < TOKENS; i++)
            release(tokens[i].alias, "");
        assert_int_equal(queue_keys(), 0);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = queue_reset)

/* Servers that come, work, freeze and go, on a clock that runs, jumps and steps back,
 * over a store that loses its data: whatever happens, no id comes twice, and those of one
 * life of a server increase. And the naive maker of snowflakes, which fails in the same
 * world: worker from the configuration, time from the wall. */
#include "services/id_script.h"

#include <time.h>

#include "support/counts.h"

enum { SERVERS = 12, HOUR_MS = 3600000 };

static const char *const names[SERVERS] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L"};

/* ---- what was given ------------------------------------------------------------------ */

typedef struct given {
    int64_t *ids;
    size_t n, room;
} given;

static void note(given *g, const int64_t *ids, size_t n)
{
    while (g->n + n > g->room) {
        g->room = g->room ? 2 * g->room : 1 << 16;
        g->ids = realloc(g->ids, g->room * sizeof *g->ids);
        assert_non_null(g->ids);
    }
    memcpy(g->ids + g->n, ids, n * sizeof *ids);
    g->n += n;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many ids came twice. Frees. */
static size_t count_doubles(given *g)
{
    size_t doubles = 0;

    qsort(g->ids, g->n, sizeof *g->ids, by_value);
    for (size_t i = 1; i < g->n; i++)
        doubles += g->ids[i] == g->ids[i - 1];
    free(g->ids);
    *g = (given){0};
    return doubles;
}

/* ---- how it goes --------------------------------------------------------------------------- */

/* Of 1000 steps, and by how much the clock moves. */
typedef struct course {
    unsigned asks, advances, steps_back, lost_replies, ends; /* the rest: losses */
    int64_t steps_ms[7];
    int32_t few, many; /* ids a call, mostly and at times */
    unsigned many_of;  /* one call in so many */
} course;

/* Hours, and long ranges with few ids in them. */
static const course wide = {.asks = 700,
                            .advances = 240,
                            .steps_back = 20,
                            .lost_replies = 10,
                            .ends = 25,
                            .steps_ms = {1, 30, 300, 1000, 3000, 7000, HOUR_MS},
                            .few = 60,
                            .many = 10000,
                            .many_of = 20};

/* Milliseconds, all used up: who makes ids of a time that others had too, makes the same. */
static const course narrow = {.asks = 580,
                              .advances = 140,
                              .steps_back = 100,
                              .lost_replies = 30,
                              .ends = 120,
                              .steps_ms = {1, 2, 5, 10, 30, 60, LEASE_MS},
                              .few = 40,
                              .many = 10000,
                              .many_of = 3};

/* ---- the world ------------------------------------------------------------------------- */

typedef struct world {
    const course *course;
    unsigned seed;
    bool behind;           /* the clock stepped back, since the last loss */
    int64_t lost_ms;       /* nothing that was lost reaches behind this */
    int64_t last[SERVERS]; /* of this life */
    given given;
    size_t n_refused, n_losses, n_lives, n_steps_back;
} world;

static unsigned roll(world *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

static void take_ids(world *w, size_t i)
{
    const course *c = w->course;
    int32_t count = roll(w, c->many_of) == 0 ? c->many : 1 + (int32_t)roll(w, (unsigned)c->few);

    harness_server(h, names[i]);
    const lks_next_response *response = next(LKS_ID_KIND_SNOWFLAKE, "", count);
    if (!response) {
        if (err.code != LKS_UNAVAILABLE && err.code != LKS_RESOURCE_EXHAUSTED)
            fail_msg("%s: %s", lks_code_name(err.code), err.message);
        assert_int_equal(err.applied, LKS_APPLIED_NO);
        assert_true(err.retry_after_ms > 0);
        w->n_refused++;
        return;
    }
    assert_int_equal(response->n_ids, count);
    for (size_t n = 0; n < response->n_ids; n++) {
        if (response->ids[n] <= w->last[i])
            fail_msg("%s gave %lld after %lld", names[i], (long long)response->ids[n], (long long)w->last[i]);
        w->last[i] = response->ids[n];
    }
    note(&w->given, response->ids, response->n_ids);
}

/* The end of the latest range, as far as the store knows. */
static int64_t latest_ms(void)
{
    static const char script[] = "local latest = 0\n"
                                 "for _, text in ipairs(redis.call('HVALS', 'ls:{meta}:id:workers')) do\n"
                                 "  latest = math.max(latest, tonumber(string.match(text, '^%d+ (%d+) ') or text))\n"
                                 "end\n"
                                 "return string.format('%.0f', latest)";

    return strtoll(harness_redis(h, "EVAL %s 0", script), NULL, 10);
}

/* What is not survived is a loss while the clock is behind what was granted before; so it
 * must not step back before a server has noticed the loss, either. */
static void lose_the_data(world *w)
{
    if (latest_ms() > w->lost_ms)
        w->lost_ms = latest_ms();
    if (w->behind && w->lost_ms > clock_ms())
        harness_advance_ms(h, w->lost_ms - clock_ms());
    w->behind = false;
    if (clock_ms() + LEASE_MS > w->lost_ms)
        w->lost_ms = clock_ms() + LEASE_MS;
    if (roll(w, 2))
        harness_redis(h, "DEL ls:{meta}:id:workers");
    else
        harness_redis(h, "EVAL %s 0",
                      "local at = redis.call('GET', 'ls:test:clock_offset_us')\n"
                      "redis.call('FLUSHALL')\n"
                      "redis.call('SET', 'ls:test:clock_offset_us', at or 0)");
    w->n_losses++;
    harness_server(h, "who notices");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    harness_server_ends(h, "who notices");
}

/* With so few workers each passes from hand to hand. */
static void few_workers(void)
{
    harness_alter(h, "local WORKERS = 1024", "local WORKERS = 8");
}

/* The store grants, and the reply is lost. */
static void lose_a_reply(world *w, size_t i)
{
    harness_alter(h, "local WORKERS = 1024",
                  "local WORKERS = 8\n"
                  "local function write(...) write(...) error('lost') end");
    harness_server(h, names[i]);
    const lks_next_response *response = next(LKS_ID_KIND_SNOWFLAKE, "", 1);
    if (response) { /* out of the range it has */
        note(&w->given, response->ids, 1);
        w->last[i] = response->ids[0];
    }
    few_workers();
}

/* Whether `what` is below `share`; else what is left of it. */
static bool is(unsigned *what, unsigned share)
{
    if (*what < share)
        return true;
    *what -= share;
    return false;
}

static void step(world *w)
{
    const course *c = w->course;
    unsigned what = roll(w, 1000);
    size_t i = roll(w, SERVERS);
    int64_t ms = c->steps_ms[roll(w, 7)];

    if (is(&what, c->asks)) {
        take_ids(w, i);
    } else if (is(&what, c->advances)) {
        harness_advance_ms(h, ms / (1 + (int64_t)roll(w, 3)));
    } else if (is(&what, c->steps_back)) {
        harness_advance_ms(h, -ms);
        w->behind = true;
        w->n_steps_back++;
    } else if (is(&what, c->lost_replies)) {
        lose_a_reply(w, i);
    } else if (is(&what, c->ends)) {
        harness_server_ends(h, names[i]);
        w->last[i] = 0;
        w->n_lives++;
    } else {
        lose_the_data(w);
    }
}

static void run(const course *c, size_t steps)
{
    world w = {.course = c, .seed = (unsigned)time(NULL) + (unsigned)rand()};

    print_message("seed %u\n", w.seed);
    few_workers();
    for (size_t n = 0; n < steps; n++) {
        step(&w);
        if (n % 100 == 0)
            harness_forget(h);
    }
    size_t n_ids = w.given.n;
    size_t doubles = count_doubles(&w.given);
    print_message("%zu ids, %zu refusals, %zu lives, %zu losses, %zu steps back\n", n_ids, w.n_refused, w.n_lives,
                  w.n_losses, w.n_steps_back);
    assert_int_equal(doubles, 0);
    assert_true(n_ids > steps && w.n_refused > 0 && w.n_losses > 0 && w.n_lives > 0 && w.n_steps_back > 0);
}

TEST_WITH(no_id_comes_twice_in_days, started_store, NULL)
{
    run(&wide, counts_of(4000, 40000));
}

TEST(no_id_comes_twice_in_seconds)
{
    size_t runs = counts_of(4, 100);

    for (size_t i = 0; i < runs; i++) {
        started_store(state);
        run(&narrow, 800);
    }
}

/* Within a second everything happens to one worker that can: handed on, clock back, lost. */
TEST(a_bad_second)
{
    given g = {0};

    for (int round = 0; round < 30; round++) {
        started_store(state);
        harness_server(h, "A");
        note(&g, next_snowflakes(1), 1);
        harness_advance_ms(h, -5000);
        harness_server(h, "B");
        note(&g, next_snowflakes(200), 200);
        harness_server_ends(h, "A");
        harness_server(h, "A");
        harness_advance_ms(h, 5000);
        note(&g, next_snowflakes(200), 200);
        harness_advance_ms(h, RANGE_MS);
        note(&g, next_snowflakes(200), 200);
        harness_server(h, "B");
        note(&g, next_snowflakes(200), 200);
        assert_int_equal(count_doubles(&g), 0);
    }
}

/* ---- the naive form ------------------------------------------------------------------------ */

/* As in many a utility class: remembers the last ms, in memory. */
typedef struct naive {
    int64_t worker, last_ms, sequence;
} naive;

static int64_t naive_next(naive *n, int64_t wall_ms)
{
    n->sequence = wall_ms == n->last_ms ? (n->sequence + 1) & 4095 : 0;
    n->last_ms = wall_ms;
    return wall_ms << 22 | n->worker << 12 | n->sequence;
}

static size_t naive_doubles(int64_t wall_ms[2], bool restarts, int64_t other_worker)
{
    naive first = {.worker = 7}, second = {.worker = other_worker};
    given g = {0};

    for (int i = 0; i < 2; i++) {
        naive *maker = restarts && i == 1 ? &second : &first;
        for (int n = 0; n < 10; n++) {
            int64_t id = naive_next(maker, wall_ms[i]);
            note(&g, &id, 1);
        }
    }
    return count_doubles(&g);
}

TEST(the_naive_form_fails)
{
    assert_int_equal(naive_doubles((int64_t[]){1000, 1001}, false, 7), 0);
    /* The clock is set back, and comes to the same ms again: running, or restarted. */
    assert_int_equal(naive_doubles((int64_t[]){1000, 1000}, true, 7), 10);
    naive n = {.worker = 7};
    int64_t a = naive_next(&n, 1000);
    naive_next(&n, 900);
    assert_int_equal(naive_next(&n, 1000), a);
    /* Two servers whose worker is their pid modulo 1024. */
    assert_int_equal(naive_doubles((int64_t[]){1000, 1000}, true, (7 + 1024) % 1024), 10);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close)

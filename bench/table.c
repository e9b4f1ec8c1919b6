/* Entrants of a group take turns, so that both values of a ratio are of the same round. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENDERS_MAX = 8, TABLE_IN_FLIGHT = 256, CHUNK = 16, WAITERS = 64, TABLE_NOTE_BYTES = 120 };

#define OURS(of, flight) .scenario = (of), .in_flight = (flight)
#define RIVAL(of, flight, name) OURS(of, flight), .rival = (name)
#define BENCHMARK_16 "redis-benchmark -P 16, script"
/* clang-format off */
static const entrant groups[][CONTENDERS_MAX] = {
    /* 0 */ {{RIVAL("deduct", CHUNK, "16 commands, function")}, {RIVAL("deduct", CHUNK, "16 commands, 64 a function")},
             {RIVAL("deduct", CHUNK, "16 commands, script")}},
    /* 1 */ {{RIVAL("lock", CHUNK, "16 commands, lock function")}, {RIVAL("lock", CHUNK, "16 commands, lock script")}},
    /* 2 */ {{OURS("deduct", TABLE_IN_FLIGHT)}, {RIVAL("deduct", TABLE_IN_FLIGHT, "hiredis threads, function")},
             {RIVAL("deduct", TABLE_IN_FLIGHT, "gRPC C++ service, function")}, {RIVAL("deduct", TABLE_IN_FLIGHT, BENCHMARK_16)},
             {OURS("deduct-hot", TABLE_IN_FLIGHT)}},
    /* 3 */ {{OURS("sold-out", TABLE_IN_FLIGHT)}, {RIVAL("sold-out", TABLE_IN_FLIGHT, BENCHMARK_16)}},
    /* 4 */ {{OURS("deduct", 1), .sync = true}, {RIVAL("deduct", 1, "hiredis threads, function")}},
    /* 5 */ {{RIVAL("deduct", TABLE_IN_FLIGHT, BENCHMARK_16)}, {OURS("lock", TABLE_IN_FLIGHT)}, {OURS("begin", TABLE_IN_FLIGHT)},
             {OURS("check-fixed", TABLE_IN_FLIGHT)}, {OURS("check-window", TABLE_IN_FLIGHT)}, {OURS("check-log", TABLE_IN_FLIGHT)},
             {OURS("check-bucket", TABLE_IN_FLIGHT)}},
    /* 6 */ {{OURS("lock-hot", WAITERS + 1)}, {RIVAL("lock-hot", WAITERS + 1, "SET NX and BLPOP")},
             {RIVAL("lock-hot", WAITERS + 1, "SET NX and polling, 3 to 33 ms")},
             {RIVAL("lock-hot", WAITERS + 1, "BLPOP of a bare list, no lease")}},
    /* 7 */ {{OURS("deduct", TABLE_IN_FLIGHT), .fsync = "always"}, {OURS("deduct", TABLE_IN_FLIGHT)}},
};
/* clang-format on */
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

enum { OVERLOAD = -1, NO_TARGET = 0 };

typedef struct row {
    const char *what;
    int group; /* OVERLOAD: measured by itself */
    unsigned a, b;
    compared of;
    double target;
    bool at_most;
} row;

/* clang-format off */
static const row rows[] = {
    {"Redis CPU of a Deduct alone / minimal script", 0, 0, 2, OF_REDIS, 1.5, true},
    {"Redis CPU a Deduct, 64 of one item in an FCALL / minimal script", 0, 1, 2, OF_REDIS, 0.5, true},
    {"Redis CPU of Acquire+Release / its minimal scripts", 1, 0, 1, OF_REDIS, 1.6, true},
    {"deduct, own items, 256 in flight / 256 synchronous hiredis threads, same function", 2, 0, 1, OF_RATE, 2.5, false},
    {"the same / gRPC C++ async service, same function", 2, 0, 2, OF_RATE, 3, false},
    {"the same / redis-benchmark -P 16, minimal script", 2, 0, 3, OF_RATE, 0.9, false},
    {"deduct, one hot item / redis-benchmark -P 16, minimal script", 2, 4, 3, OF_RATE, 1.5, false},
    {"sold out / redis-benchmark -P 16, minimal script", 3, 0, 1, OF_RATE, 3, false},
    {"p50 of one call at a time / one synchronous hiredis call, same function", 4, 0, 1, OF_P50, 1.3, true},
    {"acquire or release, 256 in flight / redis-benchmark -P 16, minimal Deduct script", 5, 1, 0, OF_RATE, 0.8, false},
    {"begin or complete / the same", 5, 2, 0, OF_RATE, 0.8, false},
    {"check, FIXED_WINDOW / the same", 5, 3, 0, OF_RATE, 0.8, false},
    {"check, SLIDING_WINDOW / the same", 5, 4, 0, OF_RATE, 0.8, false},
    {"check, SLIDING_LOG / the same", 5, 5, 0, OF_RATE, 0.8, false},
    {"check, TOKEN_BUCKET / the same", 5, 6, 0, OF_RATE, 0.8, false},
    {"one hot lock, 64 waiters, hand-offs a second / SET NX and BLPOP", 6, 0, 1, OF_RATE, 1.2, false},
    {"the same / SET NX and polling, 3 to 33 ms", 6, 0, 2, OF_RATE, 5, false},
    {"the same / BLPOP of a bare list, without a lease (for comparison)", 6, 0, 3, OF_RATE, NO_TARGET, false},
    {"deduct, fsync always / none, 256 in flight", 7, 0, 1, OF_RATE, 0.5, false},
    {"goodput at 10 times capacity / peak", OVERLOAD, 0, 0, OF_RATE, 0.9, false},
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Returns whether --rows contains the number of the row, counted from 1. */
static bool wanted(const bench_options *o, size_t number)
{
    const char *at = o->rows;

    if (!at)
        return true;
    for (; *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");
        if (strtoul(at, NULL, 10) == number)
            return true;
        at += len;
    }
    return false;
}

static bool group_is_wanted(const bench_options *o, int group)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].group == group && wanted(o, i + 1))
            return true;
    return false;
}

static void print_row(size_t at, const char *skipped, const spread *s, const char *note, json_t *results)
{
    const row *r = &rows[at];
    bool met = !skipped && (r->at_most ? s->median <= r->target : s->median >= r->target);
    const char *verdict = r->target <= NO_TARGET ? "" : met ? "met" : "not met";
    char target[40] = "";

    if (r->target > NO_TARGET)
        snprintf(target, sizeof target, "%s %g", r->at_most ? "at most" : "at least", r->target);
    json_t *to = json_pack("{s:I, s:s}", "row", (json_int_t)at + 1, "what", r->what);
    if (skipped) {
        printf("| %zu | %s | %s | | skipped | | %s |\n", at + 1, r->what, target, skipped);
        json_object_set_new(to, "skipped", json_string(skipped));
    } else {
        printf("| %zu | %s | %s | %.2f | %.2f | %.2f | %s%s%s |\n", at + 1, r->what, target, s->min, s->median, s->max,
               verdict, *verdict ? "; " : "", note);
        json_object_set_new(to, "note", json_string(note));
        json_object_set_new(to, "ratio", spread_json(*s));
        if (r->target > NO_TARGET)
            json_object_set_new(to, r->at_most ? "at_most" : "at_least", json_real(r->target));
    }
    json_array_append_new(results, to);
    fflush(stdout);
}

/* Notes the medians of both values of the ratio. */
static void note_medians(const row *r, const contender *a, const contender *b, char note[TABLE_NOTE_BYTES])
{
    static const char *const units[] = {[OF_RATE] = "calls/s", [OF_REDIS] = "us", [OF_P50] = "us"};
    bool hand_offs = r->of == OF_RATE && a->total.hand_offs > 0;

    snprintf(note, TABLE_NOTE_BYTES, r->of == OF_REDIS ? "%.2f / %.2f %s" : "%.0f / %.0f %s", compare_median(a, r->of),
             compare_median(b, r->of), hand_offs ? "hand-offs/s" : units[r->of]);
}

static bool measure_group(int group, const bench_options *o, const place *none, json_t *results)
{
    const entrant *e = groups[group];
    size_t n = 0;

    while (n < CONTENDERS_MAX && e[n].scenario)
        n++;
    contender *c = program_alloc(n, sizeof *c);
    bool good = compare_run(e, n, o, none, c);
    for (size_t i = 0; i < N_ROWS && good; i++) {
        const row *r = &rows[i];
        if (r->group != group || !wanted(o, i + 1))
            continue;
        const char *skipped = c[r->a].skipped ? c[r->a].skipped : c[r->b].skipped;
        spread s = skipped ? (spread){0} : compare_ratio(&c[r->a], &c[r->b], r->of);
        char note[TABLE_NOTE_BYTES] = "";
        if (!skipped)
            note_medians(r, &c[r->a], &c[r->b], note);
        print_row(i, skipped, &s, note, results);
    }
    compare_free(c, n);
    free(c);
    return good;
}

/* ---- overload ------------------------------------------------------------------ */

enum { OVERLOAD_TIMES = 10, OVERLOAD_CONNECTIONS = 32, OVERLOAD_TIMEOUT_MS = 1000 };

/* Measures the capacity, then an open loop at so many times the capacity. */
static bool overload(const bench_options *o, world *w, double *capacity, measure *m)
{
    bench_options options = *o;

    options.connections = 1;
    options.timeout_ms = OVERLOAD_TIMEOUT_MS;
    options.sync = false;
    if (!drive_capacity(&options, w, &m->all, capacity))
        return false;
    options.rate = OVERLOAD_TIMES * *capacity;
    options.connections = OVERLOAD_CONNECTIONS;
    options.calls = 0;
    return drive_run(&options, w, m);
}

/* Measures the answers a second at ten times the capacity, divided by the capacity. The note says how many times the
 * capacity this machine could offer. */
static bool measure_overload(size_t at, const bench_options *o, json_t *results)
{
    double values[ROUNDS_MAX];
    char note[TABLE_NOTE_BYTES] = "";
    world w = {0};
    place p;
    bool good = place_open(o, "none", &p) && world_open(&w, scenario_find("deduct"), o, &p);

    for (long i = 0; i < o->rounds && good; i++) {
        double capacity = 0;
        measure m = {0};
        good = overload(o, &w, &capacity, &m);
        values[i] = measure_rate(&m) / capacity;
        snprintf(note, sizeof note, "ended: %.1f times the capacity of %.0f",
                 (double)measure_calls(&m) / m.seconds / capacity, capacity);
        measure_clear(&m);
    }
    world_close(&w);
    place_close(&p);
    if (good) {
        spread of_all = spread_of(values, (size_t)o->rounds);
        print_row(at, NULL, &of_all, note, results);
    }
    return good;
}

bool table_run(const bench_options *o, json_t *results)
{
    place p;
    bool good = place_open(o, "none", &p);

    if (good)
        printf("%ld rounds of %.1f s, %s, no fsync unless said\n\n| | what | target | min | median | max | |\n"
               "|---|---|---|---|---|---|---|\n",
               o->rounds, o->seconds, o->wire);
    for (int g = 0; g < N_GROUPS && good; g++)
        if (group_is_wanted(o, g))
            good = measure_group(g, o, &p, results);
    place_close(&p);
    for (size_t i = 0; i < N_ROWS && good; i++)
        if (rows[i].group == OVERLOAD && wanted(o, i + 1))
            good = measure_overload(i, o, results);
    return good;
}

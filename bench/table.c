/* Invariant: `rows` is the only list of rows, `groups` of what is measured for them: those of one group take
 * turns, so that a row's ratio is one of slices of the same moment. */
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "table_alone.h"

enum { CONTENDERS_MAX = 8, TABLE_IN_FLIGHT = 256, CHUNK = 16, WAITERS = 64 };

typedef struct entrant {
    const char *name, *scenario;
    bool ours, sync;
    unsigned in_flight;
    rival_kind kind;
    unsigned pipeline, subs;
    bool script, locks;
    const char *fsync; /* NULL: none */
} entrant;

#define OURS(of, flight) .name = "lockstock", .ours = true, .scenario = (of), .in_flight = (flight)
#define RIVAL(of, flight, how) .name = #how, .scenario = (of), .in_flight = (flight), .kind = RIVAL_##how
#define BENCHMARK_16(of) RIVAL(of, TABLE_IN_FLIGHT, BENCHMARK), .pipeline = 16, .script = true

/* Named by their first letter in rows. */
static const entrant groups[][CONTENDERS_MAX] = {
    /* 0 */ {{RIVAL("deduct", CHUNK, CHUNKS)},
             {RIVAL("deduct", CHUNK, CHUNKS), .subs = COMMAND_SUBS_MAX},
             {RIVAL("deduct", CHUNK, CHUNKS), .script = true}},
    /* 1 */
    {{RIVAL("lock", CHUNK, CHUNKS), .locks = true}, {RIVAL("lock", CHUNK, CHUNKS), .locks = true, .script = true}},
    /* 2 */
    {{OURS("deduct", TABLE_IN_FLIGHT)},
     {RIVAL("deduct", TABLE_IN_FLIGHT, THREADS)},
     {RIVAL("deduct", TABLE_IN_FLIGHT, GRPC)},
     {BENCHMARK_16("deduct")},
     {OURS("deduct-hot", TABLE_IN_FLIGHT)}},
    /* 3 */ {{OURS("sold-out", TABLE_IN_FLIGHT)}, {BENCHMARK_16("sold-out")}},
    /* 4 */ {{OURS("deduct", 1), .sync = true}, {RIVAL("deduct", 1, THREADS)}},
    /* 5 */
    {{BENCHMARK_16("deduct")},
     {OURS("lock", TABLE_IN_FLIGHT)},
     {OURS("begin", TABLE_IN_FLIGHT)},
     {OURS("check-fixed", TABLE_IN_FLIGHT)},
     {OURS("check-window", TABLE_IN_FLIGHT)},
     {OURS("check-log", TABLE_IN_FLIGHT)},
     {OURS("check-bucket", TABLE_IN_FLIGHT)}},
    /* 6 */
    {{OURS("lock-hot", WAITERS + 1)},
     {RIVAL("lock-hot", WAITERS + 1, BLPOP), .script = true},
     {RIVAL("lock-hot", WAITERS + 1, POLLING), .script = true},
     {RIVAL("lock-hot", WAITERS + 1, LIST), .script = true}},
    /* 7 */ {{OURS("deduct", TABLE_IN_FLIGHT), .fsync = "always"}, {OURS("deduct", TABLE_IN_FLIGHT)}},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

enum { NO_GROUP = -1, NO_TARGET = 0 };

typedef struct row {
    const char *what;
    int group; /* NO_GROUP: measured alone */
    unsigned a, b;
    compared of;
    double target;
    bool at_most;
    table_alone *alone;
} row;

static const row rows[] = {
    {"Redis CPU of a Deduct alone / minimal script", 0, 0, 2, OF_REDIS, 1.5, true, NULL},
    {"Redis CPU a Deduct, 64 of one item in an FCALL / minimal script", 0, 1, 2, OF_REDIS, 0.5, true, NULL},
    {"Redis CPU of Acquire+Release / its minimal scripts", 1, 0, 1, OF_REDIS, 1.6, true, NULL},
    {"deduct, own items, 256 in flight / 256 synchronous hiredis threads, same function", 2, 0, 1, OF_RATE, 2.5, false,
     NULL},
    {"the same / gRPC C++ async service, same function", 2, 0, 2, OF_RATE, 3, false, NULL},
    {"the same / redis-benchmark -P 16, minimal script", 2, 0, 3, OF_RATE, 0.9, false, NULL},
    {"deduct, one hot item / redis-benchmark -P 16, minimal script", 2, 4, 3, OF_RATE, 1.5, false, NULL},
    {"sold out / redis-benchmark -P 16, minimal script", 3, 0, 1, OF_RATE, 3, false, NULL},
    {"p50 of one call at a time / one synchronous hiredis call, same function", 4, 0, 1, OF_P50, 1.3, true, NULL},
    {"acquire or release, 256 in flight / redis-benchmark -P 16, minimal Deduct script", 5, 1, 0, OF_RATE, 0.8, false,
     NULL},
    {"begin or complete / the same", 5, 2, 0, OF_RATE, 0.8, false, NULL},
    {"check, FIXED_WINDOW / the same", 5, 3, 0, OF_RATE, 0.8, false, NULL},
    {"check, SLIDING_WINDOW / the same", 5, 4, 0, OF_RATE, 0.8, false, NULL},
    {"check, SLIDING_LOG / the same", 5, 5, 0, OF_RATE, 0.8, false, NULL},
    {"check, TOKEN_BUCKET / the same", 5, 6, 0, OF_RATE, 0.8, false, NULL},
    {"one hot lock, 64 waiters, hand-offs a second / SET NX and BLPOP", 6, 0, 1, OF_RATE, 1.2, false, NULL},
    {"the same / SET NX and polling, 3 to 33 ms", 6, 0, 2, OF_RATE, 5, false, NULL},
    {"the same / BLPOP of a bare list, without a lease (for comparison)", 6, 0, 3, OF_RATE, NO_TARGET, false, NULL},
    {"deduct, fsync always / none, 256 in flight", 7, 0, 1, OF_RATE, 0.5, false, NULL},
    {"goodput at 10 times capacity / peak", NO_GROUP, 0, 0, OF_RATE, 0.9, false, table_overload},
    {"parked waiter in the server, bytes", NO_GROUP, 0, 0, OF_RATE, 768, true, table_parked},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Whether --rows names it, by its number from 1. */
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

static void tell(size_t at, const char *skipped, const spread *s, const char *note, json *j)
{
    const row *r = &rows[at];
    bool met = !skipped && (r->at_most ? s->median <= r->target : s->median >= r->target);
    const char *verdict = r->target <= NO_TARGET ? "" : met ? "met" : "not met";
    char target[40] = "";

    if (r->target > NO_TARGET)
        snprintf(target, sizeof target, "%s %g", r->at_most ? "at most" : "at least", r->target);
    json_begin(j, NULL, '{');
    json_count(j, "row", at + 1);
    json_text(j, "what", r->what);
    if (skipped) {
        printf("| %zu | %s | %s | | skipped | | %s |\n", at + 1, r->what, target, skipped);
        json_text(j, "skipped", skipped);
    } else {
        printf("| %zu | %s | %s | %.2f | %.2f | %.2f | %s%s%s |\n", at + 1, r->what, target, s->min, s->median, s->max,
               verdict, *verdict ? "; " : "", note);
        json_text(j, "note", note);
        json_spread(j, "ratio", *s);
        if (r->target > NO_TARGET)
            json_number(j, r->at_most ? "at_most" : "at_least", r->target);
    }
    json_end(j, '}');
    fflush(stdout);
}

/* What the ratio is of: the medians of both. */
static void note_medians(const row *r, const contender *a, const contender *b, size_t rounds,
                         char note[TABLE_NOTE_BYTES])
{
    static const char *const units[] = {[OF_RATE] = "calls/s", [OF_REDIS] = "us", [OF_P50] = "us"};
    bool hand_offs = r->of == OF_RATE && a->total.hand_offs > 0;

    snprintf(note, TABLE_NOTE_BYTES, r->of == OF_REDIS ? "%.2f / %.2f %s" : "%.0f / %.0f %s",
             compare_median(a, r->of, rounds), compare_median(b, r->of, rounds),
             hand_offs ? "hand-offs/s" : units[r->of]);
}

static bool measure_group(int group, const bench_options *o, const place *none, json *j)
{
    contender *c = measure_alloc(CONTENDERS_MAX, sizeof *c);
    place other = {.output = -1};
    bool good = true;
    size_t n = 0;

    for (const entrant *e = groups[group]; n < CONTENDERS_MAX && e[n].name; n++) {
        c[n] = (contender){.name = e[n].name,
                           .scenario = scenario_find(e[n].scenario),
                           .ours = e[n].ours,
                           .sync = e[n].sync,
                           .in_flight = e[n].in_flight,
                           .rival = {.kind = e[n].kind,
                                     .pipeline = e[n].pipeline,
                                     .work = {.script = e[n].script, .locks = e[n].locks, .subs = e[n].subs}}};
        if (e[n].fsync) {
            good = place_open(o, e[n].fsync, &other);
            c[n].place = &other;
        }
    }
    good = good && compare_run(c, n, o, none);
    for (size_t i = 0; i < N_ROWS && good; i++) {
        const row *r = &rows[i];
        if (r->group != group || !wanted(o, i + 1))
            continue;
        const char *skipped = c[r->a].skipped ? c[r->a].skipped : c[r->b].skipped;
        spread s = skipped ? (spread){0} : compare_ratio(&c[r->a], &c[r->b], r->of, (size_t)o->rounds);
        char note[TABLE_NOTE_BYTES] = "";
        if (!skipped)
            note_medians(r, &c[r->a], &c[r->b], (size_t)o->rounds, note);
        tell(i, skipped, &s, note, j);
    }
    compare_free(c, n);
    place_close(&other);
    free(c);
    return good;
}

static bool measure_alone(size_t at, const bench_options *o, json *j)
{
    double *values = measure_alloc((size_t)o->rounds, sizeof *values);
    char note[TABLE_NOTE_BYTES] = "";
    bool good = rows[at].alone(o, values, note);

    if (good) {
        spread s = spread_of(values, (size_t)o->rounds);
        tell(at, NULL, &s, note, j);
    }
    free(values);
    return good;
}

bool table_run(const bench_options *o, json *j)
{
    place p;
    bool good = place_open(o, "none", &p);

    if (good)
        printf("%ld rounds of %.1f s, %s, no fsync unless said\n\n| | what | target | min | median | max | |\n"
               "|---|---|---|---|---|---|---|\n",
               o->rounds, o->seconds, o->wire);
    for (int g = 0; g < N_GROUPS && good; g++)
        if (group_is_wanted(o, g))
            good = measure_group(g, o, &p, j);
    place_close(&p);
    for (size_t i = 0; i < N_ROWS && good; i++)
        if (rows[i].alone && wanted(o, i + 1))
            good = measure_alone(i, o, j);
    return good;
}

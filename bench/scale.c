/* Each figure is of a run of its own on servers that are started for it, so a run does not pay for the data of others. */
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 8, MANY = 256, EACH_SERVER = 64, THINGS = 20000, MEGA = 1000000 };

typedef struct run {
    const char *scenario;
    unsigned in_flight, servers, n_things;
    uint64_t operations; /* 0: for --seconds */
} run;

typedef struct cost {
    double server_us, redis_us; /* CPU of a call */
    int64_t bytes;              /* of Redis, that the things and the operations take */
} cost;

/* Whether the command names the scenario, or none. */
static bool wanted(const bench_options *o, const char *name)
{
    bool named = o->n_scenarios == 0;

    for (size_t i = 0; i < o->n_scenarios; i++)
        named = named || strcmp(o->scenarios[i], name) == 0;
    return named;
}

static bool any_wanted(const bench_options *o, const char *const *names, size_t n)
{
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any = any || wanted(o, names[i]);
    return any;
}

static void add(json_t *results, const run *r, const measure *m, int64_t bytes)
{
    json_t *to = json_pack("{s:s, s:i, s:i, s:I}", "scenario", r->scenario, "in_flight", (int)r->in_flight, "servers",
                           (int)r->servers, "redis_bytes", (json_int_t)bytes);

    report_measure_json(to, m);
    json_array_append_new(results, to);
}

/* Appends to the results. Returns false after printing an error. */
static bool measure_run(const bench_options *o, const run *r, json_t *results, cost *ret)
{
    const scenario *s = scenario_find(r->scenario);
    char checked[CHECK_BYTES] = "";
    bench_options options = *o;
    tally *all = measure_alloc(1, sizeof *all);
    place *p = measure_alloc(1, sizeof *p);
    measure m = {0};
    world w = {0};

    options.servers = r->servers;
    bool good = place_open(&options, o->fsync, p);
    int64_t before = good ? place_redis_bytes(p) : -1;
    good = before >= 0 && world_open(&w, s, p, r->n_things);
    if (good) {
        const drive_options d = {.scenario = s,
                                 .world = &w,
                                 .place = p,
                                 .in_flight = r->in_flight,
                                 .connections = r->servers,
                                 .operations = r->operations,
                                 .warm_up = o->warm_up,
                                 .seconds = o->seconds,
                                 .timeout_ms = (uint32_t)o->timeout_ms};
        good = drive_run(&d, &m, all);
    }
    if (good && s->check && !s->check(&w, all, checked)) {
        fprintf(stderr, "lockstock-bench: %s: WRONG: %s\n", s->name, checked);
        good = false;
    }
    int64_t after = good ? place_redis_bytes(p) : -1;
    good = after >= 0 && !interrupted();
    if (good) {
        *ret = (cost){measure_us(&m, m.cpu.server), measure_us(&m, m.cpu.redis), after - before};
        add(results, r, &m, ret->bytes);
    }
    measure_clear(&m);
    world_close(&w);
    place_close(p);
    free(p);
    free(all);
    return good;
}

/* ---- calls ------------------------------------------------------------------------ */

static bool measure_calls_of(const bench_options *o, const char *name, json_t *results)
{
    static const unsigned in_flight[] = {1, FEW, MANY};
    cost found = {0};
    bool good = true;

    printf("| %s |", name);
    for (size_t i = 0; i < sizeof in_flight / sizeof *in_flight && good; i++) {
        const run r = {.scenario = name, .in_flight = in_flight[i], .servers = 1, .n_things = MANY};
        good = measure_run(o, &r, results, &found);
        if (good)
            printf(" %.1f / %.1f |", found.server_us, found.redis_us);
        fflush(stdout);
    }
    if (good)
        printf(" %.0f / %.0f |\n", MEGA / found.server_us, MEGA / found.redis_us);
    return good;
}

static bool measure_costs(const bench_options *o, json_t *results)
{
    static const char *const names[] = {"deduct",       "deduct-hot",   "sold-out",  "reserve",
                                        "lock",         "lock-hot",     "begin",     "check-fixed",
                                        "check-window", "check-bucket", "check-log", "ids"};
    bool good = true;

    if (!any_wanted(o, names, sizeof names / sizeof *names))
        return true;
    printf("CPU of a call, us, lockstockd / Redis, with so many calls in flight on one connection, and the calls a "
           "second\n"
           "that one core of lockstockd / one core of Redis does at %d:\n\n"
           "| calls | 1 | %d | %d | calls/s of a core |\n|---|---|---|---|---|\n",
           MANY, FEW, MANY);
    for (size_t i = 0; i < sizeof names / sizeof *names && good; i++)
        good = !wanted(o, names[i]) || measure_calls_of(o, names[i], results);
    return good;
}

/* ---- servers ---------------------------------------------------------------------- */

static bool measure_servers(const bench_options *o, json_t *results)
{
    static const char *const names[] = {"deduct-hot", "deduct", "lock-hot"};
    static const unsigned servers[] = {1, 4, 16};
    bool good = true;

    if (!any_wanted(o, names, sizeof names / sizeof *names))
        return true;
    printf(
        "\nSeveral lockstockds on one Redis, a connection to each, %d calls in flight for each; CPU of a call, us:\n\n"
        "| calls | servers | lockstockd | Redis |\n|---|---|---|---|\n",
        EACH_SERVER);
    for (size_t i = 0; i < sizeof names / sizeof *names && good; i++)
        for (size_t k = 0; k < sizeof servers / sizeof *servers && good && wanted(o, names[i]); k++) {
            const run r = {.scenario = names[i],
                           .in_flight = servers[k] * EACH_SERVER,
                           .servers = servers[k],
                           .n_things = servers[k] * EACH_SERVER};
            cost found;
            good = measure_run(o, &r, results, &found);
            if (good)
                printf("| %s | %u | %.1f | %.1f |\n", r.scenario, r.servers, found.server_us, found.redis_us);
            fflush(stdout);
        }
    return good;
}

/* ---- memory ----------------------------------------------------------------------- */

static bool measure_memory(const bench_options *o, json_t *results)
{
    static const struct {
        const char *what;
        run run;
    } rows[] = {
        {"an item in a group of its own", {"deduct", 1, 1, THINGS, 1}},
        {"the same with its first order", {"deduct", MANY, 1, THINGS, THINGS}},
        {"an order in the group of its item", {"deduct-hot", MANY, 1, 1, THINGS}},
        {"a stored result of 100 bytes", {"begin", MANY, 1, THINGS, THINGS}},
        {"a key with one counter, SLIDING_WINDOW", {"check-window", MANY, 1, THINGS, THINGS}},
        {"a name that was locked and released", {"lock", MANY, 1, THINGS, THINGS}},
    };
    bool good = true, begun = false;

    for (size_t i = 0; i < sizeof rows / sizeof *rows && good; i++) {
        cost found;
        if (!wanted(o, rows[i].run.scenario))
            continue;
        if (!begun)
            printf("\nMemory of Redis, bytes:\n\n| thing | bytes |\n|---|---|\n");
        begun = true;
        good = measure_run(o, &rows[i].run, results, &found);
        if (good)
            printf("| %s | %.0f |\n", rows[i].what, (double)found.bytes / THINGS);
        fflush(stdout);
    }
    return good;
}

bool scale_run(const bench_options *o, json_t *results)
{
    if (!measure_costs(o, results) || !measure_servers(o, results) || !measure_memory(o, results))
        return false;
    if (json_array_size(results) == 0)
        fprintf(stderr, "lockstock-bench: scale: no table has a row of these scenarios\n");
    return json_array_size(results) > 0;
}

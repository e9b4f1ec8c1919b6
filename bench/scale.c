/* Each figure is of a run of its own on servers that are started for it, so a run does not pay for the data of others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

enum { FEW = 8, MANY = 256, EACH_SERVER = 64, THINGS = 20000, MEGA = 1000000 };

typedef struct figure {
    const char *scenario;
    unsigned in_flight, servers, n_things;
    int64_t calls;    /* 0: for --seconds */
    const char *what; /* a thing whose memory is measured */
} figure;

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

/* Appends to the results. Returns false after printing an error. */
static bool measure_figure(const bench_options *o, const figure *f, json_t *results, cost *ret)
{
    bench_options options = *o;
    place *p = program_alloc(1, sizeof *p);
    measure m = {0};
    world w = {0};

    options.in_flight = f->in_flight;
    options.servers = options.connections = f->servers;
    options.items = f->n_things;
    options.calls = f->calls;
    options.rate = 0;
    options.sync = false;
    bool good = place_open(&options, o->fsync, p);
    int64_t before = good ? place_redis_bytes(p) : -1;
    good = before >= 0 && world_open(&w, scenario_find(f->scenario), &options, p) && drive_run(&options, &w, &m) &&
           (world_agrees(&w, &m.all) || report_wrong(&w));
    int64_t after = good ? place_redis_bytes(p) : -1;
    good = after >= 0 && !program_interrupted();
    if (good) {
        *ret = (cost){measure_us(&m, m.cpu.server), measure_us(&m, m.cpu.redis), after - before};
        json_t *to = json_pack("{s:s, s:i, s:i, s:I}", "scenario", f->scenario, "in_flight", (int)f->in_flight,
                               "servers", (int)f->servers, "redis_bytes", (json_int_t)ret->bytes);
        report_measure_json(to, &m);
        json_array_append_new(results, to);
    }
    measure_clear(&m);
    world_close(&w);
    place_close(p);
    free(p);
    return good;
}

/* ---- the tables ------------------------------------------------------------------- */

/* Measures a row and prints it. Returns false after printing an error. */
typedef bool print_row(const bench_options *o, const figure *f, json_t *results);

static bool print_cost(const bench_options *o, const figure *f, json_t *results)
{
    static const unsigned in_flight[] = {1, FEW, MANY};
    cost found = {0};

    printf("| %s |", f->scenario);
    for (size_t i = 0; i < sizeof in_flight / sizeof *in_flight; i++) {
        const figure one = {f->scenario, in_flight[i], 1, MANY};
        if (!measure_figure(o, &one, results, &found))
            return false;
        printf(" %.1f / %.1f |", found.server_us, found.redis_us);
        fflush(stdout);
    }
    printf(" %.0f / %.0f |\n", MEGA / found.server_us, MEGA / found.redis_us);
    return true;
}

static bool print_servers(const bench_options *o, const figure *f, json_t *results)
{
    cost found;

    if (!measure_figure(o, f, results, &found))
        return false;
    printf("| %s | %u | %.1f | %.1f |\n", f->scenario, f->servers, found.server_us, found.redis_us);
    return true;
}

static bool print_memory(const bench_options *o, const figure *f, json_t *results)
{
    cost found;

    if (!measure_figure(o, f, results, &found))
        return false;
    printf("| %s | %.0f |\n", f->what, (double)found.bytes / THINGS);
    return true;
}

/* clang-format off */
#define SERVERS(scenario, n) {scenario, (n) * EACH_SERVER, n, (n) * EACH_SERVER}
#define ON_SERVERS(scenario) SERVERS(scenario, 1), SERVERS(scenario, 4), SERVERS(scenario, 16)
static const struct {
    const char *head;
    print_row *print;
    figure rows[16]; /* until one has no scenario */
} tables[] = {
    {"CPU of a call, us, lockstockd / Redis, with so many calls in flight on one connection, and the calls a second\n"
     "that one core of lockstockd / one core of Redis does at 256:\n\n"
     "| calls | 1 | 8 | 256 | calls/s of a core |\n|---|---|---|---|---|\n", print_cost,
     {{"deduct"}, {"deduct-hot"}, {"sold-out"}, {"reserve"}, {"lock"}, {"lock-hot"}, {"begin"}, {"check-fixed"},
      {"check-window"}, {"check-bucket"}, {"check-log"}, {"ids"}}},
    {"\nSeveral lockstockds on one Redis, a connection to each, 64 calls in flight for each; CPU of a call, us:\n\n"
     "| calls | servers | lockstockd | Redis |\n|---|---|---|---|\n", print_servers,
     {ON_SERVERS("deduct-hot"), ON_SERVERS("deduct"), ON_SERVERS("lock-hot")}},
    {"\nMemory of Redis, bytes:\n\n| thing | bytes |\n|---|---|\n", print_memory,
     {{"deduct", 1, 1, THINGS, 1, "an item in a group of its own"},
      {"deduct", MANY, 1, THINGS, THINGS, "the same with its first order"},
      {"deduct-hot", MANY, 1, 1, THINGS, "an order in the group of its item"},
      {"begin", MANY, 1, THINGS, THINGS, "a stored result of 100 bytes"},
      {"check-window", MANY, 1, THINGS, THINGS, "a key with one counter, SLIDING_WINDOW"},
      {"lock", MANY, 1, THINGS, THINGS, "a name that was locked and released"}}},
};
/* clang-format on */

bool scale_run(const bench_options *o, json_t *results)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        bool begun = false;
        for (const figure *f = tables[i].rows; f->scenario; f++) {
            if (!wanted(o, f->scenario))
                continue;
            if (!begun)
                fputs(tables[i].head, stdout);
            begun = true;
            if (!tables[i].print(o, f, results))
                return false;
            fflush(stdout);
        }
    }
    if (json_array_size(results) == 0)
        fprintf(stderr, "lockstock-bench: scale: no table has a row of these scenarios\n");
    return json_array_size(results) > 0;
}

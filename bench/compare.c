#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rival_outside.h"
#include "rival_run.h"

enum { CONTENDERS_MAX = 16 };

static bool prepare(contender *c, size_t n, const bench_options *o, const place *p)
{
    bool prepared = true;

    for (size_t i = 0; i < n && prepared; i++) {
        c[i].rate = measure_alloc((size_t)o->rounds, sizeof(double));
        c[i].redis_us = measure_alloc((size_t)o->rounds, sizeof(double));
        c[i].p50_us = measure_alloc((size_t)o->rounds, sizeof(double));
        c[i].place = c[i].place ? c[i].place : p;
        unsigned n_things = o->items > 0 ? (unsigned)o->items : c[i].in_flight;
        prepared = world_open(&c[i].world, c[i].scenario, c[i].place, n_things);
        c[i].rival.work.world = &c[i].world;
        c[i].rival.in_flight = c[i].in_flight;
        c[i].skipped = c[i].ours ? NULL : rival_missing(&c[i].rival, c[i].place);
    }
    return prepared;
}

static bool run_slice(contender *c, const bench_options *o, measure *m)
{
    unsigned connections = (unsigned)o->connections < c->in_flight ? (unsigned)o->connections : c->in_flight;
    const drive_options ours = {.scenario = c->scenario,
                                .world = &c->world,
                                .place = c->place,
                                .in_flight = c->in_flight,
                                .connections = connections,
                                .operations = (uint64_t)o->calls,
                                .warm_up = o->warm_up,
                                .seconds = o->seconds,
                                .timeout_ms = (uint32_t)o->timeout_ms,
                                .sync = c->sync};

    if (c->ours)
        return drive_run(&ours, m, &c->all);
    return rival_run(&c->rival, c->place, o->warm_up, o->seconds, (uint64_t)o->calls, m);
}

static void add_cpu(cpu_times *to, cpu_times more)
{
    to->client += more.client;
    to->server += more.server;
    to->redis += more.redis;
}

bool compare_run(contender *c, size_t n, const bench_options *o, const place *p)
{
    bool good = prepare(c, n, o, p);

    for (size_t round = 0; round < (size_t)o->rounds && good; round++)
        for (size_t k = 0; k < n && good; k++) {
            contender *now = &c[(round + k) % n];
            measure m = {0};
            if (now->skipped)
                continue;
            good = run_slice(now, o, &m) && !interrupted();
            now->rate[round] = m.hand_offs > 0 ? (double)m.hand_offs / m.seconds : measure_rate(&m);
            now->redis_us[round] = measure_us(&m, m.cpu.redis);
            now->p50_us[round] = measure_percentile_us(&m, FATE_OK, 0.5);
            measure_add(&now->total, &m);
            now->total.seconds += m.seconds;
            add_cpu(&now->total.cpu, m.cpu);
            measure_clear(&m);
        }
    for (size_t k = 0; k < n && good; k++) {
        c[k].agrees = !c[k].ours || !c[k].scenario->check || c[k].scenario->check(&c[k].world, &c[k].all, c[k].checked);
        if (!c[k].agrees)
            fprintf(stderr, "lockstock-bench: %s: WRONG: %s\n", c[k].scenario->name, c[k].checked);
        good = c[k].agrees;
    }
    return good;
}

void compare_free(contender *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        world_close(&c[i].world);
        measure_clear(&c[i].total);
        free(c[i].rate);
        free(c[i].redis_us);
        free(c[i].p50_us);
    }
}

static const double *values_of(const contender *c, compared of)
{
    return of == OF_RATE ? c->rate : of == OF_REDIS ? c->redis_us : c->p50_us;
}

spread compare_ratio(const contender *a, const contender *b, compared of, size_t rounds)
{
    double ratios[ROUNDS_MAX];

    for (size_t i = 0; i < rounds; i++)
        ratios[i] = values_of(a, of)[i] / values_of(b, of)[i];
    return spread_of(ratios, rounds);
}

double compare_median(const contender *c, compared of, size_t rounds)
{
    double values[ROUNDS_MAX];

    memcpy(values, values_of(c, of), rounds * sizeof *values);
    return spread_of(values, rounds).median;
}

/* ---- --compare ----------------------------------------------------------------- */

/* Adds the rivals that do the same work. Locks, and scenarios without rivals, are compared with a Deduct of redis-
 * benchmark. */
static size_t add_rivals(contender *all, const scenario *s, unsigned in_flight)
{
    bool deducts = strcmp(s->name, "deduct") == 0 || strcmp(s->name, "deduct-hot") == 0 || s->sold_out;
    rival_of wanted = deducts                            ? OF_DEDUCT
                      : strcmp(s->name, "lock") == 0     ? OF_LOCK
                      : strcmp(s->name, "lock-hot") == 0 ? OF_HOT_LOCK
                                                         : OF_ANY;
    size_t n = 1;

    for (size_t i = 0; i < n_rivals; i++)
        if (rivals[i].of == wanted || rivals[i].also_of == wanted)
            all[n++] = (contender){.name = rivals[i].name,
                                   .scenario = rivals[i].of == OF_ANY ? scenario_find("deduct") : s,
                                   .in_flight = in_flight,
                                   .rival = rivals[i]};
    return n;
}

static void print_us(double us)
{
    if (us >= 0)
        printf(" %8.2f", us);
    else
        printf(" %8s", "-");
}

static void print_contender(const contender *c, const contender *ours, const bench_options *o)
{
    size_t rounds = (size_t)o->rounds;
    const measure *m = &c->total;

    if (c->skipped) {
        printf("  %-42s skipped: %s\n", c->name, c->skipped);
        return;
    }
    printf("  %-42s %9.0f", c->name, compare_median(c, OF_RATE, rounds));
    if (m->latency[FATE_OK])
        printf(" %8.0f %8.0f", measure_percentile_us(m, FATE_OK, 0.5), measure_percentile_us(m, FATE_OK, 0.99));
    else
        printf(" %8s %8s", "-", "-");
    print_us(measure_us(m, m->cpu.client));
    print_us(measure_us(m, m->cpu.server));
    print_us(measure_us(m, m->cpu.redis));
    if (c != ours) {
        spread ratio = compare_ratio(ours, c, OF_RATE, rounds);
        printf("   %5.2f %5.2f %5.2f", ratio.min, ratio.median, ratio.max);
    }
    putchar('\n');
}

static json_t *contender_json(const contender *c, const contender *ours, size_t rounds)
{
    json_t *to = json_pack("{s:s}", "name", c->name);

    if (c->skipped) {
        json_object_set_new(to, "skipped", json_string(c->skipped));
        return to;
    }
    report_measure_json(to, &c->total);
    if (c != ours)
        json_object_set_new(to, "rate_of_lockstock_to_this", spread_json(compare_ratio(ours, c, OF_RATE, rounds)));
    if (c != ours && c->total.cpu.redis >= 0)
        json_object_set_new(to, "redis_of_lockstock_to_this", spread_json(compare_ratio(ours, c, OF_REDIS, rounds)));
    return to;
}

bool compare_scenario(const scenario *s, const bench_options *o, const place *p, const char *fsync, json_t *results)
{
    contender *all = measure_alloc(CONTENDERS_MAX, sizeof *all);
    size_t n = add_rivals(all, s, (unsigned)o->in_flight);

    all[0] = (contender){
        .name = "lockstock", .scenario = s, .in_flight = (unsigned)o->in_flight, .ours = true, .sync = o->sync};
    bool good = compare_run(all, n, o, p);
    if (good) {
        printf("%s: %s\n  %ld in flight, %ld connection%s, %s, fsync %s, %ld rounds of %.1f s\n", s->name, s->what,
               o->in_flight, o->connections, o->connections == 1 ? "" : "s", o->server ? o->server : o->wire, fsync,
               o->rounds, o->seconds);
        printf("  %-42s %9s %8s %8s %8s %8s %8s   %s\n", "", all[0].total.hand_offs > 0 ? "hand-offs" : "calls/s",
               "p50 us", "p99 us", "client", "server", "Redis", "lockstock/this: min median max");
        json_t *rows = json_array();
        for (size_t i = 0; i < n; i++) {
            print_contender(&all[i], &all[0], o);
            json_array_append_new(rows, contender_json(&all[i], &all[0], (size_t)o->rounds));
        }
        json_array_append_new(results, json_pack("{s:s, s:I, s:s, s:I, s:o, s:s}", "scenario", s->name, "in_flight",
                                                 (json_int_t)o->in_flight, "fsync", fsync, "rounds",
                                                 (json_int_t)o->rounds, "compared", rows, "checked", all[0].checked));
        printf("  CPU is us a call.%s%s\n\n", all[0].checked[0] ? " Checked: " : "", all[0].checked);
    }
    compare_free(all, n);
    free(all);
    return good;
}

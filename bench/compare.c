#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENDERS_MAX = 16 };

static bool prepare(const entrant *e, const bench_options *o, const place *p, contender *ret)
{
    *ret = (contender){.rival = e->rival ? rival_find(e->rival) : NULL, .options = *o};
    ret->options.in_flight = e->in_flight;
    ret->options.sync = e->sync;
    ret->options.rate = 0;
    for (int i = 0; i < COMPARED; i++)
        ret->values[i] = program_alloc((size_t)o->rounds, sizeof(double));
    if (e->fsync) {
        ret->own = program_alloc(1, sizeof *ret->own);
        if (!place_open(o, e->fsync, ret->own))
            return false;
    }
    if (!world_open(&ret->world, scenario_find(e->scenario), &ret->options, ret->own ? ret->own : p))
        return false;
    ret->skipped = ret->rival ? rival_missing(ret->rival, ret->world.place) : NULL;
    return true;
}

static bool run_slice(contender *c, size_t round)
{
    measure m = {0};
    bool good = c->rival ? rival_run(c->rival, &c->options, &c->world, &m) : drive_run(&c->options, &c->world, &m);

    c->values[OF_RATE][round] = m.hand_offs > 0 ? (double)m.hand_offs / m.seconds : measure_rate(&m);
    c->values[OF_REDIS][round] = measure_us(&m, m.cpu.redis);
    c->values[OF_P50][round] = measure_percentile_us(&m, FATE_OK, 0.5);
    measure_add(&c->total, &m);
    measure_clear(&m);
    return good && !program_interrupted();
}

bool compare_run(const entrant *e, size_t n, const bench_options *o, const place *p, contender *ret)
{
    bool good = true;

    for (size_t i = 0; i < n && good; i++)
        good = prepare(&e[i], o, p, &ret[i]);
    for (size_t round = 0; round < (size_t)o->rounds; round++)
        for (size_t k = 0; k < n && good; k++) {
            contender *now = &ret[(round + k) % n];
            good = now->skipped || run_slice(now, round);
        }
    for (size_t k = 0; k < n && good; k++)
        good = ret[k].rival || world_agrees(&ret[k].world, &ret[k].total.all) || report_wrong(&ret[k].world);
    return good;
}

void compare_free(contender *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        world_close(&c[i].world);
        if (c[i].own)
            place_close(c[i].own);
        free(c[i].own);
        measure_clear(&c[i].total);
        for (int k = 0; k < COMPARED; k++)
            free(c[i].values[k]);
    }
}

spread compare_ratio(const contender *a, const contender *b, compared of)
{
    double ratios[ROUNDS_MAX];

    for (int64_t i = 0; i < a->options.rounds; i++)
        ratios[i] = a->values[of][i] / b->values[of][i];
    return spread_of(ratios, (size_t)a->options.rounds);
}

double compare_median(const contender *c, compared of)
{
    double values[ROUNDS_MAX];

    memcpy(values, c->values[of], (size_t)c->options.rounds * sizeof *values);
    return spread_of(values, (size_t)c->options.rounds).median;
}

/* ---- --compare ----------------------------------------------------------------- */

/* Adds the rivals that do the same work. Locks, and scenarios without rivals, are compared with a Deduct of redis-
 * benchmark. */
static size_t add_rivals(entrant *all, const scenario *s, const bench_options *o)
{
    bool deducts = strcmp(s->name, "deduct") == 0 || strcmp(s->name, "deduct-hot") == 0 || s->sold_out;
    rival_of wanted = deducts                            ? OF_DEDUCT
                      : strcmp(s->name, "lock") == 0     ? OF_LOCK
                      : strcmp(s->name, "lock-hot") == 0 ? OF_HOT_LOCK
                                                         : OF_ANY;
    size_t n = 0;

    all[n++] = (entrant){.scenario = s->name, .in_flight = (unsigned)o->in_flight, .sync = o->sync};
    for (size_t i = 0; i < n_rivals; i++)
        if (rivals[i].of & wanted)
            all[n++] = (entrant){.scenario = rivals[i].of & OF_ANY ? "deduct" : s->name,
                                 .in_flight = (unsigned)o->in_flight,
                                 .rival = rivals[i].name};
    return n;
}

static const char *name_of(const contender *c)
{
    return c->rival ? c->rival->name : "lockstock";
}

static void print_us(double us)
{
    if (us >= 0)
        printf(" %8.2f", us);
    else
        printf(" %8s", "-");
}

static void print_contender(const contender *c, const contender *ours)
{
    const measure *m = &c->total;

    if (c->skipped) {
        printf("  %-42s skipped: %s\n", name_of(c), c->skipped);
        return;
    }
    printf("  %-42s %9.0f", name_of(c), compare_median(c, OF_RATE));
    if (m->latency[FATE_OK])
        printf(" %8.0f %8.0f", measure_percentile_us(m, FATE_OK, 0.5), measure_percentile_us(m, FATE_OK, 0.99));
    else
        printf(" %8s %8s", "-", "-");
    print_us(measure_us(m, m->cpu.client));
    print_us(measure_us(m, m->cpu.server));
    print_us(measure_us(m, m->cpu.redis));
    if (c != ours) {
        spread ratio = compare_ratio(ours, c, OF_RATE);
        printf("   %5.2f %5.2f %5.2f", ratio.min, ratio.median, ratio.max);
    }
    putchar('\n');
}

static json_t *contender_json(const contender *c, const contender *ours)
{
    json_t *to = json_pack("{s:s}", "name", name_of(c));

    if (c->skipped) {
        json_object_set_new(to, "skipped", json_string(c->skipped));
        return to;
    }
    report_measure_json(to, &c->total);
    if (c != ours)
        json_object_set_new(to, "rate_of_lockstock_to_this", spread_json(compare_ratio(ours, c, OF_RATE)));
    if (c != ours && c->total.cpu.redis >= 0)
        json_object_set_new(to, "redis_of_lockstock_to_this", spread_json(compare_ratio(ours, c, OF_REDIS)));
    return to;
}

bool compare_scenario(const scenario *s, const bench_options *o, const place *p, json_t *results)
{
    entrant entrants[CONTENDERS_MAX];
    size_t n = add_rivals(entrants, s, o);
    contender *all = program_alloc(n, sizeof *all);
    const char *checked = all[0].world.checked;
    bool good = compare_run(entrants, n, o, p, all);

    if (good) {
        printf("%s: %s\n  %ld in flight, %ld connection%s, %s, fsync %s, %ld rounds of %.1f s\n", s->name, s->what,
               o->in_flight, o->connections, o->connections == 1 ? "" : "s", o->server ? o->server : o->wire,
               report_fsync(o), o->rounds, o->seconds);
        printf("  %-42s %9s %8s %8s %8s %8s %8s   %s\n", "", all[0].total.hand_offs > 0 ? "hand-offs" : "calls/s",
               "p50 us", "p99 us", "client", "server", "Redis", "lockstock/this: min median max");
        json_t *rows = json_array();
        for (size_t i = 0; i < n; i++) {
            print_contender(&all[i], &all[0]);
            json_array_append_new(rows, contender_json(&all[i], &all[0]));
        }
        json_array_append_new(results, json_pack("{s:s, s:I, s:s, s:I, s:o, s:s}", "scenario", s->name, "in_flight",
                                                 (json_int_t)o->in_flight, "fsync", report_fsync(o), "rounds",
                                                 (json_int_t)o->rounds, "compared", rows, "checked", checked));
        printf("  CPU is us a call.%s%s\n\n", *checked ? " Checked: " : "", checked);
    }
    compare_free(all, n);
    free(all);
    return good;
}

#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const fates[FATES] = {"ok", "refused", "expired", "failed"};
static const struct {
    const char *name;
    double share;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
enum { N_PERCENTILES = sizeof percentiles / sizeof percentiles[0], PLOT_ROWS = 16, PLOT_WIDTH = 60 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

spread spread_of(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return (spread){.min = values[0], .median = (values[(n - 1) / 2] + values[n / 2]) / 2, .max = values[n - 1]};
}

const char *report_fsync(const bench_options *o)
{
    return o->store || o->server ? "as it is" : o->fsync;
}

bool report_wrong(const world *w)
{
    fprintf(stderr, "lockstock-bench: %s: WRONG: %s\n", w->scenario->name, w->checked);
    return false;
}

/* ---- JSON ---------------------------------------------------------------------- */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *spread_json(spread s)
{
    return json_pack("{s:o, s:o, s:o}", "min", number(s.min), "median", number(s.median), "max", number(s.max));
}

static json_t *latencies_json(const measure *m)
{
    json_t *all = json_object();

    for (fate f = 0; f < FATES; f++) {
        const histogram *h = m->latency[f];
        if (!h)
            continue;
        json_t *one = json_pack("{s:o}", "mean", number((double)h->sum / 1e3 / (double)h->count));
        for (size_t i = 0; i < N_PERCENTILES; i++)
            json_object_set_new(one, percentiles[i].name, number(measure_percentile_us(m, f, percentiles[i].share)));
        json_object_set_new(all, fates[f], one);
    }
    return all;
}

void report_measure_json(json_t *to, const measure *m)
{
    static const char *const whose[] = {"client", "server", "redis"};
    const double us[] = {m->cpu.client, m->cpu.server, m->cpu.redis};
    json_t *calls = json_object(), *cpu = json_object();

    for (int f = 0; f < FATES; f++)
        json_object_set_new(calls, fates[f], json_integer((json_int_t)m->calls[f]));
    for (int i = 0; i < 3; i++)
        if (measure_us(m, us[i]) >= 0)
            json_object_set_new(cpu, whose[i], number(measure_us(m, us[i])));
    if (m->hand_offs > 0)
        json_object_set_new(to, "hand_offs_per_second", number((double)m->hand_offs / m->seconds));
    json_object_update_new(to, json_pack("{s:o, s:o, s:o, s:o, s:o}", "seconds", number(m->seconds), "calls", calls,
                                         "calls_per_second", number(measure_rate(m)), "latency_us", latencies_json(m),
                                         "cpu_us_a_call", cpu));
}

/* ---- outcomes ------------------------------------------------------------------ */

/* Returns "SOLD_OUT" for DEDUCT_OUTCOME_SOLD_OUT. */
static const char *outcome_name(const ProtobufCEnumDescriptor *of, int outcome)
{
    const ProtobufCEnumValue *value = of ? protobuf_c_enum_descriptor_get_value(of, outcome) : NULL;
    const char *at = value ? strstr(value->name, "_OUTCOME_") : NULL;

    return at ? at + strlen("_OUTCOME_") : "ANSWERED";
}

/* Returns each outcome that occurred, for each call of each scenario (mix has several). */
static json_t *outcomes_json(const tally *all)
{
    json_t *found = json_array();

    for (unsigned s = 0; s < n_scenarios; s++)
        for (int step = 0; step < STEPS_MAX; step++)
            for (int outcome = 0; outcome < OUTCOMES_MAX; outcome++)
                if (all->ok[s][step][outcome] > 0)
                    json_array_append_new(found, json_pack("{s:s, s:I}", "outcome",
                                                           outcome_name(scenarios[s].steps[step].outcomes, outcome),
                                                           "calls", (json_int_t)all->ok[s][step][outcome]));
    return found;
}

static void print_outcomes(const tally *all)
{
    json_t *outcomes = outcomes_json(all), *one;
    size_t i;

    json_array_foreach(outcomes, i, one)
        printf(" %s %" JSON_INTEGER_FORMAT, json_string_value(json_object_get(one, "outcome")),
               json_integer_value(json_object_get(one, "calls")));
    json_decref(outcomes);
}

/* ---- one run ------------------------------------------------------------------- */

static void print_us(const char *name, double us)
{
    if (us >= 0)
        printf("  %s %.2f", name, us);
}

static void print_latencies(const measure *m, fate f)
{
    printf("  %-10s %9" PRIu64 " calls, us:", fates[f], m->calls[f]);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        printf("  %s %.0f", percentiles[i].name, measure_percentile_us(m, f, percentiles[i].share));
    putchar('\n');
}

void report_print(const report *r)
{
    const bench_options *o = r->options;
    const measure *m = r->measured;

    printf("%s: %s\n  ", r->world->scenario->name, r->world->scenario->what);
    if (o->rate > 0)
        printf("%.0f operations a second offered, %.0f calls a second ended, ", o->rate,
               (double)measure_calls(m) / m->seconds);
    else
        printf("%ld %s, ", o->in_flight, o->sync ? "threads" : "in flight");
    if (r->capacity > 0)
        printf("%.1f times the capacity of %.0f, ", o->rate / r->capacity, r->capacity);
    printf("%ld connection%s, %s, fsync %s, %.1f s\n", o->connections, o->connections == 1 ? "" : "s",
           o->server ? o->server : o->wire, report_fsync(o), m->seconds);
    printf("  %.0f calls a second answered", measure_rate(m));
    if (m->hand_offs > 0)
        printf(", %.0f hand-offs", (double)m->hand_offs / m->seconds);
    if (r->capacity > 0)
        printf(": %.2f of the capacity", measure_rate(m) / r->capacity);
    printf("\n  CPU us a call:");
    print_us("client", measure_us(m, m->cpu.client));
    print_us("server", measure_us(m, m->cpu.server));
    print_us("Redis", measure_us(m, m->cpu.redis));
    putchar('\n');
    for (int f = 0; f < FATES; f++)
        if (m->calls[f] > 0)
            print_latencies(m, (fate)f);
    printf("  outcomes  ");
    print_outcomes(&m->all);
    if (m->all.not_ok > 0)
        printf(" not answered %" PRIu64 " (the first: %s, %s)", m->all.not_ok, lks_code_name(m->all.first.code),
               m->all.first.message);
    if (r->world->checked[0] != '\0')
        printf("\n  checked    %s: %s", r->world->checked, r->agrees ? "right" : "WRONG");
    puts("\n");
}

json_t *report_json(const report *r)
{
    const bench_options *o = r->options;
    const measure *m = r->measured;
    json_t *to =
        json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s}", "scenario", r->world->scenario->name,
                  "in_flight", (json_int_t)o->in_flight, "connections", (json_int_t)o->connections, "wire",
                  o->server ? o->server : o->wire, "fsync", report_fsync(o), "loop",
                  o->rate > 0 ? "open"
                  : o->sync   ? "threads"
                              : "closed",
                  "calls_started", (json_int_t)m->all.started, "not_answered", (json_int_t)m->all.not_ok, "in_doubt",
                  (json_int_t)m->all.in_doubt, "checked", r->world->checked, "agrees", r->agrees ? "yes" : "no");

    if (o->rate > 0)
        json_object_set_new(to, "offered_per_second", number(o->rate));
    if (r->capacity > 0)
        json_object_set_new(to, "capacity_per_second", number(r->capacity));
    report_measure_json(to, m);
    json_object_set_new(to, "outcomes", outcomes_json(&m->all));
    return to;
}

/* ---- plot ---------------------------------------------------------------------- */

/* Rows of equal ratio from the 0.1th to the 99.9th percentile; the first and last row include the rest. */
void report_plot(const measure *m)
{
    const histogram *h = m->latency[FATE_OK];
    uint64_t n[PLOT_ROWS] = {0}, most = 1;

    if (!h)
        return;
    double from = (double)histogram_at(h, 0.001) * 0.99 + 1, to = (double)histogram_at(h, 0.999) * 1.01 + 2;
    double step = log(to / from) / PLOT_ROWS;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double at = log(((double)histogram_upper(i) + 1) / from) / step;
        int row = at < 0 ? 0 : at >= PLOT_ROWS ? PLOT_ROWS - 1 : (int)at;
        n[row] += h->bucket[i];
    }
    for (int row = 0; row < PLOT_ROWS; row++)
        most = n[row] > most ? n[row] : most;
    for (int row = 0; row < PLOT_ROWS; row++) {
        printf("  %10.1f us |", from * exp(step * (row + 1)) / 1e3);
        for (uint64_t k = 0; k < (n[row] * PLOT_WIDTH + most - 1) / most; k++)
            putchar('#');
        printf(" %.2f %%\n", 100 * (double)n[row] / (double)h->count);
    }
    putchar('\n');
}

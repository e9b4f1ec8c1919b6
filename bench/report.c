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

/* ---- JSON ---------------------------------------------------------------------- */

static void json_name(json *j, const char *name)
{
    if (j->follows)
        fputs(",\n", j->file);
    if (name)
        fprintf(j->file, "\"%s\": ", name);
    j->follows = true;
}

void json_begin(json *j, const char *name, char bracket)
{
    if (!j->file)
        return;
    json_name(j, name);
    fputc(bracket, j->file);
    j->follows = false;
}

void json_end(json *j, char bracket)
{
    if (!j->file)
        return;
    fputc(bracket, j->file);
    j->follows = true;
}

void json_number(json *j, const char *name, double value)
{
    if (!j->file)
        return;
    json_name(j, name);
    if (isfinite(value))
        fprintf(j->file, "%.6g", value);
    else
        fputs("null", j->file);
}

void json_count(json *j, const char *name, uint64_t value)
{
    if (!j->file)
        return;
    json_name(j, name);
    fprintf(j->file, "%" PRIu64, value);
}

void json_text(json *j, const char *name, const char *value)
{
    if (!j->file)
        return;
    json_name(j, name);
    fputc('"', j->file);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', j->file);
        if ((unsigned char)*value >= ' ')
            fputc(*value, j->file);
    }
    fputc('"', j->file);
}

void json_spread(json *j, const char *name, spread value)
{
    json_begin(j, name, '{');
    json_number(j, "min", value.min);
    json_number(j, "median", value.median);
    json_number(j, "max", value.max);
    json_end(j, '}');
}

/* One that is not known is left out. */
static void json_cpu(json *j, const char *name, double us)
{
    if (us >= 0)
        json_number(j, name, us);
}

static void json_latencies(json *j, const char *name, histogram *const of[FATES])
{
    json_begin(j, name, '{');
    for (int f = 0; f < FATES; f++) {
        if (!of[f])
            continue;
        json_begin(j, fates[f], '{');
        for (size_t i = 0; i < N_PERCENTILES; i++)
            json_number(j, percentiles[i].name, (double)histogram_at(of[f], percentiles[i].share) / 1e3);
        json_number(j, "mean", (double)of[f]->sum / 1e3 / (double)of[f]->count);
        json_end(j, '}');
    }
    json_end(j, '}');
}

void report_measure_json(json *j, const measure *m)
{
    json_number(j, "seconds", m->seconds);
    json_begin(j, "calls", '{');
    for (int f = 0; f < FATES; f++)
        json_count(j, fates[f], m->calls[f]);
    json_end(j, '}');
    json_number(j, "calls_per_second", measure_rate(m));
    if (m->hand_offs > 0)
        json_number(j, "hand_offs_per_second", (double)m->hand_offs / m->seconds);
    json_latencies(j, "latency_us", m->latency);
    json_latencies(j, "own_latency_us", m->own);
    json_begin(j, "cpu_us_a_call", '{');
    json_cpu(j, "client", measure_us(m, m->cpu.client));
    json_cpu(j, "server", measure_us(m, m->cpu.server));
    json_cpu(j, "redis", measure_us(m, m->cpu.redis));
    json_end(j, '}');
}

/* ---- outcomes ------------------------------------------------------------------ */

/* "DEDUCT_OUTCOME_SOLD_OUT" is SOLD_OUT. */
static const char *outcome_name(const ProtobufCEnumDescriptor *of, int outcome)
{
    const ProtobufCEnumValue *value = of ? protobuf_c_enum_descriptor_get_value(of, outcome) : NULL;
    const char *at = value ? strstr(value->name, "_OUTCOME_") : NULL;

    return at ? at + strlen("_OUTCOME_") : "ANSWERED";
}

/* All that there were, of each call of each scenario (mix has several). */
static void each_outcome(const tally *all, void (*tell)(void *arg, const char *name, uint64_t n), void *arg)
{
    for (unsigned s = 0; s < n_scenarios; s++)
        for (int step = 0; step < DRIVE_STEPS_MAX; step++)
            for (int outcome = 0; outcome < DRIVE_OUTCOMES_MAX; outcome++) {
                uint64_t n = tally_of(all, &scenarios[s], step, outcome);
                if (n > 0)
                    tell(arg, outcome_name(scenarios[s].steps[step].outcomes, outcome), n);
            }
}

static void print_outcome(void *arg, const char *name, uint64_t n)
{
    (void)arg;
    printf(" %s %" PRIu64, name, n);
}

static void json_outcome(void *arg, const char *name, uint64_t n)
{
    json *j = arg;

    json_begin(j, NULL, '{');
    json_text(j, "outcome", name);
    json_count(j, "calls", n);
    json_end(j, '}');
}

/* ---- one run ------------------------------------------------------------------- */

static void print_us(const char *name, double us)
{
    if (us >= 0)
        printf("  %s %.2f", name, us);
}

static void print_percentiles(const histogram *h)
{
    for (size_t i = 0; i < N_PERCENTILES; i++)
        printf("  %s %.0f", percentiles[i].name, (double)histogram_at(h, percentiles[i].share) / 1e3);
    putchar('\n');
}

static void print_latencies(const measure *m, fate f)
{
    printf("  %-10s %9" PRIu64 " calls, us:", fates[f], m->calls[f]);
    print_percentiles(m->latency[f]);
    if (m->own[f]) {
        printf("  %-10s %9s  of its own, us:", "", "");
        print_percentiles(m->own[f]);
    }
}

void report_print(const report *r)
{
    const bench_options *o = r->options;
    const measure *m = r->measured;

    printf("%s: %s\n  ", r->scenario->name, r->scenario->what);
    if (r->offered > 0)
        printf("%.0f operations a second offered, %.0f calls a second ended, ", r->offered,
               (double)measure_calls(m) / m->seconds);
    else
        printf("%ld %s, ", o->in_flight, o->sync ? "threads" : "in flight");
    if (r->capacity > 0)
        printf("%.1f times the capacity of %.0f, ", r->offered / r->capacity, r->capacity);
    printf("%ld connection%s, %s, fsync %s, %.1f s\n", o->connections, o->connections == 1 ? "" : "s",
           o->server ? o->server : o->wire, r->fsync, m->seconds);
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
    each_outcome(r->all, print_outcome, NULL);
    if (r->all->not_ok > 0)
        printf(" not answered %" PRIu64 " (the first: %s, %s)", r->all->not_ok, lks_code_name(r->all->first.code),
               r->all->first.message);
    if (r->checked[0] != '\0')
        printf("\n  checked    %s: %s", r->checked, r->agrees ? "right" : "WRONG");
    puts("\n");
}

void report_json(json *j, const report *r)
{
    const bench_options *o = r->options;

    json_text(j, "scenario", r->scenario->name);
    json_count(j, "in_flight", (uint64_t)o->in_flight);
    json_count(j, "connections", (uint64_t)o->connections);
    json_text(j, "wire", o->server ? o->server : o->wire);
    json_text(j, "fsync", r->fsync);
    json_text(j, "loop", r->offered > 0 ? "open" : o->sync ? "threads" : "closed");
    if (r->offered > 0)
        json_number(j, "offered_per_second", r->offered);
    if (r->capacity > 0)
        json_number(j, "capacity_per_second", r->capacity);
    report_measure_json(j, r->measured);
    json_begin(j, "outcomes", '[');
    each_outcome(r->all, json_outcome, j);
    json_end(j, ']');
    json_count(j, "calls_started", r->all->started);
    json_count(j, "not_answered", r->all->not_ok);
    json_count(j, "in_doubt", r->all->in_doubt);
    json_text(j, "checked", r->checked);
    json_text(j, "agrees", r->agrees ? "yes" : "no");
}

/* ---- plot ---------------------------------------------------------------------- */

/* Rows of equal ratio from the 0.1th to the 99.9th percentile; the first and the last take what is beyond. */
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

#include "measure.h"

#include <stdlib.h>

static histogram *allocated(histogram **h)
{
    if (!*h)
        *h = program_alloc(1, sizeof **h);
    return *h;
}

void measure_call(measure *m, fate as, uint64_t latency_ns)
{
    m->calls[as]++;
    histogram_record(allocated(&m->latency[as]), latency_ns);
}

static void add_tally(tally *all, const tally *from)
{
    const uint64_t *source = &from->ok[0][0][0];
    uint64_t *to = &all->ok[0][0][0];

    for (size_t i = 0; i < sizeof all->ok / sizeof *to; i++)
        to[i] += source[i];
    all->started += from->started;
    all->in_doubt += from->in_doubt;
    all->not_ok += from->not_ok;
    if (all->first.code == LKS_OK)
        all->first = from->first;
}

void measure_add(measure *m, const measure *from)
{
    m->seconds += from->seconds;
    m->hand_offs += from->hand_offs;
    m->cpu.client += from->cpu.client;
    m->cpu.server += from->cpu.server;
    m->cpu.redis += from->cpu.redis;
    for (int f = 0; f < FATES; f++) {
        m->calls[f] += from->calls[f];
        if (from->latency[f])
            histogram_add(allocated(&m->latency[f]), from->latency[f]);
    }
    add_tally(&m->all, &from->all);
}

void measure_clear(measure *m)
{
    for (int f = 0; f < FATES; f++)
        free(m->latency[f]);
    *m = (measure){0};
}

double measure_rate(const measure *m)
{
    return m->seconds > 0 ? (double)m->calls[FATE_OK] / m->seconds : 0;
}

uint64_t measure_calls(const measure *m)
{
    uint64_t n = 0;

    for (int f = 0; f < FATES; f++)
        n += m->calls[f];
    return n;
}

double measure_us(const measure *m, double cpu_seconds)
{
    uint64_t n = measure_calls(m);

    return cpu_seconds < 0 || n == 0 ? -1 : cpu_seconds * 1e6 / (double)n;
}

double measure_percentile_us(const measure *m, fate as, double share)
{
    return m->latency[as] ? (double)histogram_at(m->latency[as], share) / 1e3 : 0;
}

/* ---- a run --------------------------------------------------------------------- */

enum { WARM_UP, MEASURED, STOPPING };

bool run_is_stopping(const run *r)
{
    return atomic_load_explicit(&r->phase, memory_order_relaxed) == STOPPING || program_interrupted();
}

bool run_continues(run *r)
{
    return !run_is_stopping(r) && (r->options->calls == 0 || atomic_fetch_sub(&r->left, 1) > 0);
}

bool run_measures(run *r)
{
    bool measures = atomic_load_explicit(&r->phase, memory_order_relaxed) == MEASURED;

    if (measures)
        atomic_store_explicit(&r->some, true, memory_order_relaxed);
    return measures;
}

/* Measures for the time, and up to a minute longer until a call was measured, so that no run is empty on a busy
 * machine. */
static void measure_time(run *r)
{
    enum { PAUSES_MAX = 6000 };
    bool continues = program_pause(r->options->seconds);

    for (int i = 0; continues && i < PAUSES_MAX && !atomic_load(&r->some); i++)
        continues = program_pause(0.01);
}

void run_all(run *r, void (*start)(void *arg), void (*await)(void *arg), void *arg, measure *m)
{
    cpu_times before = place_cpu(r->place);
    uint64_t from_ns = clock_now_ns();

    r->left = r->options->calls;
    r->phase = r->options->calls > 0 ? MEASURED : WARM_UP;
    start(arg);
    if (r->options->calls > 0) {
        await(arg);
    } else {
        program_pause(r->options->warm_up);
        before = place_cpu(r->place);
        from_ns = clock_now_ns();
        atomic_store(&r->phase, MEASURED);
        measure_time(r);
    }
    atomic_store(&r->phase, STOPPING);
    m->seconds = (double)(clock_now_ns() - from_ns) / 1e9;
    m->cpu = place_cpu_since(before, place_cpu(r->place));
    await(arg);
}

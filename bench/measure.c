#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *measure_alloc(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (!memory) {
        fprintf(stderr, "lockstock-bench: out of memory\n");
        exit(1);
    }
    return memory;
}

static histogram *of(histogram **h)
{
    if (!*h)
        *h = measure_alloc(1, sizeof **h);
    return *h;
}

void measure_call(measure *m, fate as, uint64_t latency_ns, uint64_t own_ns)
{
    m->calls[as]++;
    histogram_record(of(&m->latency[as]), latency_ns);
    if (own_ns != latency_ns)
        histogram_record(of(&m->own[as]), own_ns);
}

void measure_add(measure *m, const measure *from)
{
    m->hand_offs += from->hand_offs;
    for (int f = 0; f < FATES; f++) {
        m->calls[f] += from->calls[f];
        if (from->latency[f])
            histogram_add(of(&m->latency[f]), from->latency[f]);
        if (from->own[f])
            histogram_add(of(&m->own[f]), from->own[f]);
    }
}

void measure_clear(measure *m)
{
    for (int f = 0; f < FATES; f++) {
        free(m->latency[f]);
        free(m->own[f]);
    }
    *m = (measure){0};
}

static double between(double before, double after)
{
    return before < 0 || after < 0 ? -1 : after - before;
}

cpu_times measure_cpu(cpu_times before, cpu_times after)
{
    return (cpu_times){.client = between(before.client, after.client),
                       .server = between(before.server, after.server),
                       .redis = between(before.redis, after.redis)};
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

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

bool interrupted(void)
{
    return caught != 0;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool measure_pause(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (!interrupted() && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return !interrupted();
}

void measure_pause_until_some(double seconds, atomic_bool *some)
{
    enum { STEPS_MAX = 6000 };
    static const double step_s = 0.01;

    bool continues = measure_pause(seconds);
    for (int i = 0; continues && i < STEPS_MAX && !atomic_load(some); i++)
        continues = measure_pause(step_s);
}

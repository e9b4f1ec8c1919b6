#include "table_alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scenario.h"

/* ---- overload ------------------------------------------------------------------ */

enum { OVERLOAD_TIMES = 10, OVERLOAD_CONNECTIONS = 32, OVERLOAD_TIMEOUT_MS = 1000 };

/* Calls a second that were answered, and that ended. */
static bool slice(drive_options *d, double rate, double *answered, double *ended)
{
    measure m = {0};
    tally *all = measure_alloc(1, sizeof *all);

    d->rate = rate;
    d->connections = rate > 0 ? OVERLOAD_CONNECTIONS : 1;
    bool ran = drive_run(d, &m, all);
    *answered = measure_rate(&m);
    *ended = (double)measure_calls(&m) / m.seconds;
    measure_clear(&m);
    free(all);
    return ran;
}

bool table_overload(const bench_options *o, double *values, char note[TABLE_NOTE_BYTES])
{
    const scenario *s = scenario_find("deduct");
    world w = {0};
    place p;
    bool good = place_open(o, "none", &p) && world_open(&w, s, &p, (unsigned)o->in_flight);
    drive_options d = {.scenario = s,
                       .world = &w,
                       .place = &p,
                       .in_flight = (unsigned)o->in_flight,
                       .warm_up = o->warm_up,
                       .seconds = o->seconds,
                       .timeout_ms = OVERLOAD_TIMEOUT_MS};

    for (long i = 0; i < o->rounds && good; i++) {
        double capacity = 0, goodput = 0, ended = 0;
        good = slice(&d, 0, &capacity, &ended) && slice(&d, OVERLOAD_TIMES * capacity, &goodput, &ended);
        snprintf(note, TABLE_NOTE_BYTES, "ended: %.1f times the capacity of %.0f", ended / capacity, capacity);
        values[i] = good && capacity > 0 ? goodput / capacity : 0;
    }
    world_close(&w);
    place_close(&p);
    return good;
}

/* ---- parked waiters ------------------------------------------------------------ */

enum { NAMES = 16, CHANNELS = 2, FEW = 2000, MORE = 20000, BATCH = 500, LEASE_MS = 3600000, PARK_MS = 3000000 };

static atomic_bool ended; /* an Acquire that was to wait */

/* Anonymous memory of a process that is resident; 0: not known. */
static double resident_bytes(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtod(line + 8, NULL);
    if (status)
        fclose(status);
    return kib * 1024;
}

static void on_end(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    (void)arg, (void)code, (void)response, (void)error;
    atomic_store(&ended, true);
}

static lks_code acquire(lks_channel *channel, char *name, uint64_t tag, int64_t wait_ms, lks_error *error)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    char token[DRIVE_ID_BYTES];

    drive_make_id(token, tag, drive_next_serial());
    target.name = name;
    request.targets = targets;
    request.n_targets = 1;
    request.token = token;
    request.lease_ms = LEASE_MS;
    request.wait_ms = wait_ms;
    if (wait_ms == 0)
        return lks_lock_acquire(channel, &request, NULL, NULL, error);
    return lks_lock_acquire_start(channel, &request, NULL, on_end, NULL, NULL, error);
}

/* Until as many wait in the queues of all names. */
static bool all_wait(world *w, uint64_t n, lks_error *error)
{
    uint64_t waiting = 0;

    while (waiting < n && !atomic_load(&ended) && measure_pause(0.01)) {
        waiting = 0;
        for (unsigned i = 0; i < w->n_things; i++) {
            lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
            lks_inspect_response *response = NULL;
            request.name = w->things[i];
            if (lks_lock_inspect(w->channel, &request, NULL, &response, error) != LKS_OK)
                return false;
            waiting += (uint64_t)response->waiters;
            lks_inspect_response_free(response);
        }
    }
    return waiting >= n;
}

/* So many more than `before`, some at a time: a server refuses what would queue for too long. */
static bool park(world *w, lks_channel *const channels[], uint64_t before, uint64_t n, lks_error *error)
{
    for (uint64_t i = 1; i <= n; i++) {
        if (acquire(channels[i % CHANNELS], w->things[i % w->n_things], w->tag, PARK_MS, error) != LKS_OK)
            return false;
        if ((i % BATCH == 0 || i == n) && !all_wait(w, before + i, error))
            return false;
    }
    return true;
}

static bool measure_parked(const bench_options *o, double *ret)
{
    const scenario *s = scenario_find("lock");
    lks_channel *channels[CHANNELS] = {NULL};
    lks_error error = {0};
    world w = {0};
    place p;
    bool good = place_open(o, "none", &p) && world_open(&w, s, &p, NAMES);

    for (int i = 0; i < CHANNELS && good; i++)
        good = lks_channel_open(p.url, NULL, &channels[i], &error) == LKS_OK;
    for (unsigned i = 0; i < NAMES && good; i++)
        good = acquire(w.channel, w.things[i], w.tag, 0, &error) == LKS_OK;
    atomic_store(&ended, false);
    good = good && park(&w, channels, 0, FEW, &error);
    double before = good ? resident_bytes(p.server) : 0;
    good = good && park(&w, channels, FEW, MORE, &error);
    *ret = good ? (resident_bytes(p.server) - before) / MORE : 0;
    if (!good)
        fprintf(stderr, "lockstock-bench: %s\n", atomic_load(&ended) ? "one did not wait" : error.message);
    place_close(&p); /* first: they need not all be taken out of their queues */
    for (int i = 0; i < CHANNELS; i++)
        lks_channel_close(channels[i]);
    world_close(&w);
    return good;
}

bool table_parked(const bench_options *o, double *values, char note[TABLE_NOTE_BYTES])
{
    bool good = true;

    for (long i = 0; i < o->rounds && good; i++)
        good = measure_parked(o, &values[i]);
    snprintf(note, TABLE_NOTE_BYTES, "%d that came after %d", MORE, FEW);
    return good;
}

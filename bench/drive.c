/* Runs operations of a scenario against a server. A closed loop has a fixed number of operations at once; each that
 * ends starts another. An open loop starts operations on a schedule, independently of answers, and measures latencies
 * from the scheduled time, so that a slow server does not lower the load (no coordinated omission). `live` counts
 * running operations and generators. When it is 0, the run is over and no thread uses lanes and operations. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

/* The records of one thread: the completion thread of a channel, a caller with --sync, or the thread that starts
 * operations, for calls that the client refuses. */
typedef struct lane {
    struct drive *drive;
    lks_channel *channel;
    measure measured;
} lane;

typedef struct drive {
    const bench_options *options;
    world *world;
    unsigned in_flight, connections;
    run run;
    lks_channel **channels;
    lane *lanes; /* n_lanes, and that of the thread that starts operations */
    size_t n_lanes;
    op *ops; /* of a closed loop */
    pthread_t *threads;
    unsigned n_threads; /* callers or generator */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t live; /* with lock */
} drive;

static atomic_uint_fast64_t serials;

uint64_t drive_next_serial(void)
{
    return atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
}

void drive_make_id(char id[ID_BYTES], uint64_t tag, uint64_t serial)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 15; i >= 0; i--, tag >>= 4)
        id[i] = digits[tag & 15];
    id[16] = '-';
    for (int i = 35; i > 16; i--, serial >>= 4)
        id[i] = digits[serial & 15];
    id[36] = '\0';
}

static void add_live(drive *d, int n)
{
    pthread_mutex_lock(&d->lock);
    d->live += (uint64_t)(int64_t)n;
    if (d->live == 0)
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* ---- one operation ------------------------------------------------------------- */

static fate fate_of(lks_code code, lks_applied applied)
{
    if (code == LKS_OK)
        return FATE_OK;
    if (code == LKS_DEADLINE_EXCEEDED)
        return FATE_EXPIRED;
    bool refused = (code == LKS_RESOURCE_EXHAUSTED || code == LKS_UNAVAILABLE) && applied == LKS_APPLIED_NO;
    return refused ? FATE_REFUSED : FATE_FAILED;
}

static void record(lane *l, const op *o)
{
    tally *all = &l->measured.all;

    all->started++;
    if (o->code == LKS_OK)
        all->ok[o->scenario - scenarios][o->step][o->outcome % OUTCOMES_MAX]++;
    else
        all->not_ok++;
    all->in_doubt += o->code != LKS_OK && o->applied != LKS_APPLIED_NO;
    if (run_measures(&l->drive->run)) {
        measure_call(&l->measured, fate_of(o->code, o->applied), clock_now_ns() - o->began_ns);
        l->measured.hand_offs += o->handed;
    }
}

static void note(lane *l, const lks_error *error)
{
    if (l->measured.all.first.code == LKS_OK)
        l->measured.all.first = *error;
}

/* Starts the call of o->step. Returns false if that fails, after recording it in this thread's lane. */
static bool submit(op *o, lane *l)
{
    lks_error error = {0};

    lks_code code = o->scenario->steps[o->step].start(o, &error);

    if (code == LKS_OK)
        return true; /* the call may have ended, so o must not be used */
    o->code = code;
    o->applied = LKS_APPLIED_NO;
    note(l, &error);
    record(l, o);
    return false;
}

static void begin(op *o, uint64_t due_ns)
{
    o->step = 0;
    o->handed = false;
    o->serial = drive_next_serial();
    o->turn = o->world->n_things > o->lane->drive->in_flight ? o->serial : o->slot;
    o->began_ns = due_ns;
    o->scenario = scenario_of(o->world, o->serial);
    drive_make_id(o->id, o->world->tag, o->serial);
}

/* Ends an operation, which in an open loop was made for this. */
static void retire(op *o)
{
    drive *d = o->lane->drive;

    if (d->options->rate > 0)
        free(o);
    add_live(d, -1);
}

/* Records a call. Returns whether the operation has another one. */
static bool settle(op *o)
{
    record(o->lane, o);
    if (!o->more)
        return false;
    o->step++;
    o->handed = false;
    o->began_ns = clock_now_ns();
    return true;
}

static void continue_op(op *o)
{
    drive *d = o->lane->drive;
    bool continues = settle(o);

    if (!continues && d->options->rate <= 0 && run_continues(&d->run)) {
        begin(o, clock_now_ns());
        continues = true;
    }
    if (!continues || !submit(o, o->lane))
        retire(o);
}

static void answered(op *o, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    const scenario_step *s = &o->scenario->steps[o->step];

    o->code = code;
    o->applied = code == LKS_OK ? LKS_APPLIED_YES : error->applied;
    o->outcome = response && s->outcomes ? *(const int *)(const void *)((const char *)response + s->outcome_at) : 0;
    o->more = code == LKS_OK && o->outcome != 0 && o->outcome == s->next_if;
    if (response && s->seen)
        s->seen(o, response);
    if (code != LKS_OK)
        note(o->lane, error);
}

static void deliver(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                    const lks_error *error)
{
    (void)function;
    answered(arg, code, response, error);
    continue_op(arg);
}

lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error)
{
    const bench_options *of = o->lane->drive->options;
    const lks_call_options options = {.timeout_ms = (uint32_t)of->timeout_ms + wait_ms};
    ProtobufCMessage *response = NULL;

    if (!of->sync)
        return lks_call_start(o->lane->channel, method, request, &options, deliver, NULL, o, NULL, error);
    lks_code code = lks_call_run(o->lane->channel, method, request, &options, &response, error);
    answered(o, code, response, error);
    lks_message_free(response);
    return LKS_OK;
}

/* ---- threads ------------------------------------------------------------------- */

/* A caller with --sync: makes calls one after another. */
static void *call_and_wait(void *arg)
{
    lane *l = arg;
    op *o = &l->drive->ops[l - l->drive->lanes];

    while (run_continues(&l->drive->run)) {
        begin(o, clock_now_ns());
        while (submit(o, l) && settle(o))
            ;
    }
    add_live(l->drive, -1);
    return NULL;
}

/* Gives this thread, and those that it starts, the lowest priority. In an open loop the client stands for many
 * machines, and must not take CPU from the server. */
static void lower_priority(void)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Open loop: starts operations at their times, and late ones at once. */
static void *generate(void *arg)
{
    drive *d = ((lane *)arg)->drive;
    uint64_t first_ns = clock_now_ns();

    lower_priority();
    for (uint64_t i = 0; run_continues(&d->run); i++) {
        uint64_t due_ns = first_ns + (uint64_t)((double)i * 1e9 / d->options->rate);
        while (clock_now_ns() < due_ns && !run_is_stopping(&d->run))
            sleep_until(due_ns);
        op *o = program_alloc(1, sizeof *o);
        *o = (op){.world = d->world, .lane = &d->lanes[i % d->connections], .slot = (unsigned)(i % d->in_flight)};
        add_live(d, 1);
        begin(o, due_ns);
        if (!submit(o, &d->lanes[d->n_lanes]))
            retire(o);
    }
    add_live(d, -1);
    return NULL;
}

/* ---- a run --------------------------------------------------------------------- */

static void *open_channels(void *arg)
{
    drive *d = arg;
    const lks_channel_options options = {.in_flight_max = (d->in_flight + d->connections - 1) / d->connections,
                                         .timeout_ms = (uint32_t)d->options->timeout_ms,
                                         .no_retry = d->options->rate > 0};
    lks_error error;

    if (d->options->rate > 0)
        lower_priority();
    for (unsigned i = 0; i < d->connections; i++) {
        const char *to = d->world->place->url[i % d->world->place->n_servers];
        if (lks_channel_open(to, &options, &d->channels[i], &error) != LKS_OK) {
            fprintf(stderr, "lockstock-bench: %s: %s\n", to, error.message);
            return NULL;
        }
    }
    return d;
}

static void start_all(void *arg)
{
    drive *d = arg;
    bool sync = d->options->sync;

    for (size_t i = 0; i <= d->n_lanes; i++)
        d->lanes[i] = (lane){.drive = d, .channel = d->channels[i % d->connections]};
    for (unsigned i = 0; i < d->in_flight; i++)
        d->ops[i] = (op){.world = d->world, .lane = &d->lanes[sync ? i : i % d->connections], .slot = i};
    d->live = d->n_threads > 0 ? d->n_threads : d->in_flight;
    for (unsigned i = 0; i < d->n_threads; i++)
        d->threads[i] = program_thread(sync ? call_and_wait : generate, &d->lanes[i]);
    for (unsigned i = 0; d->n_threads == 0 && i < d->in_flight; i++) {
        bool continues = run_continues(&d->run);
        if (continues)
            begin(&d->ops[i], clock_now_ns());
        if (!continues || !submit(&d->ops[i], &d->lanes[d->n_lanes]))
            retire(&d->ops[i]);
    }
}

static void await_end(void *arg)
{
    drive *d = arg;

    pthread_mutex_lock(&d->lock);
    while (d->live > 0)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

bool drive_run(const bench_options *o, world *w, measure *m)
{
    drive d = {.options = o,
               .world = w,
               .in_flight = (unsigned)o->in_flight,
               .connections = (unsigned)o->connections,
               .run = {.options = o, .place = w->place},
               .n_threads = o->sync ? (unsigned)o->in_flight : o->rate > 0};
    void *opened = NULL;

    d.n_lanes = d.n_threads > d.connections ? d.n_threads : d.connections;
    d.channels = program_alloc(d.connections, sizeof *d.channels);
    d.lanes = program_alloc(d.n_lanes + 1, sizeof *d.lanes);
    d.ops = program_alloc(d.in_flight, sizeof *d.ops);
    d.threads = program_alloc(d.n_threads, sizeof *d.threads);
    pthread_mutex_init(&d.lock, NULL);
    pthread_cond_init(&d.changed, NULL);
    pthread_join(program_thread(open_channels, &d), &opened); /* in a thread, because lower_priority is of a thread */
    if (opened)
        run_all(&d.run, start_all, await_end, &d, m);
    for (unsigned i = 0; opened && i < d.n_threads; i++)
        pthread_join(d.threads[i], NULL);
    for (unsigned i = 0; i < d.connections; i++)
        lks_channel_close(d.channels[i]);
    for (size_t i = 0; i <= d.n_lanes; i++) {
        measure_add(m, &d.lanes[i].measured);
        measure_clear(&d.lanes[i].measured);
    }
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
    free(d.threads);
    free(d.ops);
    free(d.lanes);
    free(d.channels);
    return opened != NULL;
}

bool drive_capacity(const bench_options *o, world *w, tally *all, double *ret)
{
    bench_options options = *o;
    measure m = {.all = *all};

    options.rate = 0;
    options.calls = 0;
    bool ran = drive_run(&options, w, &m);
    *ret = measure_rate(&m);
    *all = m.all;
    measure_clear(&m);
    return ran && *ret > 0;
}

/* `live` counts running operations and generators. When it is 0, the run is over and no thread uses lanes and
 * operations. */
#include "drive.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

typedef enum phase { WARM_UP, MEASURED, STOPPING } phase;

struct drive;

/* The records of one thread: the completion thread of a channel, or a caller with --sync. A thread that starts calls
 * has a lane of its own, for calls that the client refuses. */
typedef struct lane {
    struct drive *drive;
    lks_channel *channel;
    measure measured;
    tally all;
    struct lane *starter;
    pthread_mutex_t lock; /* for free_ops */
    op *free_ops;
    pthread_t thread; /* generator or caller */
    op *own;          /* of the caller */
} lane;

typedef struct drive {
    const drive_options *options;
    lks_call_options call_options;
    atomic_int phase;
    atomic_bool some;             /* a call was measured */
    atomic_llong operations_left; /* with a number of operations */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t live; /* with lock */
} drive;

static atomic_uint_fast64_t serials;

uint64_t drive_next_serial(void)
{
    return atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
}

void drive_make_id(char id[DRIVE_ID_BYTES], uint64_t tag, uint64_t serial)
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

static bool may_begin(drive *d)
{
    if (atomic_load_explicit(&d->phase, memory_order_relaxed) == STOPPING || interrupted())
        return false;
    return d->options->operations == 0 || atomic_fetch_sub(&d->operations_left, 1) > 0;
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

/* Ends an operation. An open loop uses it again. */
static void retire(op *o)
{
    lane *l = o->lane;
    drive *d = l->drive;

    if (d->options->rate > 0) {
        pthread_mutex_lock(&l->lock);
        o->next_free = l->free_ops;
        l->free_ops = o;
        pthread_mutex_unlock(&l->lock);
    }
    add_live(d, -1);
}

static void record(lane *l, op *o)
{
    uint64_t now_ns = clock_now_ns();
    bool measured = atomic_load_explicit(&l->drive->phase, memory_order_relaxed) == MEASURED;

    l->all.started++;
    if (o->code == LKS_OK)
        l->all.ok[scenario_number(o->scenario)][o->step][o->outcome % DRIVE_OUTCOMES_MAX]++;
    else
        l->all.not_ok++;
    l->all.in_doubt += o->code != LKS_OK && o->applied != LKS_APPLIED_NO;
    if (measured) {
        atomic_store_explicit(&l->drive->some, true, memory_order_relaxed);
        measure_call(&l->measured, fate_of(o->code, o->applied), now_ns - o->began_ns, now_ns - o->started_ns);
        l->measured.hand_offs += o->handed;
    }
}

static void note(lane *l, const lks_error *error)
{
    if (l->all.first.code == LKS_OK && error)
        l->all.first = *error;
}

/* Starts the call of o->step. Returns false if that fails, after recording it in this thread's lane. */
static bool submit(op *o, lane *l)
{
    lks_error error = {0};

    o->started_ns = l->drive->options->rate > 0 ? clock_now_ns() : o->began_ns;
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
    o->turn = o->world->n_things > o->lane->drive->options->in_flight ? o->serial : o->slot;
    o->began_ns = due_ns;
    scenario_begin(o);
    drive_make_id(o->id, o->world->tag, o->serial);
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
    bool under_way = false;

    if (settle(o)) {
        under_way = submit(o, o->lane);
    } else if (d->options->rate <= 0 && may_begin(d)) {
        begin(o, clock_now_ns());
        under_way = submit(o, o->lane);
    }
    if (!under_way)
        retire(o);
}

static void deliver(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                    const lks_error *error)
{
    (void)function;
    scenario_answered(arg, code, response, error);
}

lks_code drive_call(op *o, const lks_rpc_method *method, const void *request, uint32_t wait_ms, lks_error *error)
{
    lks_call_options options = *o->call_options;
    ProtobufCMessage *response = NULL;

    options.timeout_ms += wait_ms;
    if (!o->lane->drive->options->sync)
        return lks_call_start(o->channel, method, request, &options, deliver, NULL, o, NULL, error);
    lks_code code = lks_call_run(o->channel, method, request, &options, &response, error);
    scenario_answered(o, code, response, error);
    lks_message_free(response);
    return LKS_OK;
}

void drive_ended(op *o, lks_code code, int outcome, bool more, const lks_error *error)
{
    o->code = code;
    o->applied = code == LKS_OK ? LKS_APPLIED_YES : error->applied;
    o->outcome = outcome;
    o->more = more && code == LKS_OK;
    if (code != LKS_OK)
        note(o->lane, error);
    if (!o->lane->drive->options->sync)
        continue_op(o);
}

/* ---- threads ------------------------------------------------------------------- */

/* A caller with --sync: makes calls one after another. */
static void *call_and_wait(void *arg)
{
    lane *l = arg;
    op *o = l->own;

    while (may_begin(l->drive)) {
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

static op *take_op(lane *l)
{
    pthread_mutex_lock(&l->lock);
    op *o = l->free_ops;
    if (o)
        l->free_ops = o->next_free;
    pthread_mutex_unlock(&l->lock);
    if (!o)
        o = measure_alloc(1, sizeof *o);
    return o;
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Open loop: starts operations at their times, and late ones at once. */
static void *generate(void *arg)
{
    lane *lanes = arg;
    drive *d = lanes->drive;
    const drive_options *o = d->options;
    uint64_t first_ns = clock_now_ns();

    lower_priority();
    for (uint64_t i = 0; may_begin(d); i++) {
        lane *l = &lanes[i % o->connections];
        uint64_t due_ns = first_ns + (uint64_t)((double)i * 1e9 / o->rate);
        while (clock_now_ns() < due_ns && atomic_load(&d->phase) != STOPPING && !interrupted())
            sleep_until(due_ns);
        op *one = take_op(l);
        *one = (op){.scenario = o->scenario,
                    .lane = l,
                    .world = o->world,
                    .slot = (unsigned)(i % o->in_flight),
                    .call_options = &d->call_options,
                    .channel = l->channel};
        add_live(d, 1);
        begin(one, due_ns);
        if (!submit(one, lanes->starter))
            retire(one);
    }
    add_live(d, -1);
    return NULL;
}

/* ---- a run --------------------------------------------------------------------- */

static void *open_channels(void *arg)
{
    lane *lanes = arg;
    const drive_options *o = lanes->drive->options;
    lks_channel_options options = {.in_flight_max = (o->in_flight + o->connections - 1) / o->connections,
                                   .timeout_ms = o->timeout_ms,
                                   .no_retry = o->rate > 0};
    lks_error error;

    if (o->rate > 0)
        lower_priority();
    for (unsigned i = 0; i < o->connections; i++) {
        const char *url = o->place->url[i % o->place->n_servers];
        if (lks_channel_open(url, &options, &lanes[i].channel, &error) != LKS_OK) {
            fprintf(stderr, "lockstock-bench: %s: %s\n", url, error.message);
            return NULL;
        }
    }
    return lanes;
}

/* Returns the number of callers or generators. */
static unsigned n_threads(const drive_options *o)
{
    return o->sync ? o->in_flight : o->rate > 0 ? 1 : 0;
}

static void start_all(drive *d, lane *lanes, op *ops)
{
    const drive_options *o = d->options;
    unsigned threads = n_threads(o);

    d->live = threads > 0 ? threads : o->in_flight;
    for (unsigned i = 0; i < o->in_flight; i++) {
        lane *l = &lanes[o->sync ? i : i % o->connections];
        ops[i] = (op){.scenario = o->scenario,
                      .lane = l,
                      .world = o->world,
                      .slot = i,
                      .call_options = &d->call_options,
                      .channel = lanes[i % o->connections].channel};
        l->own = &ops[i];
    }
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&lanes[i].thread, NULL, o->sync ? call_and_wait : generate, &lanes[i]) != 0) {
            fprintf(stderr, "lockstock-bench: cannot start %u threads\n", threads);
            exit(1);
        }
    for (unsigned i = 0; threads == 0 && i < o->in_flight; i++) {
        bool under_way = may_begin(d);
        if (under_way) {
            begin(&ops[i], clock_now_ns());
            under_way = submit(&ops[i], ops[i].lane->starter);
        }
        if (!under_way)
            retire(&ops[i]);
    }
}

static void await_end(drive *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->live > 0)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static void measure_it(drive *d, lane *lanes, op *ops, measure *m)
{
    const drive_options *o = d->options;
    cpu_times before = place_cpu(o->place);
    uint64_t from_ns = clock_now_ns();

    start_all(d, lanes, ops);
    if (o->operations == 0) {
        measure_pause(o->warm_up);
        before = place_cpu(o->place);
        from_ns = clock_now_ns();
        atomic_store(&d->phase, MEASURED);
        measure_pause_until_some(o->seconds, &d->some);
    } else {
        await_end(d);
    }
    atomic_store(&d->phase, STOPPING);
    m->seconds += (double)(clock_now_ns() - from_ns) / 1e9;
    m->cpu = measure_cpu(before, place_cpu(o->place));
    await_end(d);
}

static void gather(tally *all, const tally *from)
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

static void free_lane(lane *l, bool has_thread, measure *m, tally *all)
{
    if (has_thread)
        pthread_join(l->thread, NULL);
    lks_channel_close(l->channel);
    if (l->starter)
        free_lane(l->starter, false, m, all);
    measure_add(m, &l->measured);
    gather(all, &l->all);
    measure_clear(&l->measured);
    while (l->free_ops) {
        op *o = l->free_ops;
        l->free_ops = o->next_free;
        free(o);
    }
    pthread_mutex_destroy(&l->lock);
}

bool drive_run(const drive_options *options, measure *m, tally *all)
{
    drive d = {.options = options,
               .call_options = {.timeout_ms = options->timeout_ms},
               .operations_left = (long long)options->operations,
               .phase = options->operations > 0 ? MEASURED : WARM_UP};
    unsigned n = options->sync && options->in_flight > options->connections ? options->in_flight : options->connections;
    lane *lanes = measure_alloc(2 * (size_t)n, sizeof *lanes);
    op *ops = measure_alloc(options->in_flight, sizeof *ops);

    pthread_mutex_init(&d.lock, NULL);
    pthread_cond_init(&d.changed, NULL);
    for (unsigned i = 0; i < 2 * n; i++) {
        lanes[i].drive = &d;
        pthread_mutex_init(&lanes[i].lock, NULL);
        lanes[i].starter = i < n ? &lanes[n + i] : NULL;
    }
    pthread_t opener;
    void *opened = NULL;
    if (pthread_create(&opener, NULL, open_channels, lanes) == 0)
        pthread_join(opener, &opened); /* in a thread, because lower_priority lowers the priority of its thread */
    if (opened)
        measure_it(&d, lanes, ops, m);
    for (unsigned i = 0; i < n; i++)
        free_lane(&lanes[i], opened && i < n_threads(options), m, all);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
    free(ops);
    free(lanes);
    return opened != NULL;
}

/* Only its own thread uses the records of a worker until it has ended. */
#include "rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const rival rivals[] = {
    {"hiredis threads, function", OF_DEDUCT, .kind = RIVAL_THREADS},
    {"hiredis threads, script", OF_DEDUCT, .kind = RIVAL_THREADS, .script = true},
    {"hiredis pipelined, function", OF_DEDUCT, .kind = RIVAL_PIPELINE},
    {"hiredis pipelined, script", OF_DEDUCT, .kind = RIVAL_PIPELINE, .script = true},
    {"gRPC C++ service, function", OF_DEDUCT, .kind = RIVAL_GRPC},
    {"lockstock over gRPC, the same C++ client", OF_DEDUCT, .kind = RIVAL_GRPC_OURS},
    {"redis-benchmark -P 1, function", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 1},
    {"redis-benchmark -P 1, script", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 1, .script = true},
    {"redis-benchmark -P 16, function", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 16},
    {"redis-benchmark -P 16, script", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 16, .script = true},
    {"lock, hiredis threads, function", OF_LOCK, .kind = RIVAL_THREADS, .locks = true},
    {"lock, hiredis threads, script", OF_LOCK, .kind = RIVAL_THREADS, .locks = true, .script = true},
    {"lock, hiredis pipelined, function", OF_LOCK, .kind = RIVAL_PIPELINE, .locks = true},
    {"lock, hiredis pipelined, script", OF_LOCK, .kind = RIVAL_PIPELINE, .locks = true, .script = true},
    {"SET NX and BLPOP", OF_HOT_LOCK, .kind = RIVAL_BLPOP, .locks = true, .script = true},
    {"SET NX and polling, 3 to 33 ms", OF_HOT_LOCK, .kind = RIVAL_POLLING, .locks = true, .script = true},
    {"BLPOP of a bare list, no lease", OF_HOT_LOCK, .kind = RIVAL_LIST, .locks = true, .script = true},
    {"redis-benchmark -P 16, script of a Deduct", OF_ANY | OF_LOCK, .kind = RIVAL_BENCHMARK, .pipeline = 16, .script = true},
    {"16 commands, function", .kind = RIVAL_CHUNKS},
    {"16 commands, 64 a function", .kind = RIVAL_CHUNKS, .subs = COMMAND_SUBS_MAX},
    {"16 commands, script", .kind = RIVAL_CHUNKS, .script = true},
    {"16 commands, lock function", .kind = RIVAL_CHUNKS, .locks = true},
    {"16 commands, lock script", .kind = RIVAL_CHUNKS, .locks = true, .script = true},
};
/* clang-format on */
const size_t n_rivals = sizeof rivals / sizeof *rivals;

const rival *rival_find(const char *name)
{
    for (size_t i = 0; i < n_rivals; i++)
        if (strcmp(rivals[i].name, name) == 0)
            return &rivals[i];
    return NULL;
}

/* A thread of a rival. */
typedef struct worker {
    struct worker_group *group;
    unsigned slot;
    redisContext *redis;
    measure measured;
    bool failed;
    pthread_t thread;
} worker;

typedef struct worker_group {
    const work *work;
    run run;
    atomic_uint holder; /* last holder of the hot lock, from 1 */
    worker *workers;
    unsigned n, n_started;
} worker_group;

/* Returns whether another call may begin. */
static bool worker_continues(worker *h)
{
    return !h->failed && run_continues(&h->group->run);
}

/* Records a call that began at began_ns. */
static void worker_record(worker *h, uint64_t began_ns)
{
    if (!run_measures(&h->group->run))
        return;
    uint64_t latency_ns = clock_now_ns() - began_ns;
    for (unsigned i = 0; i < work_calls(h->group->work); i++)
        measure_call(&h->measured, FATE_OK, latency_ns);
}

/* ---- commands of the work --------------------------------------------------------- */

/* Commands that are sent and not answered; each of the slots has one. */
typedef struct window {
    uint64_t size, sent, answered;
    uint64_t *began_ns, *turns; /* by slot: when its command was sent; how many were */
} window;

static void append(worker *h, window *w, command *c)
{
    unsigned slot = (unsigned)(w->sent++ % w->size);

    w->began_ns[slot] = clock_now_ns();
    work_command(h->group->work, h->slot + slot, w->turns[slot]++, c);
    redisAppendCommandArgv(h->redis, c->argc, c->argv, NULL);
}

/* Sends what was appended, and takes the replies that have arrived. */
static void exchange(worker *h, window *w)
{
    void *reply = NULL;
    int state = REDIS_OK;

    for (int done = 0; !done && state == REDIS_OK;)
        state = redisBufferWrite(h->redis, &done);
    if (state != REDIS_OK || redisBufferRead(h->redis) != REDIS_OK) {
        fprintf(stderr, "lockstock-bench: Redis: %s\n", h->redis->errstr);
        h->failed = true;
    }
    while (!h->failed && redisGetReplyFromReader(h->redis, &reply) == REDIS_OK && reply) {
        h->failed = !work_succeeded(reply);
        worker_record(h, w->began_ns[w->answered++ % w->size]);
        freeReplyObject(reply);
    }
}

static void do_work(worker *h)
{
    rival_kind kind = h->group->work->rival->kind;
    window w = {.size = kind == RIVAL_THREADS ? 1 : (uint64_t)h->group->work->options->in_flight};
    command *c = program_alloc(1, sizeof *c);
    bool continues = true;

    w.began_ns = program_alloc(w.size, sizeof *w.began_ns);
    w.turns = program_alloc(w.size, sizeof *w.turns);
    while (!h->failed && (continues || w.sent > w.answered)) {
        bool may_send = kind != RIVAL_CHUNKS || w.sent == w.answered;
        while (may_send && w.sent - w.answered < w.size && (continues = worker_continues(h)))
            append(h, &w, c);
        if (w.sent > w.answered)
            exchange(h, &w);
    }
    free(w.began_ns);
    free(w.turns);
    free(c);
}

/* ---- locks as they are written on Redis without a server ----------------------------- */

/* Returns whether the reply is not nil. */
static bool got(worker *h, redisReply *reply)
{
    bool is = reply && reply->type != REDIS_REPLY_NIL;

    h->failed = !redis_done(reply) || h->failed;
    return is && !h->failed;
}

/* Records that this worker holds the hot lock. The locks with a lease are not fair: the client that releases one often
 * takes it again, so only a change of the holder counts as a worker-off. */
static void worker_holds(worker *h)
{
    bool other = atomic_exchange(&h->group->holder, h->slot + 1) != h->slot + 1;

    h->measured.hand_offs += other && run_measures(&h->group->run);
}

/* Two of these locks have a lease and a compare-and-delete. The third is a bare list: fair and fast, but lost if its
 * holder dies. None has a fence. */
static void use_hot_lock(worker *h)
{
    enum { SLEEP_MIN_US = 3000, SLEEP_MAX_US = 33000 };
    const work *w = h->group->work;
    const char *thing = w->world->things[0];
    rival_kind kind = w->rival->kind;
    unsigned seed = h->slot + 1;
    char token[ID_BYTES];

    while (worker_continues(h)) {
        uint64_t began_ns = clock_now_ns();
        drive_make_id(token, w->world->tag, drive_next_serial());
        if (kind == RIVAL_LIST)
            got(h, redisCommand(h->redis, "BLPOP {bench}s:%s 0", thing));
        else
            while (!got(h, redisCommand(h->redis, "SET {bench}l:%s %s NX PX 60000", thing, token)) && !h->failed)
                if (kind == RIVAL_BLPOP)
                    got(h, redisCommand(h->redis, "BLPOP {bench}s:%s 1", thing));
                else
                    program_pause((SLEEP_MIN_US + rand_r(&seed) % (SLEEP_MAX_US - SLEEP_MIN_US + 1)) / 1e6);
        worker_holds(h);
        worker_record(h, began_ns);
        began_ns = clock_now_ns();
        if (kind == RIVAL_LIST)
            got(h, redisCommand(h->redis, "RPUSH {bench}s:%s 1", thing));
        else
            got(h, redisCommand(h->redis, "EVALSHA %s 2 {bench}l:%s {bench}s:%s %s", w->sha[1], thing, thing, token));
        worker_record(h, began_ns);
    }
}

/* ---- a run ------------------------------------------------------------------------ */

static void *run_worker(void *arg)
{
    worker *h = arg;
    rival_kind kind = h->group->work->rival->kind;

    if (kind == RIVAL_BLPOP || kind == RIVAL_LIST || kind == RIVAL_POLLING)
        use_hot_lock(h);
    else
        do_work(h);
    return NULL;
}

static void start_workers(void *arg)
{
    worker_group *c = arg;

    for (; c->n_started < c->n; c->n_started++)
        c->workers[c->n_started].thread = program_thread(run_worker, &c->workers[c->n_started]);
}

static void await_workers(void *arg)
{
    worker_group *c = arg;

    while (c->n_started > 0)
        pthread_join(c->workers[--c->n_started].thread, NULL);
}

static bool run_inside(const work *w, measure *m)
{
    bool one = w->rival->kind == RIVAL_PIPELINE || w->rival->kind == RIVAL_CHUNKS, good = true;
    worker_group c = {.work = w,
                      .run = {.options = w->options, .place = w->world->place},
                      .n = one ? 1 : (unsigned)w->options->in_flight};

    c.workers = program_alloc(c.n, sizeof *c.workers);
    for (unsigned i = 0; i < c.n && good; i++) {
        c.workers[i] = (worker){.group = &c, .slot = i, .redis = place_connect(w->world->place)};
        good = c.workers[i].redis != NULL;
    }
    if (good)
        run_all(&c.run, start_workers, await_workers, &c, m);
    for (unsigned i = 0; i < c.n; i++) {
        good = good && !c.workers[i].failed;
        measure_add(m, &c.workers[i].measured);
        measure_clear(&c.workers[i].measured);
        redisFree(c.workers[i].redis);
    }
    free(c.workers);
    return good;
}

bool rival_run(const rival *r, const bench_options *o, const world *w, measure *m)
{
    work k = {.rival = r, .options = o, .world = w};
    redisContext *redis = place_connect(w->place);
    bool prepared = redis && work_prepare(&k, redis);

    redisFree(redis);
    return prepared && (r->kind < RIVAL_BENCHMARK ? run_inside(&k, m) : outside_run(&k, m));
}
